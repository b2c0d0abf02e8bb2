"""The line of waiting jobs finds what a walk over all of them finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.scheduling import indexed_queue
from kalends.scheduling.indexed_queue import IndexedQueue, by_order, by_requested_time
from kalends.scheduling.job import Job
from kalends.scheduling.leeway import ShadowLeeway
from kalends.scheduling.width_line import BLOCK_JOBS_MAX, WidthLine

KEYS = st.sampled_from([by_order, by_requested_time])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 20), st.integers(1, 30)),
        st.tuples(st.just("remove"), st.integers(0, 10**6), st.just(0)),
        st.tuples(st.just("ask"), st.integers(0, 20), st.integers(0, 30)),
    ),
    min_size=1,
    max_size=400,
)


NOW = 5


@pytest.mark.parametrize("few", [0, 8, indexed_queue.FEW_JOBS_MAX])
@given(key=KEYS, steps=STEPS, extra=st.integers(-3, 20), wanted=st.lists(st.booleans(), min_size=1))
@settings(max_examples=effort.examples(100), deadline=None)
def test_a_queue_finds_who_fits_as_a_walk_over_a_sorted_list_does(
    few: int,
    key: Callable[[Job], Any],
    steps: list[tuple[str, int, int]],
    extra: int,
    wanted: list[bool],
) -> None:
    """Some of those who are found start, and others fit no more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexed_queue, "FEW_JOBS_MAX", few)
        queue, twin = IndexedQueue(key), list[Job]()
        for order, (what, first, second) in enumerate(steps):
            if what == "add":
                job = Job(order, 0, first, second, order=order)
                queue.add(job)
                twin.append(job)
            elif what == "remove" and twin:
                queue.remove(twin.pop(first % len(twin)))
            elif what == "ask":
                asked = ShadowLeeway(first, NOW + second, extra)
                searched, walked = ([], msgspec.structs.replace(asked)), ([], asked)
                starts = [wanted[each % len(wanted)] for each in range(len(twin))]
                took(queue.startable(searched[1], NOW), starts, *searched)
                took((job for job in twin if fits(job, walked[1])), starts, *walked)
                assert searched == walked
            twin.sort(key=key)
            queue.check()
            assert queue.head() is (twin[0] if twin else None)
            effort.steps["line of waiting jobs"] += 1
        assert list(queue) == list(deepcopy_of(queue)) == twin
        assert len(queue) == len(twin)


def fits(job: Job, leeway: ShadowLeeway) -> bool:
    return NOW + job.requested_s <= leeway.until(job.nodes)


def took(found: Iterator[Job], starts: list[bool], asked: list[Job], leeway: ShadowLeeway) -> None:
    """Ask those who are found, and start some of them."""
    for job in found:
        if starts[len(asked)]:
            leeway.take(job.nodes, NOW + job.requested_s)
        asked.append(job)


def deepcopy_of(queue: IndexedQueue) -> IndexedQueue:
    return deepcopy(queue, {id(job): job for job in queue})


def test_a_long_line_is_kept_in_blocks_of_bounded_length() -> None:
    line = WidthLine(by_order)
    jobs = [Job(order, 0, 1, 10, order=order) for order in range(20 * BLOCK_JOBS_MAX)]
    for job in jobs:
        line.add(job)
    line.check()
    for job in jobs[::3]:
        line.remove(job)
        line.check()
    assert list(line) == [job for job in jobs if job.order % 3]

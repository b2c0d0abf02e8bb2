"""The line of waiting jobs finds what a walk over all of them finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.scheduling.indexed_queue import (
    BLOCK_JOBS_MAX,
    IndexedQueue,
    by_order,
    by_requested_time,
)
from kalends.scheduling.job import Job

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


@given(key=KEYS, steps=STEPS, extra=st.integers(-3, 20))
@settings(max_examples=effort.examples(150), deadline=None)
def test_a_line_answers_like_a_sorted_list(
    key: Callable[[Job], Any], steps: list[tuple[str, int, int]], extra: int
) -> None:
    line, twin = IndexedQueue(key), list[Job]()
    for order, (what, first, second) in enumerate(steps):
        if what == "add":
            job = Job(order, 0, first, second, order=order)
            line.add(job)
            twin.append(job)
        elif what == "remove" and twin:
            line.remove(twin.pop(first % len(twin)))
        elif what == "ask":
            twin.sort(key=key)
            wanted = [
                job
                for job in twin
                if job.nodes <= first and (job.requested_s <= second or job.nodes <= extra)
            ]
            assert list(line.startable(first, second, extra)) == wanted
        twin.sort(key=key)
        line.check()
        effort.steps["line of waiting jobs"] += 1
    assert list(line) == twin
    assert len(line) == len(twin)
    assert line.head() is (twin[0] if twin else None)
    if twin:
        assert line.least_nodes <= min(job.nodes for job in twin)


def test_a_long_line_is_kept_in_blocks_of_bounded_length() -> None:
    line = IndexedQueue()
    jobs = [Job(order, 0, 1 + order % 7, 10, order=order) for order in range(20 * BLOCK_JOBS_MAX)]
    for job in jobs:
        line.append(job)
    line.check()
    for job in jobs[::3]:
        line.remove(job)
        line.check()
    assert list(line) == [job for job in jobs if job.order % 3]

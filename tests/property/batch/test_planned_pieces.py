"""What is planned for waiting jobs is kept: a reservation that finds room beside it delays none of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.batch.planned_pieces import planned_pieces
from kalends.batch.queue import facts as f
from kalends.batch.queue.queue import BatchQueue
from kalends.calendars.profiles import total
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal

NODES = 8
NOW = 1_000
JOBS = st.lists(st.tuples(st.integers(1, NODES), st.integers(1, 20)), min_size=1, max_size=12)
CLAIMS = st.lists(
    st.tuples(st.integers(1, 60), st.integers(1, 20), st.integers(1, NODES)), max_size=8
)


def queue_of(policy: str, may_delay: str, jobs: list[tuple[int, int]]) -> BatchQueue:
    terms = f.Terms(machine=f"pool:{NODES}", policy=policy, may_delay=may_delay)  # type: ignore[arg-type]
    queue = BatchQueue("lab/box", terms, NOW)
    for number, (nodes, minutes) in enumerate(jobs):
        request = JobRequest(
            machine="lab/box", nodes=nodes, limit_s=60 * minutes, command=("true",)
        )
        queue.submit(Principal("ann"), request, f"the-key-{number}", NOW)
    return queue


def running(queue: BatchQueue) -> list[tuple[int, int, int]]:
    return [
        (NOW, job.entry.until_s, len(job.nodes))
        for job in queue.flow.table
        if job.entry is not None and job.nodes
    ]


@pytest.mark.parametrize("policy", ["conservative", "ffdh", "ffdh*", "ffih", "fcfs*"])
@settings(max_examples=effort.examples(40))
@given(jobs=JOBS, claims=CLAIMS)
def test_no_promised_start_is_later_after_a_reservation_beside_the_plan(
    policy: str, jobs: list[tuple[int, int]], claims: list[tuple[int, int, int]]
) -> None:
    queue = queue_of(policy, "waiting-room", jobs)
    taken: list[tuple[int, int, int]] = []
    for number, (begin, minutes, nodes) in enumerate(claims, 1):
        span = (NOW + 60 * begin, NOW + 60 * (begin + minutes), nodes)
        kept = [*planned_pieces(queue, {}), *running(queue), *taken, span]
        if any(units > NODES for _, _, units in total(kept, span[0], span[1])):
            continue
        before = queue.flow.room.promises()
        queue.claims_changed((), (f.NodeClaim(number, *span),), NOW)
        taken.append(span)
        after = queue.flow.room.promises()
        started = {job.number for job in queue.flow.table if job.nodes}
        for job, start_s in before.items():
            assert job in started or after[job] <= start_s


def test_all_gives_way_keeps_nothing_and_none_keeps_what_is_foreseen() -> None:
    jobs = [(NODES, 10), (2, 10), (4, 10)]
    assert planned_pieces(queue_of("conservative", "all", jobs), {}) == ()
    behind = (NOW + 600, NOW + 1_200, 6)
    assert planned_pieces(queue_of("conservative", "waiting-room", jobs), {}) == (behind,)
    easy = queue_of("easy", "none", jobs)
    assert planned_pieces(easy, {}) == ()
    assert planned_pieces(easy, {2: NOW + 600, 3: NOW + 600}) == (behind,)
    assert planned_pieces(queue_of("easy", "waiting-room", jobs), {2: NOW + 600}) == ()

"""Jobs on what was reserved and given back: each finds its room, and brokers are never offered too much."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort
from tests.protocol_support import HERE, Site, lock, want

from kalends.resource_servers.participation.placed_jobs.job_bookings import QueueMove, RunningJob

POOL = f"{HERE}/pool"
UNITS, MINUTES = 3, 4
START = want("pool", 0, 60).start

RESERVATIONS = st.lists(
    st.tuples(st.integers(1, UNITS), st.integers(1, MINUTES), st.booleans()), max_size=3
)
"""Units, minutes, and whether somebody comes."""

STEPS = st.lists(
    st.tuples(
        st.integers(1, 5), st.integers(1, UNITS), st.integers(1, 60 * MINUTES), st.booleans()
    ),
    max_size=12,
)
"""A job, the nodes and the time that it has now, or whether it is over."""


def move(site: Site, moved: QueueMove) -> list[int]:
    return site.call(lambda here, now: site.jobs.queue_moved(moved, now))


@settings(max_examples=effort.examples(200), deadline=None)
@given(RESERVATIONS, STEPS)
def test_a_job_finds_room_in_the_calendar_wherever_the_machine_has_it(
    reservations: list[tuple[int, int, bool]], steps: list[tuple[int, int, int, bool]]
) -> None:
    site = Site()
    used, unused = [0] * MINUTES, [0] * MINUTES
    for number, (units, minutes, comes) in enumerate(reservations, 1):
        if site.free("pool", 0, 60 * minutes) < units:
            continue
        lock(site, number, want("pool", 0, 60 * minutes, units))
        for at in range(minutes):
            (used if comes else unused)[at] += units
        if not comes:
            booked = site.ids(number)
            move(site, QueueMove(POOL, given_back=booked))
    running: dict[int, tuple[int, int]] = {}
    for number, nodes, length_s, over in steps:
        others = [each for name, each in running.items() if name != number]
        minutes = -(-length_s // 60)
        taken = [sum(width for width, until in others if at < until) for at in range(MINUTES)]
        if over:
            running.pop(number, None)
            assert not move(site, QueueMove(POOL, (RunningJob(POOL, number, "", 0, 0, 0),)))
        elif all(nodes + used[at] + taken[at] <= UNITS for at in range(minutes)):
            running[number] = (nodes, minutes)
            job = RunningJob(POOL, number, "ann", nodes, START, START + length_s)
            assert not move(site, QueueMove(POOL, (job,)))
        site.participant.check()
        for at in range(MINUTES):
            jobs = sum(width for width, until in running.values() if at < until)
            free = site.free("pool", 60 * at, 60 * at + 60)
            assert 0 <= free <= UNITS - used[at] - max(unused[at], jobs)

"""Jobs on nodes that were reserved and given back: nothing is counted twice, and nobody else gets them."""

from __future__ import annotations

from tests.protocol_support import HERE, Site, list_up, lock, rid, want

from kalends.contract import messages as m
from kalends.resource_servers.participation.placed_jobs.job_bookings import QueueMove, RunningJob

POOL = f"{HERE}/pool"
"""Three units."""
START = want("pool", 0, 60).start


def reserve(site: Site, number: int, start: int, end: int, units: int) -> int:
    """Lock units of the pool; return the booking."""
    lock(site, number, want("pool", start, end, units))
    (booking,) = site.ids(number)
    return booking


def give_back(site: Site, *bookings: int) -> None:
    site.call(lambda here, now: site.jobs.queue_moved(QueueMove(POOL, given_back=bookings), now))


def runs(site: Site, number: int, nodes: int, start: int, end: int) -> bool:
    job = RunningJob(POOL, number, "ann", nodes, START + start, START + end)
    return not site.call(lambda here, now: site.jobs.queue_moved(QueueMove(POOL, (job,)), now))


def is_over(site: Site, number: int) -> None:
    assert runs(site, number, 0, 0, 0)


def claims(site: Site) -> list[tuple[int, int, int]]:
    """Return what a queue is told that others have: start, end and units."""
    return [(each.start, each.end, each.units) for each in site.jobs.bookings.claims(POOL)]


def free(site: Site) -> list[int]:
    return [site.free("pool", at, at + 60) for at in range(0, 240, 60)]


def test_a_job_stands_on_what_was_given_back_and_only_what_goes_beyond_it_is_booked() -> None:
    site = Site()
    unused = reserve(site, 1, 0, 120, 2)
    assert not runs(site, 7, 3, 0, 180), "somebody may come"
    give_back(site, unused)
    assert runs(site, 7, 3, 0, 180)
    assert free(site) == [0, 0, 0, 3]
    is_over(site, 7)
    assert free(site) == [1, 1, 3, 3], "brokers are offered nothing of the reservation"


def test_two_jobs_do_not_stand_on_the_same_nodes(site: Site) -> None:
    give_back(site, reserve(site, 1, 0, 240, 2))
    assert runs(site, 7, 1, 0, 240)
    assert free(site) == [1, 1, 1, 1]
    assert runs(site, 8, 2, 0, 120)
    assert free(site) == [0, 0, 1, 1]


def test_when_the_reservation_is_cancelled_its_jobs_are_booked_before_anybody_is_offered_it(
    site: Site,
) -> None:
    give_back(site, reserve(site, 1, 0, 240, 3))
    assert runs(site, 7, 2, 0, 120)
    site.receive(list_up(2, want("pool", 0, 60, 2)))
    site.receive(list_up(3, want("pool", 0, 60, 1)))
    told = site.receive(m.Cancel(rid=rid(1), att=1)).sends
    offered = [send.message.rid for send in told if isinstance(send.message, m.Awaited)]
    assert site.states(1) == ["cancelled"]
    assert free(site) == [1, 1, 3, 3]
    assert offered == [rid(3)]


def test_a_job_that_outlives_the_reservation_is_booked_from_now_on_after_a_restart() -> None:
    site = Site()
    unused = reserve(site, 1, 0, 60, 3)
    give_back(site, unused)
    assert runs(site, 7, 2, 0, 180)
    site.advance((START + 60 - site.now.wall_s) * 1_000)
    site.restart()
    assert runs(site, 7, 2, 0, 180), "the queue says what runs, and nothing of what is over"
    assert free(site)[1:] == [1, 1, 3]


def test_nodes_that_go_from_one_job_to_the_next_are_offered_to_nobody_in_between() -> None:
    site = Site()
    assert runs(site, 7, 3, 0, 240)
    site.receive(list_up(2, want("pool", 0, 60, 1)))
    site.receive(list_up(3, want("pool", 180, 240, 3)))
    over = RunningJob(POOL, 7, "", 0, 0, 0)
    next_one = RunningJob(POOL, 8, "bob", 3, START, START + 180)
    before = len(site.unsent)
    assert not site.call(
        lambda here, now: site.jobs.queue_moved(QueueMove(POOL, (over, next_one)), now)
    )
    told = [send.message for send in site.unsent[before:]]
    assert [each.rid for each in told if isinstance(each, m.Awaited)] == [rid(3)]


def test_what_a_batch_system_has_for_others_is_no_claim_to_the_queue(site: Site) -> None:
    reserve(site, 1, 0, 60, 1)
    ours = [(START, START + 60, 1)]
    room = site.jobs.bookings.kept
    assert room.keep("foreign", "foreign", "foreign", [(POOL, START, START + 120, 2)])
    assert free(site)[:2] == [0, 1]
    assert claims(site) == ours

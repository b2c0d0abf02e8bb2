"""What a queue has planned for jobs that wait is kept from new claims, and from nothing that is booked."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tests.protocol_support import (
    BOB,
    HERE,
    Site,
    list_up,
    lock,
    rid,
    visit,
    vote,
    want,
)

from kalends.contract import messages as m
from kalends.core.errors import RefusalCode
from kalends.resource_servers.participation.placed_jobs.job_bookings import QueueMove

POOL = f"{HERE}/pool"
"""Three units."""


def plan(site: Site, *pieces: tuple[int, int, int]) -> list[m.Message]:
    """Have the queue plan `pieces` (start, end, units); return what is said then."""
    wants = [want("pool", *piece) for piece in pieces]
    named = tuple((each.resource, each.start, each.end, each.units) for each in wants)
    move = QueueMove(POOL, planned=lambda: named)
    before = len(site.unsent)
    site.call(lambda participant, now: site.jobs.queue_moved(move, now))
    return [send.message for send in site.unsent[before:]]


def free(site: Site) -> list[int]:
    """Return how many units are free in each of the four minutes."""
    query = m.Query(query_id=1, stamp=9, principal=BOB, wants=(want("pool", 0, 240),))
    (view,) = site.answers(query)
    assert isinstance(view, m.View)
    first = want("pool", 0, 240).start
    return [
        next((units for start, end, units in view.views[0].steps if start <= at < end), 0)
        for at in range(first, first + 240, 60)
    ]


def refusals(site: Site, message: m.Visit) -> list[str]:
    answer = site.answer(message)
    assert isinstance(answer, m.Visited)
    return [refusal.code for refusal in answer.refusals]


def test_no_new_claim_gets_what_is_planned_and_nobody_waits_for_it_in_line(site: Site) -> None:
    plan(site, (60, 120, 2))
    assert free(site) == [3, 1, 3, 3]
    assert refusals(site, vote(1, want("pool", 0, 90, 2))) == [RefusalCode.BUSY]
    assert refusals(site, visit(2, want("pool", 0, 90, 2))) == [RefusalCode.BUSY]
    assert refusals(site, vote(3, want("pool", 60, 120, 1))) == []


def test_what_is_booked_stays_and_what_is_planned_no_more_is_free(site: Site) -> None:
    lock(site, 1, want("pool", 60, 120, 3))
    plan(site, (60, 120, 3))
    assert site.states(1) == ["locked"]
    plan(site, (120, 180, 3))
    assert refusals(site, vote(2, want("pool", 120, 180, 1))) == [RefusalCode.BUSY]
    plan(site)
    assert refusals(site, vote(3, want("pool", 120, 180, 1))) == []


def test_who_waits_on_a_list_is_offered_what_is_planned_no_more(site: Site) -> None:
    plan(site, (0, 240, 3))
    site.receive(list_up(1, want("pool", 60, 120, 2)))
    (offered,) = plan(site)
    assert isinstance(offered, m.Awaited)
    assert offered.rid == rid(1)


def test_what_has_no_place_among_the_nodes_is_refused_whatever_the_units_say(site: Site) -> None:
    asked: list[list[tuple[str, int, int, int]]] = []

    def have_place(wanted: Sequence[tuple[str, int, int, int]], gone: Collection[int]) -> bool:
        asked.append(list(wanted))
        return sum(units for _, _, _, units in wanted) != 2

    site.call(lambda participant, now: participant.room.places.ask(POOL, have_place))
    answer = site.answer(visit(1, want("pool", 0, 60, 2)))
    assert isinstance(answer, m.Visited)
    (refusal,) = answer.refusals
    assert (refusal.where, refusal.code) == (POOL, RefusalCode.BUSY)
    assert "form no partition of 2" in refusal.detail
    assert refusals(site, vote(2, want("pool", 0, 60, 1), want("pool", 0, 60, 1))) == [
        RefusalCode.BUSY
    ]
    assert free(site) == [3, 3, 3, 3], "nothing of it is booked"
    assert refusals(site, vote(3, want("pool", 0, 60, 1))) == []
    first = want("pool", 0, 60, 1)
    assert asked[-1] == [(POOL, first.start, first.end, 1)]

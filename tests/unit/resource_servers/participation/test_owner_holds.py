"""Limits when something is held, locked or changed: at a site whose owner has set them."""

from __future__ import annotations

from tests.protocol_support import DAY, HERE, Site, commit, prepare, visit, vote, want

from kalends.calendars import Limit, UsageShare
from kalends.contract import messages as m
from kalends.core.errors import RefusalCode

HOUR = 3_600


def site_with(limit: Limit) -> Site:
    return Site(owners_limits=[limit])


def codes(answer: m.Message) -> list[str]:
    assert isinstance(answer, m.Visited | m.Voted)
    return [refusal.code for refusal in answer.refusals]


def test_who_held_in_time_may_lock_later_than_the_lead_time() -> None:
    """The slot begins a day from now, and must be asked for a day before."""
    site = site_with(Limit("early", "everyone", lead_s=24 * HOUR))
    assert codes(site.answer(visit(1, want("one", 60, 120), hold_ms=900_000))) == []
    site.ms += 120_000
    assert codes(site.answer(visit(2, want("two", 60, 120)))) == [RefusalCode.LEAD_TIME]
    (held,) = site.ids(1)
    voted = site.answer(prepare(1, held))
    assert isinstance(voted, m.Voted)
    assert voted.vote == "yes"


def test_claims_held_at_once_are_counted_by_resource_and_no_more_once_they_are_locked() -> None:
    site = site_with(Limit("two", "everyone", held_max=2))
    assert codes(site.answer(visit(1, want("pool", 0, 60), want("pool", 60, 120)))) == []
    assert codes(site.answer(visit(2, want("pool", 120, 180)))) == [RefusalCode.LIMIT]
    assert codes(site.answer(visit(3, want("one", 0, 60)))) == []
    first, second = site.ids(1)
    site.receive(prepare(1, first, second))
    assert codes(site.answer(visit(2, want("pool", 120, 180)))) == [RefusalCode.LIMIT]
    site.receive(commit(1, first, second))
    assert codes(site.answer(visit(2, want("pool", 120, 180)))) == []


def test_a_share_that_is_used_up_is_refused_by_name_and_free_again_after_a_cancel() -> None:
    site = site_with(Limit("an hour", "everyone", share=UsageShare(unit_s=HOUR)))
    assert codes(site.answer(vote(1, want("pool", 0, HOUR)))) == []
    (held,) = site.ids(1)
    site.receive(commit(1, held))
    refused = site.answer(visit(2, want("pool", HOUR, HOUR + 60)))
    assert codes(refused) == [RefusalCode.SHARE]
    assert isinstance(refused, m.Visited)
    assert refused.refusals[0].rule == "an hour"
    assert refused.refusals[0].where == f"{HERE}/pool"
    site.receive(m.Cancel(rid=visit(1, want("pool", 0, 60)).rid, att=1))
    assert codes(site.answer(visit(2, want("pool", HOUR, HOUR + 60)))) == []


def test_a_move_within_a_week_needs_no_more_of_the_share() -> None:
    site = site_with(Limit("an hour", "everyone", share=UsageShare(unit_s=HOUR)))
    site.receive(vote(1, want("pool", 0, HOUR)))
    (held,) = site.ids(1)
    site.receive(commit(1, held))
    moved = visit(2, want("pool", HOUR, 2 * HOUR), replaces=1)
    assert codes(site.answer(moved)) == []
    longer = visit(3, want("pool", HOUR, 2 * HOUR + 60))
    assert codes(site.answer(longer)) == [RefusalCode.SHARE]
    (new,) = site.ids(2)
    voted = site.answer(prepare(2, new))
    assert isinstance(voted, m.Voted)
    assert voted.vote == "yes"


def test_what_has_run_of_a_reservation_that_moves_is_nobody_elses_between_promise_and_commit() -> (
    None
):
    """At the commit it is used: what others were given of it meanwhile would be too much."""
    site = site_with(Limit("two hours", "everyone", share=UsageShare(unit_s=2 * HOUR)))
    site.receive(vote(1, want("pool", 0, HOUR)))
    (held,) = site.ids(1)
    site.receive(commit(1, held))
    site.ms += (DAY + HOUR - 60) * 1_000
    site.receive(vote(2, want("pool", 2 * HOUR, 3 * HOUR), replaces=1))
    (moved,) = site.ids(2)
    assert codes(site.answer(visit(3, want("pool", 4 * HOUR, 5 * HOUR)))) == [RefusalCode.SHARE]
    site.restart()
    assert codes(site.answer(visit(3, want("pool", 4 * HOUR, 5 * HOUR)))) == [RefusalCode.SHARE]
    site.receive(commit(2, moved))
    assert codes(site.answer(visit(3, want("pool", 4 * HOUR, 5 * HOUR)))) == [RefusalCode.SHARE]

"""A site whose disk was put back decides nothing, before its brokers have come, that they may know better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.protocol_support import (
    DAY,
    KEY,
    REGISTER,
    T0,
    Site,
    commit,
    lock,
    prepare,
    rid,
    visit,
    want,
)
from tests.unit.broker.reconciliation.test_restored_sites import relock

from kalends.calendars import Limit
from kalends.contract import messages as m
from kalends.contract.owner_calls import DecideApproval, Reclaim
from kalends.core.errors import Conflict, Unavailable
from kalends.core.principals import Principal
from kalends.resource_servers.participation.claims.petitions import Petition
from kalends.resource_servers.participation.memory.recovery import RECOVERY_MS_MIN

THEIRS = "2" * 32
WORD = Limit("word", "everyone", approval="needed")
ONE = want("one", 0, 60)
HOUR_MS = 3_600_000


def welcome(
    site: Site, *remembered: m.Mark, register: str = REGISTER, source: str = "broker"
) -> bool:
    """A broker comes; whether the site finds that it has forgotten something."""
    known = site.answer(m.Welcome(register=register, secret=KEY, remembered=remembered), source)
    assert isinstance(known, m.Known)
    return known.behind


def all_come_back(site: Site, *remembered: m.Mark) -> bool:
    behind = welcome(site, *remembered)
    for source in ("a", "b"):
        welcome(site, *remembered, source=source)
    return behind


def compared(site: Site) -> None:
    for source in ("broker", "a", "b"):
        site.receive(m.Settled(), source)
    site.advance(RECOVERY_MS_MIN)


def decide(site: Site, number: int, *, approve: bool) -> Petition:
    body = DecideApproval(id=rid(number), approve=approve, revision=1)
    _, petition = site.call(lambda participant, now: site.approval.decide(body, "olga", now))
    return petition


def reserved_since(site: Site) -> tuple[dict[str, Any], m.Mark]:
    """An image of a moment at which the owner still thinks, and what a broker remembers once it is locked."""
    site.receive(visit(1, ONE, hold_ms=HOUR_MS))
    held = site.ids(1)
    site.receive(m.OwnerAsk(rid=rid(1), att=1, hold_ids=held))
    image = site.image()
    decide(site, 1, approve=True)
    site.receive(prepare(1, *held))
    site.receive(commit(1, *held))
    assert site.states(1) == ["locked"]
    return image, site.participant.past.mark(REGISTER, site.position)


def put_back(site: Site, image: dict[str, Any]) -> None:
    site.put_back(image)
    site.restart(come_back=False)


def thinks(site: Site) -> list[str]:
    return [stake.rid for stake, _ in site.approval.pending()]


def late(site: Site) -> None:
    """Brokers are away for longer than the site waits for them before it takes bookings again."""
    site.advance(RECOVERY_MS_MIN + 1)


@pytest.mark.parametrize("pass_time", [lambda site: None, late])
@pytest.mark.parametrize("approve", [True, False])
def test_no_second_word_is_taken_before_the_broker_has_come_that_may_know_the_first(
    approve: bool, pass_time: Callable[[Site], None]
) -> None:
    site = Site(owners_limits=(WORD,))
    image, forgotten = reserved_since(site)
    put_back(site, image)
    assert thinks(site) == [rid(1)]
    pass_time(site)
    for _ in range(2):
        with pytest.raises(Unavailable, match="cannot tell yet"):
            decide(site, 1, approve=approve)
        assert "locked" not in site.states(1)
        assert all_come_back(site, forgotten)
    assert site.answer(relock(1, ONE)) == m.Relocked(rid=rid(1))
    compared(site)
    assert site.states(1) == ["locked"]
    assert thinks(site) == []
    assert decide(site, 1, approve=True).state == "approved"
    with pytest.raises(Conflict, match=r"approved already \("):
        decide(site, 1, approve=False)


@pytest.mark.parametrize("approved", [True, False])
def test_what_an_owner_is_to_approve_is_not_refused_while_brokers_are_awaited(
    approved: bool,
) -> None:
    site = Site(owners_limits=(WORD,))
    welcome(site, register=THEIRS, source="other")
    site.receive(visit(1, ONE, hold_ms=HOUR_MS))
    site.receive(m.OwnerAsk(rid=rid(1), att=1, hold_ids=site.ids(1)))
    if approved:
        decide(site, 1, approve=True)
    site.restart(come_back=False)
    all_come_back(site)
    again = visit(1, ONE, att=2, hold_ms=HOUR_MS)
    assert site.answers(again) == []
    welcome(site, register=THEIRS, source="other")
    visited = site.answer(again)
    assert isinstance(visited, m.Visited)
    assert visited.held
    assert not visited.refusals
    assert visited.approval is not approved


def test_new_requests_are_answered_once_the_brokers_have_come_and_compared(site: Site) -> None:
    image = site.image()
    lock(site, 1, ONE)
    forgotten = site.participant.past.mark(REGISTER, site.position)
    put_back(site, image)
    booking = visit(2, want("pool", 0, 60))
    assert site.answers(booking) == [], "it is asked again"
    assert all_come_back(site, forgotten)
    assert site.answers(booking) == [], "it is asked again"
    site.participant.admission.draining = True
    refused = site.answer(booking)
    assert isinstance(refused, m.Visited)
    assert [each.code for each in refused.refusals] == ["drained"]
    site.participant.admission.draining = False
    compared(site)
    visited = site.answer(replace(booking, att=2))
    assert isinstance(visited, m.Visited)
    assert visited.held


def test_a_request_that_the_site_has_forgotten_is_not_called_unknown_before_brokers_have_come() -> (
    None
):
    site = Site(owners_limits=(WORD,))
    site.restart(come_back=False)
    with pytest.raises(Unavailable):
        decide(site, 1, approve=True)


def test_after_a_plain_restart_the_word_is_taken_as_soon_as_the_broker_is_back() -> None:
    site = Site(owners_limits=(WORD,))
    site.receive(visit(1, ONE, hold_ms=HOUR_MS))
    site.receive(m.OwnerAsk(rid=rid(1), att=1, hold_ids=site.ids(1)))
    site.restart(come_back=False)
    with pytest.raises(Unavailable):
        decide(site, 1, approve=True)
    assert not all_come_back(site)
    assert decide(site, 1, approve=True).state == "approved"


def test_what_seems_to_have_had_no_word_in_time_is_locked_again_as_approved() -> None:
    site = Site(owners_limits=(WORD,))
    image, forgotten = reserved_since(site)
    put_back(site, image)
    site.wrong_ms += (DAY + 1) * 1_000
    site.advance(HOUR_MS)
    site.wrong_ms = 0
    assert site.states(1) == []
    assert all_come_back(site, forgotten)
    assert site.answer(relock(1, ONE)) == m.Relocked(rid=rid(1))
    assert site.states(1) == ["locked"]
    with pytest.raises(Unavailable):
        decide(site, 1, approve=False)
    compared(site)
    with pytest.raises(Conflict, match=r"approved already \("):
        decide(site, 1, approve=False)


def test_what_waited_for_its_owner_is_not_promised_while_another_broker_may_have_the_slot() -> None:
    """Its hold had ended, and the slot was sold, when the disk was put back."""
    site = Site(owners_limits=(WORD,))
    welcome(site, register=THEIRS, source="theirs")
    site.receive(visit(1, ONE, hold_ms=HOUR_MS))
    held = site.ids(1)
    site.receive(m.OwnerAsk(rid=rid(1), att=1, hold_ids=held))
    decide(site, 1, approve=True)
    put_back(site, site.image())
    assert not all_come_back(site)
    assert site.answers(prepare(1, *held)) == [], "it is asked again"
    assert site.answers(visit(1, ONE, mode="vote")) == []
    assert site.states(1) == ["held"]
    assert not welcome(site, register=THEIRS, source="theirs")
    voted = site.answer(prepare(1, *held))
    assert isinstance(voted, m.Voted)
    assert voted.vote == "yes"


def test_what_was_booked_in_good_time_is_locked_again_however_early_it_had_to_be() -> None:
    site = Site(owners_limits=(Limit("early", "everyone", lead_s=3_600),))
    image = site.image()
    lock(site, 1, ONE)
    forgotten = site.participant.past.mark(REGISTER, site.position)
    put_back(site, image)
    assert all_come_back(site, forgotten)
    assert site.answer(relock(1, ONE)) == m.Relocked(rid=rid(1))


@pytest.mark.parametrize("units", [0, 3])
@pytest.mark.parametrize("has_come", [True, False])
def test_what_the_owner_takes_back_meanwhile_is_locked_again_and_then_asked_for(
    site: Site, units: int, has_come: bool
) -> None:
    pool = want("pool", 0, 60, units=2)
    image = site.image()
    lock(site, 1, pool)
    forgotten = site.participant.past.mark(REGISTER, site.position)
    put_back(site, image)
    if has_come:
        assert all_come_back(site, forgotten)
    body = Reclaim(
        resource=pool.resource,
        start=pool.start,
        end=pool.end,
        key="key-1",
        units=units,
        reason="roof",
    )
    site.call(lambda participant, now: site.reminders.reclaim(body, now))
    assert site.free("pool", 0, 60) == 3
    if not has_come:
        assert all_come_back(site, forgotten)
    assert site.answer(relock(1, pool)) == m.Relocked(rid=rid(1))
    asked = [send.message for send in site.advance(1).sends]
    assert [each.rid for each in asked if isinstance(each, m.Reclaim)] == [rid(1)]
    compared(site)
    assert site.states(1) == ["locked"]
    assert site.free("pool", 0, 60) == (0 if units else 1)


def test_until_it_is_compared_it_offers_nobody_what_seems_free(site: Site) -> None:
    image = site.image()
    lock(site, 1, ONE)
    forgotten = site.participant.past.mark(REGISTER, site.position)
    put_back(site, image)
    assert all_come_back(site, forgotten)
    need = m.RoomNeed(ONE.resource, ONE.start, ONE.end, 1, 60)
    query = m.Query(
        query_id="q", principal=Principal("bob"), wants=(m.Want(ONE.resource, T0, T0 + 2 * DAY, 1),),
        length_s=60, needs=(need,),
    )  # fmt: skip
    view = site.answer(query)
    assert isinstance(view, m.View)
    (steps,) = view.views
    assert steps.refusal is not None
    assert steps.refusal.code == "site-down"
    assert "compares its promises" in steps.refusal.detail
    compared(site)
    view = site.answer(query)
    assert isinstance(view, m.View)
    assert view.views[0].steps

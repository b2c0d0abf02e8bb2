"""A reservation that is handed over, at its site: a change by another, checked as a booking of theirs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from test_payment import HOUR_AT_NOON, PricedSite
from tests.protocol_support import ANN, BOB, DAY, Site, abort, commit, lock, vote, want

from kalends.calendars import Limit
from kalends.contract import messages as m
from kalends.core.errors import RefusalCode

SLOT = want("one", 60, 120)


def heirs(number: int, *wants: m.Want, old: int = 1, of: str = ANN.user) -> m.Visit:
    return replace(vote(number, *wants, replaces=old), principal=BOB, heir_of=of)


def visited(site: Site, message: m.Visit) -> m.Visited:
    answer = site.answer(message)
    assert isinstance(answer, m.Visited)
    return answer


def codes(site: Site, message: m.Visit) -> list[str]:
    return [each.code for each in visited(site, message).refusals]


@pytest.mark.parametrize("restarted", [False, True])
def test_the_new_holder_has_the_slots_by_the_step_that_ends_the_old_one(restarted: bool) -> None:
    site = Site()
    lock(site, 1, SLOT)
    assert visited(site, heirs(2, SLOT)).vote == "yes"
    assert (site.states(1), site.states(2)) == (["locked"], ["prepared"])
    if restarted:
        site.restart()
    site.receive(commit(2, *site.ids(2)))
    site.restart()
    assert (site.states(1), site.states(2)) == (["replaced"], ["locked"])
    assert site.free("one", 60, 120) == 0
    assert visited(site, replace(vote(3, want("one", 90, 150), replaces=2), principal=BOB)).held


def test_a_hand_over_that_is_aborted_leaves_the_old_holder_as_they_were() -> None:
    site = Site()
    lock(site, 1, SLOT)
    site.receive(heirs(2, SLOT))
    site.receive(abort(2))
    assert site.states(1) == ["locked"]
    assert visited(site, vote(3, want("one", 70, 120), replaces=1)).held


def test_only_what_is_said_to_be_handed_over_by_its_user_is_so() -> None:
    site = Site()
    lock(site, 1, SLOT)
    for said in ("", "carl"):
        assert codes(site, heirs(2, SLOT, of=said)) == [RefusalCode.BEING_CHANGED]


def test_limits_count_what_the_new_holder_would_have_and_nothing_of_it_for_the_old_one() -> None:
    site = Site(owners_limits=(Limit("two", "everyone", locked_max=2),))
    lock(site, 1, want("pool", 0, 60))
    lock(site, 2, want("pool", 60, 120))
    for number, start in ((3, 200), (4, 300)):
        slot = replace(vote(number, want("pool", start, start + 60)), principal=BOB)
        site.receive(slot)
        site.receive(commit(number, *site.ids(number)))
    assert codes(site, heirs(5, want("pool", 0, 60))) == [RefusalCode.LIMIT]
    site.receive(m.Cancel(rid=vote(4, SLOT).rid, att=1, secret=vote(4, SLOT).secret))
    assert visited(site, heirs(6, want("pool", 0, 60))).vote == "yes"
    assert codes(site, replace(vote(7, want("pool", 400, 460)), principal=BOB)) == [
        RefusalCode.LIMIT
    ], "a promise counts"
    site.receive(commit(6, *site.ids(6)))
    lock(site, 8, want("pool", 500, 560))


def test_a_site_that_takes_nothing_new_hands_nothing_over() -> None:
    site = Site()
    lock(site, 1, SLOT)
    site.participant.admission.drain(on=True)
    assert codes(site, heirs(2, SLOT)) == [RefusalCode.DRAINED]


def test_what_has_begun_is_not_handed_over() -> None:
    site = Site()
    lock(site, 1, SLOT)
    site.advance((DAY + 70) * 1_000)
    assert codes(site, heirs(2, SLOT)) == [RefusalCode.PAST]


def test_the_new_holder_pays_the_present_price_and_the_old_one_gets_all_back() -> None:
    site = PricedSite()
    site.grant("user:ann", 40)
    site.grant("user:bob", 25)
    site.book(1, HOUR_AT_NOON)
    site.prices_are(20)
    assert (site.balance(), site.balance("user:bob")) == (30, 25)
    site.book(2, HOUR_AT_NOON, replaces=vote(1, SLOT).rid, principal=BOB, heir_of=ANN.user)
    assert (site.balance(), site.balance("user:bob")) == (40, 5)


def test_who_cannot_pay_takes_nothing_over() -> None:
    site = PricedSite()
    site.grant("user:ann", 40)
    site.book(1, HOUR_AT_NOON)
    answer = site.book(2, HOUR_AT_NOON, replaces=vote(1, SLOT).rid, principal=BOB, heir_of="ann")
    assert [each.code for each in answer.refusals] == [RefusalCode.CREDIT]
    assert (site.states(1), site.balance()) == (["locked"], 30)

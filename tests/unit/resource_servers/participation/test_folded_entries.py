"""Old entries of a ledger are folded into one for each account, and what comes late is still right."""

from __future__ import annotations

import pytest
from tests.protocol_support import ANN, DAY, T0, rid, secret_of, vote, want
from tests.unit.resource_servers.participation.test_payment import (
    HOUR,
    HOUR_AT_NOON,
    PricedSite,
    relock_of,
)

from kalends.contract import messages as m
from kalends.core.errors import Conflict
from kalends.core.money import CREDIT
from kalends.resource_servers.participation.credits.credits import ENTRIES_KEPT_S
from kalends.resource_servers.participation.effects import EntriesFolded

NEXT_DAY = T0 + 2 * DAY
"""All that was booked at noon has ended, and its records are dropped."""


def make() -> PricedSite:
    site = PricedSite()
    site.grant("user:ann", 40)
    return site


def over(site: PricedSite, *numbers: int) -> None:
    """Each is told to its end, and the records are dropped."""
    for number in numbers:
        site.receive(m.Forget(rid=rid(number), att=1))
    site.broker_wrong_ms = 0
    while any(site.stake(number) is not None for number in numbers):
        site.advance(DAY * 1_000)


def recover(site: PricedSite) -> None:
    """Its store was put back to a copy, which has all that this one has."""
    site.recovering = True
    site.restart()
    assert site.participant.recovery.recovering


def fold(site: PricedSite, by: int) -> None:
    """Time goes on until all that ended `by` then is as old as it has to be."""
    site.call(lambda _, now: site.paying.fold(by + ENTRIES_KEPT_S, by + ENTRIES_KEPT_S))


def folded(cancelled: bool = False) -> tuple[PricedSite, m.Visited, m.Relock]:
    site = make()
    visited = site.book(1, HOUR_AT_NOON)
    relock = relock_of(visited, site)
    if cancelled:
        site.cancel(1)
    over(site, 1)
    fold(site, T0 + 3 * DAY)
    assert site.credits.keys() == {"grant:grant-0", "carried:user:ann"}
    return site, visited, relock


@pytest.mark.parametrize("restarts", [False, True])
def test_an_account_has_what_it_had_and_its_statement_says_since_when(restarts: bool) -> None:
    site, _, _ = folded()
    if restarts:
        site.restart()
    assert site.balance() == 30
    assert site.paying.ledger.complete_from("user:ann") == T0 + 2
    assert [each.kind for each in site.paying.ledger.of("user:ann")] == ["grant", "carried"]
    site.advance(0)
    site.book(2, want("two", 100 * DAY, 100 * DAY + HOUR))
    assert site.balance() == 20


def test_nothing_is_folded_before_its_time_or_while_it_is_kept() -> None:
    site = make()
    site.book(1, HOUR_AT_NOON)
    fold(site, T0 + 300 * DAY)
    assert "charge:" + rid(1) in site.credits
    over(site, 1)
    site.call(lambda _, now: site.paying.fold(T0 + 9 * DAY, T0 + 9 * DAY))
    assert "charge:" + rid(1) in site.credits, "it is for people who read it"
    site.call(lambda _, now: site.paying.fold(T0 + 999 * DAY, T0))
    assert "charge:" + rid(1) in site.credits, "slots of that time may still be booked"


def test_nothing_is_folded_while_a_restored_site_still_hears_of_the_past() -> None:
    site = make()
    site.book(1, HOUR_AT_NOON)
    over(site, 1)
    recover(site)
    fold(site, T0 + 300 * DAY)
    assert "charge:" + rid(1) in site.credits


@pytest.mark.parametrize("refund", [5 * CREDIT, -1])
def test_a_register_that_tells_an_old_end_again_changes_nothing(refund: int) -> None:
    """Neither a refund of a charge that is folded, nor a fee with a date long ago."""
    site, visited, _ = folded(cancelled=True)
    recover(site)
    assert visited.cost is not None
    recharge = m.Recharge(
        rid=rid(1), att=1, secret=secret_of(rid(1)), principal=ANN, cost=visited.cost,
        refund=refund, at=T0,
    )  # fmt: skip
    before = dict(site.credits)
    for _ in range(2):
        site.receive(recharge)
    assert site.credits == before


def test_what_is_locked_again_that_is_folded_is_not_charged_again() -> None:
    site, _, relock = folded()
    recover(site)
    site.receive(relock)
    assert site.balance() == 30


def test_a_copy_from_before_the_folding_is_folded_to_the_same() -> None:
    site = make()
    site.book(1, HOUR_AT_NOON)
    over(site, 1)
    image = site.image()
    fold(site, T0 + 3 * DAY)
    after = dict(site.credits)
    site.put_back(image)
    while site.participant.recovery.recovering:
        site.receive(m.Settled())
    fold(site, T0 + 3 * DAY)
    assert site.credits == after


def test_a_grant_that_can_pay_for_nothing_more_is_folded_and_not_made_again() -> None:
    site = make()
    site.grant("user:ann", 15, "short-term", until=T0 + 2 * DAY)
    site.book(1, HOUR_AT_NOON)
    over(site, 1)
    assert site.credits.keys() >= {"grant:short-term"}
    fold(site, T0 + 3 * DAY)
    assert site.credits.keys() == {"grant:grant-0", "carried:user:ann"}
    assert site.balance() == 45
    with pytest.raises(Conflict, match="slot times are folded"):
        site.grant("user:ann", 15, "short-term", until=T0 + 2 * DAY)
    site.grant("user:ann", 40, "grant-0")
    assert site.balance() == 45
    site.restart()
    assert site.balance() == 45
    site.call(lambda _, now: site.paying.take("all-of-it", "user:ann", 45 * CREDIT, now))
    assert site.balance() == 0


@pytest.mark.parametrize("restarts", [False, True])
def test_what_was_taken_of_a_folded_grant_is_not_taken_again_by_the_same_key(
    restarts: bool,
) -> None:
    site = make()
    site.grant("user:ann", 15, "short-term", until=T0 + 2 * DAY)

    def take() -> None:
        site.call(lambda _, now: site.paying.take("leaver", "user:ann", 20 * CREDIT, now))

    take()
    fold(site, T0 + 3 * DAY)
    assert "grant:short-term" not in site.credits
    if restarts:
        site.restart()
    take()
    assert site.balance() == 35
    assert [left for _, left in site.paying.ledger.lots("user:ann")] == [0, 35 * CREDIT]


def test_a_grant_that_a_promise_takes_from_stays() -> None:
    site = make()
    site.grant("user:ann", 15, "short-term", until=T0 + 2 * DAY)
    site.answer(vote(1, HOUR_AT_NOON))
    fold(site, T0 + 300 * DAY)
    assert "grant:short-term" in site.credits


def test_a_folding_is_one_fact_and_no_step_of_the_position() -> None:
    site = make()
    site.book(1, HOUR_AT_NOON)
    over(site, 1)
    position = site.position
    site.paying.fold(T0 + 900 * DAY, T0 + 900 * DAY)
    (fact,) = site.settle().facts
    assert isinstance(fact, EntriesFolded)
    assert fact.keys == (f"charge:{rid(1)}",)
    assert site.position == position

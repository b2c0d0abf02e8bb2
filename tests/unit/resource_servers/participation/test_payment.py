"""Payment is part of the commit: promised is reserved, locked is charged, aborted is given back."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from tests.protocol_support import (
    ANN,
    BOB,
    DAY,
    HERE,
    T0,
    Site,
    abort,
    commit,
    list_up,
    prepare,
    rid,
    secret_of,
    visit,
    vote,
    want,
)

from kalends.calendars import Limit, PriceRule, Prices, Recurrence
from kalends.contract import messages as m
from kalends.contract.costs import Pays
from kalends.contract.owner_calls import DecideApproval
from kalends.core.errors import Conflict
from kalends.core.money import CREDIT, CancelRule
from kalends.core.principals import Principal
from kalends.resource_servers.participation.claims.claim_sets import StakeStored
from kalends.resource_servers.participation.credits.accounts import PayingAccount, PayingAccounts
from kalends.resource_servers.participation.credits.credits import Credits
from kalends.resource_servers.participation.credits.entries import decode_entry
from kalends.resource_servers.participation.effects import EntryStored
from kalends.resource_servers.participation.kernel import MakePayments

HOUR = 3_600
TEN = Prices([PriceRule("all", "everyone", 10_000)])
"""10 credits for a unit and an hour."""

ACCOUNTS = (
    PayingAccount("project:dna", ("user:ann", "group:lab"), parent="project:chem"),
    PayingAccount("project:chem", ("group:chem",)),
    PayingAccount("user:bob", debt=5 * CREDIT),
)


class PricedSite(Site):
    """Everything costs 10 credits for a unit and an hour; a cancel in the last half hour costs half."""

    prices = TEN
    cancel_rule = CancelRule(free_until_s=1_800, fee=50, unused=0)
    accounts = ACCOUNTS

    def payments(self) -> MakePayments:
        entries = [decode_entry(body) for body in self.credits.values()]
        return partial(Credits, accounts=PayingAccounts(self.accounts), entries=entries)

    @property
    def paying(self) -> Credits:
        return self.participant.wing(Credits)

    def settle(self) -> Any:
        self.paying.check()
        return super().settle()

    def grant(self, account: str, credits: float, key: str = "", **more: Any) -> None:
        amount = int(credits * CREDIT)
        key = key or f"grant-{len(self.credits)}"
        self.call(lambda _, now: self.paying.grant(key, account, amount, now, **more))

    def balance(self, account: str = "user:ann") -> float:
        return self.paying.ledger.balance(account) / CREDIT

    def reserved(self, account: str = "user:ann") -> float:
        return self.paying.reserved(account) / CREDIT

    def prices_are(self, credits: float) -> None:
        self.prices = Prices([PriceRule("all", "everyone", int(credits * 1_000))])
        self.restart()

    def cancel(self, number: int, at: int = 0) -> m.Done:
        done = self.answer(
            m.Cancel(rid=rid(number), att=1, secret=secret_of(rid(number)), at=at and T0 + DAY + at)
        )
        assert isinstance(done, m.Done)
        return done

    def book(self, number: int, *wants: m.Want, **more: Any) -> m.Visited:
        visited = self.answer(replace(vote(number, *wants), **more))
        assert isinstance(visited, m.Visited)
        if visited.vote == "yes":
            self.receive(commit(number, *(slot.hold_id for slot in visited.held)))
        return visited


@pytest.fixture
def site() -> PricedSite:
    site = PricedSite()
    site.grant("user:ann", 40)
    return site


HOUR_AT_NOON = want("one", 0, HOUR)


def why(visited: m.Visited) -> list[str]:
    return [refusal.code for refusal in visited.refusals]


def test_a_promise_reserves_a_lock_charges_and_both_are_said(site: PricedSite) -> None:
    visited = site.answer(vote(1, HOUR_AT_NOON))
    assert isinstance(visited, m.Visited)
    assert visited.cost is not None
    assert (visited.cost.account, visited.cost.charge) == ("user:ann", 10 * CREDIT)
    assert (site.balance(), site.reserved()) == (40, 10)
    site.receive(commit(1, visited.held[0].hold_id))
    assert (site.balance(), site.reserved()) == (30, 0)


def test_the_charge_is_stored_by_the_step_that_locks(site: PricedSite) -> None:
    visited = site.answer(vote(1, HOUR_AT_NOON))
    assert isinstance(visited, m.Visited)
    facts = site.receive(commit(1, visited.held[0].hold_id)).facts
    kinds = {type(fact) for fact in facts}
    assert {EntryStored, StakeStored} <= kinds


def test_an_abort_gives_back_by_itself(site: PricedSite) -> None:
    site.answer(vote(1, HOUR_AT_NOON))
    site.receive(abort(1))
    assert (site.balance(), site.reserved()) == (40, 0)


def test_a_higher_attempt_gives_back_what_the_lower_has_reserved(site: PricedSite) -> None:
    site.answer(vote(1, HOUR_AT_NOON))
    site.answer(visit(1, want("two", 0, HOUR), att=2))
    assert (site.balance(), site.reserved()) == (40, 0)


def test_a_commit_that_is_told_again_charges_once(site: PricedSite) -> None:
    visited = site.book(1, HOUR_AT_NOON)
    site.receive(commit(1, visited.held[0].hold_id))
    site.restart()
    site.receive(commit(1, visited.held[0].hold_id))
    assert site.balance() == 30


def test_promises_and_charges_survive_a_restart(site: PricedSite) -> None:
    site.book(1, HOUR_AT_NOON)
    site.answer(vote(2, want("two", 0, HOUR)))
    site.restart()
    assert (site.balance(), site.reserved()) == (30, 10)


def test_nothing_is_promised_without_credit(site: PricedSite) -> None:
    visited = site.book(1, want("one", 0, 5 * HOUR))
    assert why(visited) == ["credit"]
    assert "user:ann has 40.00 left here" in visited.refusals[0].detail
    assert site.states(1) == []


def test_who_cannot_pay_hears_it_before_anything_is_held(site: PricedSite) -> None:
    visited = site.answer(visit(1, want("one", 0, 5 * HOUR)))
    assert isinstance(visited, m.Visited)
    assert why(visited) == ["credit"]


def test_credit_that_others_have_reserved_may_come_free(site: PricedSite) -> None:
    site.answer(vote(1, want("one", 0, 3 * HOUR)))
    visited = site.book(2, want("two", 0, 2 * HOUR))
    assert why(visited) == ["credit-promised"]
    assert "has 10.00 free here for that time: 30.00 are reserved" in visited.refusals[0].detail


def test_a_hold_costs_nothing_and_its_promise_is_refused_once_the_credit_is_spent(
    site: PricedSite,
) -> None:
    held = site.answer(visit(1, want("one", 0, 3 * HOUR)))
    assert isinstance(held, m.Visited)
    assert (len(held.held), site.reserved()) == (1, 0)
    site.grant("user:ann", 0.001)
    taken = site.call(lambda _, now: site.paying.take("take-1", "user:ann", 30 * CREDIT, now))
    assert taken.amount == -30 * CREDIT
    voted = site.answer(prepare(1, *site.ids(1)))
    assert isinstance(voted, m.Voted)
    assert [each.code for each in voted.refusals] == ["credit"]


def test_an_older_request_pays_first_with_what_both_hold_slots_for(site: PricedSite) -> None:
    site.answer(visit(1, want("one", 0, 3 * HOUR)))
    site.answer(visit(2, want("two", 0, 3 * HOUR)))
    younger = site.answer(prepare(2, *site.ids(2)))
    assert isinstance(younger, m.Voted)
    assert [each.code for each in younger.refusals] == ["credit-promised"]
    older = site.answer(prepare(1, *site.ids(1)))
    assert isinstance(older, m.Voted)
    assert older.vote == "yes"


def test_the_terms_are_those_of_the_hold(site: PricedSite) -> None:
    held = site.answer(visit(1, HOUR_AT_NOON))
    assert isinstance(held, m.Visited)
    calendar = site.participant.book.calendars[f"{HERE}/one"]
    calendar.rules.prices = Prices([PriceRule("dear", "everyone", 20_000)])
    voted = site.answer(prepare(1, *site.ids(1)))
    assert isinstance(voted, m.Voted)
    assert voted.cost is not None
    assert voted.cost.charge == 10 * CREDIT
    site.receive(commit(1, *site.ids(1)))
    assert site.balance() == 30


def test_what_costs_more_than_the_user_allows_is_refused(site: PricedSite) -> None:
    cheap = site.book(1, HOUR_AT_NOON, pays=Pays(at_most=9 * CREDIT))
    assert why(cheap) == ["price"]
    assert "it costs 10.00 credits, and you allow 9.00" in cheap.refusals[0].detail
    assert site.book(2, HOUR_AT_NOON, pays=Pays(at_most=10 * CREDIT)).vote == "yes"


def test_each_second_costs_what_the_owner_says_of_it() -> None:
    night = Recurrence("FREQ=DAILY", "00:00", 8 * HOUR, "UTC")
    site = PricedSite()
    site.prices = Prices([PriceRule("night", "everyone", 2_500, (night,)), *TEN.rules])
    site.restart()
    site.grant("user:ann", 40)
    midnight = -(T0 + DAY) % DAY
    site.book(1, want("one", midnight - HOUR, midnight + 2 * HOUR))
    assert site.balance() == 40 - 10 - 5


def test_what_has_no_price_is_free_and_has_no_bill() -> None:
    site = PricedSite()
    site.prices = Prices([PriceRule("others", "user:eve", 10_000)])
    site.restart()
    visited = site.book(1, HOUR_AT_NOON)
    assert (visited.vote, visited.cost) == ("yes", None)
    stake = site.stake(1)
    assert stake is not None
    assert stake.bill is None
    assert site.credits == {}


# PayingAccounts


def test_a_project_pays_for_its_members_and_so_do_those_that_it_is_part_of(
    site: PricedSite,
) -> None:
    site.grant("project:dna", 20)
    assert why(site.book(1, HOUR_AT_NOON, pays=Pays("dna"))) == ["credit"]
    site.grant("project:chem", 15)
    assert site.book(1, HOUR_AT_NOON, pays=Pays("dna")).vote == "yes"
    assert [site.balance(f"project:{name}") for name in ("dna", "chem")] == [10, 5]
    assert site.balance() == 40
    assert why(site.book(2, want("two", 0, HOUR), pays=Pays("dna"))) == ["credit"]


@pytest.mark.parametrize("project", ["dna", "nothing"])
def test_nobody_charges_a_project_of_others_or_hears_that_there_is_one(
    site: PricedSite, project: str
) -> None:
    visited = site.book(1, HOUR_AT_NOON, pays=Pays(project), principal=BOB)
    assert why(visited) == ["payer"]
    assert visited.refusals[0].detail == f"no project {project} that you may charge"


def test_an_account_may_be_in_debt_as_far_as_its_owner_allows(site: PricedSite) -> None:
    assert site.book(1, want("one", 0, HOUR // 2), principal=BOB).vote == "yes"
    assert site.balance("user:bob") == -5
    assert why(site.book(2, want("two", 0, HOUR // 2), principal=BOB)) == ["credit"]


class RestoredSite(PricedSite):
    """What it has forgotten may leave an account with more debt than its owner allows."""

    def settle(self) -> Any:
        return Site.settle(self)


def test_a_grant_that_was_lost_and_is_entered_again_is_not_spent_twice() -> None:
    """Locked again, it was debt; the grant pays that debt first."""
    site = RestoredSite()
    site.grant("user:ann", 40)
    image = site.image()
    visited = site.book(1, want("one", 0, 4 * HOUR))
    relock = relock_of(visited, site)
    site.put_back(image)
    site.call(lambda _, now: site.paying.take("lost", "user:ann", 40 * CREDIT, now))
    site.receive(relock)
    assert site.balance() == -40
    while site.participant.recovery.recovering:
        site.receive(m.Settled())
    site.grant("user:ann", 40, "again")
    assert why(site.book(2, want("two", 0, HOUR))) == ["credit"]
    site.grant("user:ann", 10)
    assert site.book(3, want("two", 0, HOUR)).vote == "yes"
    assert site.balance() == 0


def test_changes_of_what_is_cancelled_meanwhile_cost_all_that_they_cost(site: PricedSite) -> None:
    site.book(1, want("one", 0, 4 * HOUR))
    assert site.answer(vote(2, want("two", 0, 4 * HOUR), replaces=1)).vote == "yes"  # type: ignore[attr-defined]
    site.cancel(1)
    assert site.reserved() == 40
    assert why(site.book(3, want("one", 0, 4 * HOUR))) == ["credit-promised"]


def test_a_change_whose_old_one_was_cancelled_for_a_fee_takes_no_lot_below_zero(
    site: PricedSite,
) -> None:
    site.accounts = (PayingAccount("user:ann", debt=10 * CREDIT),)
    site.restart()
    site.book(1, want("one", 0, 2 * HOUR))
    site.advance(1_000 * (DAY - 600))
    visited = site.answer(replace(vote(2, want("one", 0, 4 * HOUR)), replaces=rid(1)))
    assert isinstance(visited, m.Visited)
    site.cancel(1)
    assert (site.balance(), site.reserved()) == (30, 30)
    # No honest broker does this.
    site.receive(commit(2, *(slot.hold_id for slot in visited.held)))
    assert site.balance() == -10
    assert [left for _, left in site.paying.ledger.lots("user:ann")] == [0]


def test_a_change_reserves_what_there_is_once_a_late_cancel_has_paid_back_less() -> None:
    site = PricedSite()
    site.accounts = (*ACCOUNTS, PayingAccount("user:ann", debt=5 * CREDIT))
    site.restart()
    site.grant("user:ann", 20)
    site.book(1, want("one", 0, 2 * HOUR))
    site.advance(1_000 * (DAY - 600))
    moved = site.answer(vote(2, want("one", HOUR, 3 * HOUR), replaces=1))
    assert isinstance(moved, m.Visited)
    assert moved.cost is not None
    assert moved.cost.back == 15 * CREDIT
    assert site.cancel(1).refund == 10 * CREDIT
    assert site.reserved() == 15
    site.receive(abort(2))
    assert (site.balance(), site.reserved()) == (10, 0)


# Lots


def test_a_charge_takes_from_the_lot_that_covers_its_time_and_ends_first() -> None:
    site = PricedSite()
    noon = T0 + DAY
    site.grant("user:ann", 10, "soon-ends", until=noon + 2 * HOUR)
    site.grant("user:ann", 10, "for-ever")
    site.book(1, want("one", 0, HOUR))
    assert lots(site) == {"grant:soon-ends": 0, "grant:for-ever": 10}
    site.book(2, want("one", 2 * HOUR, 3 * HOUR))
    assert lots(site) == {"grant:soon-ends": 0, "grant:for-ever": 0}
    site.cancel(2)
    site.cancel(1)
    assert lots(site) == {"grant:soon-ends": 10, "grant:for-ever": 10}


def test_lots_pay_for_all_that_they_can_pay_for_together() -> None:
    site = PricedSite()
    noon = T0 + DAY
    site.grant("user:ann", 15, "early", until=noon + 2 * HOUR)
    site.grant("user:ann", 10, "late", start=noon + HOUR, until=noon + 4 * HOUR)
    wants = (want("one", 0, 2 * HOUR), want("two", HOUR // 2, HOUR))
    assert site.book(1, *wants).vote == "yes"
    assert site.balance() == 0


def test_a_grant_pays_for_no_other_time() -> None:
    site = PricedSite()
    site.grant("user:ann", 10, until=T0 + DAY + HOUR)
    later = site.book(1, want("one", HOUR, 2 * HOUR)).refusals[0]
    assert (later.code, later.detail) == (
        "credit",
        "it costs 10.00 credits, and user:ann has 0.00 left here for that time, and 10.00 in all",
    )
    partly = site.book(2, want("one", HOUR // 2, HOUR // 2 + HOUR)).refusals[0]
    assert "user:ann has 5.00 left here for that time, and 10.00 in all" in partly.detail
    assert site.book(3, want("one", 0, HOUR)).vote == "yes"


def lots(site: PricedSite) -> dict[str, float]:
    return {lot.key: left / CREDIT for lot, left in site.paying.ledger.lots("user:ann")}


def test_a_grant_of_the_same_key_adds_nothing(site: PricedSite) -> None:
    site.grant("user:ann", 5, "term")
    site.grant("user:ann", 5, "term")
    assert site.balance() == 45
    with pytest.raises(Conflict, match="the key term was used for another grant"):
        site.grant("user:ann", 6, "term")


def test_no_more_is_taken_back_than_is_left(site: PricedSite) -> None:
    site.answer(vote(1, HOUR_AT_NOON))
    with pytest.raises(Conflict, match=r"has only 30\.00 credits left"):
        site.call(lambda _, now: site.paying.take("all", "user:ann", 31 * CREDIT, now))
    site.call(lambda _, now: site.paying.take("all", "user:ann", 30 * CREDIT, now))
    assert (site.balance(), site.reserved()) == (10, 10)


# Cancels


def test_an_early_cancel_is_free(site: PricedSite) -> None:
    site.book(1, HOUR_AT_NOON)
    assert site.cancel(1).refund == 10 * CREDIT
    assert site.balance() == 40


def test_a_late_cancel_costs_the_fee_once(site: PricedSite) -> None:
    site.book(1, HOUR_AT_NOON)
    site.advance(1_000 * (DAY - 600))
    assert site.cancel(1).refund == 5 * CREDIT
    site.restart()
    assert site.cancel(1).refund == 5 * CREDIT
    assert site.balance() == 35


def test_a_cancel_that_comes_late_counts_from_when_it_was_decided(site: PricedSite) -> None:
    site.book(1, HOUR_AT_NOON)
    site.advance(1_000 * (DAY - 600))
    site.restart()
    assert site.cancel(1, at=-7_200).refund == 10 * CREDIT


def test_a_broker_that_is_heard_cannot_back_date_a_cancel(site: PricedSite) -> None:
    site.book(1, HOUR_AT_NOON)
    for _ in range(20):
        site.advance(1_000 * (DAY - 600) // 20 // 100)
    site.advance(1_000 * (DAY - 600) - site.ms)
    for _ in range(5):
        site.advance(60_000)
    assert site.cancel(1, at=-7_200).refund == 5 * CREDIT


def test_a_broker_cannot_post_date_a_cancel(site: PricedSite) -> None:
    site.book(1, HOUR_AT_NOON)
    assert site.cancel(1, at=3_000).refund == 10 * CREDIT


def test_what_was_used_is_never_paid_back(site: PricedSite) -> None:
    site.cancel_rule = CancelRule(free_until_s=0, fee=0, unused=100)
    site.restart()
    site.book(1, HOUR_AT_NOON)
    site.advance(1_000 * (DAY + 900) - site.ms + 1_000)
    assert site.cancel(1).refund in range(int(7.49 * CREDIT), int(7.51 * CREDIT))


# Changes


def change(site: PricedSite, number: int, old: int, *wants: m.Want) -> m.Visited:
    visited = site.answer(vote(number, *wants, replaces=old))
    assert isinstance(visited, m.Visited)
    if visited.vote == "yes":
        site.receive(commit(number, *(slot.hold_id for slot in visited.held)))
    return visited


def test_an_extension_costs_what_is_new_and_keeps_the_price_of_the_old(site: PricedSite) -> None:
    site.book(1, HOUR_AT_NOON)
    site.prices_are(20)
    change(site, 2, 1, want("one", 0, 2 * HOUR))
    assert site.balance() == 40 - 10 - 20
    assert site.states(1) == ["replaced"]


def test_a_move_is_no_way_around_a_late_fee(site: PricedSite) -> None:
    site.book(1, HOUR_AT_NOON)
    site.advance(1_000 * (DAY - 600))
    change(site, 2, 1, want("one", 5 * HOUR, 6 * HOUR))
    assert site.balance() == 40 - 5 - 10
    assert site.cancel(2).refund == 10 * CREDIT
    assert site.balance() == 35


def test_the_refund_of_a_change_is_fixed_with_the_vote(site: PricedSite) -> None:
    site.book(1, want("one", 0, 3 * HOUR))
    visited = site.answer(vote(2, want("two", 0, 3 * HOUR), replaces=1))
    assert isinstance(visited, m.Visited)
    assert visited.cost is not None
    assert visited.cost.back == 30 * CREDIT
    assert site.reserved() == 0
    site.advance(1_000 * (DAY - 600))
    site.receive(commit(2, visited.held[0].hold_id))
    assert site.balance() == 10


def test_a_change_that_is_aborted_changes_nothing(site: PricedSite) -> None:
    site.book(1, HOUR_AT_NOON)
    site.answer(vote(2, want("one", 0, 3 * HOUR), replaces=1))
    assert (site.balance(), site.reserved()) == (30, 20)
    site.receive(abort(2))
    assert (site.balance(), site.reserved()) == (30, 0)


def test_a_change_of_what_was_free_costs_what_is_new_only() -> None:
    site = PricedSite()
    site.prices = None  # type: ignore[assignment]
    site.restart()
    site.book(1, HOUR_AT_NOON)
    site.prices_are(10)
    site.grant("user:ann", 10)
    change(site, 2, 1, want("one", 0, 2 * HOUR))
    assert site.balance() == 0


def test_the_owner_changes_prices_without_charging_anybody_more(site: PricedSite) -> None:
    site.book(1, HOUR_AT_NOON)
    site.prices = None  # type: ignore[assignment]
    site.restart()
    assert site.cancel(1).refund == 10 * CREDIT
    assert site.balance() == 40


# Waiting lists

SAM = Principal("sam")


def listed(number: int, principal: Principal, pays: Pays, seen: int = 0) -> m.Await:
    wish = list_up(number, HOUR_AT_NOON, principal=principal, length_s=HOUR, seen=seen)
    return replace(wish, pays=pays)


def full_site() -> PricedSite:
    """Ann has the hour, which costs 10; sam has no credit."""
    site = PricedSite()
    site.grant("user:ann", 100)
    site.book(1, HOUR_AT_NOON)
    return site


@pytest.mark.parametrize(
    ("who", "pays", "detail"),
    [
        (ANN, Pays(at_most=9 * CREDIT), "and you allow 9.00"),
        (SAM, Pays(), "and user:sam has 0.00 free here for that time"),
        (SAM, Pays("nothing"), "no project nothing that you may charge"),
    ],
)
def test_room_goes_to_those_behind_whoever_cannot_pay_for_it(
    who: Principal, pays: Pays, detail: str
) -> None:
    site = full_site()
    site.receive(listed(2, who, pays))
    site.receive(listed(3, ANN, Pays(at_most=10 * CREDIT)))
    told = site.answers(m.Cancel(rid=rid(1), att=1))
    passed, offered = [each for each in told if isinstance(each, m.Awaited)]
    assert (passed.rid, passed.offered, offered.rid) == (rid(2), (), rid(3))
    assert passed.dear is not None
    assert detail in passed.dear.detail
    assert [each.resource for each in offered.offered] == [f"{HERE}/one"]


def test_who_was_passed_over_looks_again_once_it_can_pay() -> None:
    site = full_site()
    site.receive(listed(2, SAM, Pays()))
    entry = site.participant.lists.listed.get(rid(2))
    assert entry is not None
    seen = entry.news
    site.receive(m.Cancel(rid=rid(1), att=1))
    (quiet,) = site.answers(listed(2, SAM, Pays(), seen))
    assert isinstance(quiet, m.Awaited)
    assert not quiet.fresh
    site.grant("user:sam", 10)
    (now,) = site.answers(listed(2, SAM, Pays(), seen))
    assert isinstance(now, m.Awaited)
    assert now.fresh
    assert now.news != seen


def test_the_cheapest_begin_counts_for_whom_room_is_too_dear() -> None:
    night = Recurrence("FREQ=DAILY", "00:00", 8 * HOUR, "UTC")
    site = PricedSite()
    site.prices = Prices([PriceRule("night", "everyone", 2_500, (night,)), *TEN.rules])
    site.restart()
    site.grant("user:ann", 100)
    midnight = -(T0 + DAY) % DAY
    window = want("one", midnight - HOUR, midnight + HOUR)
    site.book(1, window)
    wish = list_up(2, window, principal=ANN, length_s=HOUR)
    site.receive(replace(wish, pays=Pays(at_most=3 * CREDIT)))
    told = site.answers(m.Cancel(rid=rid(1), att=1))
    assert [each.rid for each in told if isinstance(each, m.Awaited) and each.offered] == [rid(2)]


# Owners who take slots back


def test_a_late_cancel_costs_nothing_because_another_owner_takes_its_slots_back(
    site: PricedSite,
) -> None:
    site.book(1, HOUR_AT_NOON)
    site.advance(1_000 * (DAY - 600))
    cancel = m.Cancel(rid=rid(1), att=1, secret=secret_of(rid(1)), reclaimed=True)
    done = site.answer(cancel)
    assert isinstance(done, m.Done)
    assert (done.refund, site.balance()) == (10 * CREDIT, 40)


def test_of_what_runs_only_the_rest_is_paid_back_then(site: PricedSite) -> None:
    site.book(1, HOUR_AT_NOON)
    site.advance(1_000 * (DAY + 900) - site.ms + 1_000)
    cancel = m.Cancel(rid=rid(1), att=1, secret=secret_of(rid(1)), reclaimed=True)
    done = site.answer(cancel)
    assert isinstance(done, m.Done)
    assert done.refund in range(int(7.49 * CREDIT), int(7.51 * CREDIT))


@pytest.mark.parametrize(("reclaimed", "left"), [(True, 30), (False, 25)])
def test_a_move_for_another_owner_costs_no_fee(
    site: PricedSite, *, reclaimed: bool, left: int
) -> None:
    site.book(1, HOUR_AT_NOON)
    site.advance(1_000 * (DAY - 600))
    moved = replace(
        vote(2, want("one", 5 * HOUR, 6 * HOUR), replaces=1), pays=Pays(reclaimed=reclaimed)
    )
    visited = site.answer(moved)
    assert isinstance(visited, m.Visited)
    site.receive(commit(2, *(slot.hold_id for slot in visited.held)))
    assert site.balance() == left


# Owners who approve


class ThoughtfulSite(PricedSite):
    """Its owner approves each booking."""

    def __init__(self) -> None:
        super().__init__(owners_limits=(Limit("word", "everyone", approval="needed"),))
        self.grant("user:ann", 40)

    def ask(self, number: int, att: int = 1) -> str:
        says = self.answer(m.OwnerAsk(rid=rid(number), att=att, hold_ids=self.ids(number)))
        assert isinstance(says, m.OwnerSays)
        return says.state

    def approve(self, number: int) -> m.Voted:
        body = DecideApproval(id=rid(number), approve=True, revision=1)
        self.call(lambda _, now: self.approval.decide(body, "olga", now))
        voted = self.answer(prepare(number, *self.ids(number)))
        assert isinstance(voted, m.Voted)
        return voted


def test_credit_is_reserved_while_the_owner_thinks() -> None:
    site = ThoughtfulSite()
    site.answer(visit(1, want("one", 0, 3 * HOUR), hold_ms=DAY * 1_000))
    assert (site.ask(1), site.reserved()) == ("pending", 30)
    site.restart()
    assert site.reserved() == 30
    later = site.answer(visit(2, want("two", 0, 2 * HOUR)))
    assert isinstance(later, m.Visited)
    assert why(later) == ["credit-promised"]
    with pytest.raises(Conflict):
        site.call(lambda _, now: site.paying.take("all", "user:ann", 11 * CREDIT, now))
    voted = site.approve(1)
    assert voted.vote == "yes"
    site.receive(commit(1, *site.ids(1)))
    assert (site.balance(), site.reserved()) == (10, 0)


def test_nobody_pays_more_because_the_owner_has_thought_for_long() -> None:
    site = ThoughtfulSite()
    site.answer(visit(1, HOUR_AT_NOON, hold_ms=DAY * 1_000))
    site.ask(1)
    assert site.approve(1).vote == "yes"
    site.receive(commit(1, *site.ids(1)))
    site.advance(1_000 * (DAY - 2_400))
    site.answer(visit(2, want("one", 3 * HOUR, 6 * HOUR), replaces=1, hold_ms=DAY * 1_000))
    site.ask(2)
    assert (site.balance(), site.reserved()) == (30, 20)
    site.advance(1_000 * 1_800)
    assert site.approve(2).vote == "yes"
    site.receive(commit(2, *site.ids(2)))
    assert site.balance() == 10


@pytest.mark.parametrize("end", ["declined", "abort", "newer"])
def test_what_owners_do_not_approve_reserves_nothing_more(end: str) -> None:
    site = ThoughtfulSite()
    site.answer(visit(1, HOUR_AT_NOON))
    site.ask(1)
    if end == "declined":
        body = DecideApproval(id=rid(1), approve=False, revision=1)
        site.call(lambda _, now: site.approval.decide(body, "olga", now))
    elif end == "abort":
        site.receive(abort(1))
    else:
        site.answer(visit(1, want("one", HOUR, 2 * HOUR), att=2))
    assert site.reserved() == 0


def test_an_owner_is_not_asked_about_what_cannot_be_paid_any_more() -> None:
    site = ThoughtfulSite()
    for number, resource in ((2, "two"), (1, "one")):
        site.answer(visit(number, want(resource, 0, 3 * HOUR)))
    assert site.ask(1) == "pending"
    assert site.states(2) == ["held"]
    asked = m.OwnerAsk(rid=rid(2), att=1, hold_ids=site.ids(2))
    says = site.answer(asked)
    assert isinstance(says, m.OwnerSays)
    assert (says.state, says.word) == (
        "declined",
        "it costs 30.00 credits, and user:ann has 10.00 free here for that time: 30.00 are reserved",
    )
    again = site.answer(visit(2, want("two", 0, 3 * HOUR), att=2))
    assert isinstance(again, m.Visited)
    assert why(again) == ["credit-promised"]


# Restores


def test_a_store_that_lost_only_a_grant_is_found_out(site: PricedSite) -> None:
    image = site.image()
    before = site.position
    site.grant("user:ann", 1)
    assert site.position == before + 1
    site.put_back(image)
    assert site.participant.past.position == before


def test_what_is_locked_again_is_charged_again_at_the_cost_that_was_voted(
    site: PricedSite,
) -> None:
    image = site.image()
    visited = site.book(1, HOUR_AT_NOON)
    assert visited.cost is not None
    site.prices_are(50)
    relock = relock_of(visited, site)
    site.put_back(image)
    for _ in range(2):
        site.receive(relock)
        assert site.balance() == 30
    assert site.states(1) == ["locked"]
    assert site.cancel(1).refund == 10 * CREDIT


def test_lack_of_credit_is_no_reason_against_a_relock(site: PricedSite) -> None:
    image = site.image()
    visited = site.book(1, HOUR_AT_NOON)
    relock = relock_of(visited, site)
    site.put_back(image)
    site.call(lambda _, now: site.paying.take("all", "user:ann", 40 * CREDIT, now))
    site.accounts = (*ACCOUNTS, PayingAccount("user:ann", debt=10 * CREDIT))
    site.restart()
    site.receive(relock)
    assert site.balance() == -10
    assert site.states(1) == ["locked"]


def test_a_cost_that_the_site_has_not_voted_is_not_believed(site: PricedSite) -> None:
    visited = site.book(1, HOUR_AT_NOON)
    assert visited.cost is not None
    other = site.image()
    relock = relock_of(visited, site)
    relock = replace(relock, rid=rid(9), secret=secret_of(rid(9)), wants=(want("two", 0, HOUR),))
    site.put_back(other)
    site.receive(relock)
    assert site.balance() == 30
    while site.participant.recovery.recovering:
        site.receive(m.Settled())
    again = replace(relock, rid=rid(8), secret=secret_of(rid(8)), cost=None)
    assert site.answer(again) == m.Relocked(
        rid=rid(8), blockers=("no cost of here/two was voted here",)
    )


def compared(site: PricedSite, after: str = "") -> m.Compared:
    page = site.answer(m.Compare(after=after))
    assert isinstance(page, m.Compared)
    return page


def test_a_restored_register_hears_what_was_charged_and_paid_back(site: PricedSite) -> None:
    costs = [site.book(number, want("one", number * HOUR, number * HOUR + HOUR)).cost
             for number in (1, 2)]  # fmt: skip
    site.cancel(2)
    site.answer(vote(3, want("two", 0, HOUR)))
    site.restart()
    locked, cancelled, promised = compared(site).kept
    assert [locked.cost, cancelled.cost, promised.cost] == [*costs, None]
    assert [locked.refund, cancelled.refund] == [-1, 10 * CREDIT]


def test_a_page_of_a_comparison_ends_before_its_costs_are_too_many(
    site: PricedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2, 3):
        site.book(number, want("one", number * HOUR, number * HOUR + HOUR))
    monkeypatch.setattr("kalends.resource_servers.participation.memory.comparison.PIECES_SHOWN", 2)
    first = compared(site)
    assert ([each.rid for each in first.kept], first.until) == ([rid(1), rid(2)], rid(2))
    last = compared(site, rid(2))
    assert ([each.rid for each in last.kept], last.until) == ([rid(3)], "")


def relock_of(visited: m.Visited, site: PricedSite) -> m.Relock:
    stake = site.stake(1)
    assert stake is not None
    return m.Relock(
        rid=rid(1), att=1, stamp=1, principal=ANN, secret=secret_of(rid(1)),
        wants=tuple(claim.want for claim in stake.claims), chosen={HERE: site.ids(1)},
        parts=(m.Part(HERE, ""),), need=1, cost=visited.cost,
    )  # fmt: skip

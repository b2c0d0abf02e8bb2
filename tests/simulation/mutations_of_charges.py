"""Ways to get payment wrong, put into the shipped code at run time."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from kalends.broker.coordination.voting.decide_phase import DecidePhase
from kalends.core.intervals import Moment
from kalends.resource_servers.jobs.job_ledger import JobLedger
from kalends.resource_servers.participation.claims.bills import Bill
from kalends.resource_servers.participation.credits.credits import Credits
from kalends.resource_servers.participation.credits.entries import (
    decode_entry,
    job_key,
    stored_entry,
)
from kalends.resource_servers.participation.credits.ledger import CreditLedger, of_path
from kalends.resource_servers.participation.effects import EntriesFolded, EntryStored
from kalends.resource_servers.participation.memory.comparison import Comparison
from kalends.resource_servers.participation.memory.retention import Retention
from kalends.resource_servers.participation.participant import Participant
from tests.simulation.climates import (
    APPROVED_AND_CHARGED,
    CHARGES_FOLDED,
    CHARGES_RESTORED,
    OWNERS_CHARGE,
    PAID_JOBS,
    RECLAIMED_AND_CHARGED,
    RUNNING_CHARGED,
    DroppedSoon,
)
from tests.simulation.job_sites import JobSite, JobWorld
from tests.simulation.mutations import Mutation, world_with
from tests.simulation.owners import Guarded
from tests.simulation.shipped_site import SHIPPED, site_with


class ChargesTwice(Credits):
    def _charge(self, stake: Any, bill: Any, now_s: int) -> None:
        super()._charge(stake, bill, now_s)
        shares = tuple(replace(each, amount=-each.amount) for each in bill.shares)
        key, user = f"charge-again:{stake.rid}", stake.principal.user
        self._enter(
            key, bill.account, "charge", -bill.charge, shares, stake.rid, user, now_s,
            ends=stake.ends_at,
        )  # fmt: skip


class ChargesThePromise(Credits):
    def promise(self, stake: Any, now: Any) -> Any:
        bill = super().promise(stake, now)
        self._charge(stake, bill, now.wall_s)
        return bill


class ChargesInAnotherStep(Credits):
    late: Any = None

    def _store(self, entry: Any) -> None:
        if entry.kind != "charge":
            super()._store(entry)
        elif self.ledger.enter(entry):
            if self.late is not None:
                self.outbox.store(stored_entry(self.late))
            self.late = entry


class GivesNothingBack(Credits):
    def cancelled(self, stake: Any, at: int, now_s: int, *, reclaimed: bool) -> None:
        self._pay_back(stake, 0, now_s)


class GivesNothingBackForChanges(Credits):
    def locked(self, stake: Any, replaced: Any, now_s: int) -> Any:
        return super().locked(stake, None, now_s)


class PricesAtTheLock(Credits):
    def locked(self, stake: Any, replaced: Any, now_s: int) -> Any:
        wants = [claim.want for claim in stake.claims]
        now = self._bill(stake.principal, wants, None, None, "", considered=False)
        bill = replace(stake.bill, slots=now.slots if now is not None else stake.bill.slots)
        stake.bill = self._pay_again(bill, stake.rid)
        return super().locked(stake, replaced, now_s)


class RefundsAChangeAtTheLock(Credits):
    def locked(self, stake: Any, replaced: Any, now_s: int) -> Any:
        if replaced is not None and replaced.bill is not None:
            for claim in replaced.claims:
                claim.state = "locked"
            back = self._back(replaced.rid, stake.bill, Moment(0, now_s * 1_000))
            for claim in replaced.claims:
                claim.state = "replaced"
            stake.bill = replace(stake.bill, back=back)
        return super().locked(stake, replaced, now_s)


class ReservesNothing(Credits):
    def _reserved(self, path: Any, but: str, *, promised_only: bool = False) -> Counter[Any]:
        return Counter()


class AsksNoCap(Credits):
    def _reckoned(
        self, rid: str, stamp: int, bill: Any, replaces: str, now: Any, *, firm: bool
    ) -> Any:
        return super()._reckoned(rid, stamp, replace(bill, at_most=-1), replaces, now, firm=firm)


class ForgetsTheEndOfWhatItForgot(Credits):
    def charged_before(self, recharge: Any, now_s: int) -> None:
        pass


class LocksAgainForNothing(Credits):
    def locked_again(self, stake: Any, cost: Any, now_s: int) -> Any:
        return self._pay_again(Bill(cost.account, cost.slots, back=cost.back), stake.rid)


class LocksAgainAtThePriceOfToday(Credits):
    def locked_again(self, stake: Any, cost: Any, now_s: int) -> Any:
        wants = [claim.want for claim in stake.claims]
        now = self._bill(stake.principal, wants, None, None, "", considered=False)
        bill = self._pay_again(now, stake.rid)
        self._charge(stake, bill, now_s)
        return bill


class PaysByTheWallClock(Credits):
    """A lot is good from its begin to its end, whatever slots it is for."""

    def _reckoned(
        self, rid: str, stamp: int, bill: Any, replaces: str, now: Any, *, firm: bool
    ) -> Any:
        lots = self.ledger._lots
        valid = {
            account: [lot for lot in of_account if lot.start <= now.wall_s < lot.until]
            for account, of_account in lots.items()
        }
        self.ledger._lots = valid  # type: ignore[assignment]
        try:
            return super()._reckoned(rid, stamp, bill, replaces, now, firm=firm)
        finally:
            self.ledger._lots = lots


class FeesByItsOwnClock(Retention):
    def decided_at(self, source: str, at: int, now: Any) -> int:
        return int(now.wall_s)


class FeesBackDated(Retention):
    """By a time a minute and a half before the one that is recorded with the decision."""

    def decided_at(self, source: str, at: int, now: Any) -> int:
        return super().decided_at(source, at, now) - 90


class CancelsDatedByTheirRequests(DecidePhase):
    """Sites are told when the request was made in place of when it was cancelled."""

    def resend(self, case: Any, part: Any) -> None:
        decided, case.record.cancelled_at = (
            case.record.cancelled_at,
            case.record.created_ms // 1_000,
        )
        super().resend(case, part)
        case.record.cancelled_at = decided


class LotsAreLeftAlone(CreditLedger):
    def returned(self, shares: Any, back: int) -> Any:
        return super().returned(shares, 0)


class RefundsIntoNoLot(Credits):
    def __init__(
        self, base: Any, *, accounts: Any = None, entries: Any = (), of_jobs: Any = ()
    ) -> None:
        super().__init__(base, accounts=accounts, entries=entries, of_jobs=of_jobs)
        self.ledger = LotsAreLeftAlone(entries)


class ReservesNothingForOwners(Credits):
    def promise(self, stake: Any, now: Any) -> Any:
        thinks = stake.petition is not None and stake.petition.state == "pending"
        return stake.bill if thinks else super().promise(stake, now)


class KeepsTheFeeOfOthersDoing(Credits):
    def cancelled(self, stake: Any, at: int, now_s: int, *, reclaimed: bool) -> None:
        super().cancelled(stake, at, now_s, reclaimed=False)


class KeepsTheLiensOfTheDead(Credits):
    """What was promised to an attempt that is over stays reserved."""

    promised: dict[tuple[str, int], Bill] = {}

    def promise(self, stake: Any, now: Any) -> Any:
        bill = super().promise(stake, now)
        self.promised = {**self.promised, (stake.rid, stake.att): bill}
        return bill

    def _reserved(self, path: Any, but: str, *, promised_only: bool = False) -> Counter[Any]:
        found = super()._reserved(path, but, promised_only=promised_only)
        for (rid, att), bill in self.promised.items():
            stake = self.book.stakes.peek(rid)
            if rid != but and (stake is None or stake.att > att or not stake.claims):
                found.update(of_path(each for each in bill.shares if each.account in path))
        return found


class NobodyOnListsCanPay(Credits):
    def why_too_dear(self, principal: Any, pays: Any, want: Any, length_s: int) -> Any:
        return self.here.refusal("price", "nobody can pay this")


class TellsNoCosts(Comparison):
    def kept(self, stake: Any, state: Any) -> Any:
        return replace(super().kept(stake, state), cost=None)


class FoldsWhatStands(Credits):
    """Whatever has ended, also if its request is still to be told something."""

    def fold(self, over_s: int, closed_s: int) -> None:
        due = self.ledger.ended(1 << 62, 500)
        if due:
            keys, carried = self.ledger.fold(due, over_s)
            self.outbox.store(EntriesFolded(keys, tuple(map(stored_entry, carried))))


class FoldsInMemory(Credits):
    def fold(self, over_s: int, closed_s: int) -> None:
        store, self.outbox.store = self.outbox.store, lambda fact: None  # type: ignore[method-assign]
        super().fold(over_s, closed_s)
        self.outbox.store = store  # type: ignore[method-assign]


class LosesWhatItFolds(CreditLedger):
    def fold(self, entries: Any, until: int) -> Any:
        folding = super().fold(entries, until)
        return folding._replace(carried=folding.carried[1:])


class FoldsTooLittle(Credits):
    def __init__(
        self, base: Any, *, accounts: Any = None, entries: Any = (), of_jobs: Any = ()
    ) -> None:
        super().__init__(base, accounts=accounts, entries=entries, of_jobs=of_jobs)
        self.ledger = LosesWhatItFolds(entries)


class GrantsAreEnteredFirst(Credits):
    """In memory a grant stands behind all entries before it; it is stored in front of them."""

    def _once(self, entry: Any) -> Any:
        return super()._once(replace(entry, number=1))


class GrantsAreNotCounted(Participant):
    """What is told of the position of the site leaves grants out."""

    def take_effects(self) -> Any:
        taken = super().take_effects()
        entries = [decode_entry(each.body) for each in taken.facts if isinstance(each, EntryStored)]
        self.position -= sum(entry.kind == "grant" for entry in entries)
        return taken


class ChargesApart(JobLedger):
    """The charge of a job is stored by a write of its own, before its end."""

    def store_jobs(self, operations: Any, durable: Any, charged: Any = ()) -> None:
        if charged:
            super().store_jobs((), lambda: None, charged)
        super().store_jobs(operations, durable)


class ChargesEachEnd(Credits):
    """A job whose end is heard again is charged again."""

    def job_over(
        self, machine: str, number: int, user: str, account: str, cost: int, reserved: Any,
        now_s: int,
    ) -> None:  # fmt: skip
        known = job_key(machine, number) in self.ledger
        again = f"{machine}/again" if known else machine
        super().job_over(again, number, user, account, cost, reserved, now_s)


class KeptLiens(Counter[Any]):
    """The most that jobs have had reserved of each lot."""

    def __init__(self, liens: Any) -> None:
        super().__init__()
        self.liens = liens

    def items(self) -> Any:
        self.update({lot: max(0, n - self[lot]) for lot, n in self.liens.items()})
        return super().items()


class KeepsTheLiensOfJobs(Credits):
    def __init__(
        self, base: Any, *, accounts: Any = None, entries: Any = (), of_jobs: Any = ()
    ) -> None:
        kept = [KeptLiens(each) for each in of_jobs]
        super().__init__(base, accounts=accounts, entries=entries, of_jobs=kept)


class JobsReserveNothing(Credits):
    def __init__(
        self, base: Any, *, accounts: Any = None, entries: Any = (), of_jobs: Any = ()
    ) -> None:
        super().__init__(base, accounts=accounts, entries=entries)


class ChargesWhatIsReserved(Credits):
    """A job pays for its whole limit."""

    def job_over(
        self, machine: str, number: int, user: str, account: str, cost: int, reserved: Any,
        now_s: int,
    ) -> None:  # fmt: skip
        most = sum(share.amount for share in reserved if share.account == account)
        super().job_over(machine, number, user, account, most, reserved, now_s)


def _folded(name: str, kind: type[Credits]) -> Mutation:
    return Mutation(name, world_with(participant=DroppedSoon, payments=kind), CHARGES_FOLDED)


def _charged(name: str, kind: type[Credits]) -> Mutation:
    return Mutation(name, world_with(payments=kind), OWNERS_CHARGE)


def _restored(name: str, kind: type[Credits]) -> Mutation:
    return Mutation(name, world_with(payments=kind), CHARGES_RESTORED)


def _paid(
    name: str, payments: type[Credits] = Credits, ledger: type[JobLedger] = JobLedger
) -> Mutation:
    class Ledgered(JobSite):
        make_ledger = staticmethod(ledger)

    class Broken(JobWorld):
        make_payments = staticmethod(payments)
        site_node = Ledgered

    return Mutation(name, Broken, PAID_JOBS)


MUTATIONS_OF_CHARGES: Final = (
    _charged("a lock is charged twice", ChargesTwice),
    _charged("a promise is charged", ChargesThePromise),
    _charged("a charge is stored by a later step", ChargesInAnotherStep),
    _charged("a cancel gives nothing back", GivesNothingBack),
    _charged("a change gives nothing back", GivesNothingBackForChanges),
    _charged("the price is that of the lock", PricesAtTheLock),
    Mutation(
        "the refund of a change is that of the lock",
        world_with(payments=RefundsAChangeAtTheLock),
        RUNNING_CHARGED,
    ),
    _charged("a promise reserves nothing", ReservesNothing),
    _charged("promises of dead attempts stay reserved", KeepsTheLiensOfTheDead),
    _charged("nobody on a waiting list can pay", NobodyOnListsCanPay),
    _charged("no user has a limit", AsksNoCap),
    _charged("lots end by the wall clock", PaysByTheWallClock),
    _charged("a refund goes into no lot", RefundsIntoNoLot),
    Mutation(
        "a fee is by the site's own clock",
        world_with(participant=site_with(retention=FeesByItsOwnClock)),
        OWNERS_CHARGE,
    ),
    Mutation(
        "a fee is back-dated",
        world_with(participant=site_with(retention=FeesBackDated)),
        RUNNING_CHARGED,
    ),
    Mutation(
        "a fee is by when the request was made",
        world_with(coordinator=CancelsDatedByTheirRequests),
        RUNNING_CHARGED,
    ),
    Mutation(
        "nothing is reserved while owners think",
        world_with(participant=Guarded, payments=ReservesNothingForOwners),
        APPROVED_AND_CHARGED,
    ),
    Mutation(
        "a fee is kept for what another owner takes back",
        world_with(payments=KeepsTheFeeOfOthersDoing),
        RECLAIMED_AND_CHARGED,
    ),
    Mutation(
        "a restored register hears of no cost",
        world_with(participant=site_with(comparison=TellsNoCosts)),
        OWNERS_CHARGE,
    ),
    _folded("what is still to be decided is folded", FoldsWhatStands),
    _folded("what is folded is not stored", FoldsInMemory),
    _folded("an account is left out when entries are folded", FoldsTooLittle),
    _paid("grants are not in position", GrantsAreEnteredFirst),
    Mutation(
        "the position does not count grants",
        world_with(participant=partial(GrantsAreNotCounted, **SHIPPED.keywords)),
        OWNERS_CHARGE,
    ),
    _paid("a job is charged before its end is stored", ledger=ChargesApart),
    _paid("a job is charged twice after a restart", ChargesEachEnd, ChargesApart),
    _paid("what a job has reserved is not given back at its end", KeepsTheLiensOfJobs),
    _paid("jobs reserve nothing", JobsReserveNothing),
    _paid("a job is charged what was reserved for it", ChargesWhatIsReserved),
    _restored("what has ended is not charged again", ForgetsTheEndOfWhatItForgot),
    _restored("what is locked again is not charged", LocksAgainForNothing),
    _restored("what is locked again costs what it costs today", LocksAgainAtThePriceOfToday),
)

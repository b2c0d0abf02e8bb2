"""Payment in the commit: the promise reserves credit, the lock charges it, and an abort gives it back.

What is reserved is the sum over the bills of what is promised, so no step can forget it or count it twice.
What is charged is an entry with the request's key, stored by the step that locks. The terms of a bill are
fixed when slots are held; no later price, clock or time zone changes them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.contract.costs import NOT_TOLD, Cost, PaidPiece, Pays, SlotCost
from kalends.contract.fields import Want
from kalends.core.errors import Conflict, Refusal, RefusalCode
from kalends.core.identifiers import machine_of
from kalends.core.intervals import Moment
from kalends.core.limits import TIME_S_MAX
from kalends.core.money import COST_MAX, NO_CAP, PIECES_MAX, format_credits
from kalends.core.principals import Principal
from kalends.core.times import format_time
from kalends.resource_servers.participation.claims.bills import Bill, Share
from kalends.resource_servers.participation.claims.claim_sets import Stake
from kalends.resource_servers.participation.claims.occupancy import are_alternatives
from kalends.resource_servers.participation.credits.accounts import PayingAccounts
from kalends.resource_servers.participation.credits.costs import OldTerms, priced, refund_of
from kalends.resource_servers.participation.credits.entries import (
    JOB,
    CreditEntry,
    EntryKind,
    charge_key,
    grant_key,
    job_key,
    refund_key,
    stored_entry,
)
from kalends.resource_servers.participation.credits.ledger import (
    DEBT,
    CreditLedger,
    LotName,
    Paid,
    of_path,
)
from kalends.resource_servers.participation.effects import EntriesFolded
from kalends.resource_servers.participation.kernel import Base
from kalends.resource_servers.participation.parts import Plug

ENTRIES_KEPT_S: Final = 2 * 365 * 86_400
"""Entries stay for so long after nothing can be charged or paid back any more, for people who read them."""

FOLD_EVERY_S: Final = 3_600

FOLDED_MAX: Final = 500
"""Entries looked at in one step: a few milliseconds."""

_OWN: Final = Pays()
_OPEN: Final = frozenset({"held", "intended", "prepared"})
_ENCODER: Final = msgspec.msgpack.Encoder()


class Credits:
    """The ledger of a site, and what its promises reserve; see `sockets.Payments`."""

    plugs: tuple[Plug, ...] = ()
    kept_s = ENTRIES_KEPT_S
    fold_every_s = FOLD_EVERY_S

    def __init__(
        self,
        base: Base,
        *,
        accounts: PayingAccounts | None = None,
        entries: Iterable[CreditEntry] = (),
        of_jobs: Iterable[Mapping[LotName, int]] = (),
    ) -> None:
        """`of_jobs` is what the jobs of each machine have reserved: as it is now, whenever it is read."""
        self.here, self.book, self.outbox = base.here, base.book, base.outbox
        self._secret, self._given_up = base.past.secret, base.given_up
        self._is_sure, self._fold_at = base.is_sure, 0
        self.accounts = accounts or PayingAccounts()
        self.ledger = CreditLedger(entries)
        self._of_jobs = tuple(of_jobs)
        self._open: defaultdict[str, set[str]] = defaultdict(set)
        """The requests that hold slots, or have a promise, on each account; some that do no more."""
        self.charges = False
        for stake in self.book.stakes.awake():
            self._note(stake.rid, stake.bill)
        self.look()

    def take_accounts(self, accounts: PayingAccounts) -> None:
        """The owner has changed the accounts: promises stay reserved on those that they were made on."""
        self.accounts = accounts
        for stake in self.book.stakes.awake():
            self._note(stake.rid, stake.bill)

    def look(self) -> None:
        priced = any(each.rules.prices for each in self.book.calendars.values())
        self.charges = bool(priced or self.ledger.entries)

    # Before anything is held

    def why_not(
        self, visit: m.Visit, before: Stake | None, now: Moment, *, firm: bool
    ) -> tuple[Refusal, ...]:
        found = self._bill(
            visit.principal, visit.wants, visit.pays, before, visit.replaces, visit.considered
        )
        if isinstance(found, Bill) and (refusal := self._too_much(found.slots)) is not None:
            return (refusal,)
        if isinstance(found, Bill):
            found = self._reckoned(visit.rid, visit.stamp, found, visit.replaces, now, firm=firm)
        return (found,) if isinstance(found, Refusal) else ()

    def why_not_slot(
        self, rid: str, principal: Principal, want: Want, pays: Pays | None, now: Moment
    ) -> Refusal | None:
        found = self._bill(principal, (want,), pays, None, "", considered=False)
        if isinstance(found, Bill):
            too_much = self._too_much(found.slots)
            found = too_much or self._reckoned(rid, 0, found, "", now, firm=False)
        return found if isinstance(found, Refusal) else None

    def why_too_dear(
        self, principal: Principal, pays: Pays, want: Want, length_s: int
    ) -> Refusal | None:
        prices = self.book.calendars[want.resource].rules.prices
        account = self.accounts.payer(principal, pays.project)
        if not prices or not account:
            return None if account else self._no_payer(pays)
        steps = prices.steps(principal, want.start, want.end)
        least = min(rate for _, _, rate in steps) * want.units * length_s
        begin = format_time(want.start, "UTC")
        at_least = f"room came free after {begin}: it costs {format_credits(least)} credits or more"
        if NO_CAP < pays.at_most < least:
            detail = f"{at_least}, and you allow {format_credits(pays.at_most)}"
            return Refusal(where=want.resource, code=RefusalCode.PRICE, detail=detail)
        path = self.accounts.path(account)
        reserved = self._reserved(path, "")
        for each in path if least else ():
            lots = [lot.key for lot, _ in self.ledger.lots(each, want.start, want.end)]
            left = sum(self._free((each, key), reserved) for key in (DEBT, *lots))
            if left < least:
                if each != account:
                    return self._lacks_budget(RefusalCode.CREDIT, account, least)
                detail = (
                    f"{at_least}, and {each} has {format_credits(left)} free here for that time"
                )
                return Refusal(where=want.resource, code=RefusalCode.CREDIT, detail=detail)
        return None

    def price(
        self, stake: Stake, pays: Pays | None, before: Stake | None, *, considered: bool = False
    ) -> Bill | None:
        wants = [claim.want for claim in stake.claims]
        made = self._bill(stake.principal, wants, pays, before, stake.replaces, considered)
        assert not isinstance(made, Refusal), made
        self._note(stake.rid, made)
        return made

    def _bill(
        self, principal: Principal, wants: Sequence[Want], pays: Pays | None, before: Stake | None,
        replaces: str, considered: bool,
    ) -> Bill | Refusal | None:  # fmt: skip
        """Return the terms of `wants`: those that are held keep theirs. None: there is nothing to pay."""
        pays = pays or _OWN
        account = self.accounts.payer(principal, pays.project)
        if not account:
            return self._no_payer(pays)
        kept: list[SlotCost] = []
        if before is not None and before.bill is not None and before.bill.account == account:
            kept = [*before.bill.slots_of(each.want for each in before.claims_in("held"))]
        standing = OldTerms(
            self._slots_of(replaces) if self._is_of(replaces, principal.user) else ()
        )
        slots = []
        for want in wants:
            calendar = self.book.calendars.get(want.resource)
            if calendar is None or machine_of(want.resource):
                continue
            known = next((each for each in kept if each.want == want), None)
            if known is not None:
                kept.remove(known)
                standing.take(want)
                slots.append(known)
                continue
            slots.append(priced(calendar, principal, want, standing))
        if not any(slot.charge for slot in slots) and not self._has_bill(replaces):
            return None
        return Bill(
            account, tuple(slots), pays.at_most, considered=considered, reclaimed=pays.reclaimed
        )

    def _too_much(self, slots: Sequence[SlotCost]) -> Refusal | None:
        """Return why these are not promised together; those that an agent holds are alternatives."""
        pieces = sum(len(slot.pieces) for slot in slots)
        if pieces <= PIECES_MAX and sum(slot.charge for slot in slots) <= COST_MAX:
            return None
        detail = f"it has {pieces} prices, or costs too much for one request"
        return self.here.refusal(RefusalCode.TOO_MUCH, detail)

    def _is_of(self, rid: str, user: str) -> bool:
        """Whether the reservation `rid` is of `user`: who takes over another's pays today's price."""
        old = self.book.stakes.peek(rid) if rid else None
        return old is not None and old.principal.user == user

    def _has_bill(self, rid: str) -> bool:
        old = self.book.stakes.peek(rid) if rid else None
        return old is not None and old.bill is not None

    def _slots_of(self, rid: str) -> tuple[SlotCost, ...]:
        """Return the terms of the locked slots of `rid`; slots that had no price have the price 0."""
        old = self.book.stakes.peek(rid) if rid else None
        if old is None:
            return ()
        wants = [claim.want for claim in old.claims_in("locked")]
        if old.bill is not None:
            return old.bill.slots_of(wants)
        return tuple(
            SlotCost(want, (PaidPiece(want.start, want.end, want.units, 0),)) for want in wants
        )

    # Promises

    def paid_by(self, stake: Stake, pays: Pays) -> Bill | Refusal:
        assert stake.bill is not None
        account = self.accounts.payer(stake.principal, pays.project)
        if not account:
            return self._no_payer(pays)
        if (account, pays.at_most) == (stake.bill.account, stake.bill.at_most):
            return stake.bill
        return replace(
            stake.bill, account=account, at_most=pays.at_most, back=0, shares=(), returns=()
        )

    def _no_payer(self, pays: Pays) -> Refusal:
        detail = f"no project {pays.project} that you may charge"
        return self.here.refusal(RefusalCode.PAYER, detail)

    def why_not_promise(
        self, stake: Stake, named: Container[int], now: Moment
    ) -> tuple[Refusal, ...]:
        assert stake.bill is not None
        wants = [claim.want for claim in stake.claims if claim.hold_id in named]
        bill = replace(stake.bill, slots=stake.bill.slots_of(wants))
        if (refusal := self._too_much(bill.slots)) is not None:
            return (refusal,)
        if self._is_reserved(stake, bill.slots):
            return ()
        found = self._reckoned(stake.rid, stake.stamp, bill, stake.replaces, now, firm=True)
        return (found,) if isinstance(found, Refusal) else ()

    def promise(self, stake: Stake, now: Moment) -> Bill:
        assert stake.bill is not None
        bill = replace(stake.bill, slots=stake.bill.slots_of(each.want for each in stake.claims))
        if self._is_reserved(stake, bill.slots):
            return stake.bill
        made = self._reckoned(stake.rid, stake.stamp, bill, stake.replaces, now, firm=True)
        assert isinstance(made, Bill), f"{stake.rid}: {made}"
        self._note(stake.rid, made)
        return made

    def _reckoned(
        self, rid: str, stamp: int, bill: Bill, replaces: str, now: Moment, *, firm: bool
    ) -> Bill | Refusal:
        """Return `bill` with what pays for it, and what is paid back for what it replaces; or why not.

        If it is not `firm`, what others have reserved is not counted: it may come free.
        """
        back = self._back(replaces, bill, now)
        old = self.book.stakes.peek(replaces) if replaces else None
        paid = old.bill.shares if old is not None and old.bill is not None else ()
        returns = self.ledger.returned(paid, back)
        more = max(0, bill.charge - back)
        if NO_CAP < bill.at_most < more:
            detail = (
                f"it costs {format_credits(more)} credits, and you allow"
                f" {format_credits(bill.at_most)}"
            )
            return self.here.refusal(RefusalCode.PRICE, detail)
        path = self.accounts.path(bill.account)
        debts = {account: self.accounts.debt(account) for account in path}
        free = of_path(returns, -1)
        alone = self.ledger.pay(path, bill.slots, free, debts)
        if alone.lacking:
            return self._lacks(alone, bill.account, more)
        if not firm:
            return bill
        taken = self._reserved(path, rid)
        taken.update(free)
        for older in self._older(path, rid, stamp):
            assert older.bill is not None
            theirs = self.ledger.pay(
                self.accounts.path(older.bill.account), older.bill.slots, taken,
                defaultdict(int, debts),
            )  # fmt: skip
            taken.update(of_path(theirs.shares))
        beside = self.ledger.pay(path, bill.slots, taken, debts)
        if beside.lacking:
            return self._promised(beside, bill.account, more)
        return replace(bill, back=back, shares=beside.shares, returns=returns)

    def _back(self, replaces: str, bill: Bill, now: Moment) -> int:
        """Return the refund for the slots that `bill` replaces: kept time in full, the rest as by a
        cancel."""
        if not self._has_bill(replaces):
            return 0
        slots = self._slots_of(replaces)
        if self._given_up(replaces):
            return sum(slot.charge for slot in slots)
        standing = OldTerms(slots)
        kept = [each for slot in bill.slots for each, _ in standing.take(slot.want)]
        return sum(piece.cost for piece in kept) + standing.refund(
            now.wall_s, reclaimed=bill.reclaimed
        )

    def _lacks(self, paid: Paid, payer: str, cost: int) -> Refusal:
        """Return the refusal of slots for which the account of `paid` has too little, at their time."""
        if paid.account != payer:
            return self._lacks_budget(RefusalCode.CREDIT, payer, cost)
        account, for_them = paid.account, format_credits(max(0, cost - paid.lacking))
        left = format_credits(self.ledger.balance(account) + self.accounts.debt(account))
        others = f" for that time, and {left} in all" if left != for_them else ""
        detail = f"it costs {format_credits(cost)} credits, and {account} has {for_them} left here"
        return self.here.refusal(RefusalCode.CREDIT, detail + others)

    def _lacks_budget(self, code: str, payer: str, cost: int) -> Refusal:
        """Return a refusal that does not tell how much the whole budget has: members may not see it."""
        detail = (
            f"it costs {format_credits(cost)} credits, and the budget that {payer} is part of has less left"
            " here"
        )
        return self.here.refusal(code, detail)

    def _promised(self, paid: Paid, payer: str, cost: int) -> Refusal:
        """Return the refusal of slots whose credit is reserved, or wanted by older requests."""
        if paid.account != payer:
            return self._lacks_budget(RefusalCode.CREDIT_PROMISED, payer, cost)
        account, reserved = paid.account, self.reserved(paid.account)
        free = format_credits(max(0, cost - paid.lacking))
        why = (
            f"{format_credits(reserved)} are reserved"
            if reserved
            else "an older request goes first"
        )
        detail = (
            f"it costs {format_credits(cost)} credits, and {account} has {free} free here for that time:"
            f" {why}"
        )
        return self.here.refusal(RefusalCode.CREDIT_PROMISED, detail)

    def reserved(self, account: str) -> int:
        """Return what promises have reserved on `account`."""
        return sum(n for (name, _), n in self._reserved((account,), "").items() if name == account)

    def _is_reserved(self, stake: Stake, slots: Sequence[SlotCost]) -> bool:
        """Whether its credit has been reserved for just these `slots` since its owner was asked."""
        bill = stake.bill
        if bill is None or not bill.shares or bill.slots != tuple(slots):
            return False
        if stake.replaces and self._given_up(stake.replaces):
            return False
        others = self._reserved(self.accounts.path(bill.account), stake.rid)
        return all(self._free(name, others) >= amount for name, amount in _lien(bill).items())

    def _reserved(
        self, path: Sequence[str], but: str, *, promised_only: bool = False
    ) -> Counter[LotName]:
        """Return what is reserved on the accounts of `path`, except for `but`: for promises, and for what
        owners think about.
        """
        found: Counter[LotName] = Counter()
        less: list[Bill] = []
        for liens in self._of_jobs:
            found.update({lot: amount for lot, amount in liens.items() if lot[0] in path})
        for stake in self._open_on(path):
            if stake.rid == but or stake.bill is None or not stake.bill.shares:
                continue
            old = self.book.stakes.peek(stake.replaces) if stake.replaces else None
            left = bool(stake.bill.returns) and (old is None or not old.has("locked"))
            if stake.has("held"):
                less += [] if promised_only else [stake.bill]
            elif left:
                less.append(replace(stake.bill, returns=()))
            else:
                found.update(_lien(stake.bill))
        # They reserve what there is. What a change replaces may be cancelled, and less be paid back than was
        # promised: then it cannot be committed any more. What a restored site has forgotten is charged again
        # whatever owners think about.
        for name, amount in (each for bill in less for each in _lien(bill).items()):
            found[name] += min(amount, self._free(name, found))
        return found

    def _free(self, name: LotName, reserved: Counter[LotName]) -> int:
        """Return the parts of a lot, or of the debt, that are left, without those `reserved`."""
        account, lot = name
        debt = 0 if lot else self.accounts.debt(account)
        return max(0, self.ledger.left(name) + debt - reserved[name])

    def _older(self, path: Sequence[str], rid: str, stamp: int) -> list[Stake]:
        """Return older requests with slots that are held, for whose credit this one waits.

        Not those that a person considers, for that takes long.
        """
        found = [
            stake
            for stake in self._open_on(path)
            if stake.has("held") and (stake.stamp, stake.rid) < (stamp, rid)
            if stake.bill is not None and not (stake.bill.considered or stake.bill.shares)
            if not are_alternatives(stake.claims)
        ]
        return sorted(found, key=lambda stake: (stake.stamp, stake.rid))

    def _open_on(self, path: Sequence[str]) -> list[Stake]:
        found = {}
        for account in path:
            for rid in [*self._open[account]]:
                stake = self.book.stakes.peek(rid)
                state = stake.claims[0].state if stake is not None and stake.claims else "absent"
                if stake is None or stake.bill is None or state not in _OPEN:
                    self._open[account].discard(rid)
                else:
                    found[rid] = stake
        return [found[rid] for rid in sorted(found)]

    def _note(self, rid: str, bill: Bill | None) -> None:
        if bill is not None:
            for account in self.accounts.path(bill.account):
                self._open[account].add(rid)

    # Charges

    def locked(self, stake: Stake, replaced: Stake | None, now_s: int) -> Bill:
        bill = stake.bill
        assert bill is not None
        slots = bill.slots_of(claim.want for claim in stake.claims)
        returns = bill.returns if replaced is not None else ()
        if len(slots) < len(bill.slots) or returns != bill.returns:
            bill = self._pay_again(replace(bill, slots=slots, returns=returns), stake.rid)
        self._charge(stake, bill, now_s)
        if replaced is not None and replaced.bill is not None:
            self._pay_back(replaced, bill.back, now_s)
        return bill

    def _pay_again(self, bill: Bill, rid: str) -> Bill:
        """Return `bill` with what pays for it, whatever its account has left."""
        path = self.accounts.path(bill.account)
        taken = self._reserved(path, rid, promised_only=True)
        taken.update(of_path(bill.returns, -1))
        paid = self.ledger.pay(path, bill.slots, taken, dict.fromkeys(path))
        return replace(bill, shares=paid.shares)

    def _charge(self, stake: Stake, bill: Bill, now_s: int) -> None:
        shares = tuple(replace(each, amount=-each.amount) for each in bill.shares)
        rid, user = stake.rid, stake.principal.user
        self._enter(
            charge_key(rid), bill.account, "charge", -bill.charge, shares, rid, user, now_s,
            ends=stake.ends_at,
        )  # fmt: skip

    def _pay_back(self, stake: Stake, back: int, now_s: int) -> None:
        bill = stake.bill
        assert bill is not None
        shares = self.ledger.returned(bill.shares, back)
        rid, user = stake.rid, stake.principal.user
        self._enter(
            refund_key(rid), bill.account, "refund", back, shares, rid, user, now_s,
            ends=stake.ends_at,
        )  # fmt: skip

    def cancelled(self, stake: Stake, at: int, now_s: int, *, reclaimed: bool) -> None:
        assert stake.bill is not None
        slots = self._slots_of(stake.rid)
        if self._given_up(stake.rid):
            back = sum(slot.charge for slot in slots)
        else:
            back = sum(refund_of(slot, slot.pieces, at, reclaimed=reclaimed) for slot in slots)
        self._pay_back(stake, back, now_s)

    def locked_again(self, stake: Stake, cost: Cost, now_s: int) -> Bill | None:
        if not proofs.same(cost.proof, self._proof(stake.rid, stake.att, cost)):
            self.outbox.alarm(f"{stake.rid}: it is locked again at a cost that was not voted here")
            return None
        if self._is_folded(stake.rid, stake.ends_at):
            return None
        bill = self._pay_again(Bill(cost.account, cost.slots, back=cost.back), stake.rid)
        self._charge(stake, bill, now_s)
        return bill

    def _is_folded(self, rid: str, ends: int) -> bool:
        """Whether the charge for a reservation that comes again was entered, and is folded since."""
        return charge_key(rid) not in self.ledger and ends <= self.ledger.folded_until

    def why_not_again(self, relock: m.Relock) -> str:
        voted: list[Want] = []
        if relock.cost is not None and proofs.same(
            relock.cost.proof, self._proof(relock.rid, relock.att, relock.cost)
        ):
            voted = [slot.want for slot in relock.cost.slots]
        for want in relock.wants:
            if want in voted:
                voted.remove(want)
                continue
            prices = self.book.calendars[want.resource].rules.prices
            steps = prices.steps(relock.principal, want.start, want.end) if prices else ()
            if any(rate for _, _, rate in steps):
                return f"no cost of {want.resource} was voted here"
        return ""

    def charged_before(self, recharge: m.Recharge, now_s: int) -> None:
        rid, cost = recharge.rid, recharge.cost
        if not proofs.same(cost.proof, self._proof(rid, recharge.att, cost)):
            self.outbox.alarm(f"{rid}: it is charged again at a cost that was not voted here")
            return
        ends = max((slot.want.end for slot in cost.slots), default=now_s)
        if self._is_folded(rid, ends):
            return
        user = recharge.principal.user
        if charge_key(rid) not in self.ledger:
            bill = self._pay_again(Bill(cost.account, cost.slots), rid)
            taken = tuple(replace(each, amount=-each.amount) for each in bill.shares)
            self._enter(
                charge_key(rid), bill.account, "charge", -bill.charge, taken, rid, user, now_s,
                ends=ends,
            )  # fmt: skip
        known = self.ledger.entries[charge_key(rid)]
        paid = [replace(each, amount=-each.amount) for each in known.shares]
        told = recharge.refund
        if told == NOT_TOLD:
            told = sum(
                refund_of(slot, slot.pieces, recharge.at, reclaimed=recharge.reclaimed)
                for slot in cost.slots
            )
        refund = min(told, -known.amount)
        shares = self.ledger.returned(paid, refund)
        self._enter(
            refund_key(rid),
            cost.account,
            "refund",
            refund,
            shares,
            rid,
            user,
            now_s,
            ends=known.ends,
        )

    def refund(self, rid: str) -> int:
        entry = self.ledger.entries.get(refund_key(rid))
        return entry.amount if entry is not None else NOT_TOLD

    def cost(self, stake: Stake) -> Cost | None:
        if stake.bill is None:
            return None
        cost = Cost(stake.bill.account, stake.bill.slots, stake.bill.back)
        return replace(cost, proof=self._proof(stake.rid, stake.att, cost))

    def _proof(self, rid: str, att: int, cost: Cost) -> str:
        return proofs.of_cost(
            self._secret, rid, att, _ENCODER.encode(replace(cost, proof="")).hex()
        )

    def _enter(
        self, key: str, account: str, kind: EntryKind, amount: int, shares: Sequence[Share],
        rid: str, user: str, now_s: int, *, ends: int,
    ) -> None:  # fmt: skip
        entry = CreditEntry(
            key, self.ledger.next_number, account, kind, amount, now_s, tuple(shares),
            about=rid, ends=ends, user=user,
        )  # fmt: skip
        self._store(entry)

    def _store(self, entry: CreditEntry) -> None:
        if self.ledger.enter(entry):
            self.outbox.store(stored_entry(entry))

    def fold(self, over_s: int, closed_s: int) -> None:
        over, closed = over_s - self.kept_s, max(0, closed_s - self.kept_s)
        if over < self._fold_at or not self._is_sure():
            return  # A register may still say what was forgotten here.
        due = self.ledger.ended(over, FOLDED_MAX)
        self._fold_at = over + (self.fold_every_s if len(due) < FOLDED_MAX else 0)
        promised = self._open_on([*self._open])
        closed = min([closed, *(stake.ends_at - 1 for stake in promised)])
        settled: dict[str, CreditEntry] = {}
        for entry in due:
            of_job = entry.key.startswith(JOB)
            if of_job or (entry.ends <= closed and self.book.stakes.peek(entry.about) is None):
                settled[entry.key] = entry
            else:
                self.ledger.keep(entry, over + self.fold_every_s)
        needed = {lot for liens in self._of_jobs for lot, amount in liens.items() if amount}
        for bill in (stake.bill for stake in promised):
            assert bill is not None
            needed |= {(each.account, each.lot) for each in (*bill.shares, *bill.returns)}
        for entry in self.ledger.dead_lots(closed, needed, settled.keys()):
            settled[entry.key] = entry
        if settled:
            keys, carried = self.ledger.fold(settled.values(), closed)
            self.outbox.store(EntriesFolded(keys, tuple(map(stored_entry, carried))))

    # Jobs

    def shares_of_jobs(
        self, principal: Principal, project: str, amount: int, at: int
    ) -> tuple[str, tuple[Share, ...]] | Refusal:
        """Return the account, and the shares that pay `amount` parts for jobs from `at` on; or why not.

        Of the lots, those pay that are for `at`: so it is known what is reserved, whenever the jobs run.
        """
        account = self.accounts.payer(principal, project)
        if not account:
            return self._no_payer(Pays(project))
        path = self.accounts.path(account)
        debts = {each: self.accounts.debt(each) for each in path}
        slot = SlotCost(Want("", at, at + 1, 1), (PaidPiece(at, at + 1, 1, amount),))
        alone = self.ledger.pay(path, (slot,), {}, debts)
        if alone.lacking:
            return self._lacks(alone, account, amount)
        beside = self.ledger.pay(path, (slot,), self._reserved(path, ""), debts)
        if beside.lacking:
            return self._promised(beside, account, amount)
        return account, beside.shares

    def job_over(
        self, machine: str, number: int, user: str, account: str, cost: int,
        reserved: Sequence[Share], now_s: int,
    ) -> None:  # fmt: skip
        """Charge `cost` parts for a job to the `reserved` shares; a repeat charges nothing."""
        most = sum(share.amount for share in reserved if share.account == account)
        left = of_path(self.ledger.returned(reserved, most - cost))
        shares = [
            replace(share, amount=left[share.account, share.lot] - share.amount)
            for share in reserved
            if share.amount > left[share.account, share.lot]
        ]
        key, about = job_key(machine, number), f"{machine}/{number}"
        self._enter(key, account, "charge", -cost, shares, about, user, now_s, ends=now_s)

    # The owner

    def grant(
        self, key: str, account: str, amount: int, now: Moment, *, start: int = 0,
        until: int = TIME_S_MAX, note: str = "",
    ) -> CreditEntry:  # fmt: skip
        """Grant `amount` parts for slot times in ``[start, until)``; a repeat of the same key adds nothing.

        Raises `Conflict` for a key that was used for something else, and for slot times that are folded.
        """
        if until <= self.ledger.folded_until and grant_key(key) not in self.ledger:
            raise Conflict(
                "the entries of those slot times are folded, and nothing can be booked then",
                where="until",
                remedy="give a later end",
            )
        entry = CreditEntry(
            grant_key(key), self.ledger.next_number, account, "grant", amount, now.wall_s,
            (Share(account, grant_key(key), amount),), start, until, note=note,
        )  # fmt: skip
        return self._once(entry)

    def take(
        self, key: str, account: str, amount: int, now: Moment, *, note: str = ""
    ) -> CreditEntry:
        """Take `amount` parts back that `account` has left, first from the lots that end first.

        Raises `Conflict` if it has less, or for a key that was used for something else.
        """
        known = self.ledger.entries.get(grant_key(key))
        if known is None:
            reserved = self._reserved((account,), "")
            left, shares = amount, []
            for lot, has in self.ledger.lots(account):
                part = min(left, max(0, has - reserved[account, lot.key]))
                if part:
                    shares.append(Share(account, lot.key, -part))
                    left -= part
            if left:
                raise Conflict(
                    f"{account} has only {format_credits(amount - left)} credits left",
                    where="credits",
                    remedy="take less; `kalends admin credits list` shows what is left",
                )
        else:
            shares = [*known.shares]
        entry = CreditEntry(
            grant_key(key), self.ledger.next_number, account, "take", -amount, now.wall_s,
            tuple(shares), note=note,
        )  # fmt: skip
        return self._once(entry)

    def _once(self, entry: CreditEntry) -> CreditEntry:
        known = self.ledger.entries.get(entry.key)
        if known is not None:
            same = replace(known, number=entry.number, at=entry.at) == entry
            if not same:
                raise Conflict(
                    f"the key {entry.key.partition(':')[2]} was used for another grant",
                    where="key",
                    remedy="give each grant its own key",
                )
            return known
        self._store(entry)
        self.look()
        return entry

    def check(self, *, debts: bool = True) -> None:
        """Raises `AssertionError` when a lot has less than nothing, or with `debts` an account owes too much.

        What a restored site locks again is charged, whatever its account may owe.
        """
        for account in self.ledger.accounts():
            reserved = self._reserved((account,), "")
            for lot, has in self.ledger.lots(account):
                left = has - reserved[account, lot.key]
                assert left >= 0, f"{account} has {left} in {lot.key}"
            owed = -self.ledger.left((account, DEBT)) + reserved[account, DEBT]
            assert not debts or owed <= self.accounts.debt(account), f"{account} owes {owed}"


def _lien(bill: Bill) -> Counter[LotName]:
    """Return the parts of each lot that a promise with `bill` reserves, beyond those paid back into it."""
    found = of_path(bill.shares)
    found.subtract(of_path(bill.returns))
    return +found

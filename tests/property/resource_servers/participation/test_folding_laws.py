"""Folding changes no balance, no lot and nobody's payment: a twin keeps each entry for ever."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kalends.contract.costs import PaidPiece, SlotCost
from kalends.contract.fields import Want
from kalends.core.limits import TIME_S_MAX
from kalends.resource_servers.participation.claims.bills import Share
from kalends.resource_servers.participation.credits.entries import (
    CreditEntry,
    decode_entry,
    stored_entry,
)
from kalends.resource_servers.participation.credits.ledger import DEBT, CreditLedger

PATH = ("project:dna", "project:chem")
ACCOUNTS = (*PATH, "user:ann")

Step = tuple[str, int, int, int]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(("grant", "charge", "charge", "refund", "take", "fold", "reload")),
        st.integers(0, 2), st.integers(1, 9), st.integers(1, 60),
    ),
    max_size=40,
)  # fmt: skip


@dataclass
class Books:
    """The shipped ledger, and its twin; what is settled by `until` may be folded."""

    ledger: CreditLedger = field(default_factory=CreditLedger)
    twin: CreditLedger = field(default_factory=CreditLedger)
    stored: dict[str, bytes] = field(default_factory=dict)
    until: int = 0
    made: int = 0
    refunded: set[str] = field(default_factory=set)

    def enter(self, entry: CreditEntry) -> None:
        self.made += 1
        entry = replace(entry, number=self.made, at=self.made)
        for books in (self.ledger, self.twin):
            books.enter(entry)
        self.stored[entry.key] = stored_entry(entry).body

    def grant(self, account: str, units: int, end: int) -> None:
        key = f"grant:{self.made}"
        until = TIME_S_MAX if end > 50 else self.until + end
        self.enter(
            CreditEntry(key, 0, account, "grant", units, 0, (Share(account, key, units),), 0, until)
        )

    def charge(self, place: int, units: int, start: int) -> None:
        start += self.until
        slot = SlotCost(Want("r", start, start + 5, 1), (PaidPiece(start, start + 5, 1, units),))
        path = PATH[place:] or ("user:ann",)
        paid, also = (each.pay(path, [slot], {}, dict.fromkeys(path)) for each in self.both)
        assert paid == also
        shares = tuple(replace(each, amount=-each.amount) for each in paid.shares)
        rid = f"r{self.made}"
        self.enter(
            CreditEntry(
                f"charge:{rid}",
                0,
                path[0],
                "charge",
                -5 * units,
                0,
                shares,
                about=rid,
                ends=start + 5,
            )
        )

    def refund(self, pick: int, units: int) -> None:
        open_ = [
            each
            for each in self.ledger.entries.values()
            if each.kind == "charge" and each.key not in self.refunded
        ]
        if not open_:
            return
        charged = open_[pick % len(open_)]
        self.refunded.add(charged.key)
        paid = [replace(each, amount=-each.amount) for each in charged.shares]
        back = min(units, -charged.amount)
        shares, also = (each.returned(paid, back) for each in self.both)
        assert shares == also
        self.enter(
            CreditEntry(
                f"refund:{charged.about}", 0, charged.account, "refund", back, 0, shares,
                about=charged.about, ends=charged.ends,
            )
        )  # fmt: skip

    def take(self, account: str, units: int) -> None:
        """What old lots have left is taken first; the twin takes the same from its own."""
        lots = [self.taken(each, account, units) for each in self.both]
        if sum(lots[0].values()) < units:
            return
        self.made += 1
        for books, of in zip(self.both, lots, strict=True):
            shares = tuple(Share(account, lot, -part) for lot, part in of.items())
            entry = CreditEntry(
                f"grant:{self.made}", self.made, account, "take", -units, self.made, shares
            )
            books.enter(entry)
            if books is self.ledger:
                self.stored[entry.key] = stored_entry(entry).body

    @staticmethod
    def taken(ledger: CreditLedger, account: str, units: int) -> dict[str, int]:
        found: dict[str, int] = {}
        for lot, left in ledger.lots(account):
            part = min(left, units - sum(found.values()))
            if part > 0:
                found[lot.key] = part
        return found

    def fold(self, units: int, count: int) -> None:
        self.until += units
        due = self.ledger.ended(self.until, count)
        gone = {each.key for each in due}
        due += self.ledger.dead_lots(self.until, (), gone)
        if not due:
            return
        keys, carried = self.ledger.fold(due, self.until)
        for key in keys:
            del self.stored[key]
        for each in carried:
            self.stored[each.key] = stored_entry(each).body

    def reload(self) -> None:
        entries = sorted(map(decode_entry, self.stored.values()), key=lambda each: each.number)
        again = CreditLedger(entries)
        assert again.folded_until == self.ledger.folded_until
        assert again.entries == self.ledger.entries
        self.ledger = again

    @property
    def both(self) -> tuple[CreditLedger, CreditLedger]:
        return self.ledger, self.twin

    def check(self) -> None:
        for account in ACCOUNTS:
            ledger, twin = self.both
            assert ledger.balance(account) == twin.balance(account)
            assert ledger.left((account, DEBT)) == twin.left((account, DEBT))
            alive = self.until, TIME_S_MAX
            assert ledger.lots(account, *alive) == twin.lots(account, *alive)
            entries = [
                share.amount
                for each in ledger.of(account)
                for share in each.shares
                if share.account == account
            ]
            assert sum(entries) == twin.balance(account), "a statement ends with the balance"
            known = {each.number for each in ledger.of(account) if each.kind != "carried"}
            late = {
                each.number for each in twin.of(account) if each.at >= ledger.complete_from(account)
            }
            assert late <= known, "from then on the statement is complete"
            taken, also = (
                {each.key: each.amount for each in books.of(account) if each.kind == "take"}
                for books in self.both
            )
            assert taken == also, "what was taken is known by its key"


@given(STEPS)
@settings(max_examples=300)
def test_nothing_that_is_still_to_be_decided_depends_on_what_is_folded(steps: list[Step]) -> None:
    books = Books()
    for kind, place, units, time in steps:
        match kind:
            case "grant":
                books.grant(ACCOUNTS[place], units, time)
            case "charge":
                books.charge(place, units, time)
            case "refund":
                books.refund(time, units)
            case "take":
                books.take(ACCOUNTS[place], units)
            case "fold":
                books.fold(time, 2 * units)
            case _:
                books.reload()
        books.check()


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60))
def test_a_ledger_has_one_entry_for_each_account_however_long_it_is_used(ends: list[int]) -> None:
    books = Books()
    books.grant("user:ann", 9, 60)
    for time in ends:
        books.charge(2, 1, time)
    books.fold(1_000, 1_000)
    kinds = Counter(each.kind for each in books.ledger.entries.values())
    assert kinds == {"grant": 1, "carried": 1}
    assert books.ledger.complete_from("user:ann") == len(ends) + 2

"""The ledger of a site: lots of credit, and what is left of each.

A grant is a lot for slot times. A charge takes from the lots that cover its pieces, first from those that end
first; so no clock decides a balance. What no lot pays is debt.

Old entries are folded: one entry carries what they have left in each lot. Lots that can pay for nothing any
more become one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec.structs import replace

from kalends.contract.costs import PaidPiece, SlotCost
from kalends.core.limits import TIME_S_MAX
from kalends.resource_servers.participation.claims.bills import Share
from kalends.resource_servers.participation.credits.entries import CreditEntry, carried_key

DEBT: Final = ""
"""The lot that is no grant: what it has is never more than 0."""

LotName = tuple[str, str]
"""Account and lot."""


class Lot(NamedTuple):
    """A grant, by the key of its entry; it pays for slot times in ``[start, until)``."""

    key: str
    start: int
    until: int


class Paid(NamedTuple):
    """`shares` pay for everything but `lacking` parts of `account`."""

    shares: tuple[Share, ...]
    account: str = ""
    lacking: int = 0


class FoldedEntries(NamedTuple):
    """The entries with these `keys` are gone, and those `carried` are there."""

    keys: tuple[str, ...]
    carried: tuple[CreditEntry, ...]


class CreditLedger:
    """All entries of a site, and what they leave in each lot."""

    def __init__(self, entries: Iterable[CreditEntry] = ()) -> None:
        self.entries: dict[str, CreditEntry] = {}
        self._lots: defaultdict[str, list[Lot]] = defaultdict(list)
        self._left: Counter[LotName] = Counter()
        self._of: defaultdict[str, list[CreditEntry]] = defaultdict(list)
        self._last = 0
        self._ends: list[tuple[int, str]] = []
        """A heap: when what each entry is about has ended, with its key."""
        self.folded_until = 0
        """What ended by then, and is not among the entries, was entered, and is folded."""
        for entry in entries:
            self.enter(entry)

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    @property
    def next_number(self) -> int:
        return self._last + 1

    def enter(self, entry: CreditEntry) -> bool:
        """Add `entry`; False if its key is known: then nothing is added."""
        if entry.key in self.entries:
            return False
        self.entries[entry.key] = entry
        self._last = max(self._last, entry.number)
        if entry.kind == "grant":
            self._lots[entry.account].append(Lot(entry.key, entry.start, entry.until))
            self._lots[entry.account].sort(key=lambda lot: (lot.until, lot.start, lot.key))
        elif entry.kind == "carried":
            if any(share.lot == entry.key for share in entry.shares):
                self._lots[entry.account].insert(0, Lot(entry.key, 0, entry.until))
            self.folded_until = max(self.folded_until, entry.until)
        if entry.ends:
            heappush(self._ends, (entry.ends, entry.key))
        for share in entry.shares:
            self._left[share.account, share.lot] += share.amount
        for account in {entry.account, *(share.account for share in entry.shares)}:
            self._of[account].append(entry)
        return True

    def of(self, account: str) -> Sequence[CreditEntry]:
        """Return the entries that change `account`, in order."""
        return self._of.get(account, ())

    def balance(self, account: str) -> int:
        """Return what `account` has: all its lots, less its debt."""
        lots = (DEBT, *(lot.key for lot in self._lots.get(account, ())))
        return sum(self._left[account, key] for key in lots)

    def left(self, name: LotName) -> int:
        return self._left[name]

    def lots(self, account: str, start: int = 0, end: int = TIME_S_MAX) -> list[tuple[Lot, int]]:
        """Return the lots of `account` in the order in which they pay, each with the parts left in it.

        Only those that pay for some time in ``[start, end)``.
        """
        return [
            (lot, self._left[account, lot.key])
            for lot in self._lots.get(account, ())
            if lot.start < end and start < lot.until
        ]

    def accounts(self) -> list[str]:
        return sorted({account for account, _ in self._left})

    # FoldedEntries

    def ended(self, by: int, count: int) -> list[CreditEntry]:
        """Take at most `count` entries of reservations and jobs that ended by then, the oldest first.

        Each is told once: those that stay have to be put back by `keep`.
        """
        found: list[CreditEntry] = []
        while self._ends and self._ends[0][0] <= by and len(found) < count:
            found.append(self.entries[heappop(self._ends)[1]])
        return found

    def keep(self, entry: CreditEntry, look_again_at: int) -> None:
        heappush(self._ends, (look_again_at, entry.key))

    def dead_lots(
        self, by: int, needed: Collection[LotName], gone: Collection[str]
    ) -> list[CreditEntry]:
        """Return the grants for slot times up to `by`.

        But no lot that is `needed`, or that any charge refers to, except those with the keys `gone`.
        """
        found: list[CreditEntry] = []
        for account, lots in self._lots.items():
            dead = {
                lot.key
                for lot in lots
                if lot.until <= by and (account, lot.key) not in needed and lot.key in self.entries
            }
            if not dead:
                continue
            for each in self._of[account]:
                if each.about and each.key not in gone:
                    dead -= {share.lot for share in each.shares if share.account == account}
            found += [self.entries[key] for key in sorted(dead)]
        return found

    def fold(self, entries: Iterable[CreditEntry], until: int) -> FoldedEntries:
        """Let one entry carry these for each account: they are settled up to the slot time `until`.

        No balance changes, and no lot that can still pay for something. What the owner has taken stays, by
        its key, so that it is not taken twice.
        """
        gone = {each.key: each for each in entries}
        touched = {share.account for each in gone.values() for share in each.shares}
        touched |= {each.account for each in gone.values()}
        dead = {each.key for each in gone.values() if each.kind == "grant"}
        carried = []
        for account in sorted(touched):
            key = carried_key(account)
            olds = [each for each in self._of[account] if each.key in gone or each.key == key]
            sums: Counter[str] = Counter()
            for share in (each for old in olds for each in old.shares if each.account == account):
                sums[key if share.lot in dead else share.lot] += share.amount
            for each in self._of[account]:
                if each.kind == "take" and dead & {share.lot for share in each.shares}:
                    gone[each.key] = each
                    carried.append(_taken_of(each, dead))
            before = self.entries.get(key)
            carried.append(
                CreditEntry(
                    key, min(each.number for each in olds), account, "carried",
                    sum(sums.values()), max(each.at for each in olds),
                    tuple(Share(account, lot, n) for lot, n in sorted(sums.items()) if n),
                    until=max(until, before.until if before is not None else 0),
                )
            )  # fmt: skip
            if before is not None:
                gone[key] = before
        for account in touched:
            self._of[account] = [each for each in self._of[account] if each.key not in gone]
            self._lots[account] = [lot for lot in self._lots[account] if lot.key not in gone]
        for each in gone.values():
            del self.entries[each.key]
            for share in each.shares:
                self._left[share.account, share.lot] -= share.amount
        for each in carried:
            self.enter(each)
            self._of[each.account].sort(key=_number_of)
        return FoldedEntries(tuple(gone), tuple(carried))

    def complete_from(self, account: str) -> int:
        """Return the time from which on all entries of `account` are there: 0 if none is folded."""
        known = self.entries.get(carried_key(account))
        return known.at + 1 if known is not None else 0

    def pay(
        self, path: Sequence[str], slots: Iterable[SlotCost], reserved: Mapping[LotName, int],
        debts: Mapping[str, int | None],
    ) -> Paid:  # fmt: skip
        """Return the shares of each account of `path` that pay for `slots`, next to those `reserved`.

        `debts` say how far each may be negative; None: as far as it takes. What `reserved` has below 0 is
        more to pay with.
        """
        pieces = [piece for slot in slots for piece in slot.pieces if piece.rate]
        shares: list[Share] = []
        for account in path:
            room = {
                lot.key: max(0, self._left[account, lot.key] - reserved.get((account, lot.key), 0))
                for lot in self._lots.get(account, ())
            }
            taken, rest = self._take(account, pieces, room)
            debt = debts[account]
            owed = -self._left[account, DEBT] + reserved.get((account, DEBT), 0)
            # What is owed beyond the debt is paid first, by what the lots have left after this.
            short = owed + rest - debt if debt is not None and pieces else 0
            if short > (0 if rest else sum(room.values())):
                return Paid((), account, short)
            if rest:
                taken[DEBT] += rest
            shares += [Share(account, key, amount) for key, amount in sorted(taken.items())]
        return Paid(tuple(shares))

    def _take(
        self, account: str, pieces: Iterable[PaidPiece], room: dict[str, int]
    ) -> tuple[Counter[str], int]:
        """Return what `pieces` take of each lot that has `room`, and what is left to pay."""
        lots = self._lots.get(account, ())
        taken: Counter[str] = Counter()
        rest = 0
        edges = sorted({time for lot in lots for time in (lot.start, lot.until)})
        cuts = []
        for piece in pieces:
            times = [piece.start, *(t for t in edges if piece.start < t < piece.end), piece.end]
            cuts += [(start, end, piece.units * piece.rate) for start, end in pairwise(times)]
        # In order of time, from the lot that ends first: so no lot is left that could pay for something.
        for start, end, rate in sorted(cuts):
            left = (end - start) * rate
            for lot in lots:
                if lot.start <= start and end <= lot.until and left and room[lot.key]:
                    part = min(left, room[lot.key])
                    room[lot.key] -= part
                    taken[lot.key] += part
                    left -= part
            rest += left
        return taken, rest

    def returned(self, shares: Sequence[Share], back: int) -> tuple[Share, ...]:
        """Return how `back` parts go back into the lots that paid `shares`: first to those that end last.

        What is not paid back, a fee, so stays with the lots that end first; debt is paid back before any lot.
        """
        found: list[Share] = []
        for account in dict.fromkeys(share.account for share in shares):
            order = [DEBT, *(lot.key for lot in reversed(self._lots.get(account, ())))]
            paid = {share.lot: share.amount for share in shares if share.account == account}
            left = back
            for key in order:
                part = min(left, paid.get(key, 0))
                if part:
                    found.append(Share(account, key, part))
                    left -= part
        return tuple(found)


def _taken_of(entry: CreditEntry, dead: Collection[str]) -> CreditEntry:
    """Return what was taken of lots, the `dead` ones of which have become the one that is carried."""
    account, sums = entry.account, Counter[str]()
    for share in entry.shares:
        sums[carried_key(account) if share.lot in dead else share.lot] += share.amount
    return replace(entry, shares=tuple(Share(account, lot, n) for lot, n in sorted(sums.items())))


def _number_of(entry: CreditEntry) -> int:
    return entry.number


def of_path(shares: Iterable[Share], sign: int = 1) -> Counter[LotName]:
    """Return `shares` by account and lot."""
    found: Counter[LotName] = Counter()
    for share in shares:
        found[share.account, share.lot] += sign * share.amount
    return found

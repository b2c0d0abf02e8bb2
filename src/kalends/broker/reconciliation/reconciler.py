"""Comparisons with sites, from the first page to the last, until no difference can be corrected.

A pass goes through all pages. When it has mended something, another follows, for the next may find what
the first has changed; after one that has not, the site is told that all is settled. What the site
has no room for any more is named, each pass anew, and settled all the same.

Bookings go on meanwhile, and what is on its way looks like what was forgotten. So from the third pass on
only reservations count that the first two have found; else a busy site would never be settled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec.structs import replace

from kalends.broker.coordination.record.decision_record import (
    Cancel,
    Operation,
    Record,
    Recover,
    Unreadable,
)
from kalends.broker.reconciliation.comparison import Ours, compare, wants_at
from kalends.contract import messages as m
from kalends.contract.calls import LostReservation, SiteReconciled

ROWS_MAX: Final = 500
"""Rows of the register that are looked at in one go: a few milliseconds."""

FULL_PASSES: Final = 2
"""What was forgotten the first pass finds, or the second: it was on its way to the register before."""


class ComparedRows(NamedTuple):
    """Rows of the register for a page: `rows`, the first `ROWS_MAX` in order of id.

    `changes` are those that took the place of replaced rows, by the ids of these, as far as they can be read.
    """

    rows: Sequence[Record | Unreadable]
    changes: Mapping[str, Record]


def leads_on(page: m.Compared, after: str) -> bool:
    """Whether it is the page after `after`, and leads to another one, if to any."""
    return page.after == after and not (page.until and page.until <= page.after)


def page_of(
    found: Sequence[Record | Unreadable], page: m.Compared
) -> tuple[m.Compared, list[Record]]:
    """As much of `page` as is looked at in one go, and the rows of the register that belong to it.

    Of a row that cannot be read nobody knows what it says: it is left as it is.
    """
    until = page.until if len(found) < ROWS_MAX else found[-1].rid
    unreadable = {row.rid for row in found if isinstance(row, Unreadable)}
    kept = tuple(
        each
        for each in page.kept
        if each.rid not in unreadable and (not until or each.rid <= until)
    )
    read = [row for row in found if isinstance(row, Record)]
    return replace(page, until=until, kept=kept), read


@dataclass(slots=True)
class _Comparison:
    """With one site. `after` is where the page begins that it was asked for, `asked` are locks that it was
    asked for again; `over`: its last page was looked at.
    """

    compared: int = 0
    relocked: int = 0
    cancelled: int = 0
    recovered: int = 0
    lost: dict[str, LostReservation] = field(default_factory=dict)
    asked: dict[str, Record] = field(default_factory=dict)
    after: str = ""
    mended: bool = False
    over: bool = False
    resting: bool = False
    passes: int = 0
    suspects: set[str] = field(default_factory=set)
    """Reservations that the first passes have found unsettled: with all of their changes."""

    def found(self, reservation: str) -> None:
        """This pass has found something of a reservation that was not settled."""
        if self.passes < FULL_PASSES:
            self.suspects.add(reservation)
        self.mended |= reservation in self.suspects

    def next_pass(self) -> None:
        self.resting = self.over = self.mended = False
        self.passes += 1
        self.compared = 0
        self.lost.clear()
        self.after = ""


class Reconciler:
    """All comparisons of one replica; what is to be sent and stored waits in `sends` and `operations`."""

    def __init__(
        self,
        urls: Mapping[str, str],
        coords: tuple[str, ...],
        secret: Callable[[], str],
    ) -> None:
        self.sends: list[tuple[str, m.Message]] = []
        self.operations: list[Operation] = []
        self.reports: dict[str, SiteReconciled] = {}
        """The end of each site's last comparison."""
        self._urls = urls
        self._coords = coords
        self._secret = secret
        self._running: dict[str, _Comparison] = {}

    def begin(self, site: str, *, again: bool = False) -> None:
        """Compare with `site`, unless that is under way; `again`: in two passes at least.

        What is on its way to the register when the first pass begins, the second one finds there.
        """
        running = self._running.get(site)
        if running is not None:
            if again:
                running.mended, running.passes = True, 0
            return
        self.reports.pop(site, None)
        self._running[site] = _Comparison(mended=again)
        self._send(site, m.Compare())

    def running(self, site: str) -> bool:
        return site in self._running

    def compared(self, site: str) -> int:
        """Return how many reservations the present pass through `site`, which is under way, has looked at."""
        return self._running[site].compared

    def lost(self, site: str) -> None:
        """The session is over, and the comparison with it."""
        self._running.pop(site, None)

    def beat(self) -> None:
        """Begin the passes that are due."""
        for site, comparison in self._running.items():
            if comparison.resting:
                comparison.next_pass()
                self._send(site, m.Compare())

    def awaits(self, site: str, page: m.Compared) -> bool:
        """Whether this page was asked for; any other, and one that leads nowhere, is let go."""
        comparison = self._running.get(site)
        return comparison is not None and leads_on(page, comparison.after)

    def receive(
        self, site: str, message: m.Compared | m.Relocked, rows: ComparedRows, now_ms: int
    ) -> None:
        """Take a message for a comparison; a page that it `awaits` comes with the `rows` of the register."""
        comparison = self._running.get(site)
        if comparison is None:
            return
        if isinstance(message, m.Relocked):
            self._relocked(site, comparison, message)
        elif leads_on(message, comparison.after):
            self._compared(site, comparison, message, rows, now_ms)
        if comparison.over and not comparison.asked:
            self._pass_over(site, comparison)

    def take(self) -> tuple[list[tuple[str, m.Message]], list[Operation]]:
        """Return the messages and changes to send and store since the last call."""
        sends, self.sends = self.sends, []
        operations, self.operations = self.operations, []
        return sends, operations

    def _compared(
        self, site: str, comparison: _Comparison, page: m.Compared, found: ComparedRows, now_ms: int
    ) -> None:
        page, rows = page_of(found.rows, page)
        comparison.compared += len({*(each.rid for each in page.kept), *(row.rid for row in rows)})
        ours = Ours(self._secret(), self._urls, self._coords)
        findings = compare(site, page, rows, ours, now_ms, found.changes)
        by_rid = {row.rid: row for row in rows}
        for message in findings.messages:
            if isinstance(message, m.Relock):
                comparison.asked[message.rid] = by_rid[message.rid]
            elif isinstance(message, m.Cancel):
                comparison.cancelled += 1
                comparison.found(by_rid[message.rid].reservation)
            self._send(site, message)
        comparison.lost |= {each.id: each for each in findings.unproved}
        comparison.recovered += len(findings.operations)
        for reservation in findings.waits:
            comparison.found(reservation)
        for operation in findings.operations:
            comparison.found(_reservation_of(operation, by_rid))
        self.operations += findings.operations
        if page.until:
            comparison.after = page.until
            self._send(site, m.Compare(after=page.until))
        else:
            comparison.over = True

    def _relocked(self, site: str, comparison: _Comparison, relocked: m.Relocked) -> None:
        row = comparison.asked.pop(relocked.rid, None)
        over = row is not None and row.state in ("cancelled", "replaced")
        known = row is not None and over and (row.done or row.told)
        if row is None or (known and relocked.blockers):
            return
        if relocked.blockers and row.state == "commit":
            comparison.lost[row.rid] = LostReservation(
                id=row.reservation,
                user=row.user,
                wants=wants_at(site, row.wants),
                blockers=relocked.blockers,
            )
        else:
            comparison.lost.pop(row.rid, None)
            comparison.relocked += 1
            comparison.found(row.reservation)

    def _pass_over(self, site: str, comparison: _Comparison) -> None:
        if comparison.mended:
            comparison.resting = True
            return
        self._send(site, m.Settled())
        del self._running[site]
        self.reports[site] = SiteReconciled(
            site=site,
            compared=comparison.compared,
            relocked=comparison.relocked,
            cancelled=comparison.cancelled,
            recovered=comparison.recovered,
            lost=tuple(comparison.lost.values()),
        )

    def _send(self, site: str, message: m.Message) -> None:
        self.sends.append((site, message))


def _reservation_of(operation: Cancel | Recover, by_rid: Mapping[str, Record]) -> str:
    if isinstance(operation, Recover):
        return operation.record.reservation
    return by_rid[operation.rid].reservation

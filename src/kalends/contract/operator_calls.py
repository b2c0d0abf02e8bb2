"""Calls for owners, operators and auditors: bids, audits, comparisons, draining."""

from __future__ import annotations

from typing import Literal

from kalends.contract.bodies import Answer, Body
from kalends.contract.fields import TimeS, WaitMs, Want
from kalends.contract.resource_calls import SiteStatus
from kalends.core.errors import InvalidInput
from kalends.core.times import format_time


class ListBidders(Body, frozen=True, kw_only=True):
    pass


class BidderView(Answer, frozen=True, kw_only=True):
    """Statistics of a site's bids to this broker, since the start of the broker.

    Counts: `asked` for bids; `bid` in time, or `late`; `refused`, by reason; `silent` up to the deadline.
    `chosen` bids were the best, and `placed` jobs then got a place. `there` of these have not ended, by the
    site's reports or by their expected ends; the first ends at `next_end` at the latest (seconds UTC; 0:
    there is none). `status` is what every user sees.
    """

    status: SiteStatus
    asked: int = 0
    bid: int = 0
    late: int = 0
    silent: int = 0
    refused: dict[str, int] = {}
    chosen: int = 0
    placed: int = 0
    there: int = 0
    next_end: int = 0


class Bidders(Answer, frozen=True, kw_only=True):
    """Statistics of all sites; `herd` is the busiest tenth of the sites' share of all questions."""

    bidders: tuple[BidderView, ...]
    herd: float = 0.0


class Audit(Body, frozen=True, kw_only=True):
    after: str = ""
    """List only request ids after this one, for the next page."""


class AuditClaim(Answer, frozen=True, kw_only=True):
    """A claim as a site has it; `state` distinguishes prepared from held."""

    id: str
    att: int
    resource: str
    start: int
    end: int
    units: int
    state: Literal["held", "prepared", "locked", "cancelled"]


class AuditRecord(Answer, frozen=True, kw_only=True):
    """A decision as a broker's register has it."""

    id: str
    att: int
    state: str
    chosen: dict[str, tuple[int, ...]] = {}


class Audited(Answer, frozen=True, kw_only=True):
    """The result of an audit: `problems` is empty if all invariants that can be seen here hold; `settled` are
    problems since the start of the server that have ended.

    A broker's first page also has the differences between its register and the claims of the sites; sites
    that were not compared are `unreached`.
    """

    claims: tuple[AuditClaim, ...] = ()
    records: tuple[AuditRecord, ...] = ()
    problems: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()
    more: bool = False


class Reconcile(Body, frozen=True, kw_only=True):
    """Compare a broker's register with every site, repair differences, and list losses.

    A site returns the registers that are not compared yet. With `go_on` a site, or a broker whose register
    was restored, accepts new bookings before all are compared.
    """

    wait_ms: WaitMs = 30_000
    go_on: bool = False


class LostReservation(Answer, frozen=True, kw_only=True):
    """A reservation that its site has lost, and whose slots other requests, `blockers`, have now."""

    id: str
    user: str
    wants: tuple[Want, ...]
    blockers: tuple[str, ...]


class SiteReconciled(Answer, frozen=True, kw_only=True):
    """The result of the comparison with one site.

    `relocked` were lost by the site, `cancelled` were cancelled ones that it still had, `recovered` were
    lost by the register; `lost` could not be repaired.
    """

    site: str
    compared: int = 0
    relocked: int = 0
    cancelled: int = 0
    recovered: int = 0
    lost: tuple[LostReservation, ...] = ()


class Reconciled(Answer, frozen=True, kw_only=True):
    """The progress of comparisons.

    A broker returns the `sites` whose comparison has ended, those still `comparing` with the number of
    reservations that the present pass has compared, and those that were `unreached`. A site returns
    `at_risk`: for each register that has not compared since the site started, the number of its
    reservations. `recovering`: the site's store was restored to an earlier state, and the site accepts
    nothing new yet.
    """

    sites: tuple[SiteReconciled, ...] = ()
    comparing: dict[str, int] = {}
    unreached: tuple[str, ...] = ()
    recovering: bool = False
    at_risk: dict[str, int] = {}


class Drain(Body, frozen=True, kw_only=True):
    """Refuse new claims (`on`), or accept them again; promises are kept.

    The server accepts claims again by itself at `until`, in seconds UTC; 0: when it is called to.
    """

    on: bool
    until: TimeS = 0

    def check(self, now_s: int) -> None:
        """Raise `InvalidInput` for an end that has passed, or an end without a drain."""
        if self.until and not self.on:
            raise InvalidInput(
                "a server that accepts claims again has no end of a drain",
                where="until",
                remedy="leave it out",
            )
        if self.until and self.until <= now_s:
            raise InvalidInput(
                f"the drain would have ended already, at {format_time(self.until, 'UTC')}",
                where="until",
                remedy="give a later time, e.g. in 2h",
            )

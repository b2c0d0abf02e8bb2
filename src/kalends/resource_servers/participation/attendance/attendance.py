"""Check-in at a site, and slots that its owner gives back for want of one.

A check-in is a fact of the stake. A user did not come for a slot if the user could have checked in here for
as long as the owner waits, in this life of the site, and has not. The site never frees a slot by itself: it
asks the broker, durably and repeatedly, to cancel the reservation at all sites. From then on it is too late
to check in: no reservation is given back once its user was told that a check-in counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kalends.contract.owner_calls import CheckedIn, CheckIn
from kalends.core import limits
from kalends.core.durations import format_duration
from kalends.core.errors import Conflict, NotFound
from kalends.core.identifiers import machine_of
from kalends.core.intervals import Interval, Moment
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.consequences import Consequences
from kalends.resource_servers.participation.kernel import Kernel
from kalends.resource_servers.participation.parts import Plug, Tier
from kalends.resource_servers.participation.sockets import Absence
from kalends.resource_servers.participation.this_site import SEQUENCE_BITS

EARLY_S: Final = 1_800
"""A check-in counts for slots that begin within so long."""

LOOK_EVERY_MS: Final = 30_000

SILENCE_MS_MAX: Final = 120_000
"""A site that has not looked for so long was not there: suspended, or stopped."""


class Attendance:
    """Looks only where an owner has a rule: without one, no step is dearer."""

    def __init__(self, kernel: Kernel) -> None:
        base = kernel.ground.base
        self._book, self._claims = base.book, kernel.ground.claims
        self._is_sure = base.is_sure
        self._epoch = base.here.epoch
        self._prior = kernel.admission.prior
        self._up_since_s = base.now.wall_s
        """Since then the site has been there, without a break."""
        self._looked = base.now
        self._new: list[str] = []
        self._since_s: dict[str, int] = {}
        """When reservations were locked that had begun, or were about to."""

    @property
    def plugs(self) -> tuple[Plug, ...]:
        return (Plug(Tier.RECORDS, timed=self, listen=self._listen, settle=self._settle),)

    def _listen(self, then: Consequences) -> None:
        then.committed.add(self._locked)

    # Check-in

    def check_in(self, body: CheckIn, user: str, now: Moment) -> CheckedIn:
        """Note that `user` ("": any user, for the owner) came for the slots of this reservation.

        Repeating it changes nothing. Raises `NotFound` where it has no slot that runs or is about to, and
        `Conflict` once the slot is being given back.
        """
        found = {
            stake.rid: stake
            for name in self._book.calendars
            for stake, _ in self._there(name, Interval(now.wall_s, now.wall_s + EARLY_S + 1))
            if self._is_meant(stake, body.id) and user in ("", stake.principal.user)
        }
        if len(found) != 1:
            raise NotFound(
                "no slot of this reservation runs here, or begins soon",
                where="id",
                remedy=f"check in from {format_duration(EARLY_S)} before the start, until the end",
            )
        (rid,) = found
        if self._prior.is_given_back(rid):
            raise Conflict(
                "the reservation is being given back: the check-in comes too late",
                where="id",
                remedy="book again, if the time is free",
            )
        stake = self._book.stakes[rid]
        here = [e for e in stake.claims_in("locked") if _is_open(e, now.wall_s)]
        if not all(has_come(stake, each) for each in here):
            self._claims.note_came(stake, now.wall_s)
        return CheckedIn(
            id=self._book.stakes.reservation_of(rid), user=stake.principal.user,
            came_at=stake.came_at, slots=tuple(each.want for each in here),
        )  # fmt: skip

    def _is_meant(self, stake: Stake, id: str) -> bool:
        named = self._book.stakes.reservation_of(stake.rid)
        return any(each.startswith(id) or each.endswith(id) for each in (stake.rid, named))

    # What is locked

    def _locked(self, stake: Stake | None, rid: str, att: int) -> None:
        """Let a check-in count for what takes the place of the reservation."""
        if stake is None:
            return
        old = self._book.stakes.peek(stake.replaces) if stake.replaces else None
        if old is not None and old.came_at and old.principal.user == stake.principal.user:
            self._claims.note_came(stake, old.came_at)
        # Neither what is locked again after a restore, nor what was promised in an earlier life.
        if self._is_sure() and any(
            self._waits_s(each.resource) and each.hold_id >> SEQUENCE_BITS == self._epoch
            for each in stake.claims
        ):
            self._new.append(rid)

    def _settle(self, now: Moment) -> None:
        for rid in self._new:
            self._since_s[rid] = now.wall_s
        self._new.clear()

    # Nobody came

    def advance(self, now: Moment) -> None:
        quiet_ms = now.monotonic_ms - self._looked.monotonic_ms
        if quiet_ms < LOOK_EVERY_MS:
            return
        jump_ms = now.wall_ms - self._looked.wall_ms - quiet_ms
        if quiet_ms > SILENCE_MS_MAX or abs(jump_ms) > LOOK_EVERY_MS:
            # It was not there, or its clock was set: nobody can have failed to come meanwhile.
            self._up_since_s = now.wall_s
        self._looked = now
        for name in self._book.calendars:
            waits_s = self._waits_s(name)
            if waits_s and self._is_sure():
                for stake, claim in list(self._there(name, Interval(now.wall_s, now.wall_s + 1))):
                    if self._nobody_came(stake, claim, waits_s, now.wall_s):
                        why = f"no check-in within {format_duration(waits_s)}"
                        slot = Absence(stake.rid, claim.resource, claim.start, claim.end, why)
                        self._prior.nobody_came(slot, now)
        self._forget_old(now.wall_s)

    def next_deadline_ms(self) -> int | None:
        if any(map(self._waits_s, self._book.calendars)):
            return self._looked.monotonic_ms + LOOK_EVERY_MS
        return None

    def _nobody_came(self, stake: Stake, claim: Claim, waits_s: int, now_s: int) -> bool:
        """Whether the user could have checked in for `waits_s`, without a break, and has not."""
        since_s = self._since_s.get(stake.rid, 0)
        there = self._up_since_s <= max(claim.start - EARLY_S, since_s)
        return (
            there
            and now_s >= max(claim.start, since_s) + waits_s
            and not has_come(stake, claim)
            and not self._prior.is_given_back(stake.rid)
        )

    def _forget_old(self, now_s: int) -> None:
        """Keep nothing of slots that are over."""
        for rid in list(self._since_s):
            stake = self._book.stakes.peek(rid)
            if stake is None or stake.ends_at <= now_s or not stake.has("locked"):
                del self._since_s[rid]

    def _waits_s(self, resource: str) -> int:
        calendar = self._book.calendars.get(resource)
        return calendar.rules.no_show_s if calendar is not None else 0

    def _there(self, resource: str, span: Interval) -> Iterator[tuple[Stake, Claim]]:
        """Yield what users have locked of `resource` in `span`."""
        if machine_of(resource):
            return
        calendar = self._book.calendars[resource].calendar
        for booking in calendar.listing(*span, limits.LISTING_MAX):
            stake = self._book.stakes.peek(booking.reservation)
            for claim in stake.claims_in("locked") if stake is not None else ():
                if claim.hold_id == booking.id and stake is not None:
                    yield stake, claim


def has_come(stake: Stake, claim: Claim) -> bool:
    """Whether a check-in of `stake` counts for `claim`: it was not long before."""
    return bool(stake.came_at) and stake.came_at >= claim.start - EARLY_S


def _is_open(claim: Claim, now_s: int) -> bool:
    return claim.start - EARLY_S <= now_s < claim.end

"""Admission of visits: the owner's rules and limits, and room that no request before it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from msgspec import structs

from kalends.contract import messages as m
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.identifiers import machine_of
from kalends.core.intervals import Moment
from kalends.core.principals import Principal
from kalends.core.steps import part_in
from kalends.core.times import format_time
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.claims.earmarks import Earmarks
from kalends.resource_servers.participation.claims.occupancy import Piece
from kalends.resource_servers.participation.claims.transitions import ClaimEvent
from kalends.resource_servers.participation.contention.room import FreeRoom
from kalends.resource_servers.participation.memory.recovery import Recovery
from kalends.resource_servers.participation.memory.retention import Retention
from kalends.resource_servers.participation.memory.unreadable import SetAside
from kalends.resource_servers.participation.registers import Registers
from kalends.resource_servers.participation.sockets import (
    Consent,
    Guard,
    Payments,
    PriorClaims,
    Queues,
    Rulings,
)
from kalends.resource_servers.participation.this_site import (
    OWNER_DRAINS,
    OWNER_DRAINS_UNTIL,
    FenceNumbers,
    ThisSite,
)

LOOK_AT_END_MS: Final = 60_000
"""The end of a drain is a time of the wall clock, which may jump: it is looked at as often as this."""


class NoRoom(NamedTuple):
    """Claims that could not be booked: `resource` has no room, and together they need `needs`.

    `held`: there would be room if nothing but what is locked stood in the way. `unplaced`: enough units are
    free, and the nodes make no place.
    """

    principal: Principal
    claims: Sequence[Claim]
    resource: str
    needs: tuple[Piece, ...]
    held: bool
    unplaced: bool = False


class ParticipantLimits(NamedTuple):
    """Per principal at this site; a client that votes and never decides is bounded by the second."""

    held_per_principal_max: int = 64
    promised_per_principal_max: int = 256
    hold_ms_max: int = 3_600_000
    approval_s: int = 3 * 86_400
    """How long the owner may think about what needs approval."""


DEFAULT_LIMITS: Final = ParticipantLimits()


@dataclass(eq=False)
class Admission:
    """Decides what the site takes: all wants of a visit, or none."""

    here: ThisSite
    book: ClaimTable
    claims: Claims
    room: FreeRoom
    in_line: Earmarks
    retention: Retention
    recovery: Recovery
    set_aside: SetAside
    registers: Registers
    rulings: Rulings
    payments: Payments
    guard: Guard
    prior: PriorClaims
    consent: Consent
    queues: Queues
    numbers: FenceNumbers
    limits: ParticipantLimits
    draining: bool = field(init=False, default=False)
    """The owner takes no new claims."""
    drained_until_s: int = field(init=False, default=0)
    """When claims are taken again (UTC); 0: when the owner says so."""
    _look_ms: int = field(init=False, default=0)

    # Whether anything is taken

    def drain(self, *, on: bool, until_s: int = 0) -> None:
        """Take no new claims until `until_s` (0: until this is called again), or take them again."""
        self.draining, self.drained_until_s = on, until_s if on else 0
        self._look_ms = 0

    def advance(self, now: Moment) -> None:
        """End a drain whose end has come."""
        if not self.drained_until_s:
            return
        left_ms = self.drained_until_s * 1_000 - now.wall_ms
        self._look_ms = now.monotonic_ms + min(left_ms, LOOK_AT_END_MS)
        if left_ms <= 0:
            self.drain(on=False)

    def next_deadline_ms(self) -> int | None:
        return self._look_ms if self.drained_until_s else None

    def closed(self) -> Refusal | None:
        """Return why nothing new is taken at all, or None when it is."""
        if self.drained_until_s:
            until = format_time(self.drained_until_s, "UTC")
            return self.here.refusal(RefusalCode.DRAINED, f"{OWNER_DRAINS_UNTIL} {until}")
        if self.draining:
            return self.here.refusal(RefusalCode.DRAINED, OWNER_DRAINS)
        return self.recovery.refusal()

    def closed_for_long(self) -> Refusal | None:
        """Return `closed`, except in the seconds after a start in which brokers are awaited."""
        awaits = not self.draining and self.recovery.awaits_brokers()
        return None if awaits else self.closed()

    def room_of(self, user: str) -> int:
        """Return how many more claims this user may hold here."""
        return self.limits.held_per_principal_max - self.book.count(user, "held")

    def too_many_holds(self) -> Refusal:
        count_max = self.limits.held_per_principal_max
        detail = f"more than {count_max} claims of one user would be held at once"
        return self.here.refusal(RefusalCode.LIMIT, detail)

    def hold_until_ms(self, hold_ms: int, now: Moment) -> int:
        """Return the end of a hold (monotonic), at most as late as the owner allows."""
        return now.monotonic_ms + min(hold_ms, self.limits.hold_ms_max)

    # Rules and limits

    def why_not_slot(
        self, rid: str, principal: Principal, want: m.Want, pays: m.Pays | None, now: Moment
    ) -> Refusal | None:
        """Return why one slot that an agent has chosen may not be held, or None."""
        if want.end <= self.retention.horizon_s:
            return self.here.refusal(
                RefusalCode.PAST, "too late: the site has closed its records of that time"
            )
        if closed := self.set_aside.refusal(want.start):
            return self.here.refusal(RefusalCode.DRAINED, closed)
        if no_account := self.guard.why_not(principal, [want.resource]):
            return no_account
        found = self.book.refusals(principal, [want], ("hold",), now.wall_s)
        if not found and self.rulings.decides:
            ruled_out = self.rulings.why_not_slot(rid, principal, want)
            found = [ruled_out] if ruled_out is not None else []
        if not found and self.payments.charges:
            return self.payments.why_not_slot(rid, principal, want, pays, now)
        return found[0] if found else None

    def why_not(self, source: str, visit: m.Visit, now: Moment) -> tuple[Refusal, ...]:
        """Return the refusals by rules and limits; `take` looks for room."""
        if over := self.consent.why_over(visit.rid):
            return over
        within = bool(visit.replaces) and self.book.lies_within(
            visit.principal.user, visit.wants, visit.replaces
        )
        if closed := self.recovery.refusal() if within else self.closed():
            return (closed,)
        if unreadable := self.set_aside.refusal(min(want.start for want in visit.wants)):
            return (self.here.refusal(RefusalCode.DRAINED, unreadable),)
        user = visit.principal.user
        state: Literal["held", "prepared"] = "prepared" if visit.mode == "vote" else "held"
        count_max = (
            self.limits.promised_per_principal_max
            if state == "prepared"
            else self.limits.held_per_principal_max
        )
        if self.book.count(user, state) + len(visit.wants) > count_max:
            detail = f"more than {count_max} claims of one user would be {state} at once"
            return (self.here.refusal(RefusalCode.LIMIT, detail),)
        if any(want.end <= self.retention.horizon_s for want in visit.wants) and not within:
            return (
                self.here.refusal(
                    RefusalCode.PAST, "too late: the site has closed its records of that time"
                ),
            )
        resources = [want.resource for want in visit.wants]
        if no_account := self.guard.why_not(visit.principal, resources):
            return (no_account,)
        if visit.replaces:
            refusal = self._refuse_change(source, visit)
            if refusal is not None:
                return (refusal,)
        for_good = self._is_for_good(visit)
        actions = ("hold", "lock") if for_good else ("hold",)
        refusals = self.book.refusals(
            visit.principal, visit.wants, actions, now.wall_s, replaces=visit.replaces
        )
        if not refusals and self.rulings.decides:
            refusals = [*self.rulings.refusals(visit.rid, visit.principal, visit.wants)]
        if not refusals and self.payments.charges:
            before = self.book.stakes.get(visit.rid)
            refusals = [*self.payments.why_not(visit, before, now, firm=for_good)]
        if self.book.companions and not within:
            refusals += self.book.incomplete(visit.wants)
        taken_back = self.prior.refusals(visit.wants, visit.rid, visit.replaces)
        return (*refusals, *taken_back, *self._why_not_jobs(visit))

    def _is_for_good(self, visit: m.Visit) -> bool:
        """Whether `visit` asks for a promise, now or as soon as its owner has approved it."""
        if visit.mode == "vote" or visit.considered:
            return visit.mode == "vote"
        return bool(self.consent.needed(visit.rid, visit.principal, visit.wants, visit.replaces))

    def _why_not_jobs(self, visit: m.Visit) -> Iterator[Refusal]:
        """Yield why jobs cannot run in the slots that are asked for, if any are to."""
        for machine, job in visit.jobs.items():
            wants = [want for want in visit.wants if want.resource == machine]
            if len(wants) != 1:
                detail = "a job in step has one slot on each machine"
                yield Refusal(where=machine, code=RefusalCode.NO_PLACE, detail=detail)
                continue
            part = part_in(job, machine, wants[0].units, visit.rid)
            if refusal := self.queues.why_not_part(visit.principal, part):
                yield refusal

    def _refuse_change(self, source: str, visit: m.Visit) -> Refusal | None:
        old = self.book.stakes.get(visit.replaces)
        register = self.registers.of(source)
        if old is not None and register and old.register not in ("", register):
            old = None
        if (
            old is None
            or not old.has("locked")
            or old.principal.user != (visit.heir_of or visit.principal.user)
        ):
            detail = "the reservation to change is not locked here for this user"
            return self.here.refusal(RefusalCode.BEING_CHANGED, detail)
        if self.book.changer_of(visit.replaces) not in ("", visit.rid):
            detail = "another change of this reservation is under way"
            return self.here.refusal(RefusalCode.BEING_CHANGED, detail)
        return None

    def take(
        self, source: str, before: Stake | None, visit: m.Visit, now: Moment, *events: ClaimEvent
    ) -> NoRoom | None:
        """Book every want of the visit from `source`, or none and return what it lacks.

        `events` are what new holds go through, "visit-hold" when none is given.
        """
        stake = self.stake_for(source, before, visit)
        if self.payments.charges:
            bill = self.payments.price(stake, visit.pays, before, considered=visit.considered)
            self.claims.bill(stake, bill)
        self.claims.put(stake)
        full = self.kept_from(stake)
        unplaced = "" if full else self._without_place(stake)
        full = full or unplaced
        if not full and visit.mode == "vote":
            full = self.claims.vote(stake, now)
        elif not full:
            until_ms = self.hold_until_ms(visit.hold_ms, now)
            full = self.claims.hold(stake, until_ms, events or ("visit-hold",))
        if not full:
            return None
        needs = tuple(self.book.needs(stake))
        held = not unplaced and self._held(needs)
        lack = NoRoom(stake.principal, tuple(stake.claims), full, needs, held, bool(unplaced))
        self.claims.clear(stake)
        return lack

    def kept_from(self, stake: Stake) -> str:
        """Return a resource where requests before `stake` need its room, or ""."""
        if not any(self.room.kept):
            return ""
        order = (
            self.in_line.order(stake.rid)
            if stake.rid in self.in_line
            else self.room.order_of(stake.principal, stake.stamp, stake.rid, stake.claims)
        )
        for piece in self.book.needs(stake):
            if not self.room.is_for(order, piece):
                return piece[0]
        return ""

    def _without_place(self, stake: Stake) -> str:
        """Return a resource whose free nodes make no place for what `stake` claims, or ""."""
        wanted = [(each.resource, each.start, each.end, each.units) for each in stake.claims]
        gone = {
            each.hold_id for each in self.book.booked([stake.replaces] if stake.replaces else [])
        }
        return self.room.places.lacking(wanted, gone)

    def no_room(self, lack: NoRoom, now: Moment) -> tuple[Refusal, ...]:
        """Return the refusals for a lack of room: "held" where waiting may help, else "busy"."""
        if lack.unplaced:
            units = max(each.units for each in lack.claims if each.resource == lack.resource)
            detail = f"the nodes that are free then form no partition of {units} on this machine"
            return (Refusal(where=lack.resource, code=RefusalCode.BUSY, detail=detail),)
        refusals = self.book.busy(lack.principal, lack.claims, lack.resource, now.wall_s)
        if not lack.held:
            return refusals
        return tuple(structs.replace(each, code=RefusalCode.HELD) for each in refusals)

    def _held(self, needs: Sequence[Piece]) -> bool:
        """Whether `needs` fit next to what is locked, and planned: the rest may come free."""
        return all(
            self.book.calendars[resource].info.capacity
            - self.book.locked_units(resource, start, end)
            - self.room.planned.units(resource, start, end)
            >= units
            for resource, start, end, units in needs
        )

    def stake_for(self, source: str, before: Stake | None, visit: m.Visit) -> Stake:
        """Return the stake of this attempt; a want that was held before keeps its hold id."""
        kept = {(c.resource, c.start, c.end, c.units): c for c in before.claims} if before else {}
        claims = []
        for want in visit.wants:
            claim = kept.pop((want.resource, want.start, want.end, want.units), None)
            if claim is None or claim.state != "held" or claim.common or visit.mode == "vote":
                claim = Claim(self.numbers.new(), want.resource, want.start, want.end, want.units)
            claims.append(claim)
        if self.book.buffers.kept:
            self.book.give_buffers(claims, visit.replaces)
        ends_at = max([claim.end + claim.gap_s for claim in claims])
        known = before.register if before else ""
        return Stake(
            rid=visit.rid,
            att=visit.att,
            principal=visit.principal,
            secret=visit.secret,
            need=visit.need,
            parts=visit.parts,
            coords=visit.coords,
            claims=claims,
            refused=before.refused if before else 0,
            replaces=visit.replaces,
            stamp=visit.stamp,
            ends_at=max(ends_at, before.ends_at if before else 0),
            register=known or self.registers.of(source),
            jobs=visit.jobs,
            petition=before.petition if before else None,
        )

    def why_not_promise(self, stake: Stake, named: set[int], now: Moment) -> tuple[Refusal, ...]:
        """Return why the owner refuses the promise: the last chance to say no."""
        if self.recovery.recovering and (closed := self.recovery.refusal()):
            return (closed,)
        if unapproved := self.consent.why_not(stake, named):
            return unapproved
        if self.rulings.decides and (unruled := self.rulings.why_not_promise(stake, named)):
            return unruled
        if stake.bill is not None and (unpaid := self.payments.why_not_promise(stake, named, now)):
            return unpaid
        user = stake.principal.user
        if self.book.count(user, "prepared") + len(named) > self.limits.promised_per_principal_max:
            return (self.here.refusal(RefusalCode.LIMIT, "too many promises to one user at once"),)
        wants = [
            m.Want(claim.resource, claim.start, claim.end, claim.units)
            for claim in stake.claims
            # The queue has said what it thinks of a job when it gave it the place.
            if claim.hold_id in named and not machine_of(claim.resource)
        ]
        refusals = self.book.refusals(
            stake.principal,
            wants,
            ("lock",),
            now.wall_s,
            rid=stake.rid,
            replaces=stake.replaces,
        )
        if self.book.companions and not stake.replaces:
            refusals += self.book.incomplete(wants)
        return (*refusals, *self.prior.refusals(wants, stake.rid, stake.replaces))

"""Taking what a visit asks for: the owner's rules, room that nobody before it needs, and promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import structs

from kalends.contract import messages as m
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.intervals import Moment
from kalends.core.principals import Principal
from kalends.resource_servers.participation.claim_sets import Claim, Stake
from kalends.resource_servers.participation.occupancy import Piece
from kalends.resource_servers.participation.transitions import ClaimEvent
from kalends.resource_servers.participation.visit_handler import Visiting


class Lack(NamedTuple):
    """Claims that could not be booked: on `resource` there is no room, together they need `needs`.

    `held`: there would be room if nothing but what is locked stood in the way.
    """

    principal: Principal
    claims: Sequence[Claim]
    resource: str
    needs: tuple[Piece, ...]
    held: bool


class Taking(Visiting):
    """All wants of a visit, or none."""

    def _why_not(self, source: str, visit: m.Visit, now: Moment) -> tuple[Refusal, ...]:
        """The refusals by rules and limits; occupancy is `_take`'s."""
        if closed := self._closed():
            return (closed,)
        if unreadable := self.set_aside.refusal(min(want.start for want in visit.wants)):
            return (self.here.refusal(RefusalCode.DRAINED, unreadable),)
        user = visit.principal.user
        state: Literal["held", "prepared"] = "prepared" if visit.mode == "vote" else "held"
        count_max = (
            self._limits.promised_per_principal_max
            if state == "prepared"
            else self._limits.held_per_principal_max
        )
        if self.book.count(user, state) + len(visit.wants) > count_max:
            detail = f"more than {count_max} claims of one user would be {state} at once"
            return (self.here.refusal(RefusalCode.LIMIT, detail),)
        if any(want.end <= self.retention.horizon_s for want in visit.wants):
            return (self.here.refusal(RefusalCode.PAST, "the records of that time are closed"),)
        if visit.replaces:
            refusal = self._refuse_change(source, visit)
            if refusal is not None:
                return (refusal,)
        actions = ("hold", "lock") if visit.mode == "vote" else ("hold",)
        return tuple(
            self.book.refusals(
                visit.principal, visit.wants, actions, now.wall_s, replaces=visit.replaces
            )
        )

    def _refuse_change(self, source: str, visit: m.Visit) -> Refusal | None:
        old = self.book.stakes.get(visit.replaces)
        register = self._register_of(source)
        if old is not None and register and old.register not in ("", register):
            old = None
        if old is None or not old.has("locked") or old.principal.user != visit.principal.user:
            detail = "the reservation to change is not locked here for this user"
            return self.here.refusal(RefusalCode.BEING_CHANGED, detail)
        if self.book.changer_of(visit.replaces) not in ("", visit.rid):
            detail = "another change of this reservation is under way"
            return self.here.refusal(RefusalCode.BEING_CHANGED, detail)
        return None

    def _take(
        self, source: str, before: Stake | None, visit: m.Visit, now: Moment, *events: ClaimEvent
    ) -> Lack | None:
        """Book every want of the visit from `source`, or none: then say what it lacks.

        `events` are what new holds go through, "visit-hold" when none is given.
        """
        stake = self._stake_for(source, before, visit)
        self.claims.put(stake)
        full = self._kept_from(stake)
        if not full and visit.mode == "vote":
            full = self.claims.vote(stake, now)
        elif not full:
            hold_ms = min(visit.hold_ms, self._limits.hold_ms_max)
            full = self.claims.hold(stake, now.monotonic_ms + hold_ms, events or ("visit-hold",))
        if not full:
            return None
        needs = tuple(self.book.needs(stake))
        lack = Lack(stake.principal, tuple(stake.claims), full, needs, self._held(needs))
        self.claims.clear(stake)
        return lack

    def _kept_from(self, stake: Stake) -> str:
        """A resource where what `stake` needs is kept for others before it, or ""."""
        if not (self._line.keeping or self._offers):
            return ""
        order = (
            self._line.keeping.order(stake.rid)
            if stake.rid in self._line.keeping
            else self._order_of(stake.principal, stake.stamp, stake.rid, stake.claims)
        )
        for piece in self.book.needs(stake):
            if not self._has_room(order, piece):
                return piece[0]
        return ""

    def _no_room(self, lack: Lack, now: Moment) -> tuple[Refusal, ...]:
        """Of the code "held" where waiting may help, else "busy"."""
        refusals = self.book.busy(lack.principal, lack.claims, lack.resource, now.wall_s)
        if not lack.held:
            return refusals
        return tuple(structs.replace(each, code=RefusalCode.HELD) for each in refusals)

    def _held(self, needs: Sequence[Piece]) -> bool:
        """Whether there is room for `needs` beside what is locked: the rest may come free."""
        return all(
            self.book.calendars[resource].info.capacity
            - self.book.locked_units(resource, start, end)
            >= units
            for resource, start, end, units in needs
        )

    def _stake_for(self, source: str, before: Stake | None, visit: m.Visit) -> Stake:
        """The stake of this attempt; a want that was held before keeps its hold id."""
        kept = {(c.resource, c.start, c.end, c.units): c for c in before.claims} if before else {}
        claims = []
        for want in visit.wants:
            claim = kept.pop((want.resource, want.start, want.end, want.units), None)
            if claim is None or claim.state != "held" or claim.common or visit.mode == "vote":
                claim = Claim(self.numbers.new(), want.resource, want.start, want.end, want.units)
            claims.append(claim)
        ends_at = max(want.end for want in visit.wants)
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
            register=self._belongs_to(before, source),
        )

    def _why_not_promise(self, stake: Stake, named: set[int], now: Moment) -> tuple[Refusal, ...]:
        """The owner may still say no here, and never after."""
        if self.recovery.recovering and (closed := self._closed()):
            return (closed,)
        user = stake.principal.user
        if self.book.count(user, "prepared") + len(named) > self._limits.promised_per_principal_max:
            return (self.here.refusal(RefusalCode.LIMIT, "too many promises to one user at once"),)
        wants = [
            m.Want(claim.resource, claim.start, claim.end, claim.units)
            for claim in stake.claims
            if claim.hold_id in named
        ]
        return tuple(
            self.book.refusals(
                stake.principal,
                wants,
                ("lock",),
                now.wall_s,
                rid=stake.rid,
                replaces=stake.replaces,
            )
        )

    def _answer_visit(
        self,
        source: str,
        visit: m.Visit,
        vote: Literal["yes", "no", "none"],
        held: tuple[m.HeldSlot, ...],
        refusals: tuple[Refusal, ...],
        *,
        ahead: int = -1,
    ) -> None:
        visited = m.Visited(
            rid=visit.rid, att=visit.att, epoch=self.here.epoch, vote=vote, held=held,
            refusals=refusals, ahead=ahead,
        )  # fmt: skip
        self.outbox.send(source, visited)

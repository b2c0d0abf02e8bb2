"""Reclaims by owners: the brokers of locked slots are asked, again and again, to move them.

The site never breaks a lock by itself. From the moment of the reclaim nothing new is taken there; what
is promised is decided first, and asked for once it is locked. Where only some units are taken back, who has
to go is chosen anew each time (`reclaim_choice`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import structs

from kalends.contract import messages as m
from kalends.contract import owner_calls
from kalends.contract.messages import TimeS
from kalends.core import limits
from kalends.core.errors import InvalidInput, KeyReused, LimitExceeded, NotFound, Refusal
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.claims.kept_room import KeptRoom
from kalends.resource_servers.participation.claims.occupancy import Piece
from kalends.resource_servers.participation.consequences import Consequences
from kalends.resource_servers.participation.kernel import Ground
from kalends.resource_servers.participation.outbox import REGISTER
from kalends.resource_servers.participation.parts import Plug, Tier
from kalends.resource_servers.participation.reclaims.moved_reservations import MovedReservations
from kalends.resource_servers.participation.reclaims.owner_room import OwnerRoom, OwnersShare
from kalends.resource_servers.participation.reclaims.reclaim_choice import (
    ReclaimChoice,
    claims_there,
    claims_to_go,
)
from kalends.resource_servers.participation.reclaims.reclaim_views import view_of
from kalends.resource_servers.participation.reclaims.reclaims import (
    OutOfService,
    ReclaimDropped,
    Reclaimed,
    stored_reclaim,
)
from kalends.resource_servers.participation.repeats import AT_ONCE, Repeat, Repeats
from kalends.resource_servers.participation.sockets import Absence, Unkept

RECLAIMS_MAX: Final = 1_000
"""The reclaims of one site at a time: each is looked at whenever something is locked."""


ABSENCES_MAX: Final = 500
"""Slots without a check-in that are remembered, the latest."""

ABSENCE_KEPT_S: Final = 27 * 86_400
"""With the day for which every record is kept, four weeks."""


class ReclaimReminders:
    """Reclaims in order of their making, and the next reminder of each."""

    def __init__(self, ground: Ground) -> None:
        base = ground.base
        book = self.book = base.book
        self.room = OwnerRoom(book, KeptRoom(book, base.numbers.new), base.kept, base.is_sure)
        self.catch = self.room.catch
        self._ground, self._outbox, self.settle = ground, base.outbox, base.settle
        self._choice = ReclaimChoice(book, self.room)
        self._moved = MovedReservations(book)
        self._reclaims: dict[str, Reclaimed] = {}
        self._reminders = Repeats[str]()
        """For each reclaim, when its brokers are asked."""

    @property
    def plugs(self) -> tuple[Plug, ...]:
        return (Plug(Tier.ASKS, timed=self, listen=self._listen, broker_came=self.remind_all),)

    def _listen(self, then: Consequences) -> None:
        then.committed.add(self.ask_for_locked)

    def restore(self, reclaims: Iterable[Reclaimed], now: Moment) -> None:
        """Take over `reclaims` as they were stored; a resource that is no longer here has none."""
        for reclaimed in reclaims:
            if reclaimed.resource in self.book.calendars:
                self._close_for(reclaimed)
                self._reminders[reclaimed.key] = Repeat(now.monotonic_ms)
                guard = self._ground.guard
                if reclaimed.grant and not guard.resume(reclaimed.grant, reclaimed.reason, now):
                    self._drop_reclaim(reclaimed)
        self._moved.catch_up(self._reclaims.values())

    # Calls of owners

    def reclaim(self, body: owner_calls.Reclaim, now: Moment) -> owner_calls.ReclaimView:
        """Take the time back; repeating it with its key changes nothing.

        Raises `InvalidInput` for a resource or a time that there is not, `KeyReused` for a key that
        stands for another, and `LimitExceeded`; then nothing has happened.
        """
        view = self._reclaim(body, now)
        self.settle(now)
        return view

    def _reclaim(self, body: owner_calls.Reclaim, now: Moment) -> owner_calls.ReclaimView:
        known = self._reclaims.get(body.key)
        if known is not None:
            if _asked(known) != _asked(body):
                raise KeyReused(
                    "this key was used before with another reclaim",
                    where="key",
                    remedy="make a new key; `kalends admin reclaims` shows the old one",
                )
            return self.view(known)
        self.check(body, now)
        reclaimed = Reclaimed(
            body.key, body.resource, body.start, body.end, body.notice_s, now.wall_s, body.reason,
            units=body.units, of=self.book.calendars[body.resource].info.capacity,
        )  # fmt: skip
        if body.dry_run:
            return self.foreseen(reclaimed)
        self.take(reclaimed, now)
        return self.view(self._reclaims[body.key])

    def take(self, reclaimed: Reclaimed, now: Moment) -> None:
        """Let the reclaim hold, in place of one of its key, and ask brokers for reservations in it."""
        self._close_for(reclaimed)
        self.book.note_closed((reclaimed.resource, reclaimed.start, reclaimed.end))
        self._outbox.store(stored_reclaim(reclaimed))
        self._ask_back(reclaimed, now)

    def parts_of(self, closure: str) -> list[Reclaimed]:
        """Return the parts of this closure; of "", those of all closures."""
        parts = (each for each in self._reclaims.values() if each.closure)
        return [each for each in parts if closure in ("", each.closure)]

    def foreseen(self, reclaimed: Reclaimed) -> owner_calls.ReclaimView:
        """Return what would become of it, under no key; everything is as before."""
        if reclaimed.units:
            self._share(reclaimed)
        try:
            return structs.replace(self.view(reclaimed), key="")
        finally:
            self.room.give_up(reclaimed.key)

    def end(self, key: str, now: Moment) -> owner_calls.ReclaimView:
        """Withdraw the reclaim: the time can be booked again; moved reservations stay moved.

        Raises `NotFound` for a key that stands for none.
        """
        reclaimed = self._reclaims.get(key)
        if reclaimed is None and self._ground.set_aside.withdraw(key):
            self._outbox.store(ReclaimDropped(key))
            self.settle(now)
            return owner_calls.ReclaimView(key=key, resource="", start=0, end=0)
        if reclaimed is None:
            raise NotFound(
                "no such reclaim",
                where="key",
                remedy="`kalends admin reclaims` lists them",
            )
        view = self.give_back(reclaimed)
        self.settle(now)
        return view

    def give_back(self, reclaimed: Reclaimed) -> owner_calls.ReclaimView:
        """Return the reclaim as it was, and let it hold no more."""
        view = self.view(reclaimed)
        self._drop_reclaim(reclaimed)
        self.book.note_freed(((reclaimed.resource, reclaimed.start, reclaimed.end, 1),))
        return view

    # What a guard cannot keep

    def give_up(self, slot: Unkept, now: Moment) -> bool:
        """Have the reservation moved that has `slot`; the time stays open to others.

        Return False, and do nothing, if too many are to be moved already.
        """
        if self._count(own=True) >= RECLAIMS_MAX:
            return False
        reclaimed = Reclaimed(
            _key_of(slot.number), slot.resource, slot.start, slot.end, 0, now.wall_s, slot.why,
            only=slot.rid, grant=slot.number,
        )  # fmt: skip
        self._close_for(reclaimed)
        self._outbox.store(stored_reclaim(reclaimed))
        self._ask_back(reclaimed, now)
        return True

    def keep(self, number: int) -> None:
        """Withdraw what `give_up` has said of the grant of this number."""
        reclaimed = self._reclaims.get(_key_of(number))
        if reclaimed is not None:
            self._drop_reclaim(reclaimed)

    # Nobody came

    def nobody_came(self, slot: Absence, now: Moment) -> None:
        """Have the reservation cancelled that has `slot`; beyond the maximum, the oldest is forgotten."""
        known = [each for each in self._reclaims.values() if each.absent]
        if len(known) >= ABSENCES_MAX:
            self._drop_reclaim(min(known, key=lambda each: each.end))
        reclaimed = Reclaimed(
            _absence_key(slot.rid), slot.resource, slot.start, slot.end, 0, now.wall_s, slot.why,
            only=slot.rid, standing="cancel", absent=True,
        )  # fmt: skip
        self._close_for(reclaimed)
        self._outbox.store(stored_reclaim(reclaimed))
        self._ask_back(reclaimed, now)

    def is_given_back(self, rid: str) -> bool:
        return _absence_key(rid) in self._reclaims

    def absences(self) -> tuple[owner_calls.ReclaimView, ...]:
        """Return the slots of the last weeks that were given back without a check-in."""
        return tuple(self.view(each) for each in self._reclaims.values() if each.absent)

    # What a machine has out of service

    def nodes_out(self, out: OutOfService, now: Moment) -> None:
        """Have as few reservations moved as cannot be placed around what is out of service.

        Brokers of slots that have begun are told how much of these cannot be used.
        """
        name = out.resource.replace("/", ".")
        counted, stuck = f"nodes-out-{name}", f"nodes-stuck-{name}"
        for key, gone in ((counted, not out.units), (stuck, not out.nodes)):
            if gone and key in self._reclaims:
                self._drop_reclaim(self._reclaims[key])
        if out.units:
            self._reclaim_out(counted, out._replace(stuck=""), now)
        stake = self.book.stakes.peek(out.stuck)
        there = stake.claims_in("locked") if stake is not None else []
        if claims := [each for each in there if each.resource == out.resource]:
            start, end = min(each.start for each in claims), max(each.end for each in claims)
            self._reclaim_out(stuck, out._replace(start=start, end=end, units=0), now)
        for rid, nodes in out.begun:
            self._ground.losses.seen(rid, out.resource, nodes, out.reason, now)
        self.settle(now)

    def _reclaim_out(self, key: str, out: OutOfService, now: Moment) -> None:
        known = self._reclaims.get(key)
        capacity = self.book.calendars[out.resource].info.capacity
        made = Reclaimed(
            key, out.resource, out.start, out.end, 0, now.wall_s, out.reason, only=out.stuck,
            units=min(out.units, capacity), of=capacity, out=True,
        )  # fmt: skip
        if known is not None:
            made = structs.replace(made, told=known.told, had=known.had, went=known.went)
            if structs.replace(made, made_s=known.made_s) == known:
                return
            self.room.give_up(key)
        self._close_for(made)
        self._outbox.store(stored_reclaim(made))
        self._ask_back(made, now)

    def given_up(self, rid: str) -> list[Piece]:
        """Return the room of the reservation `rid` that is of no use to it any more.

        A batch system cannot keep it, or its owner has first call on it.
        """
        stake = self.book.stakes.peek(rid)
        if stake is None:
            return []
        lost = [
            (claim.resource, claim.start, claim.end, claim.units)
            for reclaimed in self._reclaims.values()
            if reclaimed.only == rid
            for claim in claims_there(stake, reclaimed)
        ]
        return lost + self.room.owed(stake.claims_in("locked"))

    def refusals(
        self, wants: Sequence[m.Want], rid: str = "", replaces: str = ""
    ) -> tuple[Refusal, ...]:
        """Return why `wants` cannot have what owners have taken back in part, and have not got yet."""
        own: list[Claim] = []
        for each in (rid, replaces):
            stake = self.book.stakes.peek(each) if each else None
            own += stake.claims if stake is not None else ()
        return tuple(self.room.refusals(wants, own))

    def views(self) -> tuple[owner_calls.ReclaimView, ...]:
        """Return all but the `absences`."""
        return tuple(self.view(each) for each in self._reclaims.values() if not each.absent)

    def view(self, reclaimed: Reclaimed) -> owner_calls.ReclaimView:
        return view_of(self._moved.noted(reclaimed, ()), self._choice)

    def check(self, body: owner_calls.Reclaim, now: Moment, *, more: int = 1) -> None:
        """Raise `InvalidInput` or `LimitExceeded` if it cannot be, as one of `more` new ones."""
        if body.resource not in self.book.calendars:
            raise InvalidInput(
                f"this site has no resource {body.resource}",
                where="resource",
                remedy="`kalends resources` lists them",
            )
        if body.units and self._ground.room.places.are_asked(body.resource):
            raise InvalidInput(
                "on this machine nodes are reclaimed by number, so units alone cannot be reclaimed",
                where="units",
                remedy=f"name the nodes: kalends admin nodes {body.resource} drain NODES",
            )
        if body.units > self.book.calendars[body.resource].info.capacity:
            raise InvalidInput(
                f"{body.units} units, of which it has {self.book.calendars[body.resource].info.capacity}",
                where="units",
                remedy="leave out the units to reclaim all of it",
            )
        if not max(now.wall_s, body.start) < body.end <= body.start + limits.DURATION_S_MAX:
            raise InvalidInput(
                "invalid period to reclaim",
                where="end",
                remedy="give an end after the start and after now, at most a year later",
            )
        if self._count(own=False) + more > RECLAIMS_MAX:
            raise LimitExceeded(
                f"{RECLAIMS_MAX} reclaims stand, the maximum",
                remedy="withdraw reclaims that have ended: kalends admin reclaim --end KEY",
            )

    def _count(self, *, own: bool) -> int:
        """Return how many stand that the site has made itself, or its owner."""
        return sum(
            (bool(each.only) or each.out) == own
            for each in self._reclaims.values()
            if not each.absent
        )

    # Asking brokers

    def remind_all(self, now: Moment) -> None:
        """Remind all brokers at once: one has just opened a session."""
        for key, reclaimed in list(self._reclaims.items()):
            self._ask_back(reclaimed, now, self._reminders[key])

    def advance(self, now: Moment) -> None:
        for key, turn in list(self._reminders.items()):
            reclaimed = self._reclaims[key]
            kept_s = ABSENCE_KEPT_S if reclaimed.absent else 0
            if reclaimed.end + kept_s < self._ground.retention.over_s(now):
                self._drop_reclaim(reclaimed)
            elif turn.is_due(now):
                self._ask_back(reclaimed, now, turn)

    def next_deadline_ms(self) -> int | None:
        return self._reminders.next_deadline_ms()

    def _ask_back(self, reclaimed: Reclaimed, now: Moment, turn: Repeat = AT_ONCE) -> None:
        """Ask for all that is locked there and is to go; who is asked first time is noted durably."""
        asked = [
            stake
            for stake in self._choice.in_the_way(reclaimed).going
            if any(each.end > now.wall_s for each in claims_to_go(stake, reclaimed))
        ]
        noted = self._moved.noted(reclaimed, asked)
        if noted != reclaimed:
            reclaimed = self._reclaims[reclaimed.key] = noted
            self._outbox.store(stored_reclaim(reclaimed))
        for stake in asked:
            self._outbox.send(f"{REGISTER}{stake.register}", _message(stake, reclaimed))
        self._reminders[reclaimed.key] = turn.reminded(now, self._ground.base.jitter())

    def ask_for_locked(self, stake: Stake | None, rid: str, att: int) -> None:
        """Ask as soon as time passes for what was promised when its time was reclaimed.

        Where it takes the place of one that had to go, that is noted, too.
        """
        claims = stake.claims_in("locked") if stake is not None else []
        for claim in claims:
            for reclaimed in self._reclaims.values():
                if reclaimed.resource == claim.resource and reclaimed.overlaps(
                    claim.start, claim.end
                ):
                    self._reminders[reclaimed.key] = AT_ONCE
        if stake is not None and claims and stake.replaces:
            for key in self._moved.note(stake, self._reclaims.values()):
                self._reminders[key] = AT_ONCE

    def _close_for(self, reclaimed: Reclaimed) -> None:
        self._reclaims[reclaimed.key] = reclaimed
        if reclaimed.units:
            self._share(reclaimed)
        elif not reclaimed.only:
            self.book.calendars[reclaimed.resource].rules.blackouts.reclaim(
                reclaimed.key, reclaimed.start, reclaimed.end, reclaimed.reason
            )

    def let_resize(self, change: Callable[[], None]) -> None:
        """Let `change` change capacities: what owners have taken back of them makes way, and comes again."""
        shared = [each for each in self._reclaims.values() if each.units]
        for each in shared:
            self.room.give_up(each.key)
        change()
        for each in shared:
            self._share(each)

    def _share(self, reclaimed: Reclaimed) -> None:
        resource = reclaimed.resource
        units = reclaimed.units_of(self.book.calendars[resource].info.capacity)
        if units:
            piece = (resource, reclaimed.start, reclaimed.end, units)
            share = OwnersShare(piece, reclaimed.reason, reclaimed.out)
            self.room.take(reclaimed.key, share)

    def _drop_reclaim(self, reclaimed: Reclaimed) -> None:
        del self._reclaims[reclaimed.key], self._reminders[reclaimed.key]
        self.book.calendars[reclaimed.resource].rules.blackouts.restore(reclaimed.key)
        self.room.give_up(reclaimed.key)
        self._outbox.store(ReclaimDropped(reclaimed.key))


def _asked(reclaimed: Reclaimed | owner_calls.Reclaim) -> tuple[str, TimeS, TimeS, int, str, int]:
    return (
        reclaimed.resource, reclaimed.start, reclaimed.end, reclaimed.notice_s, reclaimed.reason,
        reclaimed.units,
    )  # fmt: skip


def _message(stake: Stake, reclaimed: Reclaimed) -> m.Reclaim:
    return m.Reclaim(
        rid=stake.rid,
        att=stake.att,
        resources=(reclaimed.resource,),
        start=reclaimed.start,
        end=reclaimed.end,
        reason=reclaimed.reason,
        lost=bool(reclaimed.only),
        units=reclaimed.units,
        cancel=reclaimed.standing == "cancel",
    )


def _absence_key(rid: str) -> str:
    return f"nobody-came-{rid}"


def _key_of(number: int) -> str:
    return f"cannot-keep-{number}"

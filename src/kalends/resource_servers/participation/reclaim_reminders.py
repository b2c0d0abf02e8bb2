"""Reclaims by owners: the brokers of locked slots are asked, again and again, to move them.

The site never breaks a lock by itself. From the moment of the reclaim nothing new is taken there; what
is promised is decided first, and asked for once it is locked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from kalends.contract import calls
from kalends.contract import messages as m
from kalends.contract.messages import TimeS
from kalends.core import limits
from kalends.core.errors import InvalidInput, KeyReused, LimitExceeded, NotFound
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.claim_sets import Stake
from kalends.resource_servers.participation.claim_table import ClaimTable
from kalends.resource_servers.participation.occupancy import Piece
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.provision.grants import NodeGrant
from kalends.resource_servers.participation.reclaims import (
    ReclaimDropped,
    Reclaimed,
    stored_reclaim,
)
from kalends.resource_servers.participation.retention import Retention
from kalends.resource_servers.participation.unreadable import SetAside

REMIND_AFTER_MS: Final = 10_000
REMIND_EVERY_MS_MAX: Final = 60_000

RECLAIMS_MAX: Final = 1_000
"""The reclaims of one site at a time: each is looked at whenever something is locked."""

REGISTER: Final = "register:"
"""Where to send what is for whichever replica looks after a reservation: this, and its register."""


@dataclass(eq=False)
class ReclaimReminders:
    """Reclaims in order of their making, and the next reminder of each."""

    book: ClaimTable
    outbox: ParticipantOutbox
    retention: Retention
    set_aside: SetAside
    jitter: Callable[[], float]
    resumed: Callable[[int, str, Moment], bool] = field(init=False)
    """Told of a grant that an earlier life has given up; returns whether it is needed still."""
    _reclaims: dict[str, Reclaimed] = field(init=False, default_factory=dict)
    _reminders: dict[str, tuple[int, int]] = field(init=False, default_factory=dict)
    """For each reclaim, when its brokers are asked next (monotonic), and how often they were."""

    def restore(self, reclaims: Iterable[Reclaimed], now: Moment) -> None:
        """Take over `reclaims` as they were stored; a resource that is no longer here has none."""
        for reclaimed in reclaims:
            if reclaimed.resource in self.book.calendars:
                self._close_for(reclaimed)
                self._reminders[reclaimed.key] = (now.monotonic_ms, 0)
                if reclaimed.grant and not self.resumed(reclaimed.grant, reclaimed.reason, now):
                    self._drop_reclaim(reclaimed)

    # Calls of owners

    def reclaim(self, body: calls.Reclaim, now: Moment) -> calls.ReclaimView:
        """Take the time back; repeating it with its key changes nothing.

        Raises `InvalidInput` for a resource or a time that there is not, `KeyReused` for a key that
        stands for another, and `LimitExceeded`; then nothing has happened.
        """
        known = self._reclaims.get(body.key)
        if known is not None:
            if _asked(known) != (body.resource, body.start, body.end, body.notice_s, body.reason):
                raise KeyReused(
                    "this key was used before with another reclaim",
                    where="key",
                    remedy="make a new key; `kalends admin reclaims` shows the old one",
                )
            return self._view(known)
        self._check_reclaim(body, now)
        reclaimed = Reclaimed(
            body.key, body.resource, body.start, body.end, body.notice_s, now.wall_s, body.reason
        )
        self._close_for(reclaimed)
        self.book.note_closed((body.resource, body.start, body.end))
        self.outbox.store(stored_reclaim(reclaimed))
        self._ask_back(reclaimed, now, 0)
        return self._view(self._reclaims[body.key])

    def end(self, key: str, now: Moment) -> calls.ReclaimView:
        """Withdraw it: the time can be booked again; what has been moved stays moved.

        Raises `NotFound` for a key that stands for none.
        """
        reclaimed = self._reclaims.get(key)
        if reclaimed is None and self.set_aside.withdraw(key):
            self.outbox.store(ReclaimDropped(key))
            return calls.ReclaimView(key=key, resource="", start=0, end=0)
        if reclaimed is None:
            raise NotFound(
                "no such reclaim",
                where="key",
                remedy="`kalends admin reclaims` lists them",
            )
        view = self._view(reclaimed)
        self._drop_reclaim(reclaimed)
        self.book.note_freed(((reclaimed.resource, reclaimed.start, reclaimed.end, 1),))
        return view

    # What a batch system cannot keep

    def give_up(self, grant: NodeGrant, why: str, now: Moment) -> bool:
        """Have the reservation moved that `grant` serves; the time stays open to others.

        Return False, and do nothing, if too many are to be moved already.
        """
        wanted = grant.wanted
        if wanted is None or self._count(own=True) >= RECLAIMS_MAX:
            return False
        reclaimed = Reclaimed(
            _key_of(grant), grant.resource, wanted.start, wanted.end, 0, now.wall_s, why,
            only=grant.rid, grant=grant.number,
        )  # fmt: skip
        self._close_for(reclaimed)
        self.outbox.store(stored_reclaim(reclaimed))
        self._ask_back(reclaimed, now, 0)
        return True

    def keep(self, grant: NodeGrant) -> None:
        """Withdraw what `give_up` has said."""
        reclaimed = self._reclaims.get(_key_of(grant))
        if reclaimed is not None:
            self._drop_reclaim(reclaimed)

    def given_up(self, rid: str) -> list[Piece]:
        """Return the room of the reservation `rid` that a batch system cannot keep."""
        stake = self.book.stakes.peek(rid)
        return [
            (claim.resource, claim.start, claim.end, claim.units)
            for reclaimed in self._reclaims.values()
            if reclaimed.only == rid and stake is not None
            for claim in stake.claims_in("locked")
            if claim.resource == reclaimed.resource and reclaimed.overlaps(claim.start, claim.end)
        ]

    def views(self) -> tuple[calls.ReclaimView, ...]:
        return tuple(self._view(each) for each in self._reclaims.values())

    def _view(self, reclaimed: Reclaimed) -> calls.ReclaimView:
        there = list(self._standing_there(reclaimed))
        waiting = {stake.rid: None for stake in there if not _is_spared(stake, reclaimed)}
        return calls.ReclaimView(
            key=reclaimed.key,
            resource=reclaimed.resource,
            start=reclaimed.start,
            end=reclaimed.end,
            reason=reclaimed.reason,
            waiting=tuple(waiting),
            gone=tuple(rid for rid in reclaimed.told if rid not in waiting),
            spared=tuple(stake.rid for stake in there if _is_spared(stake, reclaimed)),
        )

    def _check_reclaim(self, body: calls.Reclaim, now: Moment) -> None:
        if body.resource not in self.book.calendars:
            raise InvalidInput(
                f"this site has no resource {body.resource}",
                where="resource",
                remedy="`kalends resources` lists them",
            )
        if not max(now.wall_s, body.start) < body.end <= body.start + limits.DURATION_S_MAX:
            raise InvalidInput(
                "invalid period to reclaim",
                where="end",
                remedy="give an end after the start and after now, at most a year later",
            )
        if self._count(own=False) >= RECLAIMS_MAX:
            raise LimitExceeded(
                f"{RECLAIMS_MAX} reclaims stand, the maximum",
                remedy="withdraw those that are over: kalends admin reclaim --end KEY",
            )

    def _count(self, *, own: bool) -> int:
        """Return how many stand that the site has made itself, or its owner."""
        return sum(bool(each.only) == own for each in self._reclaims.values())

    # Asking brokers

    def remind_all(self, now: Moment) -> None:
        """Remind all brokers at once: one has just opened a session."""
        for key, reclaimed in list(self._reclaims.items()):
            self._ask_back(reclaimed, now, self._reminders[key][1])

    def advance(self, now: Moment) -> None:
        for key, (due_ms, count) in list(self._reminders.items()):
            reclaimed = self._reclaims[key]
            if reclaimed.end < self.retention.over_s(now):
                self._drop_reclaim(reclaimed)
            elif due_ms <= now.monotonic_ms:
                self._ask_back(reclaimed, now, count)

    def next_deadline_ms(self) -> int | None:
        return min((due_ms for due_ms, _ in self._reminders.values()), default=None)

    def _ask_back(self, reclaimed: Reclaimed, now: Moment, count: int) -> None:
        """Ask for all that is locked there and is to go; who is asked first time is noted durably."""
        asked = [
            stake
            for stake in self._standing_there(reclaimed)
            if not _is_spared(stake, reclaimed) and _last_end(stake, reclaimed) > now.wall_s
        ]
        told = set(reclaimed.told)
        new = tuple(stake.rid for stake in asked if stake.rid not in told)
        if new:
            reclaimed = structs.replace(reclaimed, told=(*reclaimed.told, *new))
            self._reclaims[reclaimed.key] = reclaimed
            self.outbox.store(stored_reclaim(reclaimed))
        for stake in asked:
            self.outbox.send(f"{REGISTER}{stake.register}", _message(stake, reclaimed))
        every_ms = min(REMIND_AFTER_MS << min(count, 8), REMIND_EVERY_MS_MAX)
        due_ms = now.monotonic_ms + int(every_ms * (1 + 0.2 * self.jitter()))
        self._reminders[reclaimed.key] = (due_ms, count + 1)

    def ask_for_locked(self, stake: Stake | None, rid: str, att: int) -> None:
        """Ask as soon as time passes for what was promised when its time was reclaimed."""
        for claim in stake.claims_in("locked") if stake is not None else ():
            for reclaimed in self._reclaims.values():
                if reclaimed.resource == claim.resource and reclaimed.overlaps(
                    claim.start, claim.end
                ):
                    self._reminders[reclaimed.key] = (0, 0)

    def _standing_there(self, reclaimed: Reclaimed) -> Iterator[Stake]:
        """Every reservation that has a locked slot in what was reclaimed, once, by start."""
        calendar = self.book.calendars[reclaimed.resource].calendar
        rids = dict.fromkeys(
            booking.reservation
            for booking in calendar.listing(reclaimed.start, reclaimed.end, limits.LISTING_MAX)
            if booking.state == "locked"
            and booking.reservation in self.book.stakes
            and reclaimed.only in ("", booking.reservation)
        )
        for rid in rids:  # What a batch system has not given up yet is booked, too, and nobody's.
            stake = self.book.stakes[rid]
            if any(
                claim.resource == reclaimed.resource and reclaimed.overlaps(claim.start, claim.end)
                for claim in stake.claims_in("locked")
            ):
                yield stake

    def _close_for(self, reclaimed: Reclaimed) -> None:
        self._reclaims[reclaimed.key] = reclaimed
        if reclaimed.only:
            return
        self.book.calendars[reclaimed.resource].rules.blackouts.reclaim(
            reclaimed.key, reclaimed.start, reclaimed.end, reclaimed.reason
        )

    def _drop_reclaim(self, reclaimed: Reclaimed) -> None:
        del self._reclaims[reclaimed.key], self._reminders[reclaimed.key]
        self.book.calendars[reclaimed.resource].rules.blackouts.restore(reclaimed.key)
        self.outbox.store(ReclaimDropped(reclaimed.key))


def _asked(reclaimed: Reclaimed) -> tuple[str, TimeS, TimeS, int, str]:
    return (
        reclaimed.resource, reclaimed.start, reclaimed.end, reclaimed.notice_s, reclaimed.reason,
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
    )


def _key_of(grant: NodeGrant) -> str:
    return f"cannot-keep-{grant.number}"


def _is_spared(stake: Stake, reclaimed: Reclaimed) -> bool:
    """Whether what it has at this site begins too soon to be moved."""
    return min(claim.start for claim in stake.claims_in("locked")) <= reclaimed.spared_until


def _last_end(stake: Stake, reclaimed: Reclaimed) -> int:
    return max(
        claim.end for claim in stake.claims_in("locked") if claim.resource == reclaimed.resource
    )

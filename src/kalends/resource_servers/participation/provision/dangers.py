"""Promises that a batch system cannot keep: moved to other nodes, and in the end given up.

A node is down or drained, somebody has been put over what was promised, or the system does not make it again.
Where there are no other nodes, the site goes on trying for as long as its owner says, and shorter when the
begin is near. Then it has the broker move the reservation, as an owner does who takes time back. Of those
that meet, one goes after the other, the largest first: what it leaves may be all that the others need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from kalends.core.intervals import Moment
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.provision.foreign_room import ForeignRoom
from kalends.resource_servers.participation.provision.grant_table import GrantTable
from kalends.resource_servers.participation.provision.grants import NodeGrant
from kalends.resource_servers.participation.provision.systems import Systems
from kalends.resource_servers.participation.sockets import Unkept

NEAR_MS: Final = 300_000
"""What begins so soon is not tried for long: its broker needs time, and its user, too."""

TRIED_MS_MIN: Final = 10_000
"""What is back by then was no danger, however near the begin is."""

LOOK_AGAIN_MS: Final = 2_000

WHY_MAX: Final = 120
"""Characters of a system's own words that are told."""

NOT_MADE: Final = "its reservation differs from the one that was asked for"


@dataclass(eq=False, slots=True)
class _Danger:
    why: str
    rid: str
    since_ms: int
    due_ms: int | None = None
    """When it is given up (monotonic); None: not before it is looked at again, if at all."""
    given_up: bool = False


@dataclass(eq=False)
class Dangers:
    """Which grants are in danger, and since when (monotonic); none of it outlives the site's life."""

    grants: GrantTable
    systems: Systems
    foreign: ForeignRoom
    outbox: ParticipantOutbox
    give_up: Callable[[Unkept, Moment], bool]
    """Has the broker of a grant's reservation move it; returns False if it cannot be asked now."""
    lacks: Callable[[str, str, int, str, Moment], None]
    """Told how many units of a reservation that has begun, on a resource, cannot be used, and why."""
    keep: Callable[[int], None]
    """Takes the number of a grant that was given up, and is kept again, or not needed any more."""
    _dangers: dict[int, _Danger] = field(init=False, default_factory=dict)
    _told: dict[int, str] = field(init=False, default_factory=dict)
    """About what the operator has been told, by grant: the reservation that it serves may change."""
    _undone: dict[int, str] = field(init=False, default_factory=dict)
    """What others have done to a grant: said as long as it is not set right, whatever else is said."""

    def resume(self, number: int, why: str, now: Moment) -> bool:
        """Go on with a grant that an earlier life has given up; return False if there is none any more."""
        grant = self.grants.get(number)
        if grant is None:
            return False
        self._dangers[number] = _Danger(why, grant.rid, now.monotonic_ms, given_up=True)
        return True

    def refused(self, grant: NodeGrant, why: str, now: Moment, *, surely_absent: bool) -> bool:
        """Note that the system does not keep `grant`; return True if it was moved to other nodes."""
        if self._evade(grant, now, surely_absent=surely_absent):
            return True
        seen = self._why_not(grant)
        said = f"it says: {why}"[:WHY_MAX] if why else NOT_MADE
        self._note(grant, seen or said, now, seen=bool(seen))
        return False

    def silent(self, grant: NodeGrant, why: str) -> None:
        """Note that the system has not answered: that alone is no danger yet."""
        self._report(grant, why)

    def undone(self, grant: NodeGrant, how: str) -> None:
        """Note that the system has kept `grant`, and does not now: which is set right, and no danger yet."""
        self._undone[grant.number] = f"{grant.name} was {how} there, by a person or in a crash"
        self._report(grant, self._undone[grant.number])

    def look(self, grant: NodeGrant, now: Moment, *, granted: bool) -> bool:
        """Compare with what was seen in the system, which has `granted` it or is still to do so.

        Return True if it was moved to other nodes.
        """
        why = self._why_not(grant)
        self._tell_lack(grant, why, now)
        if why and not (granted and self._evade(grant, now, surely_absent=False)):
            self._note(grant, why, now, seen=True)
            return False
        if granted and not why:
            self.over(grant)
        return bool(why)

    def over(self, grant: NodeGrant) -> None:
        """Note that the system keeps `grant`, or that nobody needs it any more."""
        danger = self._dangers.pop(grant.number, None)
        self._report(grant, "")
        if danger is not None and danger.given_up:
            for other in self._dangers.values():
                other.due_ms = None  # Until it was looked whether what came free is enough.
            self.keep(grant.number)
            self.systems.look_soon(self.grants.backends[grant.resource].system)

    def left(self, grant: NodeGrant) -> None:
        """Note that the claims of `grant` are given up: nobody is to be moved for it any more.

        Its room is not free before the system has let it go. Until then the same reservation may have other
        slots here, also at the same time.
        """
        if grant.wanted is None and self.is_lost(grant):
            self.keep(grant.number)

    def is_lost(self, grant: NodeGrant) -> bool:
        """Whether `grant` was given up: no other claim is to be served with its nodes."""
        danger = self._dangers.get(grant.number)
        return danger is not None and danger.given_up

    def advance(self, now: Moment) -> None:
        """Give up what was tried for long enough: of those that meet, the one that leaves most."""
        due = [
            number
            for number, danger in self._dangers.items()
            if danger.due_ms is not None and danger.due_ms <= now.monotonic_ms
        ]
        for number in sorted(due, key=self._leaves, reverse=True):
            grant, danger = self.grants.get(number), self._dangers[number]
            wanted = grant.wanted if grant is not None else None
            if grant is None or wanted is None:
                del self._dangers[number]
                continue
            slot = Unkept(number, grant.rid, grant.resource, wanted.start, wanted.end, danger.why)
            if self._may_be_saved(grant, now) or not self.give_up(slot, now):
                danger.due_ms = now.monotonic_ms + LOOK_AGAIN_MS
            else:
                danger.due_ms, danger.given_up = None, True
                self._report(grant, f"{danger.why}; the broker is asked to move the reservation")

    def next_deadline_ms(self) -> int | None:
        times_ms = (each.due_ms for each in self._dangers.values())
        return min((each for each in times_ms if each is not None), default=None)

    def _tell_lack(self, grant: NodeGrant, why: str, now: Moment) -> None:
        """Tell of a grant that has begun how much of it cannot be used: it has no other nodes."""
        wanted = grant.wanted
        if wanted is None or self._begins_in_ms(grant, now) > 0:
            return
        units = len(wanted.nodes)
        lacking = units - self.foreign.units_left(grant.resource, wanted) if why else 0
        self.lacks(grant.rid, grant.resource, lacking, why, now)

    def _leaves(self, number: int) -> tuple[int, int]:
        """Return how many units others could have if it went; of as many, that of the youngest is more."""
        grant = self.grants.get(number)
        wanted = grant.wanted if grant is not None else None
        if grant is None or wanted is None:
            return 0, number
        return self.foreign.units_left(grant.resource, wanted), number

    def _may_be_saved(self, grant: NodeGrant, now: Moment) -> bool:
        """Whether another is on its way out that may leave it what it needs, and there is time."""
        wanted = grant.wanted
        assert wanted is not None
        if self._begins_in_ms(grant, now) <= NEAR_MS:
            return False
        return any(
            other is not grant
            and other.resource == grant.resource
            and other.outer.meets(wanted.start, wanted.end)
            and (other.wanted is None or self.is_lost(other))
            for other in self.grants
        )

    def _why_not(self, grant: NodeGrant) -> str:
        wanted = grant.wanted
        if wanted is None:
            return ""
        others = partial(self.grants.outers, grant.resource, but=grant)
        return self.foreign.why_not(grant.resource, wanted, others)

    def _note(self, grant: NodeGrant, why: str, now: Moment, *, seen: bool) -> None:
        danger = self._dangers.setdefault(grant.number, _Danger(why, grant.rid, now.monotonic_ms))
        danger.why = why
        if (
            danger.rid != grant.rid
        ):  # Its user has changed the reservation, and it serves the new one.
            danger.rid, danger.given_up = grant.rid, False
            self.keep(grant.number)
        if not danger.given_up:
            danger.due_ms = self._due_ms(grant, danger, now, seen=seen)
            self._report(grant, why)

    def _due_ms(self, grant: NodeGrant, danger: _Danger, now: Moment, *, seen: bool) -> int | None:
        """Return when to give it up; what nothing is seen of is not before its nodes are mended."""
        begins_in_ms = self._begins_in_ms(grant, now)
        if begins_in_ms <= 0:
            return None
        backend = self.grants.backends[grant.resource]
        due_ms = danger.since_ms + backend.give_up_ms
        if not seen:
            due_ms = max(due_ms, now.monotonic_ms + begins_in_ms - backend.repair_s * 1000)
        near_ms = max(now.monotonic_ms + begins_in_ms - NEAR_MS, danger.since_ms + TRIED_MS_MIN)
        return max(min(due_ms, near_ms), self.systems.sure_ms(backend.system))

    def _begins_in_ms(self, grant: NodeGrant, now: Moment) -> int:
        assert grant.wanted is not None
        clock_s = self.systems.clock_s(self.grants.backends[grant.resource].system, now)
        return (grant.wanted.start - (clock_s or now.wall_s)) * 1000

    def _evade(self, grant: NodeGrant, now: Moment, *, surely_absent: bool) -> bool:
        """Move a grant that has not begun to free nodes; it keeps the nodes that it can."""
        wanted = grant.wanted
        if wanted is None or len(grant.needs) != 1 or wanted.start <= now.wall_s:
            return False
        nodes = self.grants.other_nodes(grant, wanted)
        if nodes is None or nodes == wanted.nodes:
            return False
        return self.grants.move(grant, nodes, surely_absent=surely_absent)

    def _report(self, grant: NodeGrant, why: str) -> None:
        reservation = self.grants.book.stakes.reservation_of(grant.rid)
        about = f"reservation {reservation} on {grant.resource}"
        told = self._told.pop(grant.number, "")
        if told and (told != about or not why):
            self.outbox.report(told, "")
        if not why:
            self._undone.pop(grant.number, None)
        else:
            undone = self._undone.get(grant.number, why)
            why = why if undone == why else f"{undone}; {why}"
            self._told[grant.number] = about
            self.outbox.report(about, f"a promise is not kept by the batch system: {why}")

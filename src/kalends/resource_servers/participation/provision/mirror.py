"""Batch systems made to agree with the grants: the journal is the truth, and they are its mirror.

For each grant there is at most one errand under way. When it has ended, what is wanted is compared with
what the system was seen to have, and the next is sent, until nothing differs. So it does not matter what was
wanted in between, how often an answer was lost, or which life of the site has asked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from kalends.backends.names import some_of
from kalends.backends.records import (
    ChangeReservation,
    CreateReservation,
    DeleteReservation,
    SystemAnswer,
    SystemReservation,
    SystemState,
    Write,
)
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.provision.dangers import Dangers
from kalends.resource_servers.participation.provision.errands import Errands
from kalends.resource_servers.participation.provision.extents import Extent
from kalends.resource_servers.participation.provision.foreign_room import ForeignRoom
from kalends.resource_servers.participation.provision.grant_table import GrantTable
from kalends.resource_servers.participation.provision.grants import NodeGrant, Sight
from kalends.resource_servers.participation.provision.shapes import unknown_names, wish_of
from kalends.resource_servers.participation.provision.slot_accounts import SlotAccounts
from kalends.resource_servers.participation.provision.slot_ends import SlotEnds
from kalends.resource_servers.participation.provision.systems import Systems

RETRY_MS: Final = 1_000
RETRY_MS_MAX: Final = 30_000
"""What the system refuses, or does not answer, is asked again after 1, 2, 4 seconds, and so on."""


@dataclass(eq=False)
class Mirror:
    """Sends what is missing, and hears what there is."""

    grants: GrantTable
    errands: Errands
    systems: Systems
    foreign: ForeignRoom
    dangers: Dangers
    outbox: ParticipantOutbox
    accounts: SlotAccounts
    may_sweep: Callable[[], bool]
    """Whether nothing can be forgotten here: else what seems to be left over may be a promise."""
    refused: Callable[[NodeGrant, SystemAnswer, Moment], bool]
    """Takes what is not granted; returns whether a vote has waited for it, which is no then."""
    ends: SlotEnds = field(init=False)
    _sights: dict[int, Sight] = field(init=False, default_factory=dict)
    _unseen_changes: dict[int, None] = field(init=False, default_factory=dict)
    """Grants to compare before the step ends."""
    _swept: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.ends = SlotEnds(self.grants, self.errands, self.systems)
        self.systems.heard = self._hear
        self.systems.lost = self._lose

    def restore(self) -> None:
        """Begin with grants of earlier lives: what these have asked for may still be carried out."""
        for grant in self.grants:
            self._sights[grant.number] = Sight(doubtful=True)

    def begin(self, grant: NodeGrant) -> None:
        """Begin with a grant of which the system cannot know anything."""
        self._sights[grant.number] = Sight(seen=True)
        self.compare(grant)

    def compare(self, grant: NodeGrant) -> None:
        """Have `grant` compared before the step ends."""
        self._unseen_changes[grant.number] = None

    def carry_on(self, now: Moment) -> None:
        """Send what this step has made necessary."""
        self.grants.catch_up()
        while self._unseen_changes:
            number = next(iter(self._unseen_changes))
            del self._unseen_changes[number]
            grant = self.grants.get(number)
            if grant is not None:
                self._drive(grant, self._sights[number], now)

    def advance(self, now: Moment) -> None:
        """Let time pass: look at systems, and ask again."""
        self.errands.advance(now)
        self.systems.advance(now)
        self.ends.advance(now)
        self.dangers.advance(now)
        for number, sight in self._sights.items():
            if sight.retry_at_ms and sight.retry_at_ms <= now.monotonic_ms:
                sight.retry_at_ms = 0
                self._unseen_changes[number] = None

    def next_deadline_ms(self) -> int | None:
        times_ms = [each.retry_at_ms or None for each in self._sights.values()]
        parts = (self.errands, self.systems, self.ends, self.dangers)
        times_ms += [each.next_deadline_ms() for each in parts]
        return min((each for each in times_ms if each is not None), default=None)

    def is_settled(self, grant: NodeGrant, now: Moment) -> bool:
        """Whether the system was seen to have just what is wanted, and nothing is under way."""
        target, sight = self._target(grant, now), self._sights[grant.number]
        return target is not None and not sight.errand and self._shows(grant, target, now)

    # One grant

    def _target(self, grant: NodeGrant, now: Moment) -> Extent | None:
        """Return what the system is to have now: nothing any more once it is over by both clocks."""
        wanted = grant.wanted
        return None if wanted is None or wanted.end <= self._clock_s(grant, now) else wanted

    def _clock_s(self, grant: NodeGrant, now: Moment) -> int:
        return self.systems.clock_s(self.grants.backends[grant.resource].system, now)

    def _shows(self, grant: NodeGrant, target: Extent, now: Moment) -> bool:
        wish, sight = self._wish(grant, target), self._sights[grant.number]
        if not sight.shows(wish, self._clock_s(grant, now)):
            return False
        # A sum of cores is the same on whichever of the nodes they are: then only a write tells.
        return grant.outer == target or sight.tells_parts() or sight.written == wish

    def _wish(self, grant: NodeGrant, target: Extent) -> SystemReservation:
        return wish_of(self.grants.backends[grant.resource], grant.name, grant.user, target)

    def _drive(self, grant: NodeGrant, sight: Sight, now: Moment) -> None:
        """Compare, and send the next errand, if there is one to send."""
        self.ends.note(grant, now)
        if sight.errand or sight.retry_at_ms:
            return
        target = self._target(grant, now)
        if target is None:
            self._release(grant, sight, now)
        elif self._shows(grant, target, now):
            self.grants.shrink(grant, target)
        elif sight.seen:  # Else the next look shows what there is.
            wish = self._wish(grant, target)
            self._send(
                grant, ChangeReservation(wish) if sight.found else CreateReservation(wish), now
            )

    def _release(self, grant: NodeGrant, sight: Sight, now: Moment) -> None:
        if not sight.seen or sight.found is not None:
            self._send(grant, DeleteReservation(grant.name), now)
        elif not sight.doubtful:
            self.dangers.over(grant)
            self.grants.drop(grant)
            del self._sights[grant.number]

    def _is_wanted(self, grant: NodeGrant, wish: SystemReservation | None, now: Moment) -> bool:
        target = self._target(grant, now)
        return wish == (None if target is None else self._wish(grant, target))

    def _send(self, grant: NodeGrant, errand: Write, now: Moment) -> None:
        backend, sight = self.grants.backends[grant.resource], self._sights[grant.number]

        wish = None if isinstance(errand, DeleteReservation) else errand.reservation

        def then(answer: SystemAnswer, now: Moment) -> None:
            sight.errand, sight.errand_ended = 0, self.errands.ended
            if answer.outcome != "refused":
                sight.written = wish if answer.outcome == "done" else None
            if answer.outcome == "unknown" or self._is_wanted(grant, wish, now):
                self._end(grant, sight, answer, now)
            else:  # It says nothing of what is wanted by now.
                sight.seen, sight.found = True, answer.found
                self.compare(grant)

        until_ms = now.monotonic_ms + backend.answer_ms_max
        sight.errand = self.errands.send(backend.system, errand, until_ms, then)

    def _end(self, grant: NodeGrant, sight: Sight, answer: SystemAnswer, now: Moment) -> None:
        """Take what the system says of one grant: granted, refused, or nothing."""
        self.compare(grant)
        sight.seen, sight.found = answer.outcome != "unknown", answer.found
        if not sight.seen:
            sight.doubtful, sight.reachable_since_ms = True, None
            self.systems.look_soon(self.grants.backends[grant.resource].system)
        target = self._target(grant, now)
        if sight.found is None if target is None else self._shows(grant, target, now):
            sight.failures = 0
            self.dangers.look(grant, now, granted=True)
        elif target is None or not self.refused(grant, answer, now):
            self._retry_later(sight, now)
            if target is not None:
                self._endanger(grant, sight, answer.detail, now)

    def _retry_later(self, sight: Sight, now: Moment) -> None:
        sight.retry_at_ms = now.monotonic_ms + min(RETRY_MS << min(sight.failures, 8), RETRY_MS_MAX)
        sight.failures += 1

    def _endanger(self, grant: NodeGrant, sight: Sight, why: str, now: Moment) -> None:
        """Find other nodes for a promise that the system does not keep, or report that there are none."""
        absent = sight.found is None and not sight.doubtful
        if not sight.seen:
            self.dangers.silent(grant, why)
        elif self.dangers.refused(grant, why, now, surely_absent=absent):
            sight.retry_at_ms = 0

    # Everything that a system has

    def _hear(self, system: str, state: SystemState, ended: int, now: Moment) -> None:
        """Compare everything with what a system has, but for errands that have ended since it was asked."""
        self.accounts.number(state)
        has = {each.name: each for each in state.reservations}
        ours = self.grants.of_system(system)
        for grant in ours:
            sight = self._sights[grant.number]
            if not sight.errand and sight.errand_ended <= ended:
                self._see(grant, has.get(grant.name), now)
                self._end_doubt(grant, sight, now)
                self.compare(grant)
        known = {grant.name for grant in ours} | self._swept
        for name in has:
            if name not in known and name in self.foreign.names and self.may_sweep():
                self._sweep(system, name, now)
        self._tell_of_namesake(system, has)
        self._see_foreign(system, state)
        for grant in ours:
            if self._target(grant, now) is not None:
                granted = self.is_settled(grant, now)
                if self.dangers.look(grant, now, granted=granted):
                    self.compare(grant)

    def _see(self, grant: NodeGrant, found: SystemReservation | None, now: Moment) -> None:
        """Take what a listing has of a grant, and say what others have made of it."""
        target, sight = self._target(grant, now), self._sights[grant.number]
        kept = target is not None and self._shows(grant, target, now)
        sight.seen, sight.found = True, found
        if kept and target is not None and not self._shows(grant, target, now):
            self.dangers.undone(grant, "deleted" if found is None else "changed")

    def _end_doubt(self, grant: NodeGrant, sight: Sight, now: Moment) -> None:
        if sight.doubtful:
            if sight.reachable_since_ms is None:
                sight.reachable_since_ms = now.monotonic_ms
            late_ms = self.grants.backends[grant.resource].traits.late_write_s * 1000
            sight.doubtful = now.monotonic_ms - sight.reachable_since_ms < late_ms

    def _lose(self, system: str) -> None:
        for grant in self.grants.of_system(system):
            self._sights[grant.number].reachable_since_ms = None

    def _sweep(self, system: str, name: str, now: Moment) -> None:
        """Delete what has no grant: it was made by a life that could not store so, or not any more."""
        self._swept.add(name)

        def then(answer: SystemAnswer, now: Moment) -> None:
            self._swept.discard(name)

        until_ms = now.monotonic_ms + self.systems.answer_ms_max(system)
        self.errands.send(system, DeleteReservation(name), until_ms, then)

    def _tell_of_namesake(self, system: str, has: Collection[str]) -> None:
        """Say that another site of this name is at work here, or that this one's store was lost."""
        names = set(filter(self.foreign.names.of_another, has))
        text = (
            "reservations have names of this site, but its store does not list them: "
            f"{some_of(names)}; "
            "give each site its own name, or delete them if the store that made them is lost"
        )
        self.outbox.report(f"names in batch system {system}", text if names else "")

    def _see_foreign(self, system: str, state: SystemState) -> None:
        for resource, backend in self.grants.backends.items():
            if backend.system == system:
                ours = self.grants.outers(resource)
                over = self.foreign.see(resource, backend, state, ours)
                nodes = {node for each in over for node in each.nodes}
                text = f"other users have, or will have, promised nodes: {some_of(nodes)}"
                self.outbox.report(f"foreign claims on {resource}", text if over else "")
                unknown = unknown_names(backend, state)
                text = f"{system} does not know these names, so they cannot be booked: {some_of(unknown)}"
                kind = "licences" if backend.unit == "licences" else "nodes"
                self.outbox.report(f"{kind} of {resource}", text if unknown else "")

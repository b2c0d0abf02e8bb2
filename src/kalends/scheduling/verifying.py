"""The handshake of scheduler and mapper: verify a schedule, reorganise it, until nothing conflicts.

Gehring and Ramme 1996, section 4.2. The scheduler counts nodes; what it plans may be impossible on the
real machine. The mapper says which requests it cannot configure as planned, and when it could.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kalends.machines.machine import Machine, Planned
from kalends.scheduling.cluster import NEVER
from kalends.scheduling.levels import Level, Packing, Rule
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.plan import Booking

ROUNDS_MAX: Final = 8
"""After so many rounds, what still conflicts gets a level of its own: that cannot conflict."""


def fixed_on(cluster: MappedCluster) -> list[Planned]:
    """What nothing planned can move: running jobs, and advance reservations, on their nodes."""
    running = [
        Planned(job.order, job.granted, job.start_s, until_s, job.shape, job.partition)
        for until_s, _, job in cluster.ends
    ]
    return running + [
        Planned(-1 - number, room.nodes, room.start_s, room.end_s, (), partition)
        for number, (room, partition) in enumerate(cluster.rooms)
    ]


class Verification:
    """One handshake about bookings that were just packed, or that may move.

    `fixed` is what runs or is reserved, `standing` what was verified before. What is accepted joins
    `standing`, and moves no more.
    """

    def __init__(
        self,
        machine: Machine,
        fixed: Sequence[Planned],
        standing: Iterable[Planned],
        packing: Packing,
    ) -> None:
        self.machine = machine
        self.fixed = fixed
        self.standing = list(standing)
        self.packing = packing
        self.rounds = 0
        """How often the mapper was asked."""

    def settle(self, rule: Rule, bookings: Sequence[Booking], first: int) -> None:
        """Move bookings until each has a partition; they stay on level `first` or higher.

        One that the mapper refuses for good keeps its place without a partition: only a machine with
        nodes out of service does that to a job that was let in.
        """
        unsettled = list(bookings)
        for _ in range(ROUNDS_MAX):
            suggested = self._ask(unsettled)
            unsettled = [booking for booking in unsettled if booking.job.order in suggested]
            if not unsettled:
                return
            for booking in unsettled:
                self._move(rule, booking, first, suggested[booking.job.order])
        refused = self._ask(unsettled)
        unsettled = [booking for booking in unsettled if booking.job.order in refused]
        for booking in unsettled:
            self._put_behind_all(booking)
        if unsettled:
            self._ask(unsettled)

    def fit(self, booking: Booking) -> bool:
        """Find the earliest gap on its level or a higher one; False if no level has one.

        The booking has its first gap already, and its nodes are not taken from the packing.
        """
        for _ in range(ROUNDS_MAX):
            suggested = self._ask([booking], booking.level.end_s)
            if not suggested:
                return True
            later_s = suggested[booking.job.order]
            if later_s is None or later_s == booking.start_s:
                return False
            found = self.packing.gap(booking.nodes, booking.length_s, later_s)
            if found is None:
                return False
            booking.start_s, booking.level = found
        return False

    def accepts(self, booking: Booking) -> bool:
        """Whether it can run as it is booked now, on whatever nodes; if so it has them."""
        partition, booking.partition = booking.partition, None
        others = [each for each in self.standing if each.job != booking.job.order]
        beside = _during(others, booking.start_s, booking.end_s)
        verdict = self.machine.verify([*self.fixed, *beside, booking.wish()])
        if verdict.conflicts:
            booking.partition = partition
            return False
        booking.partition = verdict.partitions[booking.job.order]
        self.standing = [*others, booking.wish()]
        return True

    def _ask(self, unsettled: Sequence[Booking], until_s: int = NEVER) -> dict[int, int | None]:
        """One round. Returns what conflicts, with the mapper's suggestion; the rest is settled.

        A suggestion of `until_s` or later need not be right: the mapper is not told of what is then.
        """
        self.rounds += 1
        from_s = min(booking.start_s for booking in unsettled)
        beside = _during(self.standing, from_s, until_s)
        wishes = [booking.wish() for booking in unsettled]
        verdict = self.machine.verify([*self.fixed, *beside, *wishes])
        conflicts = {conflict.job: conflict.suggested_s for conflict in verdict.conflicts}
        for booking in unsettled:
            if booking.job.order not in conflicts:
                booking.partition = verdict.partitions[booking.job.order]
                self.standing.append(booking.wish())
        return conflicts

    def _move(self, rule: Rule, booking: Booking, first: int, suggested_s: int | None) -> None:
        """To the suggested time, or the first later one that the rule allows."""
        profile = self.packing.profile
        profile.take(-booking.nodes, booking.start_s, booking.end_s)
        not_before_s = self.packing.end_s if suggested_s is None else suggested_s
        booking.start_s, booking.level = self.packing.place(
            rule, booking.nodes, booking.length_s, first, not_before_s
        )

    def _put_behind_all(self, booking: Booking) -> None:
        packing = self.packing
        packing.profile.take(-booking.nodes, booking.start_s, booking.end_s)
        start_s = packing.profile.earliest(booking.nodes, booking.length_s, packing.end_s)
        booking.start_s, booking.level = start_s, Level(start_s, start_s)
        packing.levels.append(booking.level)
        packing.put(booking.level, booking.nodes, start_s, booking.length_s)


def _during(schedule: Iterable[Planned], start_s: int, end_s: int) -> list[Planned]:
    return [each for each in schedule if each.start_s < end_s and start_s < each.end_s]

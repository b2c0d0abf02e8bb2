"""The handshake of scheduler and mapper: verify a schedule, reorganise it, until nothing conflicts.

Gehring and Ramme 1996, section 4.2. The scheduler counts nodes; its plan may be impossible on the
real machine. The mapper returns the requests that it cannot configure as planned, and when it could.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kalends.machines.machine import Machine
from kalends.machines.partitions import Planned
from kalends.scheduling.levels import Packing, PackingRule
from kalends.scheduling.plan import PlannedJob
from kalends.scheduling.profile import NEVER


class Verification:
    """One handshake about bookings that were just packed, or that may move.

    `fixed` are running jobs and reservations, `standing` bookings verified before. Accepted bookings join
    `standing`, and no longer move.
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
        """Number of calls of the mapper."""

    def settle(self, rule: PackingRule, bookings: Sequence[PlannedJob], first: int) -> None:
        """Move bookings until each has a partition; they stay on level `first` or higher.

        Each must fit the empty machine. Then the loop ends: a refused booking moves later every time, and
        the first of the bookings behind all others is not refused.
        """
        unsettled = list(bookings)
        while unsettled:
            suggested = self._ask(unsettled)
            unsettled = [booking for booking in unsettled if booking.job.order in suggested]
            for booking in unsettled:
                self._move(rule, booking, first, suggested[booking.job.order])

    def fit(self, booking: PlannedJob) -> bool:
        """Find the earliest gap on its level or a higher one; False if no level has one.

        The booking has its first gap already, and its nodes are not taken from the packing.
        """
        while suggested := self._ask([booking], booking.level.end_s):
            found = self.packing.gap(booking.nodes, booking.length_s, suggested[booking.job.order])
            if found is None:
                return False
            booking.start_s, booking.level = found
        return True

    def accepts(self, booking: PlannedJob) -> bool:
        """Return whether it can run as booked now, on any nodes; if so, it gets them."""
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

    def _ask(self, unsettled: Sequence[PlannedJob], until_s: int = NEVER) -> dict[int, int]:
        """Run one round; return the conflicts with the mapper's suggestions. The rest is settled.

        A suggestion of `until_s` or later may be wrong: the mapper does not see the schedule from then on.
        """
        self.rounds += 1
        from_s = min(booking.start_s for booking in unsettled)
        beside = _during(self.standing, from_s, until_s)
        wishes = [booking.wish() for booking in unsettled]
        verdict = self.machine.verify([*self.fixed, *beside, *wishes])
        suggested = {conflict.job: conflict.suggested_s for conflict in verdict.conflicts}
        conflicts: dict[int, int] = {}
        for booking in unsettled:
            if booking.job.order in suggested:
                later_s = suggested[booking.job.order]
                assert later_s is not None, f"job {booking.job.id} fits on the empty machine"
                conflicts[booking.job.order] = later_s
            else:
                booking.partition = verdict.partitions[booking.job.order]
                self.standing.append(booking.wish())
        return conflicts

    def _move(self, rule: PackingRule, booking: PlannedJob, first: int, suggested_s: int) -> None:
        """Move to the suggested time, or the first later one that the rule allows."""
        profile = self.packing.profile
        profile.take(-booking.nodes, booking.start_s, booking.end_s)
        booking.start_s, booking.level = self.packing.place(
            rule, booking.nodes, booking.length_s, first, suggested_s
        )


def _during(schedule: Iterable[Planned], start_s: int, end_s: int) -> list[Planned]:
    return [each for each in schedule if each.start_s < end_s and start_s < each.end_s]

"""Free capacity as a step function of time; a search skips whole blocks."""

from __future__ import annotations

from bisect import bisect_left
from typing import Self

from kalends.calendars.structures.blocked_steps import BlockedSteps
from kalends.calendars.structures.blocks import LEVELS, NEVER, FreeRuns
from kalends.core.intervals import Interval


class StepFunction(BlockedSteps):
    """Steps that are searched for room: see `first_fit` and `stretches`.

    `GROUP_BLOCKS` blocks in a row are a group, with its `FreeRuns` by level cached; a change of a block
    drops its group's, a change of the number of blocks all from there on.
    """

    GROUP_BLOCKS = 32
    NEAR_POINTS = 512
    """Points searched without numpy: most fits are near, and a numpy call costs a hundred points."""

    def __init__(self, top: int) -> None:
        super().__init__(top)
        self._level_units = max(1, top // LEVELS)
        self._groups: list[dict[int, FreeRuns | None]] = []

    def copy(self) -> Self:
        twin = super().copy()
        twin._groups = self._groups.copy()
        return twin

    def first_fit(self, units: int, length_s: int, start: int, end: int) -> int | None:
        """Return the first time from `start` on that begins `length_s` with at least `units`, before `end`.

        `units` are at most `top`. What cannot hold it is skipped: groups, then blocks, by runs that
        are found too long rather than too short; `run` is where the run that reaches `number`
        starts, too early rather than too late. What might hold it is searched to the point.
        O(n/BG) look-ups for n points, B per block and G blocks per group, and O(B) for each of the few
        blocks that might.
        """
        if start + length_s > end:
            return None
        number, at = self._find(start)
        if self._has_end(number, start + length_s):
            block = self._blocks[number]
            last = bisect_left(block.times, start + length_s, at + 1)
            if block.least_of(at, last) + self._pending[number] >= units:
                return start
        found, run, single = False, start, 0
        if at > 0:
            found, run = self._search_block(units, length_s, start, number, at)
            number += 1
        while not found and number < len(self._blocks):
            if run + length_s > end:
                return None
            count = self.GROUP_BLOCKS if self._starts_group(number) and number >= single else 1
            runs = (
                self._block_runs(number, units) if count == 1 else self._group_runs(number, units)
            )
            if runs is None:
                number += count
            elif runs.longest_s < length_s and runs.lead - run < length_s:
                number += count
                run = runs.trail if runs.trail < NEVER else self._firsts[number]
            elif count > 1:
                single = number + count
            else:
                if runs.lead - run < length_s:
                    # What reaches this block is too short anyway.
                    run = max(run, self._firsts[number])
                found, run = self._search(units, length_s, run, number)
                number += 1
        if not found:
            _, run = self._search(units, length_s, run, len(self._blocks) - 1)
        return run if run + length_s <= end else None

    def stretches(self, units: int, start: int, end: int) -> list[Interval]:
        """Return the longest with at least `units` that overlap ``[start, end)``, unclipped, in order.

        O(log n + B + blocks and points of what is found).
        """
        number, at = self._find(start)
        if self._blocks[number].least_of(0, at + 1) + self._pending[number] >= units:
            number = max(number - 1, 0)
            while number > 0 and self._blocks[number].least + self._pending[number] >= units:
                number -= 1
        found: list[Interval] = []
        opened: int | None = None
        while number < len(self._blocks) and (opened is not None or self._firsts[number] < end):
            block, needed = self._blocks[number], units - self._pending[number]
            number += 1
            if block.most < needed if opened is None else block.least >= needed:
                continue
            enough, turns = block.turns(needed)
            for time_s in (block.times[0], *turns.tolist()):
                if not enough:
                    if opened is not None and time_s > start:
                        found.append(Interval(opened, time_s))
                    opened = None
                elif opened is None:
                    if time_s >= end:
                        return found
                    opened = time_s
                enough = not enough
        if opened is not None:
            found.append(Interval(opened, NEVER))
        return found

    def check(self) -> None:
        super().check()
        assert len(self._groups) <= len(self._blocks) // self.GROUP_BLOCKS + 1
        for block in self._blocks:
            block.check(self._level_units)
        for group, known in enumerate(self._groups):
            for level, runs in known.items():
                assert runs == self._joined_runs(group * self.GROUP_BLOCKS, level), (group, level)

    def _changed(self, number: int) -> None:
        group = number // self.GROUP_BLOCKS
        if group < len(self._groups):
            # Another, not a cleared one: a copy may share it.
            self._groups[group] = {}

    def _renumbered(self, number: int) -> None:
        del self._groups[number // self.GROUP_BLOCKS :]

    def _search(self, units: int, length_s: int, run: int, last: int) -> tuple[bool, int]:
        """Search all blocks from the one of `run` to number `last`, like `Block.fit`; never `NEVER`."""
        first, at = self._find(run)
        for number in range(first, last + 1):
            if number > first and self._blocks[number].least + self._pending[number] >= units:
                continue
            found, run = self._search_block(units, length_s, run, number, at)
            if found:
                return True, run
            at = 0
        return False, run

    def _search_block(
        self, units: int, length_s: int, run: int, number: int, at: int
    ) -> tuple[bool, int]:
        """Search from a point on, like `Block.fit`; never `NEVER`, but the begin of the next block."""
        needed = units - self._pending[number]
        found, run = self._blocks[number].fit(needed, length_s, at, run, self.NEAR_POINTS)
        return found, run if run < NEVER else self._firsts[number + 1]

    def _starts_group(self, number: int) -> bool:
        """Return whether a full group starts with this block."""
        count = self.GROUP_BLOCKS
        return number % count == 0 and number + count <= len(self._blocks)

    def _block_runs(self, number: int, units: int) -> FreeRuns | None:
        level = (units - self._pending[number]) // self._level_units
        return self._blocks[number].runs(level, self._level_units)

    def _group_runs(self, number: int, units: int) -> FreeRuns | None:
        """Return the runs of the group that starts with block `number`. Cached."""
        group, level = number // self.GROUP_BLOCKS, units // self._level_units
        while group >= len(self._groups):
            self._groups.append({})
        known = self._groups[group]
        if level not in known:
            known[level] = self._joined_runs(number, level)
        return known[level]

    def _joined_runs(self, first: int, level: int) -> FreeRuns | None:
        lead, longest_s, run = NEVER, 0, NEVER
        last = first + self.GROUP_BLOCKS - 1
        for number in range(first, last + 1):
            runs = self._block_runs(number, level * self._level_units)
            if runs is None:
                continue
            if lead == NEVER:
                lead, longest_s = runs.lead, runs.longest_s
            else:
                longest_s = max(longest_s, runs.longest_s, runs.lead - run)
            run = runs.trail
            if run == NEVER and number < last:
                run = self._firsts[number + 1]
        return FreeRuns(lead, longest_s, run) if lead < NEVER else None

"""The slots that a broker's own requests are asking for, so that they do not compete.

Between the look at a calendar and the answer to a visit lies a round trip. Whoever plans meanwhile
counts as taken what others of the same broker have planned, and finds another place instead of losing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from kalends.contract.messages import Want
from kalends.core.identifiers import split_resource
from kalends.core.spans import Step

Free = Mapping[str, Sequence[Step]]


class InFlight:
    """The slots that each request is asking for."""

    def __init__(self) -> None:
        self._stamps: dict[str, int] = {}
        self._wants: dict[str, dict[str, tuple[Want, ...]]] = {}
        """By resource, then by request."""
        self._resources: dict[str, set[str]] = {}

    def note(self, rid: str, stamp: int, wants: Iterable[Want]) -> None:
        """Record that `rid` asks for `wants` now, and for nothing else."""
        self.drop(rid)
        self._stamps[rid] = stamp
        for want in wants:
            of_one = self._wants.setdefault(want.resource, {})
            of_one[rid] = (*of_one.get(rid, ()), want)
            self._resources.setdefault(rid, set()).add(want.resource)

    def drop(self, rid: str, site: str = "") -> set[str]:
        """Forget what `rid` asks for, everywhere or at `site`, which now shows the result.

        Returns the resources that it asked for until now.
        """
        resources = self._resources.get(rid, set())
        dropped = {name for name in resources if site in ("", split_resource(name)[0])}
        resources -= dropped
        for resource in dropped:
            del self._wants[resource][rid]
            if not self._wants[resource]:
                del self._wants[resource]
        if not resources:
            self._resources.pop(rid, None)
            self._stamps.pop(rid, None)
        return dropped

    def less(
        self, free: Free, rid: str, before: tuple[int, str] | None = None
    ) -> dict[str, Sequence[Step]]:
        """Return `free` less what other requests than `rid`, older than `before`, ask for."""
        return {
            resource: self._less(resource, steps, rid, before) for resource, steps in free.items()
        }

    def others(self, rid: str, resources: Iterable[str]) -> bool:
        """Tell whether another request than `rid` asks for one of `resources`."""
        return any(self._wants.get(resource, {}).keys() - {rid} for resource in resources)

    def _less(
        self, resource: str, steps: Sequence[Step], rid: str, before: tuple[int, str] | None
    ) -> Sequence[Step]:
        others = [
            want
            for other, wants in self._wants.get(resource, {}).items()
            if other != rid and (before is None or (self._stamps[other], other) < before)
            for want in wants
        ]
        return list(without(steps, others)) if others else steps


def without(steps: Iterable[Step], wants: Sequence[Want]) -> Iterator[Step]:
    """Yield `steps` less the units of `wants`, which are all of their resource."""
    first, last = min(want.start for want in wants), max(want.end for want in wants)
    for step in steps:
        start, end, units = step
        if end <= first or last <= start:
            yield step
            continue
        changes: Counter[int] = Counter()
        for want in wants:
            if want.start < end and start < want.end:
                changes[max(want.start, start)] += want.units
                changes[min(want.end, end)] -= want.units
        at, taken = start, 0
        for border in sorted({*changes, end}):
            if border > at and units > taken:
                yield at, border, units - taken
            at = border
            taken += changes[border]


def overlaid(steps: Iterable[Step], start: int, end: int, units: int) -> list[Step]:
    """Return `steps` with `units` free during ``[start, end)``, whatever was free there."""
    outside: list[Step] = []
    for begin, finish, free in steps:
        outside += [(begin, min(finish, start), free)] if begin < start else []
        outside += [(max(begin, end), finish, free)] if finish > end else []
    return sorted([*outside, (start, end, units)])


def fits(wants: Sequence[Want], free: Free) -> bool:
    """Tell whether `free` has room for all of `wants` at once."""
    for resource in {want.resource for want in wants}:
        of_one = [want for want in wants if want.resource == resource]
        borders = sorted({time_s for want in of_one for time_s in (want.start, want.end)})
        for start, end in pairwise(borders):
            needed = sum(want.units for want in of_one if want.start <= start < want.end)
            if needed and not _covers(free.get(resource, ()), start, end, needed):
                return False
    return True


def _covers(steps: Iterable[Step], start: int, end: int, units: int) -> bool:
    at = start
    for begin, finish, free in steps:
        if finish <= at:
            continue
        if begin > at or free < units:
            return False
        at = finish
        if at >= end:
            return True
    return False

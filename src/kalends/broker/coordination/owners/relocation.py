"""The best other time for a reservation whose owner needs a slot back: its parts, moved together.

Pure: what is free is handed in. A part that has begun stays where it is. The others keep their resources,
lengths and offsets to each other, because the request has asked for these offsets. Of the times that suit,
the one nearest to the old start is taken, of two the earlier. Where the old resources have no time at all,
one that attributes had picked may give way to another like it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Final, NamedTuple

from msgspec import structs

from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.planning.local_days import local_times
from kalends.broker.planning.start_ranges import added, ranges
from kalends.contract.messages import Want
from kalends.core import limits
from kalends.core.attributes import described, matches
from kalends.core.grains import grain_of
from kalends.core.identifiers import split_resource
from kalends.core.local_clocks import shown_by
from kalends.core.permitted_starts import permitted_starts
from kalends.core.progressions import EVERY_SECOND, Beat
from kalends.core.requests import has_windows, span_of
from kalends.core.resources import ResourceInfo
from kalends.core.spans import Range, Stage, Step, beat_of, in_all

REACH_S: Final = 28 * 86_400
"""How far a reservation without a window of its own is moved at most, either way."""

OTHERS_MAX: Final = 64
"""Ways of picking other resources that are tried: each costs a search over the whole window."""

Wants = tuple[Want, ...]


class Relocation(NamedTuple):
    """The move of a reservation: its `wants`, the `first` start and the `last` end that they may have now.

    `old` is the whole reservation; what of it is not among `wants` has begun, and stays.
    """

    old: Wants
    wants: Wants
    first: int
    last: int
    others: dict[str, tuple[str, ...]]
    """For each resource that may give way, those like it, in order."""
    permitted: tuple[Range, ...] | None = None
    """The begins of `wants` that the user's own windows leave; None: all."""

    @property
    def resources(self) -> list[str]:
        """All that it might use, in order of name."""
        names = {want.resource for want in self.wants}
        return sorted(names.union(*self.others.values()))

    def whole(self, wants: Wants) -> Wants:
        """Return the whole reservation with `wants` in the place of those that are to be moved."""
        moved = iter(wants)
        return tuple(next(moved) if want in self.wants else want for want in self.old)


def relocation_of(
    record: Record, reclaimed: Collection[str], infos: Mapping[str, ResourceInfo], now_s: int
) -> Relocation:
    """The possible moves of `record` without the slots on `reclaimed`.

    It stays within the window that its request gave. A request that left no choice, and one without
    an end, reach `REACH_S` far, and no further than any of the owners books.
    """
    request = record.spec.request
    wants = tuple(want for want in record.wants if want.start > now_s) or record.wants
    start, end = _begin(record.wants), max(want.end for want in record.wants)
    horizons = [infos[w.resource].horizon_s for w in record.wants if w.resource in infos]
    reach = min(end + REACH_S, now_s + min(horizons, default=0), limits.TIME_S_MAX)
    fixed = bool(request.not_after) and request.not_after - request.not_before <= end - start
    first = _begin(wants) - REACH_S if fixed else request.not_before
    last = request.not_after if request.not_after and not fixed else reach
    others = {name: found for name in sorted(reclaimed) if (found := _alike(record, name, infos))}
    first = max(first, now_s)
    permitted = _permitted(record, wants, first, last)
    return Relocation(record.wants, wants, first, last, others, permitted)


def _permitted(record: Record, wants: Wants, first: int, last: int) -> tuple[Range, ...] | None:
    """Return the begins of `wants` from `first` on at which what has not begun lies in its windows."""
    request = record.spec.request
    alternative = request.alternatives[record.alternative]
    if not has_windows(alternative):
        return None
    start = _begin(record.wants) - span_of(request, alternative)[0]
    begin = _begin(wants)
    later = tuple(term for term in alternative.terms if start + term.offset_s >= begin)
    left = structs.replace(alternative, terms=later or alternative.terms)
    moved = structs.replace(request, alternatives=(left,))
    permitted = permitted_starts(moved, 0, first, last)
    shift_s = begin - start
    return permitted and tuple((low + shift_s, high + shift_s) for low, high in permitted)


def replacement(
    moved: Relocation,
    infos: Mapping[str, ResourceInfo],
    free: Mapping[str, Sequence[Step]],
    excluded: Collection[Wants] = (),
) -> Wants | None:
    """The best wants in the place of `moved.wants`; none of `excluded`, nor the old ones. None: no time."""
    clocks = local_times(infos, moved.resources)
    if not clocks:
        return _replacement(moved, infos, free, excluded)
    clock = clocks[0]
    local = moved._replace(
        wants=clock.wants(moved.wants),
        first=clock.of(moved.first),
        last=clock.of(moved.last),
        permitted=moved.permitted
        and tuple((clock.of(low), shown_by(high, clock.zone)) for low, high in moved.permitted),
    )
    shown = {name: clock.steps(steps) for name, steps in free.items()}
    tried = [clock.wants(each) for each in excluded]
    found = _replacement(local, clock.infos(infos), shown, tried)
    return clock.in_utc(found) if found is not None else None


def _replacement(
    moved: Relocation,
    infos: Mapping[str, ResourceInfo],
    free: Mapping[str, Sequence[Step]],
    excluded: Collection[Wants],
) -> Wants | None:
    tried = {moved.wants, *excluded}
    found = _nearest(moved.wants, moved, infos, free, tried)
    if found is not None:
        return found
    begin = _begin(moved.wants)
    others = [
        found
        for wants in _with_others(moved)
        if (found := _nearest(wants, moved, infos, free, tried)) is not None
    ]
    return min(others, key=lambda wants: (abs(_begin(wants) - begin), _begin(wants)), default=None)


def _nearest(
    wants: Wants,
    moved: Relocation,
    infos: Mapping[str, ResourceInfo],
    free: Mapping[str, Sequence[Step]],
    tried: Collection[Wants],
) -> Wants | None:
    """`wants`, shifted as little as can be to where they are free and have not been tried."""
    begin = _begin(wants)
    last = moved.last - (max(want.end for want in wants) - begin)
    stages: dict[str, list[Stage]] = {}
    for want in wants:
        stage = Stage(want.start - begin, want.end - want.start, want.units)
        stages.setdefault(want.resource, []).append(stage)
    beat = _beat(stages, infos)
    if beat is None or moved.first > last:
        return None
    suits = (
        ranges(free.get(name, ()), stage, moved.first, last)
        for name, of_one in stages.items()
        for stage in added(of_one)
    )
    whole = [(moved.first, last)]
    permitted = whole if moved.permitted is None else moved.permitted
    nearest = min(
        (
            each
            for found in in_all([whole, permitted, *suits])
            for each in _nearest_in(found, beat, begin, wants, tried)
        ),
        key=lambda at: (abs(at - begin), at),
        default=None,
    )
    return _shifted(wants, nearest - begin) if nearest is not None else None


def _nearest_in(
    found: Range, beat: Beat, begin: int, wants: Wants, tried: Collection[Wants]
) -> Iterator[int]:
    """The nearest start of a range on either side of `begin`, of those that have not been tried."""
    first, last = found
    after = range(beat.next(max(first, begin)), last + 1, beat.modulus)
    before = range(beat.next(min(last, begin) + 1 - beat.modulus), first - 1, -beat.modulus)
    for side in (after, before):
        untried = (at for at in side if _shifted(wants, at - begin) not in tried)
        yield from islice(untried, 1)


def _beat(stages: Mapping[str, Sequence[Stage]], infos: Mapping[str, ResourceInfo]) -> Beat | None:
    """The starts on the grain of every stage; None when there are none, or a resource is gone."""
    beat: Beat | None = EVERY_SECOND
    for name, of_one in stages.items():
        for stage in of_one:
            own = beat_of(stage, grain_of(infos[name])) if name in infos else None
            beat = beat.both(own) if beat is not None and own is not None else None
    return beat


def _with_others(moved: Relocation) -> Iterator[Wants]:
    """The same wants with other resources, each in the place of one that may give way."""
    for choice in islice(product(*moved.others.values()), OTHERS_MAX):
        if len(set(choice)) < len(choice):
            continue
        instead = dict(zip(moved.others, choice, strict=True))
        yield tuple(
            structs.replace(want, resource=instead.get(want.resource, want.resource))
            for want in moved.wants
        )


def _alike(record: Record, name: str, infos: Mapping[str, ResourceInfo]) -> tuple[str, ...]:
    """Return the other resources that fit a term which may have picked `name`; none where it was named.

    They are of the same site: only one that has the old can let the new take its place.
    """
    terms = [term for each in record.spec.request.alternatives for term in each.terms]
    if name not in infos or any(term.resource == name for term in terms):
        return ()
    units = max((want.units for want in record.wants if want.resource == name), default=0)
    mine = described(infos[name])
    asked = [t.attributes for t in terms if not t.resource and matches(mine, t.attributes)]
    used = {want.resource for want in record.wants}
    return tuple(
        other
        for other, info in sorted(infos.items())
        if other not in used
        and split_resource(other)[0] == split_resource(name)[0]
        and info.capacity >= units
        and any(matches(described(info), attributes) for attributes in asked)
    )


def _begin(wants: Wants) -> int:
    return min(want.start for want in wants)


def _shifted(wants: Wants, by_s: int) -> Wants:
    return tuple(
        structs.replace(want, start=want.start + by_s, end=want.end + by_s) for want in wants
    )

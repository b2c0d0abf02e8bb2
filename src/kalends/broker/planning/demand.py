"""The demand of one alternative: named resources, and picks by attributes.

A start t suits when every stage lies in the window, on the grain of the resource that it uses, and
where that resource has the units free. A named resource may appear in several terms; amounts add up
where its stages overlap. Attribute terms pick different resources: terms whose stages overlap,
directly or in a chain, share none, and none picks a resource that is named for an overlapping stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from kalends.broker.planning.search_budget import Work
from kalends.broker.planning.start_ranges import added, ranges
from kalends.broker.planning.sweep import PickCandidate, PickRanges
from kalends.core import limits
from kalends.core.attributes import Described, described, matches
from kalends.core.grains import grain_of
from kalends.core.intervals import align_up
from kalends.core.permitted_starts import permitted_starts
from kalends.core.progressions import Beat, joint
from kalends.core.requests import (
    Attribute,
    Request,
    Term,
    has_windows,
    span_of,
    term_interval,
)
from kalends.core.resources import ResourceInfo
from kalends.core.spans import Range, Stage, Step, beat_of, in_all

Infos = Mapping[str, ResourceInfo]
Free = Mapping[str, Sequence[Step]]


class Catalogue:
    """The attributes of all resources; each comparison is made only once.

    Raises `TooMuchWork` when there is more to compare than `work` allows.
    """

    def __init__(self, infos: Infos, work: Work | None = None) -> None:
        self._infos = infos
        self._work = work or Work()
        self._having: dict[tuple[str, str, str], frozenset[str]] = {}

    def having(self, comparison: Attribute) -> frozenset[str]:
        """Return the names of all resources that meet `comparison`."""
        # By its text, for 1, 1.0 and true are equal to Python.
        key = comparison.name, comparison.operator, repr(comparison.value)
        if key not in self._having:
            self._work.spend(8 * len(self._infos))
            self._having[key] = frozenset(
                name
                for name, attributes in self._described.items()
                if matches(attributes, (comparison,))
            )
        return self._having[key]

    def meeting(self, term: Term) -> frozenset[str]:
        """Return the resources that have the attributes of a term, whatever their capacity."""
        return frozenset.intersection(*(self.having(each) for each in term.attributes))

    def serving(self, term: Term) -> list[str]:
        """Return the resources that an attribute term could pick, in order of name.

        What comes only together with others has to be named.
        """
        names = self.meeting(term)
        self._work.spend(10 * len(names))
        return sorted(
            name
            for name in names
            if self._infos[name].capacity >= term.units and not self._infos[name].companions
        )

    @cached_property
    def _described(self) -> dict[str, Described]:
        return {name: described(info) for name, info in self._infos.items()}


class Pick(NamedTuple):
    """An attribute term: its number, stage, group without shared resources, and candidates."""

    number: int
    stage: Stage
    group: int
    wanted: int
    names: tuple[str, ...]

    def beat(self, info: ResourceInfo) -> Beat:
        """Return the starts on the grain of a name; the stage's length is a multiple of it."""
        beat = beat_of(self.stage, grain_of(info))
        assert beat is not None, f"{self.stage} is off the grain of {info.name}"
        return beat


class Demand(NamedTuple):
    """What must be free at once; `beat` is None when the named stages have no common grain.

    `permitted` are the starts that the user's own windows leave; None: all.
    """

    named: dict[str, list[Stage]]
    picks: list[Pick]
    beat: Beat | None
    permitted: Sequence[Range] | None = None


def demand_of(
    request: Request, infos: Infos, number: int = 0, catalogue: Catalogue | None = None
) -> Demand:
    """Return the demand of alternative `number`; several may share a `catalogue` of `infos`."""
    terms = request.alternatives[number].terms
    named: dict[str, list[Stage]] = {}
    asked: list[tuple[int, Stage]] = []
    for place, term in enumerate(terms):
        stage = stage_of(request, term)
        if term.resource:
            named.setdefault(term.resource, []).append(stage)
        else:
            asked.append((place, stage))
    for name, stages in named.items():
        if len(stages) > 1 and name in infos and infos[name].gap_s:
            stages += _between(stages, infos[name])
    names = candidates(request, infos, number, catalogue) if asked else {}
    picks = []
    group, end_s = -1, 0
    for place, stage in sorted(asked, key=lambda each: (each[1].offset_s, each[0])):
        group, end_s = (
            (group, max(end_s, stage.end_s))
            if group >= 0 and stage.offset_s < end_s
            else (group + 1, stage.end_s)
        )
        allowed = tuple(
            name
            for name in names[place]
            if not stage.length_s % infos[name].grain_s
            and not any(stage.overlaps(other) for other in named.get(name, ()))
        )
        picks.append(Pick(place, stage, group, terms[place].count, allowed))
    return Demand(named, picks, named_beat(named, infos))


def _between(stages: Sequence[Stage], info: ResourceInfo) -> list[Stage]:
    """Return the owner's buffers after `stages` of one resource, as far as others of them reach into these.

    What is shown as free has room for a buffer already, but for one.
    """
    return [
        Stage(other.offset_s, align_up(until - other.offset_s, info.grain_s), one.units)
        for one in stages
        for other in stages
        if one.end_s <= other.offset_s < (until := min(one.end_s + info.gap_s, other.end_s))
    ]


def within_windows(
    demand: Demand, request: Request, number: int, free: Free, work: Work | None = None
) -> Demand:
    """Return `demand` with the starts that the windows of alternative `number` permit within `free`."""
    if not has_windows(request.alternatives[number]):
        return demand
    begin, end = shown_in(request, free)
    spend = (work or Work()).spend
    return demand._replace(permitted=permitted_starts(request, number, begin, end, spend))


def shown_in(request: Request, free: Free) -> tuple[int, int]:
    """Return the part of the request's window in which anything is free: windows recur for ever."""
    begin = min((steps[0][0] for steps in free.values() if steps), default=0)
    end = max((steps[-1][1] for steps in free.values() if steps), default=0)
    return max(begin, request.not_before), min(end, request.not_after or limits.TIME_S_MAX)


def candidates(
    request: Request, infos: Infos, number: int = 0, catalogue: Catalogue | None = None
) -> dict[int, list[str]]:
    """Return what each term of alternative `number` names or could pick, in order of name.

    Each has the attributes, and the capacity for its units.
    """
    catalogue = catalogue or Catalogue(infos)
    return {
        place: [term.resource] if term.resource else catalogue.serving(term)
        for place, term in enumerate(request.alternatives[number].terms)
    }


def named_beat(named: Mapping[str, Sequence[Stage]], infos: Infos) -> Beat | None:
    """Return the starts on all named grains; None when there are none or one is unknown."""
    return joint(
        beat_of(stage, grain_of(infos[name])) if name in infos else None
        for name, stages in named.items()
        for stage in stages
    )


def named_ranges(demand: Demand, free: Free, first: int, last: int) -> Iterator[Range]:
    """Return the permitted starts at which all named resources have their units, whatever the grains."""
    permitted = [(first, last)] if demand.permitted is None else demand.permitted
    of_stages = (
        ranges(free.get(name, ()), stage, first, last)
        for name, stages in demand.named.items()
        for stage in added(stages)
    )
    return in_all([[(first, last)], permitted, *of_stages])


def picking_of(
    pick: Pick, infos: Infos, free: Free, first: int, last: int, work: Work | None = None
) -> PickRanges:
    """Return `pick` with the ranges of starts of all its candidates."""
    offered = [
        PickCandidate(
            name, ranges(free[name], pick.stage, first, last, work), pick.beat(infos[name])
        )
        for name in pick.names
        if name in free
    ]
    return PickRanges(pick.group, pick.wanted, offered)


def start_window(request: Request, number: int = 0) -> Range:
    """Return the first and last start with all stages of an alternative in the window.

    Empty if the last is less. Each alternative has its own: the window is about its own stages.
    """
    begin_s, end_s = span_of(request, request.alternatives[number])
    return request.not_before - begin_s, (request.not_after or limits.TIME_S_MAX) - end_s


def stage_of(request: Request, term: Term) -> Stage:
    begin, end = term_interval(request, term, 0)
    return Stage(begin, end - begin, term.units)


def growing(term: Term) -> bool:
    """Tell whether the term takes more than its least amount where that is free."""
    return term.units_max > term.units and term.units_weight >= 0

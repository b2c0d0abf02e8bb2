"""From a request and what is free: the earliest common starts, or which resource stands in the way.

Pure: the resources' descriptions and their free steps are handed in. Nothing here is a promise;
others may book meanwhile, and each site decides for itself.

A start t suits when every stage lies in the window, on the grain of the resource that it uses, and
where that resource has the units free. A named resource may appear in several terms; amounts add up
where its stages overlap. Attribute terms pick different resources: terms whose stages overlap,
directly or in a chain, share none, and none picks a resource that is named for an overlapping stage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from kalends.broker.search import Candidate, Picking, Sweep
from kalends.broker.starts import (
    EVERY_SECOND,
    Range,
    Stage,
    Step,
    added,
    beat_of,
    intersection,
    ranges,
)
from kalends.core import limits
from kalends.core.attributes import described, matches
from kalends.core.beats import Beat
from kalends.core.errors import InvalidInput
from kalends.core.messages import Want
from kalends.core.requests import Request, Term, span, term_interval
from kalends.core.resources import ResourceInfo

Infos = Mapping[str, ResourceInfo]
Free = Mapping[str, Sequence[Step]]


Key = tuple[int, int]
"""The number of an alternative, and a common start of it."""


class Plan(NamedTuple):
    """A common start, the end of the last stage, and one `Want` a stage, by resource, then start."""

    start: int
    end: int
    wants: tuple[Want, ...]
    alternative: int = 0
    weight: float = 0.0

    @property
    def key(self) -> Key:
        return self.alternative, self.start


def executable(request: Request) -> None:
    """Raise `InvalidInput` for what a request may say but nothing carries out yet."""
    if len(request.alternatives) > 1:
        raise _not_executed("alternatives", "more than one alternative", "ask for them one by one")
    for number, term in enumerate(request.alternatives[0].terms):
        if term.units_max > term.units:
            raise _not_executed(
                f"alternatives[0].terms[{number}].units_max",
                f"the moldable amount {term.units}..{term.units_max}",
                f"ask for a fixed amount, such as {term.units}",
            )
    if request.preferences:
        raise _not_executed("preferences", "preferences among times", "give a narrower window")


def plan(
    request: Request,
    infos: Infos,
    free: Free,
    *,
    count: int = 1,
    excluded: Collection[Key] = (),
) -> list[Plan]:
    """At most `count` plans, ascending; none has its key in `excluded`.

    The first is the earliest that there is. Each further one is the earliest that begins when all
    stages of the one before are over, so that the plans are real alternatives. Which resources are
    picked depends on nothing but the input; earlier names are preferred. A resource without an entry
    in `free` counts as taken. Why the search misses nothing: `kalends.broker.search`.
    """
    demand = demand_of(request, infos)
    first, last = start_window(request)
    beat = demand.beat
    if beat is None or first > last:
        return []
    sweep = Sweep(
        first, last, named_ranges(demand, free, first, last), beat,
        [picking_of(pick, demand, infos, free, first, last) for pick in demand.picks],
    )  # fmt: skip
    lead_s, tail_s = span(request)
    plans: list[Plan] = []
    start = first
    while len(plans) < count and (hit := sweep.next(start)) is not None:
        start = hit.start + 1
        if (0, hit.start) not in excluded:
            plans.append(_plan_at(request, demand, hit.start, hit.picked))
            start = hit.start + tail_s - lead_s
    return plans


def fixed_start(request: Request) -> int | None:
    """The common start of a request whose window is exactly as long as its stages, else None."""
    first, last = start_window(request)
    return first if request.not_after and first == last else None


def fixed_wants(request: Request) -> tuple[Want, ...] | None:
    """What to claim without looking, when the start is fixed and every term names its resource."""
    start = fixed_start(request)
    terms = request.alternatives[0].terms
    if start is None or not all(term.resource for term in terms):
        return None
    return _in_order([_want(request, term, term.resource, start) for term in terms])


def candidates(request: Request, infos: Infos) -> dict[int, list[str]]:
    """For each term's number, in order of name, the resources that it names or could pick.

    Those that have the attributes, and the capacity for its units.
    """
    terms = request.alternatives[0].terms
    by_name = sorted(infos)
    attributes = (
        {name: described(infos[name]) for name in by_name}
        if any(term.attributes for term in terms)
        else {}
    )
    return {
        number: [term.resource]
        if term.resource
        else [
            name
            for name in by_name
            if infos[name].capacity >= term.units and matches(attributes[name], term.attributes)
        ]
        for number, term in enumerate(terms)
    }


class Pick(NamedTuple):
    """An attribute term: its number and stage, the group that shares no resource, who could serve."""

    number: int
    stage: Stage
    group: int
    wanted: int
    names: tuple[str, ...]


class Demand(NamedTuple):
    """A request sorted by how it is met; `beat` is None when named stages never meet their grains."""

    named: dict[str, list[Stage]]
    picks: list[Pick]
    beat: Beat | None


def demand_of(request: Request, infos: Infos) -> Demand:
    """What must be free at once: stages of named resources, and picks of attribute terms."""
    terms = request.alternatives[0].terms
    named: dict[str, list[Stage]] = {}
    asked: list[tuple[int, Stage]] = []
    for number, term in enumerate(terms):
        stage = stage_of(request, term)
        if term.resource:
            named.setdefault(term.resource, []).append(stage)
        else:
            asked.append((number, stage))
    names = candidates(request, infos) if asked else {}
    picks = []
    group, end_s = -1, 0
    for number, stage in sorted(asked, key=lambda each: (each[1].offset_s, each[0])):
        group, end_s = (
            (group, max(end_s, stage.end_s))
            if group >= 0 and stage.offset_s < end_s
            else (group + 1, stage.end_s)
        )
        allowed = tuple(
            name
            for name in names[number]
            if beat_of(stage, infos[name].grain_s)
            and not any(stage.overlaps(other) for other in named.get(name, ()))
        )
        picks.append(Pick(number, stage, group, terms[number].count, allowed))
    return Demand(named, picks, named_beat(named, infos))


def named_beat(named: Mapping[str, Sequence[Stage]], infos: Infos) -> Beat | None:
    """The starts on the grain of every named stage; None when there are none or one is unknown."""
    beat: Beat | None = EVERY_SECOND
    for name, stages in named.items():
        for stage in stages:
            own = beat_of(stage, infos[name].grain_s) if name in infos else None
            beat = beat.both(own) if beat is not None and own is not None else None
    return beat


def named_ranges(demand: Demand, free: Free, first: int, last: int) -> Iterator[Range]:
    """The starts at which every named resource has its units, whatever the grains."""
    return reduce(
        intersection,
        (
            ranges(free.get(name, ()), stage, first, last)
            for name, stages in demand.named.items()
            for stage in added(stages)
        ),
        iter([(first, last)]),
    )


def picking_of(
    pick: Pick, demand: Demand, infos: Infos, free: Free, first: int, last: int
) -> Picking:
    """`pick` with the ranges of starts of everyone who could serve it."""
    offered = []
    for name in pick.names:
        beat = beat_of(pick.stage, infos[name].grain_s)
        if beat is not None and name in free:
            offered.append(Candidate(name, ranges(free[name], pick.stage, first, last), beat))
    return Picking(pick.group, pick.wanted, offered)


def start_window(request: Request) -> Range:
    """The first and the last common start with all stages in the window; empty if the last is less."""
    lead_s, tail_s = span(request)
    return request.not_before - lead_s, (request.not_after or limits.TIME_S_MAX) - tail_s


def stage_of(request: Request, term: Term) -> Stage:
    begin, end = term_interval(request, term, 0)
    return Stage(begin, end - begin, term.units)


def _plan_at(request: Request, demand: Demand, start: int, picked: Sequence[Sequence[str]]) -> Plan:
    terms = request.alternatives[0].terms
    wants = [_want(request, term, term.resource, start) for term in terms if term.resource]
    for pick, names in zip(demand.picks, picked, strict=True):
        wants += [_want(request, terms[pick.number], name, start) for name in names]
    return Plan(start, start + span(request)[1], _in_order(wants))


def _want(request: Request, term: Term, resource: str, start: int) -> Want:
    stage = term_interval(request, term, start)
    return Want(resource=resource, start=stage.start, end=stage.end, units=term.units)


def _in_order(wants: list[Want]) -> tuple[Want, ...]:
    return tuple(sorted(wants, key=lambda want: (want.resource, want.start, want.end, want.units)))


def _not_executed(where: str, what: str, remedy: str) -> InvalidInput:
    return InvalidInput(f"{what} cannot be carried out yet", where=where, remedy=remedy)

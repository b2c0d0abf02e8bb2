"""Reasons why there is no plan: the resource, or the term, that prevents each alternative.

Told from the same input as `planner.plan`: first what could never be, then what the owners' rules refuse,
then what is taken, then what is free only at different times. Nothing here says who has taken it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec.structs import replace

from kalends.broker.planning.demand import (
    Demand,
    Free,
    Infos,
    Pick,
    demand_of,
    named_beat,
    named_ranges,
    start_window,
)
from kalends.broker.planning.local_days import plan
from kalends.broker.planning.needs import NOTHING_BARRED, BarredNeeds, need_of
from kalends.broker.planning.start_ranges import added, most_together, ranges
from kalends.core.attributes import described, matches
from kalends.core.durations import format_duration
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.grains import grain_of
from kalends.core.language import format_term
from kalends.core.permitted_starts import WindowDemand, demands
from kalends.core.progressions import Beat
from kalends.core.requests import Alternative, Request
from kalends.core.resources import ResourceInfo
from kalends.core.spans import Range, Stage, Step, beat_of, intersection
from kalends.core.windows import described as windows_text

WINDOWS_SHOWN_MAX: Final = 3
"""Sets of windows that are told together: a term has one, and its alternative may have one."""

REFUSED_SHOWN_MAX: Final = 4
"""Resources of one term whose owners' rules are told: those of others mostly say the same."""


def explain(
    request: Request, infos: Infos, free: Free, barred: BarredNeeds = NOTHING_BARRED
) -> tuple[Refusal, ...]:
    """Return why `plan` finds no start: one or more refusals, the most telling first.

    Of every alternative, one after the other; where there are several, each refusal says which it is
    about. When there is a plan after all, or only excluded ones, the answer
    says that others were faster. What is `barred` is refused by the owner's rule.
    """
    if plan(request, infos, free):
        return (others_were_faster(request),)
    return tuple(
        refusal
        for number in range(len(request.alternatives))
        for refusal in explain_one(request, number, infos, free, barred)
    )


def explain_one(
    request: Request, number: int, infos: Infos, free: Free, barred: BarredNeeds = NOTHING_BARRED
) -> tuple[Refusal, ...]:
    """Do as `explain` for alternative `number` of a request without a plan."""
    refusals = _explained(request, number, infos, free, barred)
    return tuple(of_alternative(request, number, refusal) for refusal in refusals)


def others_were_faster(request: Request) -> Refusal:
    """Return the refusal for a plan that others have taken meanwhile."""
    return Refusal(
        where=_everything(request.alternatives),
        code=RefusalCode.BUSY,
        detail="other requests took every start that was tried",
    )


def of_alternative(request: Request, number: int, refusal: Refusal) -> Refusal:
    """Return `refusal`, with its alternative where there are several."""
    if len(request.alternatives) == 1:
        return refusal
    detail = f"alternative {number + 1}: {refusal.detail}"
    return replace(refusal, detail=detail)


def _explained(
    request: Request, number: int, infos: Infos, free: Free, barred: BarredNeeds
) -> tuple[Refusal, ...]:
    alternative = request.alternatives[number]
    demand = demand_of(request, infos, number)
    first, last = start_window(request, number)
    never = [*_never_named(demand, infos, free), *_never_picked(alternative, demand, infos)]
    if never:
        return tuple(never)
    refused = [
        *_barred_named(demand, barred, (first, last)),
        *_barred_picked(demand, barred, (first, last)),
    ]
    if refused:
        return tuple(dict.fromkeys(refused))
    taken = [
        *_taken_named(demand, infos, free, first, last),
        *_taken_picked(alternative, demand, infos, free, first, last),
    ]
    if taken:
        return tuple(taken)
    if demands(request, number) and plan(_without_windows(request, number), infos, free):
        return tuple(_outside(request, number, infos, free))
    return (_apart(alternative, demand, infos, free, first, last),)


def _without_windows(request: Request, number: int) -> Request:
    """Return the request for alternative `number` alone, at any time."""
    alternative = request.alternatives[number]
    terms = tuple(replace(term, windows=()) for term in alternative.terms)
    anytime = replace(alternative, terms=terms, windows=())
    return replace(request, alternatives=(anytime,))


def _outside(request: Request, number: int, infos: Infos, free: Free) -> Iterator[Refusal]:
    """Yield a refusal for each term that has starts, but none in the user's windows; else one for all."""
    alternative = request.alternatives[number]
    asked = demands(request, number)
    told = False
    for place, term in enumerate(alternative.terms):
        own = [each for each in asked if each.term == place]
        if own and not _has_start(request, number, place, infos, free):
            told = True
            yield _not_in_windows(format_term(term), own)
    if not told:
        yield _not_in_windows(_everything((alternative,)), asked)


def _has_start(request: Request, number: int, place: int, infos: Infos, free: Free) -> bool:
    """Return whether one term, alone, has a start in its windows."""
    alternative = request.alternatives[number]
    alone = replace(alternative, terms=(alternative.terms[place],))
    return bool(plan(replace(request, alternatives=(alone,)), infos, free))


def _not_in_windows(where: str, asked: Sequence[WindowDemand]) -> Refusal:
    told = dict.fromkeys(windows_text(each.windows) for each in asked)
    detail = f"no start of {where} lies in your {' and your '.join(list(told)[:WINDOWS_SHOWN_MAX])}"
    return Refusal(where=where, code=RefusalCode.BUSY, detail=detail)


def _never_named(demand: Demand, infos: Infos, free: Free) -> Iterator[Refusal]:
    for name, stages in demand.named.items():
        info = infos.get(name)
        if info is None:
            yield Refusal(
                where=name, code=RefusalCode.UNKNOWN_RESOURCE, detail="no site offers this resource"
            )
        elif name not in free:
            yield Refusal(
                where=name, code=RefusalCode.SITE_DOWN, detail="its calendar could not be read"
            )
        else:
            yield from _never_one(info, stages)


def _never_one(info: ResourceInfo, stages: Sequence[Stage]) -> Iterator[Refusal]:
    units = max(stage.units for stage in added(stages))
    if units > info.capacity:
        yield Refusal(
            where=info.name,
            code=RefusalCode.TOO_MUCH,
            detail=f"{units} units are needed at one time, but it has {info.capacity}",
        )
    if named_beat({info.name: stages}, {info.name: info}) is None:
        alone = len(stages) == 1 and not stages[0].offset_s
        wrong = (
            f"{format_duration(stages[0].length_s)} is not one"
            if alone
            else "the stages' lengths and offsets are not"
        )
        yield Refusal(
            where=info.name,
            code=RefusalCode.OFF_GRAIN,
            detail=f"it is booked in multiples of {format_duration(info.grain_s)}; {wrong}",
        )


def _never_picked(alternative: Alternative, demand: Demand, infos: Infos) -> Iterator[Refusal]:
    for pick in demand.picks:
        if len(pick.names) >= pick.wanted:
            continue
        term = alternative.terms[pick.number]
        alike = [info for info in infos.values() if matches(described(info), term.attributes)]
        able = [info for info in alike if info.capacity >= term.units]
        detail = f"{_count(len(alike), 'resource has', 'resources have')} these attributes"
        if len(able) < len(alike):
            detail += f", {len(able)} with {term.units} units"
        if len(pick.names) < len(able):
            detail += (
                f", {len(pick.names)} that can be booked for {format_duration(pick.stage.length_s)}"
                " and are not named in another term"
            )
        code = RefusalCode.TOO_MUCH if len(alike) >= pick.wanted else RefusalCode.UNKNOWN_RESOURCE
        needed = _count(pick.wanted, "is needed", "are needed")
        yield Refusal(where=format_term(term), code=code, detail=f"{detail}; {needed}")


def _barred_named(demand: Demand, barred: BarredNeeds, window: Range) -> Iterator[Refusal]:
    """Yield the refusals of owners' rules that forbid such a booking of a named resource."""
    for name, stages in demand.named.items():
        refusals = (barred.get((name, need_of(name, each, window))) for each in added(stages))
        yield from islice((each for each in refusals if each is not None), 1)


def _barred_picked(demand: Demand, barred: BarredNeeds, window: Range) -> Iterator[Refusal]:
    """Yield the same of the terms by attributes for which too few resources are left."""
    for pick in demand.picks:
        need = need_of("", pick.stage, window)
        refused = [barred[name, need] for name in pick.names if (name, need) in barred]
        if len(pick.names) - len(refused) < pick.wanted:
            yield from refused[:REFUSED_SHOWN_MAX]


def _taken_named(
    demand: Demand, infos: Infos, free: Free, first: int, last: int
) -> Iterator[Refusal]:
    """Yield refusals of the named resources that have no start in the window."""
    for name, stages in demand.named.items():
        beat = named_beat({name: stages}, infos)
        alone = list(named_ranges(demand._replace(named={name: stages}), free, first, last))
        if beat is None or any(beat.next(begin) <= end for begin, end in alone):
            continue
        if alone:
            yield Refusal(
                where=name,
                code=RefusalCode.OFF_GRAIN,
                detail=f"it is free, but is booked in multiples of "
                f"{format_duration(infos[name].grain_s)}: none begins in the window",
            )
            continue
        busy = (stage for stage in added(stages) if not any(ranges(free[name], stage, first, last)))
        need = next(busy, None)
        detail = "it is free for each of its stages at times, but never for all at one start"
        if need is not None:
            window = (first + need.offset_s, last + need.end_s)
            longest_s = _longest_stretch_s(free[name], need.units, window)
            detail = (
                f"{_count(need.units, 'unit', 'units')} for {format_duration(need.length_s)} "
                f"{'is' if need.units == 1 else 'are'} needed; "
            ) + (
                f"the longest time with that much free is {format_duration(longest_s)}"
                if longest_s
                else f"at no time are more than {_most_free(free[name], window)} free for you"
            )
        yield Refusal(where=name, code=RefusalCode.BUSY, detail=detail)


def _taken_picked(
    alternative: Alternative, demand: Demand, infos: Infos, free: Free, first: int, last: int
) -> Iterator[Refusal]:
    """Yield refusals of attribute terms without a start, alone or with named resources."""
    beside = list(named_ranges(demand, free, first, last))
    for pick in demand.picks:
        where = format_term(alternative.terms[pick.number])
        alone = most_together(_starts_of(pick, infos, free, first, last))
        together = most_together(
            intersection(beside, starts) for starts in _starts_of(pick, infos, free, first, last)
        )
        if alone < pick.wanted:
            detail = f"only {alone} of {pick.wanted} needed resources are ever free together"
        elif beside and together < pick.wanted:
            detail = (
                f"only {together} of {pick.wanted} needed resources are ever free "
                f"together with {', '.join(sorted(demand.named))}"
            )
        else:
            continue
        yield Refusal(where=where, code=RefusalCode.BUSY, detail=detail)


def _apart(
    alternative: Alternative, demand: Demand, infos: Infos, free: Free, first: int, last: int
) -> Refusal:
    """Return the refusal when everything is free at times, but never at one time."""
    named: dict[str, list[Stage]] = {}
    beat: Beat | None
    for name, stages in demand.named.items():
        others = ", ".join(sorted(named))
        named[name] = stages
        beat = named_beat(named, infos)
        if beat is None:
            return Refusal(
                where=name,
                code=RefusalCode.OFF_GRAIN,
                detail=f"its grain of {format_duration(infos[name].grain_s)} and those of {others} "
                "never meet with these offsets",
            )
        common = named_ranges(demand._replace(named=named), free, first, last)
        if all(beat.next(begin) > end for begin, end in common):
            return Refusal(
                where=name,
                code=RefusalCode.BUSY,
                detail=f"it is free at times, but never together with {others}",
            )
    return Refusal(
        where=_everything((alternative,)),
        code=RefusalCode.BUSY,
        detail="enough different resources are never free at one time for all terms",
    )


def _everything(alternatives: Sequence[Alternative]) -> str:
    return " | ".join(
        " + ".join(format_term(term) for term in alternative.terms) for alternative in alternatives
    )


def _starts_of(
    pick: Pick, infos: Infos, free: Free, first: int, last: int
) -> Iterator[Iterator[Range]]:
    for name in pick.names:
        beat = beat_of(pick.stage, grain_of(infos[name]))
        if beat is not None:
            yield _on_beat(ranges(free.get(name, ()), pick.stage, first, last), beat)


def _on_beat(starts: Iterator[Range], beat: Beat) -> Iterator[Range]:
    for begin, end in starts:
        if beat.next(begin) <= end:
            yield beat.next(begin), end


def _longest_stretch_s(steps: Sequence[Step], units: int, window: Range) -> int:
    longest_s = 0
    begin = end = window[0]
    for step_start, step_end, amount in steps:
        if amount < units or step_end <= window[0] or step_start >= window[1]:
            continue
        if step_start != end:
            begin = max(step_start, window[0])
        end = step_end
        longest_s = max(longest_s, min(end, window[1]) - begin)
    return longest_s


def _most_free(steps: Sequence[Step], window: Range) -> int:
    """Return the most units that are free at any time of the window."""
    return max(
        (units for begin, end, units in steps if begin < window[1] and window[0] < end), default=0
    )


def _count(number: int, one: str, several: str) -> str:
    return f"{number or 'no'} {one if number == 1 else several}"

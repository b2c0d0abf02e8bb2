"""The common starts that a user's own windows permit, what they prefer, and whether they can ever be met.

A window is a demand on the common start alone, whichever resource serves: its stage begins in some range of
starts. So an alternative permits the intersection of such ranges, and nothing else changes in a search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from kalends.core import limits
from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput
from kalends.core.full_times import format_time
from kalends.core.intervals import Interval, joined
from kalends.core.request_parts import (
    CLOCK_CHANGE_S,
    DAY_S,
    Alternative,
    Term,
    TimePreference,
    parts_of,
    span_of,
    term_interval,
)
from kalends.core.spans import Range, Stage, Step, intersection, ranges
from kalends.core.windows import Daily, TimeWindow, described, occurrences, opened

OCCURRENCE_STEPS: Final = 250
"""The work of an occurrence, in steps of a search: 25 us."""

_SAME_EVERY_S: Final = 8 * DAY_S
"""Daily windows repeat by the day; a week more has a clock change or has none."""


_NEVER: Final = (Interval(0, 0),)

Part = TypeVar("Part", Alternative, Term)


class Windowed(Protocol):
    """A request, as far as its windows depend on it."""

    @property
    def alternatives(self) -> tuple[Alternative, ...]: ...
    @property
    def duration_s(self) -> int: ...
    @property
    def not_before(self) -> int: ...
    @property
    def not_after(self) -> int: ...
    @property
    def preferences(self) -> tuple[TimePreference, ...]: ...


class WindowDemand(NamedTuple):
    """`stage` lies within one of `windows`; `where` is their path in the request, `term` its number."""

    windows: tuple[TimeWindow, ...]
    stage: Stage
    where: str
    term: int


def demands(request: Windowed, number: int) -> list[WindowDemand]:
    """Return the windows of each stage of alternative `number`; none for most requests."""
    alternative = request.alternatives[number]
    found = []
    for place, term in enumerate(alternative.terms):
        if alternative.windows:
            path = f"alternatives[{number}].windows"
            found.append(WindowDemand(alternative.windows, _stage(request, term), path, place))
        if term.windows:
            path = f"alternatives[{number}].terms[{place}].windows"
            found.append(WindowDemand(term.windows, _stage(request, term), path, place))
    return found


def permitted_starts(
    request: Windowed,
    number: int,
    begin: int,
    end: int,
    spend: Callable[[int], None] = lambda steps: None,
) -> tuple[Range, ...] | None:
    """Return the starts, in order, at which all stages lie in ``[begin, end)`` and in their windows.

    None if alternative `number` has no windows. Calls `spend` with the steps of work.
    """
    asked = demands(request, number)
    if not asked:
        return None
    times: dict[tuple[TimeWindow, ...], list[Step]] = {}
    for windows in {each.windows for each in asked}:
        spend(_steps(windows, begin, end))
        times[windows] = _open_steps(windows, begin, end)
    lead_s, tail_s = span_of(request, request.alternatives[number])
    return _starts(asked, begin - lead_s, end - tail_s, times.__getitem__)


def preferred_times(
    request: Windowed, number: int, begin: int, end: int, spend: Callable[[int], None]
) -> Sequence[TimePreference]:
    """Return what the request, alternative `number` and its terms prefer, as worths of common starts.

    Where stages lie in ``[begin, end)``.
    """
    alternative = request.alternatives[number]
    own = [(0, each) for each in alternative.preferences]
    own += [(term.offset_s, each) for term in alternative.terms for each in term.preferences]
    if not own:
        return request.preferences
    spend(_steps((each.window for _, each in own), begin, end))
    lead_s, tail_s = span_of(request, alternative)
    low, high = begin - max(lead_s, 0), end - min(tail_s, 0)
    return [
        *request.preferences,
        *(
            TimePreference(start=start - offset_s, end=until - offset_s, weight=each.weight)
            for offset_s, each in own
            for start, until in occurrences(each.window, low, high)
        ),
    ]


def windows_of(alternatives: Iterable[Alternative]) -> set[TimeWindow]:
    """Return the different windows of `alternatives` and their terms, demanded and preferred."""
    found: set[TimeWindow] = set()
    for alternative in alternatives:
        for part in parts_of(alternative):
            found.update(part.windows)
            found.update(each.window for each in part.preferences)
    return found


def spelled_out(
    alternatives: Iterable[Alternative], begin: int, end: int
) -> tuple[Alternative, ...]:
    """Return `alternatives` with the occurrences of windows in ``[begin, end)`` in their place."""
    return with_windows(alternatives, lambda window: occurrences(window, begin, end))


def with_windows(
    alternatives: Iterable[Alternative],
    instead: Callable[[TimeWindow], Iterable[TimeWindow]],
) -> tuple[Alternative, ...]:
    """Return `alternatives` with the windows that `instead` returns for each window.

    A stage that had windows and has none left cannot be at any time.
    """
    return tuple(
        replace(
            _with_windows(each, instead),
            terms=tuple(_with_windows(term, instead) for term in each.terms),
        )
        for each in alternatives
    )


def _with_windows(part: Part, instead: Callable[[TimeWindow], Iterable[TimeWindow]]) -> Part:
    windows = tuple(new for window in part.windows for new in instead(window))
    return replace(
        part,
        windows=windows or (_NEVER if part.windows else ()),
        preferences=tuple(
            replace(each, window=new) for each in part.preferences for new in instead(each.window)
        ),
    )


def check_windows(request: Windowed) -> None:
    """Raise `InvalidInput` for too many windows, and for windows that no start can ever meet."""
    windows = windows_of(request.alternatives)
    if len(windows) > limits.WINDOWS_MAX:
        raise InvalidInput(
            f"{len(windows)} different windows, at most {limits.WINDOWS_MAX} are allowed",
            where="alternatives",
            remedy="give fewer windows, or make several requests",
        )
    count = occurrence_count(request)
    if count > limits.OCCURRENCES_MAX:
        raise InvalidInput(
            f"the windows occur {count} times between the earliest start and the latest end, at most "
            f"{limits.OCCURRENCES_MAX} times are allowed",
            where="not_after",
            remedy="give an earlier latest end, or fewer windows",
        )
    for number in range(len(request.alternatives)):
        _check_met(request, number)


def occurrence_count(request: Windowed) -> int:
    """Return a bound on the occurrences of all windows; an open request counts those in one day."""
    windows = windows_of(request.alternatives)
    daily = sum(isinstance(window, Daily) for window in windows)
    days = 1
    if request.not_after:
        days = -(-(request.not_after - request.not_before) // DAY_S) + 1
    return daily * days + len(windows) - daily


def _check_met(request: Windowed, number: int) -> None:
    asked = [_at_shortest(each) for each in demands(request, number)]
    begin, end = request.not_before, request.not_after or limits.TIME_S_MAX
    for each in asked:
        times = joined(_of_check(each, begin, request.not_after))
        first, last = begin - each.stage.offset_s, end - each.stage.end_s
        if any(ranges([(*time, 1) for time in times], each.stage, first, last)):
            continue
        longest_s = max((time.length_s for time in times), default=0)
        told = described(each.windows)
        detail = f"no start puts the stage into its windows {told}"
        detail += f" from {format_time(begin, 'UTC')}"
        detail += f" to {format_time(end, 'UTC')}" if request.not_after else " on"
        if times and longest_s < each.stage.length_s:
            detail = (
                f"the stage takes {format_duration(each.stage.length_s)}, its longest window is only "
                f"{format_duration(longest_s)} long: {told}"
            )
        raise InvalidInput(
            detail, where=each.where, remedy="give a wider window, or a shorter duration"
        )
    if not request.not_after or not asked:
        return
    lead_s, tail_s = min(e.stage.offset_s for e in asked), max(e.stage.end_s for e in asked)
    if not _starts(
        asked, begin - lead_s, end - tail_s, lambda windows: _open_steps(windows, begin, end)
    ):
        raise InvalidInput(
            "the windows of its stages are never met at one start",
            where=f"alternatives[{number}].windows",
            remedy="give wider windows, or a later latest end",
        )


def _of_check(each: WindowDemand, begin: int, not_after: int) -> Iterator[Interval]:
    reach = not_after or begin + each.stage.length_s + _SAME_EVERY_S
    for window in each.windows:
        end = reach if isinstance(window, Daily) else not_after or limits.TIME_S_MAX
        yield from occurrences(window, begin, end)


def _at_shortest(each: WindowDemand) -> WindowDemand:
    """A day may be an hour or two shorter where clocks change: sites know by how much."""
    length_s = each.stage.length_s
    shortest_s = length_s - CLOCK_CHANGE_S if length_s >= DAY_S else length_s
    return each._replace(stage=each.stage._replace(length_s=shortest_s))


def _starts(
    asked: Sequence[WindowDemand],
    first: int,
    last: int,
    times: Callable[[tuple[TimeWindow, ...]], list[Step]],
) -> tuple[Range, ...]:
    """Return the starts from `first` to `last` that meet all that is `asked`; `times` are its windows'."""
    starts: Iterable[Range] = [(first, last)] if first <= last else []
    for windows, stage in dict.fromkeys((each.windows, each.stage) for each in asked):
        starts = list(intersection(starts, ranges(times(windows), stage, first, last)))
    return tuple(starts)


def _open_steps(windows: Iterable[TimeWindow], begin: int, end: int) -> list[Step]:
    return [(start, until, 1) for start, until in opened(windows, begin, end)]


def _steps(windows: Iterable[TimeWindow], begin: int, end: int) -> int:
    days = max(end - begin, 0) // DAY_S + 2
    return OCCURRENCE_STEPS * sum(days if isinstance(each, Daily) else 1 for each in windows)


def _stage(request: Windowed, term: Term) -> Stage:
    begin, end = term_interval(request, term, 0)
    return Stage(begin, end - begin, 1)

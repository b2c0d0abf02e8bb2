"""Possible starts that keep clear of the times at which a user is busy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from kalends.client.inputs.busy_times import WHERE, busy_times, gaps
from kalends.contract.resource_calls import Find, Found
from kalends.core.errors import InvalidInput, NoCommonTime
from kalends.core.requests import span

HORIZON_S: Final = 180 * 86_400
"""Without the end of a window, so far ahead is looked for free time."""

GAPS_MAX: Final = 50
"""The first gaps that are asked about: each is a call."""


async def free_starts(
    find: Callable[[Find], Awaitable[Found]], asked: Find, file: Path | str, zone: ZoneInfo
) -> Found:
    """Return what `find` answers to `asked` for the times at which no event of the calendar file lies.

    The best starts of all these times come first. Raises as `busy_times`, and `NoCommonTime` if none of these
    times is long enough.
    """
    if not isinstance(file, Path | str):
        raise InvalidInput(
            f"a {type(file).__name__} is not a path",
            where=WHERE,
            remedy="give the path of an .ics file",
        )
    path, request = Path(file), asked.request
    lead_s, tail_s = span(request)
    begin, end = request.not_before, request.not_after or request.not_before + HORIZON_S
    long_enough = [
        gap
        for gap in gaps(busy_times(path, begin, end, zone), begin, end)
        if gap[1] - gap[0] >= tail_s - lead_s
    ]
    if not long_enough:
        raise NoCommonTime(
            f"the events of {path.name} leave no time that is long enough",
            where=WHERE,
            remedy="ask for a longer window or a shorter time",
        )
    found: Found | None = None
    for start, until in long_enough[:GAPS_MAX]:
        here = await find(
            replace(asked, request=replace(request, not_before=start, not_after=until))
        )
        if found is not None and found.candidates:
            here = replace(found, candidates=(*found.candidates, *here.candidates))
        found = here
    assert found is not None
    best = sorted(found.candidates, key=lambda each: (-each.weight, each.start))
    return replace(found, candidates=tuple(best[: asked.count]))

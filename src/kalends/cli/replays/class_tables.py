"""Metrics by class of job, a table for each kind of class; the best value in a class is marked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kalends.cli.console.output import rows

if TYPE_CHECKING:
    from kalends.simulation.classes import ClassMetrics
    from kalends.simulation.result import SimulationResult

SHOWN_MAX: Final = 20
"""The maximum number of classes shown of one kind; a log has hundreds of users."""

_COLUMNS: Final[Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "WAIT": ("mean_wait_s", lambda value: f"{value:,.0f}"),
    "MEDIAN": ("median_wait_s", lambda value: f"{value:,.0f}"),
    "P95": ("p95_wait_s", lambda value: f"{value:,}"),
    "SLOWDOWN": ("mean_bounded_slowdown", lambda value: f"{value:,.2f}"),
}
"""Columns: heading, field of `ClassMetrics`, and format. Less is better in all of them."""


def lines(results: Sequence[SimulationResult]) -> Iterator[str]:
    """Yield a table for each kind of class, with one row for each policy."""
    several = len(results) > 1
    numbers = [f"{heading} " if several else heading for heading in _COLUMNS]
    for kind in results[0].by:
        found = {result.policy: {each.name: each for each in result.by[kind]} for result in results}
        names = list(dict.fromkeys(name for classes in found.values() for name in classes))
        body = [row for name in names[:SHOWN_MAX] for row in _rows(name, found)]
        headings = ["JOBS", "SHARE", *(["POLICY"] if several else []), *numbers]
        yield ""
        yield from rows((f"BY {kind.upper()}", *headings), body, right=("JOBS", "SHARE", *numbers))
        if len(names) > SHOWN_MAX:
            yield f"and {len(names) - SHOWN_MAX:,} more with less: --json has them all"


def _rows(name: str, found: Mapping[str, Mapping[str, ClassMetrics]]) -> Iterator[Sequence[object]]:
    """Yield one class under each policy; values equal to those in the row above are left out.

    If jobs are resized or stopped, classes by size or run time have other jobs under each policy, maybe
    none. Then no value is marked.
    """
    same = {policy: classes[name] for policy, classes in found.items() if name in classes}
    values = [
        [shown(getattr(each, field)) for each in same.values()]
        for field, shown in _COLUMNS.values()
    ]
    best = [
        shown(min(getattr(each, field) for each in same.values()))
        for field, shown in _COLUMNS.values()
    ]
    comparable = len(same) == len(found) and len({each.jobs for each in same.values()}) == 1
    above: Sequence[str] = ()
    for at, (policy, each) in enumerate(same.items()):
        total = sum(other.node_seconds for other in found[policy].values())
        part = (f"{each.jobs:,}", f"{each.node_seconds / (total or 1):.1%}")
        said = (name if at == 0 else "", *(part if part != above else ("", "")))
        above = part
        if len(found) == 1:
            yield (*said, *(column[at] for column in values))
            continue
        marked = [
            f"{column[at]}{'*' if comparable and column[at] == least and set(column) != {least} else ' '}"
            for column, least in zip(values, best, strict=True)
        ]
        yield (*said, policy, *marked)

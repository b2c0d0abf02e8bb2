"""Results of replays as tables: the metrics, and those by class of job; the best values are marked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kalends.cli.console.output import rows
from kalends.simulation.workloads.swf import NO_REQUESTED_TIME

if TYPE_CHECKING:
    from kalends.simulation.classes import ClassMetrics
    from kalends.simulation.result import SimulationResult
    from kalends.simulation.workloads.tally import LineTally


COLUMNS: Mapping[str, tuple[str, Callable[[Any], str], int]] = {
    "WAIT": ("mean_wait_s", lambda value: f"{value:,.0f}", -1),
    "MEDIAN": ("median_wait_s", lambda value: f"{value:,.0f}", -1),
    "P95": ("p95_wait_s", lambda value: f"{value:,}", -1),
    "SLOWDOWN": ("mean_bounded_slowdown", lambda value: f"{value:,.2f}", -1),
    "UTIL": ("utilization", lambda value: f"{value:.2%}", 1),
    "MAKESPAN": ("makespan_s", lambda value: f"{value:,}", -1),
    "QUEUE": ("mean_queue_depth", lambda value: f"{value:,.1f}", -1),
    "MAX": ("max_queue_depth", lambda value: f"{value:,}", -1),
    "CHANGES": ("reconfigurations", lambda value: f"{value:,}", 0),
}
"""Columns: heading, field of `SimulationResult`, format, and whether more (1) or less (-1) is better, or
neither (0)."""

SHOWN_MAX: Final = 20
"""The maximum number of classes shown of one kind; a log has hundreds of users."""

_CLASS_COLUMNS: Final[Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "WAIT": ("mean_wait_s", lambda value: f"{value:,.0f}"),
    "MEDIAN": ("median_wait_s", lambda value: f"{value:,.0f}"),
    "P95": ("p95_wait_s", lambda value: f"{value:,}"),
    "SLOWDOWN": ("mean_bounded_slowdown", lambda value: f"{value:,.2f}"),
}
"""Columns: heading, field of `ClassMetrics`, and format. Less is better in all of them."""


def metric_lines(results: Sequence[SimulationResult], conditions: str = "") -> Iterator[str]:
    """Yield the table, with a row for each result; above it the workload and the `conditions`."""
    first = results[0]
    also = f" ({conditions})" if conditions else ""
    yield f"{_jobs(first.jobs)} on {_nodes(first.nodes)}{also}; times in seconds"
    resized = any(result.reconfigurations for result in results)
    shown = [heading for heading in COLUMNS if heading != "CHANGES" or resized]
    columns = [_column(heading, results) for heading in shown]
    headings = [column[0] for column in columns]
    body = [
        (result.policy, *(column[row] for column in columns))
        for row, result in enumerate(results, start=1)
    ]
    yield from rows(("POLICY", *headings), body, right=headings)
    for result in results:
        yield from _predictions(result.policy, result.predictions)


def _column(heading: str, results: Sequence[SimulationResult]) -> list[str]:
    """Return the heading and the values as shown.

    Values that look equal to the best are marked, unless all do.
    """
    field, shown, sign = COLUMNS[heading]
    values = [getattr(result, field) for result in results]
    best = shown(max(values, key=lambda value: value * sign))
    texts = [shown(value) for value in values]
    if len(texts) == 1 or not sign:
        return [heading, *texts]
    marks = set(texts) != {best}
    return [f"{heading} ", *(f"{text}{'*' if marks and text == best else ' '}" for text in texts)]


def _predictions(policy: str, found: Mapping[str, float]) -> Iterator[str]:
    """Yield lines on the accuracy of predicted starts, if any were predicted."""
    if found.get("predicted"):
        yield (
            f"{policy}: of {found['predicted']:,} jobs that had to wait, {found['p50_coverage']:.1%} started "
            f"by P50, {found['p90_coverage']:.1%} by P90; P50 is off by "
            f"{found['p50_relative_error']:.0%} of their mean wait (requested times: "
            f"{found['requested_relative_error']:.0%})"
        )
    elif found:
        yield f"{policy}: no job had to wait"


def left_out(result: SimulationResult) -> Iterator[str]:
    """Describe jobs and lines that are left out of the metrics or changed for them, and a merged machine."""
    for reason, tally in result.dropped.items():
        advice = ": --estimates filled takes their run times" if reason == NO_REQUESTED_TIME else ""
        yield from _tally_lines(f"{_jobs(tally.count)} dropped, {reason}{advice}", tally)
    if result.cut.count:
        yield from _tally_lines(f"{_jobs(result.cut.count)} cut to the requested time", result.cut)
    if count := result.rounded.count:
        said = f"decimal times of {_jobs(count)} changed to whole seconds: submit times down, lengths up"
        yield from _tally_lines(said, result.rounded)
    if count := result.parts.count:
        said = f"{_lines(count)} about parts of a job skipped: the line for the whole job counts"
        yield from _tally_lines(said, result.parts)
    if count := result.damaged.count:
        yield from _tally_lines(f"{_lines(count, 'damaged ')} skipped", result.damaged)
    if result.partitions > 1:
        yield (
            f"kalends: the log names {result.partitions} partitions, and was simulated on one machine of "
            f"{_nodes(result.nodes)}: jobs may use nodes that they could not use there"
        )


def _lines(count: int, kind: str = "") -> str:
    return f"1 {kind}line" if count == 1 else f"{count:,} {kind}lines"


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count:,} nodes"


def _tally_lines(said: str, tally: LineTally) -> Iterable[str]:
    shown = tally.said[:2]
    more = ", ..." if tally.count > len(shown) else ""
    yield f"kalends: {said} ({', '.join(shown)}{more})"


def class_lines(results: Sequence[SimulationResult]) -> Iterator[str]:
    """Yield a table for each kind of class, with one row for each policy."""
    several = len(results) > 1
    numbers = [f"{heading} " if several else heading for heading in _CLASS_COLUMNS]
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
        for field, shown in _CLASS_COLUMNS.values()
    ]
    best = [
        shown(min(getattr(each, field) for each in same.values()))
        for field, shown in _CLASS_COLUMNS.values()
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

"""From the runs to figures, from the figures to a table, with the targets beside what was reached."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from benchmarks.calendars.measure import Run
from benchmarks.calendars.workload import Recipe

OURS: Final = "kalends"

Row = dict[str, Any]
"""One engine in one class: kind, nodes, bookings, group, engine, p50_us, p99_us, count, stopped."""

GROUPS: Final = {
    "load": "load all bookings",
    "add": "add",
    "rem": "release",
    "state": "change state",
    "min": "least free, one job long",
    "min-long": "least free, 1/4 of the time",
    "fit-base": "earliest fit, small, from 0",
    "fit-wide": "earliest fit, wide, from 0",
    "fit-mid": "earliest fit, small, from t",
    "fit-mid-wide": "earliest fit, wide, from t",
    "fit-hard": "earliest fit, rare gap, from 0",
    "fit-mid-hard": "earliest fit, rare gap, from t",
    "steps": "steps of 4 h",
    "list": "bookings of a window",
    "copy": "copy, book, throw away",
    "plan": "plan and book a job",
}
"""The classes of operations, in the order of the table."""


class Target(NamedTuple):
    """At most `limit` of `figure` where kind, nodes, bookings and group are these."""

    kind: str
    nodes: int | None
    bookings: int | None
    group: str
    figure: str
    limit: float


MACHINES: Final = (1_024, 100_000)
TARGETS: Final = (
    *(
        Target("capacity", nodes, 100_000, group, figure, limit)
        for nodes in MACHINES
        for group, figure, limit in (
            ("add", "p50_us", 20),
            ("fit-base", "p50_us", 50),
            ("fit-mid", "p50_us", 50),
            ("fit-wide", "p50_us", 300),
            ("fit-mid-wide", "p50_us", 300),
            ("fit-base", "p99_us", 2_000),
            ("fit-mid", "p99_us", 2_000),
            ("fit-wide", "p99_us", 2_000),
            ("fit-mid-wide", "p99_us", 2_000),
        )
    ),
    *(
        Target("capacity", nodes, None, group, "growth", limit)
        for nodes in MACHINES
        for group, limit in (
            ("add", 2.5),
            ("fit-base", 1.5),
            ("fit-mid", 1.5),
            ("fit-wide", 20),
            ("fit-mid-wide", 20),
        )
    ),
    Target("queue", 1_024, 10_000, "plan", "processor_s", 0.5),
)
"""What the engine is meant to reach on a machine of today with nothing else to do."""

GROWTH_FROM: Final = 1_000
GROWTH_TO: Final = 1_000_000


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def rows(recipe: Recipe, runs: Iterable[Run]) -> list[Row]:
    """The figures of all engines on one workload."""
    found: list[Row] = []
    count = recipe.operations if recipe.kind == "queue" else recipe.bookings
    for run in runs:
        place = {"kind": recipe.kind, "nodes": recipe.nodes, "bookings": count}
        for group, times in run.times_ns.items():
            row = {**place, "group": group, "engine": run.name, **figures(times)}
            row["stopped"] = run.stopped.get(group, "")
            if recipe.kind == "queue":
                row["processor_s"] = run.processor_s
            found.append(row)
        if "all" in run.stopped:
            stop = {"p50_us": None, "p99_us": None, "count": 0, "stopped": run.stopped["all"]}
            found.append({**place, "group": "all", "engine": run.name, **stop})
    return found


def figures(times_ns: Sequence[int]) -> Row:
    """Median, 99th percentile and count of single operations."""
    return {
        "p50_us": statistics.median(times_ns) / 1e3,
        "p99_us": percentile(times_ns, 0.99) / 1e3,
        "count": len(times_ns),
    }


def growth(found: list[Row]) -> list[Row]:
    """How many times the median at 1e6 is that at 1e3."""
    by_place = {
        (row["kind"], row["nodes"], row["group"], row["engine"], row["bookings"]): row
        for row in found
        if row["kind"] in ("capacity", "unit")
    }
    grown = []
    for (*place, bookings), row in by_place.items():
        large = by_place.get((*place, GROWTH_TO))
        if bookings == GROWTH_FROM and row["count"] and large is not None and large["count"]:
            kind, nodes, group, engine = place
            times = large["p50_us"] / row["p50_us"]
            grown.append(
                {"kind": kind, "nodes": nodes, "group": group, "engine": engine, "growth": times}
            )
    return grown


def judged(found: list[Row], grown: list[Row]) -> list[Row]:
    """Each target that this run can speak to, with the figure that was reached."""
    verdicts = []
    for target in TARGETS:
        for row in [*found, *grown]:
            same_place = (row["kind"], row["nodes"], row["group"]) == (
                target.kind,
                target.nodes,
                target.group,
            ) and row.get("bookings") == target.bookings
            if same_place and row["engine"] == OURS and row.get(target.figure) is not None:
                reached = row[target.figure]
                met = reached <= target.limit and not row.get("stopped")
                verdicts.append({**target._asdict(), "reached": reached, "met": met})
    return verdicts


def table(result: Row) -> str:
    """The whole result for people."""
    found, grown = result["rows"], result["growth"]
    lines = ["microseconds per operation: p50 / p99 (count); ! stopped, see below"]
    places = list(dict.fromkeys((row["kind"], row["nodes"]) for row in found))
    for kind, nodes in places:
        here = [row for row in found if (row["kind"], row["nodes"]) == (kind, nodes)]
        lines += ["", *_place(kind, nodes, here, grown)]
    lines += _stopped(found)
    lines += _verdicts(result["targets"])
    if result["missing"]:
        names = ", ".join(result["missing"])
        lines += ["", f"not installed, so not measured: {names} (pip install 'kalends[bench]')"]
    lines += ["", f"answers compared: {result['compared']}, different: {len(result['mismatches'])}"]
    lines += [
        f"  {each['engine']} answered {each['answer']}, {OURS} {each['expected']}:"
        f" operation {each['position']} of {each['workload']}: {each['line']}"
        for each in result["mismatches"][:10]
    ]
    return "\n".join(lines)


def _place(kind: str, nodes: int, here: list[Row], grown: list[Row]) -> list[str]:
    sizes = sorted({row["bookings"] for row in here})
    engines = list(dict.fromkeys(row["engine"] for row in here))
    columns = [f"{size:,}" for size in sizes]
    grows = {
        (row["group"], row["engine"]): row["growth"]
        for row in grown
        if (row["kind"], row["nodes"]) == (kind, nodes)
    }
    title = {
        "capacity": f"one calendar of {nodes:,} nodes, by bookings",
        "unit": "one calendar of one unit, by bookings",
        "queue": f"a queue planned on {nodes:,} nodes, by jobs",
    }[kind]
    lines = [f"{title:<45}" + "".join(f"{column:>28}" for column in columns)]
    if grows:
        lines[0] += f"{'1e6 / 1e3':>12}"
    cells = {(row["group"], row["engine"], row["bookings"]): row for row in here}
    for group, words in GROUPS.items():
        for engine in engines:
            shown = [_cell(cells.get((group, engine, size))) for size in sizes]
            if any(text != "-" for text in shown):
                line = f"{words:<31} {engine:<13}" + "".join(f"{text:>28}" for text in shown)
                if (group, engine) in grows:
                    line += f"{grows[group, engine]:>11.1f}x"
                lines.append(line)
    lines += [
        f"{'processor seconds for all':<31} {row['engine']:<13}{row['processor_s']:>28.2f}"
        for row in here
        if "processor_s" in row
    ]
    return lines


def _cell(row: Row | None) -> str:
    if row is None or not row["count"]:
        return "-"
    mark = "!" if row["stopped"] else ""
    return f"{_short(row['p50_us'])} / {_short(row['p99_us'])} ({row['count']}){mark}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _stopped(found: list[Row]) -> list[str]:
    stops = [row for row in found if row["stopped"]]
    return ["", "stopped at the budget of processor time:"] * bool(stops) + [
        f"  {row['engine']}, {row['kind']} {row['nodes']:,} x {row['bookings']:,},"
        f" {GROUPS.get(row['group'], row['group'])}: {row['stopped']}"
        for row in stops
    ]


def _verdicts(verdicts: list[Row]) -> list[str]:
    lines = []
    for verdict in verdicts:
        size = "1e6 / 1e3" if verdict["bookings"] is None else f"{verdict['bookings']:,}"
        place = f"{verdict['kind']} {verdict['nodes']:,}, {size}"
        share = verdict["reached"] / verdict["limit"]
        said = "met" if verdict["met"] else f"MISSED by {100 * (share - 1):.0f} %"
        lines.append(
            f"  {place:<28} {GROUPS[verdict['group']]:<31} {verdict['figure']:<13}"
            f"{verdict['reached']:>10.2f}  at most {verdict['limit']:>8,g}  {said}"
        )
    return ["", "targets:", *lines] if lines else []

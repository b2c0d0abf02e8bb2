"""The figures as tables, in the form of the documentation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from benchmarks.simulating.ours import growth

Row = dict[str, Any]
Cell = Callable[[Row], str]

_COST: Final[dict[str, Cell]] = {
    "log": lambda row: row["log"],
    "policy": lambda row: row["policy"],
    "CPU s": lambda row: f"{row['cpu_s']:.2f}",
    "jobs / CPU s": lambda row: f"{row['jobs_per_cpu_s']:,.0f}",
    "peak MB": lambda row: f"{row['peak_mb']:.0f}",
}
_WHOLE: Final[dict[str, Cell]] = {
    **_COST,
    "jobs": lambda row: f"{row['jobs']:,}",
    "CPU s, written": lambda row: f"{row['writing_cpu_s']:.2f}",
    "jobs / CPU s, written": lambda row: f"{row['writing_jobs_per_cpu_s']:,.0f}",
    "peak MB, written": lambda row: f"{row['writing_peak_mb']:.0f}",
}
_LAYERS: Final = ("python", "loading", "reading", "replaying", "measuring", "writing", "whole")
_BESIDE: Final[dict[str, Cell]] = {
    "simulator": lambda row: row["simulator"],
    **_COST,
    "mean wait s": lambda row: f"{row['mean_wait_s']:,.1f}",
    "longest wait s": lambda row: f"{row['max_wait_s']:,}",
    "bounded slowdown": lambda row: f"{row['mean_bounded_slowdown']:,.3f}",
    "utilization": lambda row: f"{row['utilization']:.5f}",
    "heads that waited": lambda row: f"{row['waited']:,}",
    "broken promises": lambda row: f"{row['broken_promises']:,}",
    "worst s": lambda row: f"{row['worst_s']:,}",
}


def tables(result: dict[str, Any]) -> str:
    """All that was measured."""
    parts = []
    if result["whole"]:
        parts.append(_table(result["whole"], _WHOLE))
    if result["layers"]:
        parts.append(_table(result["layers"], _layer_columns()))
    if result["queues"]:
        parts.append(_queues(result["queues"]))
    if beside := [row for row in result["beside"] if "failed" not in row]:
        parts.append(_table(beside, _BESIDE))
    return "\n\n".join(parts)


def progress(row: Row) -> str:
    """One row in few words, while the others are still measured."""
    words = [str(row[name]) for name in ("simulator", "log", "policy", "wanted") if name in row]
    cost = f"{row['us']:.1f} us a job" if "us" in row else ""
    if "cpu_s" in row:
        cost = f"{row['cpu_s']:.2f} CPU s, {row['peak_mb']:.0f} MB"
    return " ".join([*words, cost])


def _layer_columns() -> dict[str, Cell]:
    columns: dict[str, Cell] = {name: _COST[name] for name in ("log", "policy")}
    for name in _LAYERS:
        columns[f"{name} s"] = lambda row, field=f"{name}_s": f"{row[field]:.3f}"  # type: ignore[misc]  # bound now
    return columns


def _queues(rows: Sequence[Row]) -> str:
    lengths = list(dict.fromkeys(row["wanted"] for row in rows))
    lines = [
        f"| policy, us a job with so many waiting | {' | '.join(f'{n:,}' for n in lengths)} |",
        "| --- |" + " ---: |" * len(lengths),
    ]
    for policy, costs in growth(rows).items():
        lines.append(f"| {policy} | {' | '.join(f'{us:.1f}' for us in costs)} |")
    return "\n".join(lines)


def _table(rows: Sequence[Row], columns: dict[str, Cell]) -> str:
    lines = [f"| {' | '.join(columns)} |", "| --- | --- |" + " ---: |" * (len(columns) - 2)]
    lines += [f"| {' | '.join(cell(row) for cell in columns.values())} |" for row in rows]
    return "\n".join(lines)

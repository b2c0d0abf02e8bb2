"""Tables for people, of what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

COLUMNS: Final = {
    "bookings/s": ("bookings_per_s", "10.1f"),
    "share": ("of_disjoint", "6.2f"),
    "p50 ms": ("p50_ms", "8.0f"),
    "p95 ms": ("p95_ms", "8.0f"),
    "p99 ms": ("p99_ms", "8.0f"),
    "longest": ("longest_ms", "8.0f"),
    "hour": ("hour_mean", "6.1f"),
    "messages": ("messages", "8.1f"),
    "refused": ("refused", "7.2f"),
    "asked": ("tries", "6.2f"),
    "Jain": ("jain", "5.2f"),
    "overtaken": ("overtaken_mean", "9.2f"),
    "vain s": ("kept_in_vain_s", "7.3f"),
    "blocked s": ("blocked_s", "9.3f"),
    "cpu us": ("processor_us", "7.0f"),
}
"""Heading, field and format of each figure."""


def share_of_disjoint(rows: Sequence[dict[str, Any]]) -> None:
    """Add to each row its bookings a second over those of as many clients without competition."""
    alone = {
        (row["scheme"], row["clients"], row["wish"]): row["bookings_per_s"]
        for row in rows
        if row["spread"] == "disjoint"
    }
    for row in rows:
        rate = alone.get((row["scheme"], row["clients"], row["wish"]), 0.0)
        row["of_disjoint"] = round(row["bookings_per_s"] / rate, 3) if rate else None


def progress(row: dict[str, Any]) -> str:
    """One line, while others are still being measured."""
    return (
        f"{_scene(row)}, {row['scheme']}: {row['bookings']} bookings in {row['seconds']} s, "
        f"{row['processor_us']} us of processor time each"
    )


def tables(result: dict[str, Any]) -> str:
    """All rows, a table for each scenario, and the Figure 2 case."""
    costs = result["costs"]
    lines = [
        f"One way {costs['one_way_ms']} ms, {costs['service_us']} us a message at servers, "
        f"{costs['sync_us']} us a sync; seed {result['seed']}"
    ]
    scene = ""
    width = max(len(row["scheme"]) for row in result["rows"])
    for row in result["rows"]:
        if _scene(row) != scene:
            scene = _scene(row)
            lines += ["", scene, _head(width)]
        lines.append(_line(row, width))
    return "\n".join([*lines, "", figure_two_table(result["figure_two"])])


def figure_two_table(rows: Sequence[dict[str, Any]]) -> str:
    lines = ["The paper's Figure 2: hours that stood idle though a job could have used them"]
    lines.append(f"{'scheme':<16} {'jobs':>5} {'idle hours':>11} {'all over after':>15}")
    lines += [
        f"{row['scheme']:<16} {row['jobs']:>5} {row['idle_hours']:>11.2f} {row['end_hours']:>15.2f}"
        for row in rows
    ]
    return "\n".join(lines)


def live_table(rows: Sequence[dict[str, Any]]) -> str:
    lines = ["Real processes on loopback: one broker, the resources on several sites"]
    lines.append(
        f"{'clients':>7} {'resources':>10} {'bookings/s':>11} {'share':>6} {'p50 ms':>8} "
        f"{'p99 ms':>8} {'asked':>6} {'Jain':>5} {'broker us':>10} {'sites us':>9}"
    )
    lines += [
        f"{row['clients']:>7} {row['spread']:>10} {row['bookings_per_s']:>11.0f} "
        f"{_shown(row['of_disjoint'], '6.2f')} {row['p50_ms']:>8.1f} {row['p99_ms']:>8.1f} "
        f"{row['tries']:>6.2f} {row['jain']:>5.2f} {row['broker_us']:>10} {row['sites_us']:>9}"
        for row in rows
    ]
    return "\n".join(lines)


def _scene(row: dict[str, Any]) -> str:
    spread = {
        "disjoint": "three resources each",
        "uniform": f"{row['resources']} resources, uniform",
        "zipf": f"{row['resources']} resources, Zipf",
    }[row["spread"]]
    wish = {
        "earliest": "the earliest hour",
        "fixed": "the first hour",
        "scarce": "the earliest of few hours",
    }[row["wish"]]
    return f"{row['clients']} clients, {spread}, {wish}"


def _head(width: int) -> str:
    return " ".join(
        [f"{'':<{width}}"]
        + [f"{heading:>{_width(form)}}" for heading, (_, form) in COLUMNS.items()]
    )


def _line(row: dict[str, Any], width: int) -> str:
    return " ".join(
        [f"{row['scheme']:<{width}}"] + [_shown(row[name], form) for name, form in COLUMNS.values()]
    )


def _shown(value: float | None, form: str) -> str:
    return f"{'-':>{_width(form)}}" if value is None else f"{value:{form}}"


def _width(form: str) -> int:
    return int(form.partition(".")[0])

"""The figures as pictures. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt

MARKS: Final = {
    "ours": "o-",
    "ours-2": "s-",
    "local-clocks": "^--",
    "central": "x:",
    "naive": "d--",
}

PANELS: Final = (
    ("bookings_per_s", "bookings a second", "log"),
    ("messages", "messages per booking", "linear"),
    ("p95_ms", "95 of 100 booked within, ms", "log"),
    ("jain", "Jain's index of fairness", "linear"),
    ("overtaken_mean", "younger ones served before, per booking", "linear"),
    ("idle_s", "kept or locked in vain, s per booking", "linear"),
)


def draw(result: dict[str, Any], directory: Path) -> list[Path]:
    """One picture for each number of resources, spread and wish; returns where they are."""
    directory.mkdir(parents=True, exist_ok=True)
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in result["rows"]:
        amount = "" if row["spread"] == "disjoint" else f"-{row['resources']}"
        groups.setdefault(f"contention-{row['wish']}-{row['spread']}{amount}", []).append(row)
    return [_draw(name, rows, directory / f"{name}.svg") for name, rows in groups.items()]


def _draw(title: str, rows: Sequence[dict[str, Any]], path: Path) -> Path:
    figure, axes = plt.subplots(2, 3, figsize=(13, 7.5), layout="constrained")
    figure.suptitle(title.replace("-", ", "))
    for panel, (field, label, scale) in zip(axes.flat, PANELS, strict=True):
        for scheme in dict.fromkeys(row["scheme"] for row in rows):
            of_scheme = [row for row in rows if row["scheme"] == scheme]
            panel.plot(
                [row["clients"] for row in of_scheme],
                [_value(row, field) for row in of_scheme],
                MARKS[scheme],
                label=scheme,
            )
        panel.set(xscale="log", yscale=scale, xlabel="clients", ylabel=label)
        if scale == "linear":
            panel.set_ylim(bottom=0)
        counts = sorted({row["clients"] for row in rows})
        panel.set_xticks(counts, [str(count) for count in counts])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    axes.flat[0].legend()
    figure.savefig(path)
    plt.close(figure)
    return path


def _value(row: dict[str, Any], field: str) -> float:
    if field == "idle_s":
        return float(row["kept_in_vain_s"] + row["blocked_s"])
    return float(row[field])

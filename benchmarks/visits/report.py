"""The figures of `benchmarks/agents.py` as tables for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from benchmarks.visits.figures import table

_TIMES: Final = ("p50 ms", "p95 ms", "p99 ms")


def _times(figures: Mapping[str, Any]) -> list[str]:
    return [_number(figures[name]) for name in ("p50_ms", "p95_ms", "p99_ms")]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _codes(codes: Mapping[str, int]) -> str:
    """One code for all, or how often each."""
    if len(codes) == 1:
        return next(iter(codes))
    return ", ".join(f"{code} {count}" for code, count in sorted(codes.items()))


def checks(result: Mapping[str, Any]) -> str:
    rows = [
        (engine, *_times(figures), _codes(figures["codes"])) for engine, figures in result.items()
    ]
    return table("Upload check of a new script", ("engine", *_TIMES, "code"), rows)


def runs(result: Mapping[str, Any]) -> str:
    rows = [
        (row["script"], row["slots"], engine, row["from"], *_times(row), _codes(row["codes"]))
        for engine, found in result.items()
        for row in found
    ]
    head = ("script", "slots", "engine", "from", *_TIMES, "code")
    return table("A run: choosing among slots, one every 10 ms or later", head, rows)


def views(result: list[dict[str, Any]]) -> str:
    rows = [(row["slots"], *_times(row), row["bytes"]) for row in result]
    return table("Before a run: what the script is shown", ("slots", *_TIMES, "bytes"), rows)


def rates(result: list[dict[str, Any]]) -> str:
    rows = [
        (row["callers"], f"{row['runs_per_s']:.0f}", *_times(row), _codes(row["codes"]))
        for row in result
    ]
    head = ("callers", "runs/s", *_TIMES, "code")
    return table("Runs of a known script, 100 slots, in the sandbox", head, rows)


def endings(result: list[dict[str, Any]]) -> str:
    rows = [
        (
            row["case"], _codes(row["codes"]), _number(row["p50_ms"]), _number(row["max_ms"]),
            f"{row['limit_ms']:.0f}", f"{row['within_limit_and_50_ms']} of {row['count']}",
        )
        for row in result
    ]  # fmt: skip
    head = ("what a script does", "code", "p50 ms", "max ms", "limit ms", "within limit + 50 ms")
    return table("Until a failed run has a clear error", head, rows)


def memory(result: Mapping[str, Any]) -> str:
    made = [
        (name.replace("_", " "), *_times(figures))
        for name, figures in result.items()
        if name not in ("zygote", "spares")
    ]
    idle = {"zygote": result["zygote"]}
    idle |= {f"spare {at}": spare for at, spare in enumerate(result["spares"], 1)}
    held = [
        (name, each["pss_kib"] or "-", each["private_kib"] or "-") for name, each in idle.items()
    ]
    return "\n".join(
        (
            table("Making processes", ("until", *_TIMES), made),
            table("Memory of idle processes", ("process", "PSS KiB", "private KiB"), held),
        )
    )


def visits(result: list[dict[str, Any]]) -> str:
    rows = [
        (
            row["visit"], row["slots"] or "-", *_times(row), _codes(row["codes"]) or "-",
            f"{row['held']} of {row['calls']}",
        )
        for row in result
    ]  # fmt: skip
    head = ("visit at a site", "slots", *_TIMES, "code", "held")
    return table(
        "A whole visit over a session, scripts known there, one every 10 ms or later", head, rows
    )


def wire(result: list[dict[str, Any]]) -> str:
    """Bytes and messages are of one booking, there and back together."""
    rows = [
        (
            row["way"],
            row["users"],
            row["bookings_in_each_calendar"],
            _number(row["until_reserved"]["p50_ms"]),
            _number(row["until_reserved"]["p99_ms"]),
            *_side(row["client"]),
            *_side(row["sites"]),
            f"{row['attempts']:.1f}",
            f"{row['refused']:.1f}",
            f"{row['reserved']} of {row['asked']}",
            "-" if "same_start" not in row else f"{row['same_start']} of {row['asked']}",
        )
        for row in result
    ]
    head = (
        "way", "users", "taken", "p50 ms", "p99 ms", "client B", "messages", "sites B", "messages",
        "attempts", "refused", "reserved", "same start",
    )  # fmt: skip
    return table("One booking at two sites, 25 ms one way on every line", head, rows)


def near(result: list[dict[str, Any]]) -> str:
    rows = [
        (row["near"], row["way"], row["messages"], row["bytes"], row["back"], row["common"])
        for row in result
    ]
    head = ("sites", "way", "messages", "bytes", "of reports", "common starts")
    return table(
        "One round of an agent at sites near one another, between broker and sites", head, rows
    )


def _side(figures: Mapping[str, Any]) -> tuple[str, str]:
    length = figures["bytes_there"] + figures["bytes_back"]
    return f"{length:.0f}", f"{figures['messages']:.1f}"


SECTIONS: Final[dict[str, Callable[[Any], str]]] = {
    "checks": checks,
    "runs": runs,
    "views": views,
    "rates": rates,
    "endings": endings,
    "memory": memory,
    "visits": visits,
    "near": near,
    "wire": wire,
}

"""Scripts and their runs as lines of text."""

from __future__ import annotations

from collections.abc import Iterable
from zoneinfo import ZoneInfo

from kalends.cli.console.output import rows
from kalends.cli.console.short_time import short_time
from kalends.cli.requests.words import HASH_SHOWN
from kalends.contract.calls import AgentView, RunView
from kalends.core.identifiers import short_id
from kalends.core.scripts import Violation
from kalends.core.times import format_time


def agent_lines(view: AgentView, zone: ZoneInfo) -> list[str]:
    """Describe one script: its name, hash, size and functions."""
    facts = [
        ("script", view.script),
        ("size", f"{view.size_bytes} bytes"),
        ("defines", ", ".join(view.functions)),
        ("uploaded", format_time(view.uploaded_at, zone)),
    ]
    return [f"agent {view.name}", *(f"  {name:8} {text}" for name, text in facts if text)]


def agent_listing(views: Iterable[AgentView], zone: ZoneInfo) -> list[str]:
    """Return one row for each script."""
    return rows(
        ("NAME", "SCRIPT", "BYTES", "DEFINES", f"UPLOADED ({zone.key})"),
        [
            (
                view.name,
                view.script[:HASH_SHOWN],
                view.size_bytes,
                ", ".join(view.functions) or "-",
                short_time(view.uploaded_at, zone),
            )
            for view in views
        ],
        right=("BYTES",),
    )


def run_listing(runs: Iterable[RunView], zone: ZoneInfo) -> list[str]:
    """Return one row for each run; the last column is the error, if any."""
    return rows(
        ("RUN", f"AT ({zone.key})", "REQUEST", "SCRIPT", "CALL", "CODE", "CHOSEN", "STEPS", "CPU MS",
         "DETAIL"),
        [
            (
                run.run,
                short_time(run.at_ms // 1000, zone),
                short_id(run.id) or "-",
                run.script[:HASH_SHOWN],
                run.function,
                run.code,
                run.chosen,
                run.steps,
                f"{run.cpu_us / 1000:.1f}",
                f"line {run.line}: {run.detail}" if run.line else run.detail,
            )
            for run in runs
        ],
        right=("RUN", "CHOSEN", "STEPS", "CPU MS"),
    )  # fmt: skip


def violation_lines(file: str, source: str, violations: Iterable[Violation]) -> list[str]:
    """Show each violation with its place, its line, a caret below its column, and the remedy."""
    lines = source.splitlines()
    told = []
    for violation in violations:
        told.append(
            f"{file}:{violation.line}:{violation.column}: {violation.rule}: {violation.detail}"
        )
        if 0 < violation.line <= len(lines):
            line = lines[violation.line - 1]
            told += [f"    {line.replace(chr(9), ' ')}", f"    {' ' * (violation.column - 1)}^"]
    return told

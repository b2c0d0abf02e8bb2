"""An owner's rules as code: ``kalends admin rules``."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import click

from kalends.cli.agents.trials import EXIT_FAILED, tell_check
from kalends.cli.console import output
from kalends.cli.console.commands import server_command
from kalends.cli.console.output import short_time
from kalends.cli.console.server_parts import agent_parts
from kalends.cli.console.settings import Settings
from kalends.core.durations import parse_duration
from kalends.core.errors import InvalidInput
from kalends.rim.script_files import read_script

if TYPE_CHECKING:
    from kalends.client.trials.rule_trial import RuleTrial

RUNS_MAX: Final = 1_000
"""Recorded decisions that are tried again: the newest."""


@server_command(
    "rules",
    "kalends admin rules beginners.py",
    "kalends admin rules beginners.py --last 30d --broker http://127.0.0.1:7101",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--last",
    metavar="DURATION",
    help="Also try it on the decisions that the site has recorded in this time, e.g. 30d.",
)
def rules(settings: Settings, file: Path, last: str | None) -> int:
    """Check an owner's script, and try it on past bookings.

    Lists every violation of the language; the exit code is then 2. A valid script decides on a sample
    booking. With --last, repeats the questions that the site at --broker has recorded, and lists each booking
    that the script would decide otherwise. Needs the scope audit then. The exit code is 1 if a run fails.
    """
    source = read_script(file)
    since_ms = None if last is None else time.time() * 1_000 - parse_duration(last) * 1_000
    with agent_parts():
        from kalends.client.trials import rule_trial, script_check
    checked = asyncio.run(script_check.check(source, {}))
    if checked.code == "ok" and "decide" not in checked.functions:
        raise InvalidInput(
            "the script defines no function decide", where=str(file),
            remedy="define decide(request, calendar, usage)",
        )  # fmt: skip
    if checked.code != "ok" or since_ms is None:
        return tell_check(settings, file, source, checked)
    with settings.connect() as client:
        found = [
            client.agent_run(run.run).record
            for run in client.agent_runs(count=RUNS_MAX)
            if run.function == "decide" and run.at_ms >= since_ms
        ]
    tried = asyncio.run(rule_trial.try_rules(source, found))
    zone = settings.time_zone()
    output.answer(settings, "rules_tried", tried, lambda: _tried_lines(tried, zone))
    return EXIT_FAILED if any(each.code != "ok" for each in tried) else 0


def _tried_lines(tried: list[RuleTrial], zone: ZoneInfo) -> list[str]:
    if not tried:
        return ["the site has recorded no decision of an owner's script in this time"]
    other = [each for each in tried if not each.same]
    since = short_time(min(each.at_ms for each in tried) // 1_000, zone)
    told = f"{len(other)} of {len(tried)} decisions since {since} would differ"
    if not other:
        return [told]
    return [
        told,
        *output.rows(
            ("RUN", "USER", "RESOURCE", "UNITS", f"FROM ({zone.key})", "THEN", "NOW"),
            [
                (
                    each.run,
                    each.user,
                    each.resource,
                    units,
                    short_time(start, zone),
                    each.then,
                    each.now,
                )
                for each in other
                for start, _, units in each.slots
            ],
            right=("RUN", "UNITS"),
        ),
    ]

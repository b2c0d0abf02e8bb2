"""``kalends admin replan``: recompute the plan of a machine's queue."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.console.short_time import short_time
from kalends.cli.jobs import shown_jobs
from kalends.contract.job_calls import NewPlan


@click.command(
    "replan",
    cls=ServerCommand,
    examples=("kalends admin replan sdsc/sp2", "kalends admin replan sdsc/sp2 --json"),
)
@click.argument("machine")
@pass_settings
def command(settings: Settings, machine: str) -> None:
    """Recompute the plan of a queue, and list the promises that no longer hold.

    Waiting jobs are planned as if they came now, in their order of submission. Running jobs continue.
    """
    zone = settings.time_zone()
    with shown_jobs.client_at(settings, machine) as client:
        plan = client.replan(machine)
    output.answer(settings, "replanned", plan, lambda: _lines(plan, zone))


def _lines(plan: NewPlan, zone: ZoneInfo) -> list[str]:
    lines = shown_jobs.machine_lines((plan.machine,))
    if not plan.moved:
        return [*lines, "", "all promises still hold"]
    rows = [
        (
            f"{plan.machine.machine}/{each.job}",
            short_time(each.before, zone),
            short_time(each.after, zone) if each.after else "-",
        )
        for each in plan.moved
    ]
    more = [f"only the first {len(rows):,} are listed"] if plan.more else []
    return [*lines, "", *output.rows(("JOB", f"PROMISED ({zone.key})", "NOW"), rows), *more]

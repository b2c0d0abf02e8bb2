"""Machines and their queues: ``kalends admin nodes``, ``policy`` and ``replan``."""

from __future__ import annotations

from itertools import islice
from typing import Literal
from zoneinfo import ZoneInfo

import click

from kalends.cli.console import output, site_calls
from kalends.cli.console.commands import server_command
from kalends.cli.console.output import short_time
from kalends.cli.console.settings import Settings
from kalends.cli.jobs import shown_jobs
from kalends.contract.job_calls import NewPlan
from kalends.core.limits import LISTING_MAX
from kalends.core.number_ranges import numbers_in


@server_command(
    "nodes",
    "kalends admin nodes sdsc/sp2 drain 0-3 --reason 'new fans'",
    "kalends admin nodes sdsc/sp2 resume 0-3",
)
@click.argument("machine")
@click.argument("what", type=click.Choice(["drain", "fail", "resume"]))
@click.argument("nodes", metavar="NODES")
@click.option("--reason", default="", metavar="TEXT", help="Reason, shown to users.")
def nodes(
    settings: Settings,
    machine: str,
    what: Literal["drain", "fail", "resume"],
    nodes: str,
    reason: str,
) -> None:
    """Take nodes out of service, or put them back.

    Drained nodes finish their jobs. Jobs on failed nodes are ended, and run again on other nodes if their
    users allow it.
    """
    read = numbers_in(nodes, where="NODES", what="nodes", example="e.g. 0-3,7")
    numbers = list(islice(read, LISTING_MAX + 1))
    with site_calls.client_at(settings, machine) as client:
        load = client.serve_nodes(machine, what, numbers, detail=reason)
    output.answer(settings, "machine", load, lambda: shown_jobs.machine_lines((load,)))


@server_command(
    "policy", "kalends admin policy sdsc/sp2 conservative", "kalends admin policy sdsc/sp2 easy"
)
@click.argument("machine")
@click.argument("policy")
def policy(settings: Settings, machine: str, policy: str) -> None:
    """Switch the policy of a machine; its jobs keep their order.

    This lasts until you switch again, or change the machine in the configuration.
    """
    with site_calls.client_at(settings, machine) as client:
        load = client.set_policy(machine, policy)
    output.answer(settings, "machine", load, lambda: shown_jobs.machine_lines((load,)))


@server_command("replan", "kalends admin replan sdsc/sp2", "kalends admin replan sdsc/sp2 --json")
@click.argument("machine")
def replan(settings: Settings, machine: str) -> None:
    """Recompute the plan of a queue, and list the promises that no longer hold.

    Waiting jobs are planned as if they came now, in their order of submission. Running jobs continue.
    """
    zone = settings.time_zone()
    with site_calls.client_at(settings, machine) as client:
        plan = client.replan(machine)
    output.answer(settings, "replanned", plan, lambda: _plan_lines(plan, zone))


def _plan_lines(plan: NewPlan, zone: ZoneInfo) -> list[str]:
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

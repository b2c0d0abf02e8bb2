"""Machines and their queues: ``kalends admin nodes``, ``policy``, ``host-lost`` and ``replan``."""

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
from kalends.contract.job_calls import MovedMachine, NewPlan
from kalends.core.limits import LISTING_MAX
from kalends.core.number_ranges import numbers_in


@server_command(
    "nodes",
    "kalends admin nodes sdsc/sp2 drain 0-3 --reason 'new fans' --until now+2h",
    "kalends admin nodes sdsc/sp2 resume 0-3",
)
@click.argument("machine")
@click.argument("what", type=click.Choice(["drain", "fail", "resume"]))
@click.argument("nodes", metavar="NODES")
@click.option("--reason", default="", metavar="TEXT", help="Reason, shown to users.")
@click.option("--until", default="", metavar="TIME", help="End of a drain, e.g. now+2h.")
def nodes(
    settings: Settings,
    machine: str,
    what: Literal["drain", "fail", "resume"],
    nodes: str,
    reason: str,
    until: str,
) -> None:
    """Take nodes out of service, or put them back.

    Drained nodes finish their jobs. Jobs on failed nodes are ended, and run again on other nodes if their
    users allow it. With --until, drained nodes are back by themselves, and plans count on that.
    """
    read = numbers_in(nodes, where="NODES", what="nodes", example="e.g. 0-3,7")
    numbers = list(islice(read, LISTING_MAX + 1))
    with site_calls.client_at(settings, machine) as client:
        load = client.serve_nodes(machine, what, numbers, detail=reason, until=until or None)
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


@server_command(
    "host-lost",
    "kalends admin host-lost node7.example.org",
    "kalends admin host-lost node7.example.org --machine sdsc/sp2",
)
@click.argument("host")
@click.option(
    "--machine",
    metavar="MACHINE",
    default="",
    help="Machine to move, e.g. sdsc/sp2.  [default: all machines of HOST]",
)
def host_lost(settings: Settings, host: str, machine: str) -> None:
    """Give up a lost host, and move its machines to this one.

    A machine belongs to the host on which its jobs run. If its site is started on another host, the machine
    is put aside until the site is started on its own host again. If HOST (its name, or its id) is gone for
    good, this command ends the jobs that ran there as lost, or runs them again if their users allow it.

    First make sure that HOST is off: what still runs there is not ended, and may run twice. Calls the site
    of --machine, or the site at --broker, and needs the scope admin.
    """
    line = site_calls.client_at(settings, machine) if machine else settings.connect()
    with line as client:
        lost = client.host_lost(host, machine=machine)
    output.answer(
        settings, "host_lost", lost, lambda: [_moved_line(each) for each in lost.machines]
    )


def _moved_line(moved: MovedMachine) -> str:
    ended = "1 job was lost" if moved.ended == 1 else f"{moved.ended} jobs were lost"
    again = "1 runs again" if moved.again == 1 else f"{moved.again} run again"
    return f"{moved.machine} belongs to this site's host now: {ended}, {again}"


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

"""``kalends check-schedule``: whether a schedule keeps the rules of the policy it is said to be of."""

from __future__ import annotations

from pathlib import Path

import click

from kalends.cli import _output, _standard_input
from kalends.cli._settings import LocalCommand, Settings, pass_settings
from kalends.cli._simulated import FILE
from kalends.core.errors import InvalidInput
from kalends.simulation.checking import POLICIES, Report, check

SHOWN_MAX = 20


@click.command("check-schedule", cls=LocalCommand)
@click.argument("log", type=FILE)
@click.argument("result", type=FILE)
@click.option("--policy", default="any", show_default=True, help=f"One of {', '.join(POLICIES)}.")
@click.option(
    "--nodes", type=int, help="The nodes of the machine.  [default: what the log's header says]"
)
@click.option(
    "--machine", default="", help="A machine with a topology in their place: mesh2d:32x32:4x4."
)
@click.option("--reservations", type=FILE, help="Advance reservations: start,end,nodes.")
@click.option(
    "--estimates",
    default="user",
    show_default=True,
    help="Requested times: user, exact (run times), filled (run times where there are none).",
)
@click.option(
    "--as-run",
    is_flag=True,
    help="Jobs may have other nodes and run times than in the log: take those of the result.",
)
@pass_settings
def command(
    settings: Settings,
    log: Path,
    result: Path,
    policy: str,
    nodes: int | None,
    machine: str,
    reservations: Path | None,
    estimates: str,
    as_run: bool,
) -> int:
    """Check a schedule, whoever made it, against its log and policy.

    LOG is a workload log (SWF), RESULT the schedule: SWF, or CSV in Batsim's columns; one of them may be
    -, standard input. Every job must be there once and as in the log, no node taken twice, and the
    promises of the policy kept. The exit code is 1 if anything is wrong.
    """
    if log == result == _standard_input.DASH:
        raise InvalidInput(
            "is one file, not two", where="standard input", remedy="give LOG or RESULT as a file"
        )
    with _standard_input.kept(log) as log_file, _standard_input.kept(result) as result_file:
        report = check(
            log_file,
            result_file,
            policy,
            nodes,
            machine=machine,
            reservations=reservations,
            estimates=estimates,
            as_run=as_run,
        )
    _output.answer(settings, "schedule-check", report, lambda: report_lines(report))
    return 1 if report.findings else 0


def report_lines(report: Report) -> list[str]:
    """The verdict, how many findings of each kind there are, and the first ones."""
    told = [
        f"{_counted(report.jobs, 'job')} on {_counted(report.nodes, 'node')}, policy {report.policy}"
    ]
    if report.waited:
        told.append(
            f"{_counted(report.waited, 'job')} had to wait; promises broken: {report.broken_promises:,}"
            + (f", the worst by {report.worst_s:,} s" if report.broken_promises else "")
        )
    if report.resized:
        told.append(
            f"{_counted(report.resized, 'job')} changed size while running, and had nodes that are not known"
        )
    told += [f"{count:,} x {kind}" for kind, count in report.kinds.items()]
    for finding in report.findings[:SHOWN_MAX]:
        told.append(
            f"  {finding.kind}: job {finding.job} at {finding.at_s}"
            + (f", by {finding.by}" if finding.by else "")
            + f": {finding.detail}"
        )
    if len(report.findings) > SHOWN_MAX:
        told.append(f"  and {len(report.findings) - SHOWN_MAX:,} more: --json has them all")
    if not report.findings:
        told.append("nothing is wrong")
    return told


def _counted(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count:,} {what}s"

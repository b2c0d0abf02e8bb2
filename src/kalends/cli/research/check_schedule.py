"""``kalends check-schedule``: check a schedule against its log and policy."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from kalends.cli.console import files, output
from kalends.cli.console.commands import local_command
from kalends.cli.console.progress import Bar
from kalends.cli.console.settings import Settings
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.cli.research.simulated import FILE
from kalends.core.errors import InvalidInput
from kalends.simulation.checking import POLICIES, CheckReport, check

SHOWN_MAX = 20

PROMISING: Final = {
    "easy": "waited at the head of the queue",
    "easy-sjbf": "waited at the head of the queue",
    "conservative": "got a promise of a later start",
}
"""The policies that promise starts, with the condition for a promise."""


@local_command(
    "check-schedule",
    "kalends check-schedule log.swf result.swf --policy easy",
    "kalends check-schedule log.swf result.csv --policy easy --as-decided",
)
@click.argument("log", type=FILE)
@click.argument("result", type=FILE)
@click.option("--policy", default="any", show_default=True, metavar="NAME",
              help=f"Policy: {', '.join(POLICIES)}.")  # fmt: skip
@click.option("--nodes", type=WholeNumber(), metavar="N",
              help="Number of nodes, e.g. 128.  [default: from the log's header]")  # fmt: skip
@click.option("--machine", default="", metavar="SPEC",
              help="Topology instead of --nodes, e.g. mesh2d:32x32:4x4.")  # fmt: skip
@click.option("--reservations", type=FILE, metavar="FILE",
              help="CSV of advance reservations: start,end,nodes.")  # fmt: skip
@click.option(
    "--estimates",
    default="user",
    show_default=True,
    metavar="KIND",
    help="Requested times: user, exact (run times), or filled (run times if there are none).",
)
@click.option(
    "--as-run",
    is_flag=True,
    help="Take nodes and run times of jobs from RESULT instead of LOG.",
)
@click.option(
    "--as-decided",
    is_flag=True,
    help="Take sizes and limits of jobs from RESULT, if the policy may change them, e.g. cap limits.",
)
def check_schedule(
    settings: Settings,
    log: Path,
    result: Path,
    policy: str,
    nodes: int | None,
    machine: str,
    reservations: Path | None,
    estimates: str,
    as_run: bool,
    as_decided: bool,
) -> int:
    """Check a schedule against its log and policy.

    LOG is a workload log (SWF), RESULT a schedule from any program: SWF, or CSV with Batsim's columns;
    one of them may be - for standard input. Every job must occur once and as in the log, no node may be
    used by two jobs at a time, and the promises of the policy must be kept. The exit code is 1 if anything is
    wrong.
    """
    if log == result == files.DASH:
        raise InvalidInput(
            "LOG and RESULT are both -", where="standard input", remedy="give one of them as a file"
        )
    with (
        files.kept(log) as log_file,
        files.kept(result) as result_file,
        Bar() as bar,
    ):
        bar.begin("starts checked:")
        report = check(
            log_file,
            result_file,
            policy,
            nodes,
            machine=machine,
            reservations=reservations,
            estimates=estimates,
            as_run=as_run,
            as_decided=as_decided,
            progress=bar,
        )
    output.answer(settings, "schedule-check", report, lambda: report_lines(report))
    if "request" in report.kinds:
        output.say("where the policy may choose sizes and limits, add --as-decided", error=True)
    return 1 if report.findings else 0


def report_lines(report: CheckReport) -> list[str]:
    """Return the verdict, the number of findings of each kind, and the first findings."""
    told = [
        f"{_counted(report.jobs, 'job')} on {_counted(report.nodes, 'node')}, policy {report.policy}"
    ]
    if report.waited and report.policy in PROMISING:
        told.append(
            f"{_counted(report.waited, 'job')} {PROMISING[report.policy]}; "
            f"promises broken: {report.broken_promises:,}"
            + (f", the worst by {report.worst_s:,} s" if report.broken_promises else "")
        )
    if report.resized:
        told.append(
            f"{_counted(report.resized, 'job')} changed size while running, on nodes that are not recorded"
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

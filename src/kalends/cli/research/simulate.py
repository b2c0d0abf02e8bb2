"""``kalends simulate``: replay a workload under scheduling policies."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from kalends.cli.console import files, output
from kalends.cli.console.commands import local_command, section
from kalends.cli.console.settings import Settings
from kalends.cli.research import simulated
from kalends.core.errors import InvalidInput

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from kalends.cli.research.site_past import SitePast
    from kalends.simulation.result import SimulationResult


_output_option, _past_option = section("Output"), section("A site's past")


def _policies_completed(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    # Imported here because only completion needs it.
    from kalends.cli.console.completion import completed

    return completed(ctx, "policies", incomplete)


@local_command(
    "simulate",
    "kalends simulate log.swf --policy fcfs,easy",
    "kalends simulate --from-site sdsc/sp2 --month 2026-10 --policy fcfs,easy",
)
@click.argument("log", type=simulated.FILE, required=False)
@section("Policies")(
    "--policy",
    "policies",
    default="easy",
    show_default=True,
    metavar="P[,P...]",
    shell_complete=_policies_completed,
    help="Policy names, see `kalends policies`, or your own module:Class, with any parameters "
    "as in module:Class:3.",
)
@simulated.workload_options
@_past_option(
    "--from-site",
    metavar="MACHINE",
    help="Jobs of a site's machine instead of LOG, e.g. sdsc/sp2; needs the scope audit or admin.",
)
@_past_option("--month", metavar="YYYY-MM", help="Month of their submission, e.g. 2026-10.")
@_past_option("--from", "start", metavar="TIME", help="Start of the period, instead of --month.")
@_past_option("--to", "end", metavar="TIME", help="End.")
@simulated.machine_options
@simulated.sweep_options
@_output_option(
    "--out",
    metavar="FILE",
    type=simulated.FILE,
    help="File for all jobs (.swf, .csv) or the metrics (.json). With several policies, each writes "
    "its jobs to a file of its own: out-easy.csv.  [default: none]",
)
@_output_option(
    "--plot",
    metavar="FILE",
    type=simulated.FILE,
    help="Picture of the schedule, or of a comparison of policies: .png, .svg or .pdf.  "
    "[default: none]",
)
@_output_option(
    "--force", is_flag=True, help="Replace the files of --out and --plot if they exist."
)
@_output_option(
    "--predict",
    is_flag=True,
    help="Also predict the start of every job that waits, and show the accuracy.",
)
@_output_option(
    "--by",
    metavar="KIND[,KIND...]",
    help="Job classes for further metrics: nodes, run_time, requested_time, priority, user, or the "
    "log's group, queue or partition.",
)
def simulate(
    settings: Settings,
    log: Path | None,
    policies: str,
    out: Path | None,
    plot: Path | None,
    force: bool,
    predict: bool,
    by: str | None,
    from_site: str | None,
    month: str | None,
    start: str | None,
    end: str | None,
    **options: Unpack[simulated.Simulated],
) -> None:
    """Replay a workload under scheduling policies.

    LOG is a file in the Standard Workload Format, plain or gzip, or - for standard input. Its jobs run
    under each policy in turn; * marks the best value of each column. With --loads or --repeat, the
    command runs a sweep: many replays on all cores, and their means. With --from-site, the jobs of a
    site's machine run again, and the real schedule is shown next to the others.
    """
    from kalends.cli.research import replays

    names = replays.policy_names(policies)
    kinds = replays.kinds(by)
    simulated.check_pairs(log, options)
    if force and out is None and plot is None:
        raise InvalidInput(
            "no file is written", where="--force", remedy="leave it out, or give --out or --plot"
        )
    if from_site is None and (month or start or end):
        raise InvalidInput(
            "is of a site's past", where="--month, --from or --to", remedy="give --from-site too"
        )
    with ExitStack() as stack:
        past, file = None, None
        if from_site is not None:
            from kalends.cli.research import site_past

            simulated.check_no_other(log, options)
            past = stack.enter_context(site_past.fetched(settings, from_site, month, start, end))
            file = past.log
        elif log is not None:
            file = stack.enter_context(files.kept(log))
        _simulate(
            settings, file, names, out, plot, options, past, force=force, predict=predict, by=kinds
        )


def _simulate(
    settings: Settings,
    log: Path | None,
    names: Sequence[str],
    out: Path | None,
    plot: Path | None,
    options: simulated.Simulated,
    past: SitePast | None,
    *,
    force: bool,
    predict: bool,
    by: Sequence[str],
) -> None:
    from kalends.cli.research import replays, tables

    if past is not None and not options["machine"] and options["nodes"] is None:
        options["machine"] = past.machine
    nodes = simulated.nodes_of(log, options)
    workload = simulated.workload_of(log, nodes, options)
    given = simulated.replay_options(log, nodes, options)
    if past is not None:
        given = past.applied(given)
    if options["loads"] is not None or options["repeat"] > 1:
        from kalends.cli.research import sweep

        _refuse_in_a_sweep(predict, by)
        cells = sweep.run(workload, names, out, plot, options, given, force=force)
        _say_left_out(cells[0].results[0])
        output.answer(settings, "swept", sweep.as_cells(cells), lambda: sweep.lines(cells))
        return
    simulated.check_single(options)
    given |= {"shake_s": simulated.shake_s(options), "seed": options["seed"], "by": by}
    files = replays.Files(names, out, plot, force=force)
    files.check_apart_from(log)
    command = replays.command_line(",".join(names))
    results = replays.run(names, workload, files, nodes, given, command=command, predict=predict)
    _say_left_out(results[0])
    shown, conditions = results, simulated.conditions(options)
    if past is not None:
        from kalends.simulation.site_past import as_it_was

        conditions = ", ".join(filter(None, (past.said, conditions)))
        shown = [as_it_was(past.log, nodes), *results]
    output.answer(
        settings,
        "simulated",
        replays.as_data(shown),
        lambda: [
            *tables.metric_lines(shown, conditions),
            *tables.class_lines(results),
        ],
    )


def _refuse_in_a_sweep(predict: bool, by: Sequence[str]) -> None:
    for name, given, said in (
        ("--predict", predict, "predicts no starts"),
        ("--by", by, "has no metrics by class of job"),
    ):
        if given:
            raise InvalidInput(
                f"a sweep {said}", where=name, remedy=f"leave out {name}, or --loads and --repeat"
            )


def _say_left_out(result: SimulationResult) -> None:
    from kalends.cli.research import tables

    for line in tables.left_out(result):
        output.say(line, error=True)

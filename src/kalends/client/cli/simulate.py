"""``kalends simulate``: replay a workload log under one or several policies."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from kalends.client.cli import _output
from kalends.client.cli._settings import LocalCommand, Settings, pass_settings


@click.command("simulate", cls=LocalCommand)
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--nodes", type=int, help="Of the machine.  [default: what the log's header says]")
@click.option(
    "--policy",
    "policies",
    default="easy",
    show_default=True,
    metavar="P[,P...]",
    help="Names, see kalends policies, or your own module:Class.",
)
@click.option(
    "--estimates",
    type=click.Choice(["user", "exact", "filled"]),
    default="user",
    show_default=True,
    help="What policies believe of run times: what users requested, the truth, or the truth where "
    "nothing was requested.",
)
@click.option(
    "--damaged",
    type=click.Choice(["refuse", "skip"]),
    default="refuse",
    show_default=True,
    help="What to do about lines that are no jobs.",
)
@click.option("--sort", is_flag=True, help="Sort a log that is not in order of submission.")
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Also write there: all jobs as .swf or .csv, or the metrics as .json. Where there are "
    "several policies, the jobs of each go to a file of their own, its name put in.",
)
@click.option(
    "--plot",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Draw the schedule there, or a comparison of several policies: .png, .svg or .pdf.",
)
@pass_settings
def command(
    settings: Settings,
    log: Path,
    nodes: int | None,
    policies: str,
    estimates: Literal["user", "exact", "filled"],
    damaged: Literal["refuse", "skip"],
    sort: bool,
    out: Path | None,
    plot: Path | None,
) -> None:
    """Replay a workload log on a simulated machine, and measure the schedules.

    LOG is in the Standard Workload Format, plain or gzip. The jobs run under each policy in turn; the
    best value of each column is marked with *.
    """
    from kalends.client.cli import _metrics_table, _replays
    from kalends.simulation.source import nodes_in_header

    names = _replays.policy_names(policies)
    files = _replays.Files(names, out, plot)
    results = _replays.run(
        names, log, files, nodes_in_header(log) if nodes is None else nodes,
        {"estimates": estimates, "damaged": damaged, "unsorted": "sort" if sort else "refuse"},
    )  # fmt: skip
    for line in _metrics_table.left_out(results[0]):
        _output.say(line, error=True)
    _output.answer(
        settings, "simulated", _replays.as_data(results), lambda: _metrics_table.lines(results)
    )

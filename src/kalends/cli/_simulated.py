"""The options of ``kalends simulate``: which workload, on which machine, how often; and what they mean."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

import click

if TYPE_CHECKING:
    from kalends.simulation.source import Workload

F = TypeVar("F", bound=Callable[..., Any])


class _File(click.Path):
    """A path that is not empty, as it is where a shell has no value for a variable."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the name of the file is empty.", param, ctx)
        return super().convert(value, param, ctx)


FILE = _File(path_type=Path)

JOBS = 10_000
"""So many are generated where nothing else is said."""


class Simulated(TypedDict):
    """The options; passed on as they were typed."""

    nodes: int | None
    machine: str
    crossing: str
    components: str
    speedups: Path | None
    reservations: Path | None
    estimates: Literal["user", "exact", "filled"]
    damaged: Literal["refuse", "skip"]
    sort: bool
    generate: str | None
    jobs: int | None
    seed: int
    loads: str | None
    repeat: int
    shake: str | None
    cores: int | None
    dask: str | None


def _options(*options: Callable[[F], F]) -> Callable[[F], F]:
    return lambda function: reduce(lambda made, option: option(made), reversed(options), function)


workload_options = _options(
    click.option(
        "--estimates", type=click.Choice(["user", "exact", "filled"]), default="user", show_default=True,
        help="What policies believe of run times: what users requested, the truth, or the truth "
        "where nothing was requested.",
    ),
    click.option(
        "--damaged", type=click.Choice(["refuse", "skip"]), default="refuse", show_default=True,
        help="What to do about lines that are no jobs.",
    ),
    click.option(
        "--speedups", type=FILE, metavar="FILE",
        help="Which jobs can run on several numbers of nodes, and how fast: JSON.",
    ),
    click.option("--sort", is_flag=True, help="Sort a log that is not in order of submission."),
    click.option(
        "--generate", metavar="SPEC",
        help="Instead of a log, jobs by rule: poisson, uniform or lublin, with options as in "
        "poisson:interarrival=100,run=exp(170).",
    ),
    click.option(
        "--jobs", type=click.IntRange(1), help="How many to generate.  [default: 10000]"
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Of all chance."),
)  # fmt: skip

machine_options = _options(
    click.option("--nodes", type=int, help="Of the machine.  [default: what the log's header says]"),
    click.option(
        "--machine", default="", metavar="TEXT",
        help="One that decides which nodes go together, as mesh2d:32x32:4x4 or hypercube:7, or "
        "several clusters, as grid:64+32.",
    ),
    click.option("--crossing", default="", metavar="TEXT", help="Penalty in a grid, as once:0.2."),
    click.option(
        "--components", default="", metavar="KIND:LARGEST",
        help="Split jobs over a grid: ordered, unordered or total, as unordered:16.",
    ),
    click.option(
        "--reservations", type=FILE, metavar="FILE",
        help="Kept free: start,end,nodes a line; in a grid with a column part.",
    ),
)  # fmt: skip

sweep_options = _options(
    click.option(
        "--loads", metavar="X[,X...]", help="Sweep: so many times as many jobs a second, as 0.9,1,1.1."
    ),
    click.option(
        "--repeat", type=click.IntRange(1, 10_000), default=1, show_default=True,
        help="Sweep: so many replays of each, shaken.",
    ),
    click.option(
        "--shake", metavar="DURATION", help="Submit each job up to so much earlier or later, by chance."
    ),
    click.option("--cores", type=click.IntRange(1, 4096), help="For a sweep.  [default: all]"),
    click.option("--dask", metavar="ADDRESS", help="Sweep on the Dask cluster of this scheduler."),
)  # fmt: skip


def nodes_of(log: Path | None, options: Simulated) -> int:
    """How many nodes the machine has.

    Raises `InvalidInput` where nothing says so, and unless there is one workload: a log or a rule.
    """
    from kalends.core.errors import InvalidInput
    from kalends.simulation.machine_text import cluster_from
    from kalends.simulation.source import nodes_in_header

    if (log is None) == (options["generate"] is None):
        raise InvalidInput(
            "give a log or --generate" if log is None else "both a log and --generate",
            where="LOG",
            remedy="kalends simulate LOG, or kalends simulate --generate poisson --nodes 64",
        )
    if options["machine"]:
        machine = cluster_from(
            options["machine"], nodes=options["nodes"], crossing=options["crossing"]
        )
        return machine.nodes
    if options["nodes"] is not None:
        return options["nodes"]
    if log is not None:
        return nodes_in_header(log)
    raise InvalidInput("how many nodes?", where="--nodes", remedy="say so: --nodes N")


def workload_of(log: Path | None, nodes: int, options: Simulated) -> Workload:
    """The log, or what generates jobs: `nodes_of` has seen to it that there is one of them.

    What is wrong with the rule, `InvalidInput` says when the first job is asked for.
    """
    if log is not None:
        return log
    from kalends.simulation.workloads.generators import generate

    assert options["generate"] is not None
    return partial(
        generate,
        options["generate"],
        jobs=options["jobs"] or JOBS,
        nodes=nodes,
        seed=options["seed"],
    )


def check_pairs(log: Path | None, options: Simulated) -> None:
    """Raise `InvalidInput` for options that mean nothing without another one, which is not there."""
    from kalends.core.errors import InvalidInput

    grid = options["machine"].startswith("grid:")
    for name, given, needed, there in (
        ("--jobs", options["jobs"] is not None, "--generate", log is None),
        ("--crossing", bool(options["crossing"]), "--machine grid:...", grid),
        ("--components", bool(options["components"]), "--machine grid:...", grid),
    ):
        if given and not there:
            raise InvalidInput(
                f"means nothing without {needed}",
                where=name,
                remedy=f"leave it out, or give {needed}",
            )


def conditions(options: Simulated) -> str:
    """What else makes the results what they are, for the head of a table; empty if nothing does."""
    said = [options["machine"]] if options["machine"] else []
    if options["estimates"] != "user":
        said.append(f"{options['estimates']} estimates")
    said += [
        name
        for name in ("crossing", "components", "reservations", "speedups")
        if options[name] not in (None, "")
    ]
    if options["shake"] is not None:
        said.append(f"shaken by up to {options['shake']}")
    return ", ".join(said)


def replay_options(log: Path | None, nodes: int, options: Simulated) -> dict[str, Any]:
    """The options of `kalends.simulation.experiment.simulate`, those of sweeps left out."""
    given: dict[str, Any] = {
        "nodes": nodes,
        "estimates": options["estimates"],
        "damaged": options["damaged"],
        "unsorted": "sort" if options["sort"] else "refuse",
    }
    given |= {
        name: options[name] for name in ("machine", "crossing", "components") if options[name]
    }
    if options["speedups"] is not None:
        from kalends.simulation.workloads.speedups import read_speed_ups

        given["speedups"] = read_speed_ups(options["speedups"])
    if options["reservations"] is not None:
        given["reservations"] = _reservations(options["reservations"], log)
    return given


def check_single(options: Simulated) -> None:
    """Raise `InvalidInput` for options that only a sweep has, where there is none."""
    from kalends.core.errors import InvalidInput

    for name, value in (("--cores", options["cores"]), ("--dask", options["dask"])):
        if value is not None:
            raise InvalidInput(
                "is for a sweep, and this is a single replay",
                where=name,
                remedy="leave it out, or add --loads or --repeat",
            )


def shake_s(options: Simulated) -> int:
    """The greatest shift of a submission, in seconds."""
    if options["shake"] is None:
        return 0
    from kalends.core.durations import parse_duration

    return parse_duration(options["shake"])


def _reservations(path: Path, log: Path | None) -> list[Any]:
    from kalends.simulation.workloads.reservations_file import read_reservations
    from kalends.simulation.workloads.swf import open_log

    began = open_log(log, nodes=1).header.get("UnixStartTime", "") if log is not None else ""
    return read_reservations(path, unix_start_s=int(began) if began.isdecimal() else None)

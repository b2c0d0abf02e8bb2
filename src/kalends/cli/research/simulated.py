"""The workload, machine and sweep options of ``kalends simulate``, and their meaning."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import click

from kalends.cli.console.commands import all_of, section
from kalends.cli.console.whole_numbers import WholeNumber

if TYPE_CHECKING:
    from kalends.simulation.workloads import Workload


FILE = click.Path(path_type=Path)

JOBS = 10_000
"""The number of generated jobs by default."""

_workload, _machine, _sweep = section("Workload"), section("Machine"), section("Sweep")


class Simulated(TypedDict):
    """The options, as they were typed."""

    nodes: int | None
    machine: str
    crossing: str
    components: str
    speedups: Path | None
    treat: str
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


workload_options = all_of(
    _workload(
        "--generate", metavar="SPEC",
        help="Generated jobs instead of LOG: poisson, uniform or lublin, e.g. "
        "poisson:interarrival=100,run=exp(170).",
    ),
    _workload(
        "--jobs", type=WholeNumber(1), metavar="N",
        help=f"Number of generated jobs.  [default: {JOBS}]",
    ),
    _workload(
        "--seed", type=WholeNumber(), default=0, show_default=True, metavar="N", help="Random seed, e.g. 42."
    ),
    _workload(
        "--estimates", type=click.Choice(["user", "exact", "filled"]), default="user", show_default=True,
        help="Run times known to policies: requested, true, or true if none is requested.",
    ),
    _workload(
        "--damaged", type=click.Choice(["refuse", "skip"]), default="refuse", show_default=True,
        help="Handling of malformed lines.",
    ),
    _workload("--sort", is_flag=True, help="Sort the log by submit time."),
    _workload(
        "--speedups", type=FILE, metavar="FILE",
        help="JSON of moldable and malleable jobs: run times by number of nodes.",
    ),
    _workload(
        "--treat", default="", metavar="RULE[,RULE...]",
        help="Priorities, interactive jobs and shares by the log's queue, user or group, e.g. "
        "queue:0=interactive,user:7=3,group:2=shares:5.  [default: none]",
    ),
)  # fmt: skip

machine_options = all_of(
    _machine(
        "--nodes", type=WholeNumber(), metavar="N",
        help="Number of nodes, e.g. 128.  [default: from the log's header]",
    ),
    _machine(
        "--machine", default="", metavar="SPEC",
        help="Topology or grid, e.g. mesh2d:32x32:4x4, hypercube:7 or grid:64+32.  "
        "[default: interchangeable nodes]",
    ),
    _machine(
        "--crossing", default="", metavar="SPEC",
        help="Penalty for jobs that cross clusters of a grid, e.g. once:0.2.  [default: none]",
    ),
    _machine(
        "--components", default="", metavar="KIND:LARGEST",
        help="Split of jobs over a grid: ordered, unordered or total, e.g. unordered:16.",
    ),
    _machine(
        "--reservations", type=FILE, metavar="FILE",
        help="CSV of advance reservations: start,end,nodes; in a grid also part.",
    ),
)  # fmt: skip

sweep_options = all_of(
    _sweep("--loads", metavar="X[,X...]", help="Load factors, e.g. 0.9,1,1.1.  [default: 1]"),
    _sweep(
        "--repeat", type=WholeNumber(1, 10_000), default=1, show_default=True, metavar="N",
        help="Number of replays, with shifted submit times, of each policy and load.",
    ),
    _sweep(
        "--shake", metavar="DURATION",
        help="Maximum random shift of submit times, e.g. 5m.  [default: none]",
    ),
    _sweep(
        "--cores", type=WholeNumber(1, 4096), metavar="N", help="CPU cores of a sweep.  [default: all]"
    ),
    _sweep("--dask", metavar="ADDRESS", help="Scheduler of a Dask cluster, e.g. tcp://head:8786."),
)  # fmt: skip


def nodes_of(log: Path | None, options: Simulated) -> int:
    """Return the number of nodes of the machine.

    Raises `InvalidInput` if it is unknown, and unless there is one workload: a log or a rule.
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
    raise InvalidInput("number of nodes unknown", where="--nodes", remedy="give --nodes N")


def workload_of(log: Path | None, nodes: int, options: Simulated) -> Workload:
    """Return the log or the generator of jobs; `nodes_of` has checked that there is one of them.

    Errors in the rule are raised as `InvalidInput` when the first job is generated.
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


def check_no_other(log: Path | None, options: Simulated) -> None:
    """Raise `InvalidInput` if a log or rule is given in addition to a site's past."""
    from kalends.core.errors import InvalidInput

    if log is not None or options["generate"] is not None:
        raise InvalidInput(
            "cannot be used with LOG or --generate",
            where="--from-site",
            remedy="leave out LOG and --generate",
        )


def check_pairs(log: Path | None, options: Simulated) -> None:
    """Raise `InvalidInput` for an option whose required option is missing."""
    from kalends.core.errors import InvalidInput

    grid = options["machine"].startswith("grid:")
    for name, given, needed, there in (
        ("--jobs", options["jobs"] is not None, "--generate", log is None),
        ("--crossing", bool(options["crossing"]), "--machine grid:...", grid),
        ("--components", bool(options["components"]), "--machine grid:...", grid),
    ):
        if given and not there:
            raise InvalidInput(
                f"requires {needed}",
                where=name,
                remedy=f"leave it out, or give {needed}",
            )


def conditions(options: Simulated) -> str:
    """Return further conditions of the results for the head of a table; empty if there are none."""
    said = [options["machine"]] if options["machine"] else []
    if options["estimates"] != "user":
        said.append(f"{options['estimates']} estimates")
    said += [
        name
        for name in ("crossing", "components", "reservations", "speedups", "treat")
        if options[name] not in (None, "")
    ]
    if options["shake"] is not None:
        said.append(f"shaken by up to {options['shake']}")
    return ", ".join(said)


def replay_options(log: Path | None, nodes: int, options: Simulated) -> dict[str, Any]:
    """Return the options of `kalends.simulation.experiment.simulate`, without those of sweeps."""
    given: dict[str, Any] = {
        "nodes": nodes,
        "estimates": options["estimates"],
        "damaged": options["damaged"],
        "unsorted": "sort" if options["sort"] else "refuse",
    }
    given |= {
        name: options[name]
        for name in ("machine", "crossing", "components", "treat")
        if options[name]
    }
    if options["speedups"] is not None:
        from kalends.simulation.workloads.speedups import read_speed_ups

        given["speedups"] = read_speed_ups(options["speedups"])
    if options["reservations"] is not None:
        given["reservations"] = _reservations(options["reservations"], log)
    return given


def check_single(options: Simulated) -> None:
    """Raise `InvalidInput` for sweep options of a single replay."""
    from kalends.core.errors import InvalidInput

    for name, value in (("--cores", options["cores"]), ("--dask", options["dask"])):
        if value is not None:
            raise InvalidInput(
                "requires a sweep, and this is a single replay",
                where=name,
                remedy="leave it out, or add --loads or --repeat",
            )


def shake_s(options: Simulated) -> int:
    """Return the maximum shift of a submit time, in seconds."""
    if options["shake"] is None:
        return 0
    from kalends.core.durations import parse_duration

    return parse_duration(options["shake"])


def _reservations(path: Path, log: Path | None) -> list[Any]:
    from kalends.simulation.workloads.reservations_file import read_reservations
    from kalends.simulation.workloads.swf import open_log
    from kalends.simulation.workloads.swf_fields import header_number

    header = open_log(log, nodes=1).header if log is not None else {}
    return read_reservations(path, unix_start_s=header_number(header, "UnixStartTime"))

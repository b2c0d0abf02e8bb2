"""The replays of one ``kalends simulate``, one policy after another, and their files."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec
from click.core import ParameterSource

from kalends.cli.console import files, output
from kalends.cli.console.files import new_file
from kalends.cli.console.progress import Bar
from kalends.core.errors import InvalidInput
from kalends.scheduling.registry import is_own, policy_maker
from kalends.simulation.experiment import Watcher, simulate
from kalends.simulation.provenance import Provenance, provenance_of
from kalends.simulation.result import SimulationResult
from kalends.simulation.workloads import Workload

if TYPE_CHECKING:
    from kalends.simulation.prediction_accuracy import Accounts
    from kalends.simulation.schedule import Schedule


POLICIES_MAX: Final = 64

OUT_SUFFIXES: Final = (".swf", ".csv", ".json")


def policy_names(text: str) -> list[str]:
    """Return the policies in ``P[,P...]``, each once. Raises `InvalidInput` unless all can be loaded.

    Users' own classes are also looked up in the current directory.
    """
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    if len(names) > POLICIES_MAX:
        raise InvalidInput(
            f"{len(names)} policies", where="--policy", remedy=f"give at most {POLICIES_MAX}"
        )
    if any(map(is_own, names)):
        look_here()
    for name in names:
        policy_maker(name)
    return names


def kinds(text: str | None) -> list[str]:
    """Return the classes in ``KIND[,KIND...]``, each once. Raises `InvalidInput` for unknown ones."""
    if text is None:
        return []
    from kalends.simulation.classes import check_kinds

    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    check_kinds(names)
    return names


class Files:
    """Files next to the answer: jobs or metrics in `out`, a picture in `plot`, or None.

    With `force`, existing files are replaced. Raises `InvalidInput` at once for a file that cannot be
    written, and `KalendsError` if the disk is full.
    """

    def __init__(
        self, names: Sequence[str], out: Path | None, plot: Path | None, *, force: bool = False
    ) -> None:
        self.force = force
        self._names = names
        self.out = out
        self.plot = plot
        self._several = len(names) > 1
        if out is not None and out.suffix not in OUT_SUFFIXES:
            raise InvalidInput(
                f"unknown format {out.suffix}" if out.suffix else "the file has no suffix",
                where="--out",
                remedy=f"give a file that ends in {', '.join(OUT_SUFFIXES)}",
            )
        jobs = [path for name in names if (path := self.of_jobs(name))]
        for at, path in enumerate(jobs):
            if path in jobs[:at]:
                raise InvalidInput(
                    f"{names[jobs.index(path)]} and {names[at]} would both be written to {path.name}",
                    where="--out",
                    remedy="simulate them one by one, with a file for each",
                )
        metrics = [out] if out is not None and not jobs else []
        for path in (*jobs, *metrics):
            files.check_new(path, force=force)
        if plot is not None:
            from kalends.simulation.plots import check_suffix, need_matplotlib

            check_suffix(plot)
            need_matplotlib()
            files.check_new(plot, force=force)

    def of_jobs(self, name: str) -> Path | None:
        """Return the file for the jobs under the policy `name`."""
        if self.out is None or self.out.suffix == ".json":
            return None
        return files.beside(self.out, name) if self._several else self.out

    def check_apart_from(self, log: Path | None) -> None:
        """Raise `InvalidInput` if one of the files would replace the workload itself."""
        if log is None:
            return
        jobs = [path for name in self._names if (path := self.of_jobs(name))]
        for path in filter(None, (*jobs, self.out, self.plot)):
            if path.exists() and path.samefile(log):
                raise InvalidInput(
                    "this is the log itself", where=str(path), remedy="give another name"
                )

    def write(
        self,
        results: Sequence[SimulationResult],
        schedules: Sequence[Schedule],
        accounts: Accounts | None,
    ) -> None:
        """Write the metrics and the picture after all replays; `accounts` belong to the last policy."""
        if self.out is not None and self.out.suffix == ".json":
            with files.new_file(self.out, force=self.force) as stream:
                stream.write(output.json_text("simulated", as_data(results)) + "\n")
        if self.plot is not None:
            from kalends.simulation import plots

            figure = (
                plots.comparison(schedules, results)
                if len(results) > 1
                else plots.overview(
                    schedules[0], results[0], accounts.errors_s if accounts else None
                )
            )
            with files.replacing(self.plot) as part:
                plots.save(figure, part, made_by(results))


def run(
    names: Sequence[str],
    workload: Workload,
    files: Files,
    nodes: int,
    options: dict[str, Any],
    *,
    command: str,
    predict: bool = False,
) -> list[SimulationResult]:
    """Replay the workload under each policy, on `nodes` nodes, and write the files.

    `command` is the command line of all of it, for the provenance of the results.
    """
    results: list[SimulationResult] = []
    schedules: list[Schedule] = []
    machine = options.get("machine", "")
    accounts: Accounts | None = None
    with Bar(len(names)) as bar:
        for name in names:
            bar.begin(name)
            provenance = provenance_of(
                workload,
                name,
                command=command,
                predict=predict,
                **{**options, "nodes": nodes},
            )
            if predict:
                from kalends.simulation.prediction_accuracy import Accounts

                accounts = Accounts()
            with ExitStack() as stack:
                watchers: list[Watcher] = []
                if path := files.of_jobs(name):
                    opened = _job_file(
                        path, workload, nodes, machine, provenance, force=files.force
                    )
                    watchers.append(stack.enter_context(opened))
                if files.plot is not None:
                    from kalends.simulation.machine_text import parts_of
                    from kalends.simulation.schedule import Schedule

                    schedules.append(Schedule(name, parts_of(machine)))
                    watchers.append(schedules[-1].add)
                result = simulate(
                    workload,
                    policy=name,
                    watchers=watchers,
                    keep_lines=path is not None and path.suffix == ".swf",
                    accounts=accounts,
                    progress=bar,
                    **options,
                )
                results.append(msgspec.structs.replace(result, provenance=provenance))
            bar.finish()
    files.write(results, schedules, accounts)
    return results


def made_by(results: Iterable[SimulationResult]) -> str:
    """Return the provenance of `results` for the file of a picture, a line each."""
    return "\n".join(each.provenance.as_json() for each in results if each.provenance)


_NOT_SHAPING: Final = frozenset({"policies", "force", "cores", "dask"})
"""Options that change neither a result nor its file, only where it is computed; and the policies."""


def command_line(policies: str) -> str:
    """Return the running command, as it can be typed again for `policies`.

    Without ``--force``: where its files still exist, it replaces them only if that is added.
    """
    context = click.get_current_context()
    words = ["kalends", "simulate"]
    for parameter in context.command.params:
        name = parameter.name or ""
        value = context.params.get(name)
        if isinstance(parameter, click.Argument):
            # A log called -n.swf would be read as an option.
            hidden = "./" if str(value).startswith("-") and str(value) != "-" else ""
            words += [] if value is None else [f"{hidden}{value}"]
        elif (
            parameter.expose_value
            and name not in _NOT_SHAPING
            and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        ):
            flag = isinstance(parameter, click.Option) and parameter.is_flag
            words += [parameter.opts[0]] if flag else [parameter.opts[0], str(value)]
    return shlex.join([*words, "--policy", policies])


def as_data(results: Sequence[SimulationResult]) -> list[dict[str, object]]:
    """Return the results as ``--json`` prints them, the policy first."""
    return [
        {"policy": each.policy, "nodes": each.nodes, **msgspec.structs.asdict(each)}
        for each in results
    ]


@contextmanager
def _job_file(
    path: Path,
    workload: Workload,
    nodes: int,
    machine: str,
    provenance: Provenance,
    *,
    force: bool = False,
) -> Iterator[Watcher]:
    """Yield a function to call with each finished job; the file is complete after the block.

    With `force` it may replace an existing file.
    """
    with new_file(path, force=force) as stream:
        if path.suffix == ".swf":
            from kalends.simulation.workloads.swf import ResultWriter, open_log

            header = open_log(workload, nodes=nodes).header if isinstance(workload, Path) else {}
            writer = ResultWriter(stream, header, provenance)
            yield writer.add
            writer.close()
        else:
            from kalends.simulation.job_table import write_jobs
            from kalends.simulation.machine_text import parts_of
            from kalends.simulation.schedule import Schedule

            name = workload.name if isinstance(workload, Path) else "generated"
            schedule = Schedule(name, parts_of(machine))
            yield schedule.add
            write_jobs(stream, schedule, nodes, provenance)


def look_here() -> None:
    """Search the current directory, too, for modules of users' own policies."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)

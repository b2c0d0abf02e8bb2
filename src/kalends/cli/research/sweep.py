"""The sweep of one ``kalends simulate``: policies x loads x shaken repetitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from kalends.cli.console import files, output
from kalends.cli.console.output import rows
from kalends.cli.console.progress import Bar
from kalends.cli.research.replays import as_data, command_line, made_by
from kalends.cli.research.simulated import Simulated, shake_s
from kalends.core.errors import InvalidInput
from kalends.core.excerpts import excerpt
from kalends.simulation.confidence import Estimate
from kalends.simulation.sweeps import ESTIMATED, Cell, sweep
from kalends.simulation.workloads import Workload

COLUMNS = {
    "WAIT": ("mean_wait_s", ",.0f"),
    "P95": ("p95_wait_s", ",.0f"),
    "SLOWDOWN": ("mean_bounded_slowdown", ",.2f"),
    "UTIL": ("utilization", ".2%"),
    "QUEUE": ("mean_queue_depth", ",.1f"),
}


def run(
    workload: Workload,
    names: Sequence[str],
    out: Path | None,
    plot: Path | None,
    options: Simulated,
    given: dict[str, Any],
    *,
    force: bool,
) -> list[Cell]:
    """Run all cells and write them to `out`, a JSON file; `given` applies to every replay.

    With `force`, an existing file is replaced.
    """
    if plot is not None:
        from kalends.simulation import plots

        plots.check_suffix(plot)
        plots.need_matplotlib()
        files.check_new(plot, force=force)
    if out is not None:
        if out.suffix != ".json":
            raise InvalidInput(
                "a sweep has no single schedule to write",
                where="--out",
                remedy="give a file that ends in .json",
            )
        files.check_new(out, force=force)
    with Bar() as bar:
        bar.begin("sweep")
        swept = sweep(
            workload,
            policies=names,
            loads=_loads("1" if options["loads"] is None else options["loads"]),
            repeats=options["repeat"],
            shake_s=shake_s(options),
            seed=options["seed"],
            cores=options["cores"],
            dask=options["dask"],
            progress=bar,
            **given,
        )
    cells = _with_command(swept, command_line(",".join(names)))
    if out is not None:
        with files.new_file(out, force=force) as stream:
            stream.write(output.json_text("swept", as_cells(cells)) + "\n")
    if plot is not None:
        with files.replacing(plot) as part:
            plots.save(plots.sweep(cells), part, made_by(cell.results[0] for cell in cells))
    return cells


def _with_command(cells: Sequence[Cell], command: str) -> list[Cell]:
    """Return the cells with the command of the sweep in the provenance of each result."""
    return [
        replace(
            cell,
            results=tuple(
                replace(
                    each, provenance=each.provenance and replace(each.provenance, command=command)
                )
                for each in cell.results
            ),
        )
        for cell in cells
    ]


def _loads(text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError as error:
        raise InvalidInput(
            f"{excerpt(text)!r} is not a list of numbers",
            where="--loads",
            remedy="write e.g. 0.9,1,1.1",
        ) from error


def as_cells(cells: Sequence[Cell]) -> list[dict[str, object]]:
    """Return the cells as they are printed with ``--json``; differences are from the first policy."""
    return [
        {
            "policy": cell.policy,
            "load": cell.load,
            "estimates": {name: cell.estimate(name) for name in ESTIMATED},
            "differences": {name: cell.difference(first, name) for name in ESTIMATED},
            "results": as_data(cell.results),
        }
        for cell, first in _beside_the_first(cells)
    ]


def _beside_the_first(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Cell]]:
    """Yield each cell with that of the first policy under the same load."""
    firsts = {cell.load: cell for cell in cells if cell.policy == cells[0].policy}
    for cell in cells:
        yield cell, firsts[cell.load]


def lines(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield a row for each cell: means, and their confidence intervals if there are several replays."""
    repeats = len(cells[0].results)
    if repeats > 1:
        yield f"means of {repeats} shaken replays, with 95 % confidence intervals; times in seconds"
    else:
        yield "times in seconds"
    body = [
        (
            cell.policy,
            f"{cell.load:g}",
            *(_shown(cell.estimate(field), form) for field, form in COLUMNS.values()),
        )
        for cell in cells
    ]
    yield from rows(("POLICY", "LOAD", *COLUMNS), body, right=("LOAD", *COLUMNS))
    compared = [
        (
            cell.policy,
            f"{cell.load:g}",
            *(
                _shown(cell.difference(first, field), f"+{form}")
                for field, form in COLUMNS.values()
            ),
        )
        for cell, first in _beside_the_first(cells)
        if cell.policy != first.policy
    ]
    if repeats > 1 and compared:
        yield ""
        yield f"differences from {cells[0].policy} on the same submissions, replay by replay"
        yield from rows(("POLICY", "LOAD", *COLUMNS), compared, right=("LOAD", *COLUMNS))


def _shown(value: Estimate, form: str) -> str:
    if value.half_width is None:
        return format(value.mean, form)
    return f"{format(value.mean, form)} +-{format(value.half_width, form.removeprefix('+'))}"

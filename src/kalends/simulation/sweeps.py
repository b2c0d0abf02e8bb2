"""Many replays of one workload: policies x loads x shaken repetitions, on all cores or on a Dask cluster."""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Unpack
from urllib.parse import urlsplit

import msgspec

from kalends.core.errors import InvalidInput, KalendsError, Unavailable
from kalends.core.signatures import names_options
from kalends.extras import install_command
from kalends.simulation.confidence import Estimate, estimate
from kalends.simulation.experiment import ReplayOptions, simulate
from kalends.simulation.result import COLUMNS, SimulationResult
from kalends.simulation.workloads import Workload

if TYPE_CHECKING:
    from kalends.core.markup import Markup

REPLAYS_MAX: Final = 100_000
"""Maximum number of replays, above which it is a typing error."""

ROWS_MAX: Final = 200
"""Rows of a table in a notebook."""

DASK_WAIT_S: Final = 10

ESTIMATED: Final = tuple(
    name
    for name in SimulationResult.__struct_fields__
    if name.endswith(("_s", "slowdown", "depth")) or name == "utilization"
)
"""The metrics that a sweep gives means of."""


class Cell(msgspec.Struct, frozen=True):
    """One policy under one load: its replays, in order of their seeds."""

    policy: str
    load: float
    results: tuple[SimulationResult, ...]

    def estimate(self, metric: str) -> Estimate:
        """Return the mean of one metric, such as ``mean_wait_s``, over the replays, and how sure it is."""
        return estimate([getattr(result, metric) for result in self.results])

    def difference(self, other: Cell, metric: str) -> Estimate:
        """Return the mean of this cell's metric less that of `other`, replay by replay, and how sure it is.

        Both must be of one sweep and one load: their replays have the same submissions in pairs, so the
        difference is far surer than either mean.
        """
        pairs = zip(self.results, other.results, strict=True)
        return estimate([getattr(mine, metric) - getattr(theirs, metric) for mine, theirs in pairs])


class SweepCells(list[Cell]):
    """The cells of a sweep, which a notebook shows as a table."""

    def _repr_html_(self) -> Markup:
        # Imported here because only notebooks ask for it.
        from kalends.core.markup import element, table

        rows = [
            (cell.policy, f"{cell.load:g}", *(_mean(cell, *told) for told in COLUMNS.values()))
            for cell in self[:ROWS_MAX]
        ]
        return element("div", table(("policy", "load", *COLUMNS), rows))


def _mean(cell: Cell, name: str, say: Callable[[float], str]) -> str:
    found = cell.estimate(name)
    return say(found.mean) + (
        "" if found.half_width is None else f" \u00b1 {say(found.half_width)}"
    )


class _Replay(msgspec.Struct, frozen=True):
    workload: Workload
    policy: str
    load: float
    shake_s: int
    seed: int
    options: ReplayOptions


@names_options(ReplayOptions, simulate)
def sweep(
    workload: Workload,
    *,
    policies: Sequence[str],
    loads: Sequence[float] = (1.0,),
    repeats: int = 1,
    shake_s: int = 0,
    seed: int = 0,
    cores: int | None = None,
    dask: str | None = None,
    progress: Callable[[int, int | None], object] | None = None,
    **options: Unpack[ReplayOptions],
) -> SweepCells:
    """Replay `workload` under every policy and load, `repeats` times each; a cell for each pair.

    Repetition i shakes the submissions by up to `shake_s` with the seed ``seed + i``: the same for all
    policies and loads, so that they are compared on the same input. `nodes` and what follows are as for
    `simulate`.

    The replays run in `cores` processes (all cores unless said otherwise; 1: in this one), or on the
    Dask cluster whose scheduler is at the address `dask`; its workers need kalends and the log, under the
    same path. What comes back is the same wherever it runs, but for the times. `progress` is called
    with the number of replays that are done and of all. With processes the workload must be a path,
    a list, or a function of a module, and a script must start under ``if __name__ == "__main__":``.

    Raises `InvalidInput` as `simulate` does, and `Unavailable` where no cluster answers.
    """
    count = _count(len(policies), len(loads), repeats, shake_s)
    if others := options.keys() - ReplayOptions.__annotations__:
        raise TypeError(f"sweep() got an unexpected keyword argument {min(others)!r}")
    replays = [
        _Replay(workload, policy, load, shake_s, seed + repetition, options)
        for policy in policies
        for load in loads
        for repetition in range(repeats)
    ]
    results: list[SimulationResult] = []
    with _runner(dask, cores or os.cpu_count() or 1, count) as run:
        for result in run(replays):
            results.append(result)
            if progress is not None:
                progress(len(results), count)
    cells = [(policy, load) for policy in policies for load in loads]
    return SweepCells(
        Cell(policy, load, tuple(results[at * repeats : (at + 1) * repeats]))
        for at, (policy, load) in enumerate(cells)
    )


def _count(policies: int, loads: int, repeats: int, shake_s: int) -> int:
    """Return how many replays that is; raises `InvalidInput` for none, too many, or identical ones."""
    count = policies * loads * repeats
    if not 1 <= count <= REPLAYS_MAX:
        raise InvalidInput(
            f"{policies} policies x {loads} loads x {repeats} repetitions",
            where="sweep",
            remedy=f"ask for 1 to {REPLAYS_MAX:,} replays",
        )
    if repeats > 1 and not shake_s:
        raise InvalidInput(
            f"{repeats} identical repetitions",
            where="sweep",
            remedy="shake the submissions, such as by shake_s=300 or --shake 5m",
        )
    return count


_Run = Callable[[Iterable[_Replay]], Iterator[SimulationResult]]


def _replayed(replay: _Replay) -> SimulationResult:
    return simulate(
        replay.workload, policy=replay.policy, load=replay.load, shake_s=replay.shake_s,
        seed=replay.seed, **replay.options,
    )  # fmt: skip


@contextmanager
def _runner(dask: str | None, cores: int, count: int) -> Iterator[_Run]:
    """Yield a function that runs replays and yields their results in the same order."""
    if dask is not None:
        with _on_dask(dask) as run:
            yield run
    elif min(cores, count) == 1:
        yield lambda replays: map(_replayed, replays)
    else:
        # Fresh processes: what this one has open, or runs in threads, is not theirs.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(min(cores, count), context)
        try:
            yield lambda replays: pool.map(_replayed, replays)
        except BrokenProcessPool as error:
            raise KalendsError(
                "a process that replayed the workload has died",
                remedy="check that memory suffices; use fewer cores; "
                "start scripts under if __name__ == '__main__':",
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _on_dask(address: str) -> Iterator[_Run]:
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise KalendsError(
            f"Dask is not installed: no module {error.name}",
            remedy=f"install it: {install_command('dask')}",
        ) from error
    _must_answer(address)
    with Client(address, timeout=DASK_WAIT_S, set_as_default=False) as client:  # type: ignore[no-untyped-call]  # not typed
        yield lambda replays: (
            future.result() for future in client.map(_replayed, list(replays), pure=False)
        )


def _must_answer(address: str) -> None:
    """Raise `Unavailable` if no server listens: a client that never connected does not end well."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    try:
        if parts.scheme not in ("tcp", "tls") or not parts.hostname or not parts.port:
            raise ValueError("not an address")
        socket.create_connection((parts.hostname, parts.port), DASK_WAIT_S).close()
    except (OSError, ValueError) as error:
        raise Unavailable(
            f"no Dask scheduler answers: {error}",
            where=address,
            remedy="give the address that the scheduler prints, such as tcp://127.0.0.1:8786",
        ) from error

"""The replays of one ``kalends simulate``: a policy after the other, and what is written of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from kalends.client.cli import _new_files, _output
from kalends.client.cli._replaying import Bar
from kalends.core.errors import InvalidInput, KalendsError
from kalends.scheduling.registry import BY_NAME, policy_maker
from kalends.simulation.running import Result, simulate

POLICIES_MAX: Final = 64

_FORMATS: Final = (".csv", ".json")


def policy_names(text: str) -> list[str]:
    """The policies of ``P[,P...]``, each once. Raises `InvalidInput` unless all can be loaded.

    A class of the user's is looked for in the current directory too.
    """
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    if len(names) > POLICIES_MAX:
        raise InvalidInput(
            f"{len(names)} policies", where="--policy", remedy=f"give at most {POLICIES_MAX}"
        )
    if any(map(is_own, names)):
        sys.path.append(str(Path.cwd()))
    for name in names:
        policy_maker(name)
    return names


def is_own(name: str) -> bool:
    """Whether this is a user's own class."""
    return ":" in name and name.partition(":")[0] not in BY_NAME


@contextmanager
def told_in_words(name: str) -> Iterator[None]:
    """Around a replay: where a user's own policy raises, say so, and in which line of it."""
    try:
        yield
    except KalendsError:
        raise
    except Exception as error:
        if not is_own(name):
            raise
        import traceback

        last = traceback.extract_tb(error.__traceback__)[-1]
        raise KalendsError(
            f"{type(error).__name__}: {error}",
            where=f"policy {name}, {last.filename}, line {last.lineno}",
            remedy="correct the policy",
        ) from error


class Replays:
    """Replays the same workload under each of the policies `names`."""

    def __init__(self, names: Sequence[str], out: Path | None) -> None:
        self._names = names
        self._out = out
        if out is not None and out.suffix not in _FORMATS:
            raise InvalidInput(
                f"nothing is known of {out.suffix or 'a file without a suffix'}",
                where="--out",
                remedy=f"name a file that ends in {' or '.join(_FORMATS)}",
            )
        for path in {self._path(name) for name in names}:
            if path is not None:
                _new_files.check_new(path)

    def run(self, workload: Any, **options: Any) -> list[Result]:
        """The results, in order of the policies; what was to be written is written."""
        results = []
        with Bar(len(self._names)) as bar:
            for name in self._names:
                bar.begin(name)
                with told_in_words(name):
                    results.append(self._replay(workload, name, bar, options))
                bar.finish()
        if self._out is not None and self._out.suffix == ".json":
            with _new_files.new_file(self._out) as stream:
                stream.write(_output.json_text("simulated", as_data(results)) + "\n")
        return results

    def _path(self, name: str) -> Path | None:
        if self._out is None or len(self._names) == 1 or self._out.suffix == ".json":
            return self._out
        return _new_files.beside(self._out, name)

    def _replay(self, workload: Any, name: str, bar: Bar, options: dict[str, Any]) -> Result:
        path = self._path(name)
        if path is None or path.suffix != ".csv":
            return simulate(workload, policy=name, progress=bar, **options)
        from kalends.simulation.job_table import write_jobs
        from kalends.simulation.schedule import Schedule

        schedule = Schedule(name=Path(str(workload)).name)
        with _new_files.new_file(path) as stream:
            result = simulate(
                workload, policy=name, progress=bar, watchers=[schedule.add], **options
            )
            write_jobs(stream, schedule, result.nodes)
        return result


def as_data(results: Sequence[Result]) -> list[dict[str, object]]:
    """The results as they are printed with ``--json``, the policy first."""
    return [
        {"policy": each.policy, "nodes": each.nodes, **msgspec.structs.asdict(each)}
        for each in results
    ]

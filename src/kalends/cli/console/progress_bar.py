"""A progress bar of replays and checks on a terminal, shown only if they take a while."""

from __future__ import annotations

import sys
from time import monotonic
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_S: Final = 1.0
"""Seconds before the bar appears, so that short replays have none."""

EVERY_S: Final = 0.2


class Bar:
    """A bar on standard error with the remaining time, for `total` replays in turn, or for a check."""

    def __init__(self, total: int = 1) -> None:
        self._total = total
        self._done = 0
        self._jobs = 0
        self._name = ""
        self._shown: Progress | None = None
        self._task: TaskID | None = None
        self._next_s = monotonic() + PATIENCE_S if sys.stderr.isatty() else float("inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._shown is not None:
            self._shown.stop()

    def begin(self, name: str) -> None:
        """Begin the next replay."""
        self._name = name

    def finish(self) -> None:
        """End a replay."""
        self._done += 1

    def __call__(self, jobs: int, expected: int | None) -> None:
        """Report that this number of jobs of the replay have ended."""
        now_s = monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + EVERY_S
        if self._shown is None:
            self._show()
        assert self._shown is not None
        assert self._task is not None
        part = min(jobs / expected, 1.0) if expected else 0.0
        self._shown.update(
            self._task,
            description=f"{self._name} {jobs:,}",
            completed=self._done + part,
            total=self._total if expected or self._total > 1 else None,
        )

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._shown = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._shown.add_task("", total=self._total)
        self._shown.start()

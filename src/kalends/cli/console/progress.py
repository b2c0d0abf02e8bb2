"""A status line and a progress bar on standard error, while a command works."""

from __future__ import annotations

import sys
from time import monotonic
from typing import TYPE_CHECKING, Final, Self

from kalends.cli.console import output

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.status import Status

PATIENCE_S: Final = 1.0
"""Seconds before the bar appears, so that short replays have none."""

EVERY_S: Final = 0.2


class LiveLine:
    """The status line: it changes in place on a terminal; elsewhere each change is a new line.

    With `silent`, prints nothing. `terminal` is the console to print on; None for standard error.
    """

    def __init__(self, *, silent: bool = False, terminal: Console | None = None) -> None:
        self._silent = silent
        self._terminal = terminal
        self._status: Status | None = None
        self._said = ""

    def __enter__(self) -> Self:
        if not self._silent:
            from rich.console import Console

            terminal = self._terminal or Console(stderr=True, highlight=False)
            if terminal.is_terminal and not terminal.is_dumb_terminal:
                self._status = terminal.status("waiting")
                self._status.start()
        return self

    def __exit__(self, *raised: object) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, words: str, countdown: str = "") -> None:
        """Show `words`, and on a terminal also the part that changes every second."""
        if self._silent:
            return
        if self._status is not None:
            from rich.text import Text

            self._status.update(Text(output.plain_line(words + countdown)))
        elif words != self._said:
            output.say(words, error=True)
        self._said = words


class Bar:
    """A bar on standard error with the remaining time, for `total` replays in turn, or for a check."""

    def __init__(self, total: int = 1) -> None:
        self._total = total
        self._done = 0
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

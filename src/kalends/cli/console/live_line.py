"""A status line on standard error, while this command waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from kalends.cli.console import output

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status


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

"""The commands that run a program in a batch system: all that a shepherd knows about the system."""

from __future__ import annotations

from typing import NamedTuple


class Passage(NamedTuple):
    """Words of commands, each of which names its program by its whole path.

    In those of `runs`, `state` and `signals`, ``{id}`` stands for the allocation that was given.
    """

    asks: tuple[str, ...]
    """Asks for nodes, waits until it has them, and prints `given` followed by their id."""
    given: tuple[str, ...]
    away: tuple[str, ...]
    """If the system is away, it prints one of these and fails."""
    clears: tuple[str, ...]
    """Gives back an allocation that may exist nevertheless; exit code 0 if the system confirmed it."""
    runs: tuple[str, ...]
    """Runs its further arguments once: a script ("": none), and a program or the script's arguments.

    It passes the standard streams on, and ends with the program's exit code.
    """
    kills: tuple[str, ...]
    """The signal that makes `runs` kill the program and end, e.g. ``TERM``."""
    state: tuple[str, ...]
    """Prints `alive` as long as the allocation exists."""
    alive: tuple[str, ...]
    unstarted: tuple[str, ...]
    """If the program has not begun, it prints one of these and fails."""
    signals: tuple[str, ...]
    """Sends the program the signal ``{signal}``, e.g. ``TERM``."""

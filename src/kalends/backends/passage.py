"""The way of a program into a batch system, in commands: all that a shepherd has to know of one."""

from __future__ import annotations

from typing import NamedTuple


class Passage(NamedTuple):
    """Words of commands, each of which names its program by its whole path.

    In those of `runs`, `state` and `signals`, ``{id}`` stands for the allocation that was given.
    """

    asks: tuple[str, ...]
    """Asks for nodes, waits until they are there, and says `given` and their id behind it."""
    given: tuple[str, ...]
    away: tuple[str, ...]
    """It says one of these, and has an exit code, when the system was not there to answer."""
    clears: tuple[str, ...]
    """Gives back what may have been given all the same; has exit code 0 when that was heard."""
    runs: tuple[str, ...]
    """Runs what is put behind it, a script ("": none) and a program or the script's arguments, once.

    It hands on the standard streams, and ends as the program does.
    """
    kills: tuple[str, ...]
    """The signal that makes that kill the program, as ``TERM``; it ends then, too."""
    state: tuple[str, ...]
    """Says `alive` as long as the allocation was not taken away."""
    alive: tuple[str, ...]
    unstarted: tuple[str, ...]
    """It says one of these, and has an exit code, when the program has not begun."""
    signals: tuple[str, ...]
    """Sends the program the signal that ``{signal}`` names, as ``TERM``."""

"""Programs of ours in a batch system: each attempt of a job has an allocation of nodes there, by its name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from kalends.backends.passage import Passage


class Allocation(NamedTuple):
    """The nodes that one attempt of a job is to have."""

    name: str
    """The name of the job in the batch system. No two attempts share one."""
    nodes: tuple[str, ...]
    length_s: int
    """The system ends the allocation this long after its start, which is later than our own limit."""
    reservation: str = ""
    """The reservation that holds the nodes; "" for nodes that the owner has handed over."""
    terminal: bool = False
    """Whether the program gets a terminal."""
    merged: bool = False
    """Whether its errors go where its output goes, in the order in which they are written."""


class SystemProgram(NamedTuple):
    """A job that waits in a batch system, runs there, or is being ended; whose it says it is.

    Anybody may have named it so: it is ours only if its user is one of ours, too.
    """

    name: str
    user: str
    nodes: tuple[str, ...]
    reservation: str


class Allocator(Protocol):
    """One batch system that runs programs. Its calls raise `SystemRefused` and `SystemSilent`."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What the commands of a passage need in theirs."""
        ...

    @property
    def own_variables(self) -> tuple[str, ...]:
        """Prefixes of the variables that steer those commands; users must not set these."""
        ...

    def passage(self, allocation: Allocation) -> Passage:
        """Return how a program gets into an allocation of its own, and runs on the first of its nodes."""
        ...

    async def programs(self) -> list[SystemProgram]:
        """Return everything that waits or runs there."""
        ...

    async def prolong(self, name: str, users: Collection[str], until_s: int) -> None:
        """Let an allocation last until then (seconds UTC); one that is not there is no error."""
        ...

    async def release(self, name: str, users: Collection[str], nodes: Collection[str]) -> None:
        """End an allocation of one of `users`, and all that runs in it on `nodes`.

        Returns once nothing of it is left. What others have under that name is left alone.
        """
        ...

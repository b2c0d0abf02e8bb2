"""The site's programs in a batch system: each attempt of a job has a named allocation of nodes there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from kalends.backends.passage import Passage


class Allocation(NamedTuple):
    """The nodes for one attempt of a job."""

    name: str
    """The name of the job in the batch system. No two attempts share one."""
    nodes: tuple[str, ...]
    length_s: int
    """The system ends the allocation this long after its start, which is later than the site's own limit."""
    reservation: str = ""
    """The reservation that holds the nodes; "" for nodes that the owner handed over."""
    terminal: bool = False
    """Whether the program gets a terminal."""
    merged: bool = False
    """Whether its standard error goes to its standard output, in the order of writing."""


class SystemProgram(NamedTuple):
    """A job that waits in a batch system, runs there, or is being ended, with the owner in its name.

    Any user can choose such a name: the job is the site's only if its user is in the site's table, too.
    """

    name: str
    user: str
    nodes: tuple[str, ...]
    reservation: str


class Allocator(Protocol):
    """One batch system that runs programs. Its calls raise `SystemRefused` and `SystemSilent`."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables that the commands of a passage need."""

    @property
    def own_variables(self) -> tuple[str, ...]:
        """Prefixes of the variables that steer those commands; users must not set these."""

    def passage(self, allocation: Allocation) -> Passage:
        """Return the passage of a program into an allocation of its own, on whose first node it runs."""

    async def programs(self) -> list[SystemProgram]:
        """Return everything that waits or runs there."""

    async def prolong(self, name: str, users: Collection[str], until_s: int) -> None:
        """Let an allocation last until then (seconds UTC); a missing one is not an error."""

    async def release(self, name: str, users: Collection[str], nodes: Collection[str]) -> None:
        """End an allocation of one of `users`, and all that runs in it on `nodes`.

        Returns once nothing of it is left. Allocations of other users under that name are left alone.
        """

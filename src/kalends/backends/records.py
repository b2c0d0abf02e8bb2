"""Records that a site and its batch system exchange, the same for all systems.

An adapter turns these records into the commands of its system, and the output of the commands into these
records. It keeps no state: the site's journal is the truth, and the batch system is its mirror. All times are
seconds UTC, all nodes have their names.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

PREFIX: Final = "kal"
"""The prefix of all names of kalends reservations: see `kalends.backends.names`."""


class SystemReservation(msgspec.Struct, frozen=True, gc=False):
    """Nodes, or licences, that are kept for users during ``[start, end)``: as requested, or as found.

    `nodes` and `users` are sorted. `broken` names the fault that makes the reservation unreliable, e.g. a
    flag that allows others to overlap it: a reservation of the site never has one. `cores` are the kept cores
    of each node, or one number for all nodes if the system reports no more; () for whole nodes.
    """

    name: str
    start: int
    end: int
    nodes: tuple[str, ...]
    users: tuple[str, ...]
    licences: tuple[tuple[str, int], ...] = ()
    broken: str = ""
    cores: tuple[int, ...] = ()

    def has_room_of(self, wish: SystemReservation) -> bool:
        """Whether this, as found, keeps exactly the units of `wish`; times and users may differ."""
        told = not wish.cores or self.cores in (wish.cores, (sum(wish.cores),))
        return self.nodes == wish.nodes and told and wish.licences in ((), self.licences)


class SystemJob(msgspec.Struct, frozen=True, gc=False):
    """A running job, which ends by `end`; None if nothing ends it. `cores` as in reservations."""

    id: str
    user: str
    nodes: tuple[str, ...]
    start: int
    end: int | None
    reservation: str = ""
    cores: tuple[int, ...] = ()
    licences: tuple[tuple[str, int], ...] = ()


class FinishedJob(msgspec.Struct, frozen=True, gc=False):
    """An ended job that had nodes during ``[start, end)``; `id` and `start` identify it for ever.

    A job that is restarted after its end is another one, with its own `start`. `reservation` is the name of
    the reservation in which it ran, or its number if the accounting has no names; "" for none. `user` and
    `project` are the system's names.
    """

    id: str
    start: int
    end: int
    node_seconds: int
    user: str
    project: str = ""
    reservation: str = ""


class UnwellNode(msgspec.Struct, frozen=True, gc=False):
    """A node that is out of order.

    `unknown` are nodes from which a controller that has just started has not heard yet.
    """

    name: str
    state: Literal["down", "drained", "unknown"]
    detail: str = ""


class SystemState(msgspec.Struct, frozen=True):
    """Everything that a batch system has, at one time.

    `clock_s` is the time of its clock, and `boot_s` its start, by that clock. `nodes` are all that it knows;
    `unwell` are those that are out of order. `cores` (of each node) and `licences` are set if the site offers
    any.
    """

    clock_s: int
    boot_s: int
    nodes: tuple[str, ...]
    reservations: tuple[SystemReservation, ...] = ()
    jobs: tuple[SystemJob, ...] = ()
    unwell: tuple[UnwellNode, ...] = ()
    version: str = ""
    """As the system calls it."""
    cores: tuple[tuple[str, int], ...] = ()
    licences: tuple[tuple[str, int], ...] = ()
    numbers: tuple[tuple[str, str], ...] = ()
    """Numbers and names of reservations, if accounting identifies these by number (`FinishedJob`)."""


class CreateReservation(msgspec.Struct, frozen=True):
    """Make `reservation`, unless one of its name exists, and return the one that exists then."""

    reservation: SystemReservation


class ChangeReservation(msgspec.Struct, frozen=True):
    """Make the reservation of this name as it is here, in one update; never delete and create."""

    reservation: SystemReservation


class DeleteReservation(msgspec.Struct, frozen=True):
    """End the reservation of this name, with the jobs in it; a missing one is not an error."""

    name: str


class EndJobs(msgspec.Struct, frozen=True):
    """Ask all jobs in the reservation of this name to end (SIGTERM), or with `at_once` kill them.

    The reservation stays; without jobs in it nothing happens.
    """

    name: str
    at_once: bool = False


class ListSystem(msgspec.Struct, frozen=True):
    """List everything that the system has."""


class ListFinishedJobs(msgspec.Struct, frozen=True):
    """List the jobs of `users` that ended in ``[since, until)``; others may be among them."""

    since: int
    until: int
    users: tuple[str, ...]


Write = CreateReservation | ChangeReservation | DeleteReservation
Errand = Write | EndJobs | ListSystem | ListFinishedJobs


class SystemAnswer(msgspec.Struct, frozen=True):
    """The result of an errand.

    done
        The system has carried it out. `found` is the reservation under the name, read after the change, so
        that a site can compare before it relies on it.
    refused
        The system has refused; `found` is the reservation that it has under the name nevertheless.
    unknown
        No readable answer: the errand may have been carried out, or may be carried out later.
    """

    outcome: Literal["done", "refused", "unknown"]
    detail: str = ""
    """The system's words."""
    found: SystemReservation | None = None
    state: SystemState | None = None
    jobs: tuple[FinishedJob, ...] | None = None
    no_account: bool = False
    """The errand is refused because the system does not know the user."""


class Traits(msgspec.Struct, frozen=True):
    """Properties in which batch systems differ, declared by each adapter and checked by one test suite."""

    late_write_s: int = 0
    """How long a write without an answer may still be carried out, while the system can be reached."""
    gap_s: int = 0
    """Least time between two reservations of a node."""
    job_offset_s: int = 0
    """How long a running job counts after its limit."""
    weak_s: int = 0
    """A grant may be lost if the system fails within this time after it."""
    unique_names: bool = True
    """A second reservation of the same name is refused."""
    deletes_in_use: bool = True
    """A reservation with jobs in it can be deleted."""
    changes_in_place: bool = True
    """A reservation is changed in one update; else it is recreated, and not while jobs are in it."""
    asks_jobs: bool = True
    """Jobs can be asked to end; else they can only be killed."""
    tells_clock: bool = True
    """It reports its clock and its start; else the site uses its own clock."""
    parts: bool = False
    """Cores of nodes can be reserved; such a reservation is recreated to get more time, or other cores."""
    licences: bool = False
    """Licences can be reserved."""
    tells_use: bool = False
    """Its accounting shows what ended jobs used in each reservation."""

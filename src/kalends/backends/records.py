"""What a site and the batch system behind it tell each other, whatever the system is.

An adapter turns these records into the commands of its system, and what they print into these records. It
keeps nothing: the site's journal is the truth, and the batch system is its mirror. All times are seconds UTC,
all nodes have their names.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

PREFIX: Final = "kal"
"""With what the names of all our reservations begin: see `kalends.backends.names`."""


class SystemReservation(msgspec.Struct, frozen=True, gc=False):
    """Nodes, or licences, that are kept for users during ``[start, end)``: as asked for, or as found.

    `nodes` and `users` are sorted. `broken` names what keeps the reservation from being one, such as a flag
    that lets others overlap it: one of ours never has any. `cores` are how many of each node's are kept, or
    one number for all nodes where the system tells no more; () for whole nodes.
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
        """Whether this, as found, keeps just what `wish` asks for, whenever and for whomever."""
        told = not wish.cores or self.cores in (wish.cores, (sum(wish.cores),))
        return self.nodes == wish.nodes and told and wish.licences in ((), self.licences)


class SystemJob(msgspec.Struct, frozen=True, gc=False):
    """A job that runs, until `end` at the latest; None when nothing ends it. `cores` as of reservations."""

    id: str
    user: str
    nodes: tuple[str, ...]
    start: int
    end: int | None
    reservation: str = ""
    cores: tuple[int, ...] = ()
    licences: tuple[tuple[str, int], ...] = ()


class FinishedJob(msgspec.Struct, frozen=True, gc=False):
    """A job that had nodes during ``[start, end)``, and is over; `id` and `start` name it for ever.

    One that is begun again after its end is another, with a `start` of its own. `reservation` is the name of
    the one in which it ran, or its number where the accounting tells no names; "" for none. `user` and
    `project` are as the system calls them.
    """

    id: str
    start: int
    end: int
    node_seconds: int
    user: str
    project: str = ""
    reservation: str = ""


class UnwellNode(msgspec.Struct, frozen=True, gc=False):
    """A node that cannot be counted on.

    `unknown` are those of a controller that has just started and has not heard from them yet.
    """

    name: str
    state: Literal["down", "drained", "unknown"]
    detail: str = ""


class SystemState(msgspec.Struct, frozen=True):
    """Everything that a batch system has, at one time.

    `clock_s` is what its clock showed, and `boot_s` when it began to run, by that clock. `nodes` are all that
    it knows; `unwell` are those of them that cannot be counted on. `cores` (of each node) and `licences` are
    told where any of them are offered.
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
    """Numbers and names of reservations, where accounting calls these by number (`FinishedJob`)."""


class CreateReservation(msgspec.Struct, frozen=True):
    """Make `reservation`, unless one of its name is there, and tell what is there then."""

    reservation: SystemReservation


class ChangeReservation(msgspec.Struct, frozen=True):
    """Make the reservation of this name as it is here, in one update; never delete and create."""

    reservation: SystemReservation


class DeleteReservation(msgspec.Struct, frozen=True):
    """End the reservation of this name, with the jobs in it; one that is not there is no error."""

    name: str


class EndJobs(msgspec.Struct, frozen=True):
    """Ask all jobs in the reservation of this name to end (SIGTERM), or with `at_once` kill them.

    The reservation stays; without jobs in it nothing happens.
    """

    name: str
    at_once: bool = False


class ListSystem(msgspec.Struct, frozen=True):
    """Tell all that is there."""


class ListFinishedJobs(msgspec.Struct, frozen=True):
    """Tell the jobs of `users` that have ended in ``[since, until)``; others may be among them."""

    since: int
    until: int
    users: tuple[str, ...]


Write = CreateReservation | ChangeReservation | DeleteReservation
Errand = Write | EndJobs | ListSystem | ListFinishedJobs


class SystemAnswer(msgspec.Struct, frozen=True):
    """How an errand ended.

    done
        The system has carried it out. `found` is what it has under the name now; it was read after the
        deed, so that a site can compare before it believes.
    refused
        The system says that it will not; `found` is what it has under the name nevertheless.
    unknown
        No answer, or none that can be read: it may have been carried out, or may yet be.
    """

    outcome: Literal["done", "refused", "unknown"]
    detail: str = ""
    """The system's words."""
    found: SystemReservation | None = None
    state: SystemState | None = None
    jobs: tuple[FinishedJob, ...] | None = None
    no_account: bool = False
    """It is refused because the system does not know the user."""


class Traits(msgspec.Struct, frozen=True):
    """In what batch systems differ; declared by each adapter, and proven by the conformance suite."""

    late_write_s: int = 0
    """A write that had no answer may still be carried out for so long, while the system can be reached."""
    gap_s: int = 0
    """Between two reservations of a node."""
    job_offset_s: int = 0
    """A running job counts as there for so long after its limit."""
    weak_s: int = 0
    """A grant may be forgotten if the system fails within this time of it."""
    unique_names: bool = True
    """A second reservation of the same name is refused."""
    deletes_in_use: bool = True
    """A reservation with jobs in it can be deleted."""
    changes_in_place: bool = True
    """A reservation is changed in one update; else it is made anew, and not while jobs are in it."""
    asks_jobs: bool = True
    """Jobs can be asked to end; else they can only be killed."""
    tells_clock: bool = True
    """Its clock can be asked, and when it began; else ours is taken for it."""
    parts: bool = False
    """Cores of nodes can be reserved; such a reservation gets more time, or others, by making it anew."""
    licences: bool = False
    """Licences can be reserved."""
    tells_use: bool = False
    """Its accounting tells what jobs that are over used in which reservation."""

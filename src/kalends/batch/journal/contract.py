"""Records of a site's queues to store, and the ways to read them, in any kind of store.

Facts of queues and of the calendar go into one store in the order in which they were made. So a job that
was started where a reservation had ended is never stored without that end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from kalends.batch.queue.facts import JobEnding, JournalEntry
from kalends.contract.history_calls import PastBy
from kalends.core.jobs import JobRequest
from kalends.core.limits import TIME_S_MAX


class JobEntries(NamedTuple):
    """To be stored: facts of the queue of `machine`."""

    machine: str
    entries: tuple[JournalEntry, ...]


class JobOver(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An ended job to store, in the form that its user will see."""

    machine: str
    number: int
    user: str
    request: JobRequest
    submitted: int
    over: int
    phase: str
    started: int = 0
    index: int | None = None
    array: int = 0
    attempt: int = 0
    node_numbers: tuple[int, ...] = ()
    node_seconds: int = 0
    credit_seconds: int = 0
    stood_s: int = 0
    detail: str = ""
    ending: JobEnding | None = None
    key: str = ""
    """The key with which a broker submitted the job, for the report of its end; "" if no broker did."""


class ReservedTime(msgspec.Struct, frozen=True, kw_only=True):
    """To be stored: a reservation that has begun; `end` is before `booked_end` if it was given back."""

    machine: str
    reservation: str
    booked_start: int
    booked_end: int
    user: str
    start: int
    end: int
    nodes: int
    credit_seconds: int = 0


class StoredHost(msgspec.Struct, frozen=True):
    """To be stored in place of the last one: the host that runs the processes of a machine's jobs."""

    machine: str
    host: str
    """Its id."""
    name: str


class StoredState(msgspec.Struct, frozen=True):
    """To be stored in place of the last one: the state that the first `number` facts of a queue have made.

    `journal` is the mark of these facts, `made_by` tells the program that alone can read `body`.
    """

    machine: str
    made_by: str
    journal: bytes
    number: int
    body: bytes


class Cursor(NamedTuple):
    """Behind which job a page of history begins: its time and its number."""

    time_s: int = 0
    number: int = 0


class ReservedUse(NamedTuple):
    """Reserved time of a user in a period."""

    user: str
    reservations: int
    node_seconds: int
    credit_seconds: int


class UserUse(NamedTuple):
    """Use of a project by a user in a period."""

    user: str
    project: str
    jobs: int
    node_seconds: int
    cpu_s: float
    credit_seconds: int


class JobJournal(Protocol):
    """Facts and states from which queues are made again; read on a thread, or in another process."""

    def entries_after(self, machine: str, number: int) -> Iterator[JournalEntry]:
        """Read the facts of a queue behind fact `number`; raises `StoreDamaged` at an unreadable one."""

    def mark(self, machine: str, number: int) -> bytes:
        """Return a digest by which the facts up to `number` are known; b"" if there are fewer."""

    def state(self, machine: str) -> StoredState | None:
        """Return the state that was stored last; None if there is none."""

    def reserved_after(self, machine: str, time_s: int) -> Sequence[ReservedTime]:
        """Return the reservations that have begun and end after `time_s`, by their ends."""

    def hosts(self) -> Sequence[StoredHost]:
        """Return the hosts of all machines that have one, by the names of the machines."""


class JobHistory(Protocol):
    """Jobs that are over, and reserved time: as far as stored, once all is that was to be stored before.

    A job that is in its queue no more is found here, from that moment on. A `user` "" stands for all of
    them. Every method raises `Unavailable` when the store cannot be read now.
    """

    async def job(self, machine: str, number: int) -> JobOver | None:
        """Return a job that is over."""

    async def newest(self, machine: str, user: str, before: int, count: int) -> Sequence[JobOver]:
        """Return the newest jobs that are over, with numbers below `before` (0: any)."""

    async def jobs(
        self,
        machine: str,
        user: str,
        by: PastBy,
        start: int,
        end: int,
        after: Cursor,
        count: int,
    ) -> Sequence[JobOver]:
        """Return jobs that were over in ``[start, end)``, submitted in it or had nodes in it.

        Behind `after` in order of that time, or of their ends, and of their numbers.
        """

    async def use(self, machine: str, user: str, start: int, end: int) -> Sequence[UserUse]:
        """Return what was used by jobs that were over in ``[start, end)``."""

    async def reserved_use(
        self, machine: str, user: str, start: int, end: int
    ) -> Sequence[ReservedUse]:
        """Return what was reserved until a time in ``[start, end)``."""

    async def reserved(
        self, machine: str, user: str, start: int, count: int, *, end: int = TIME_S_MAX
    ) -> Sequence[ReservedTime]:
        """Return the reservations that have begun before `end` and end after `start`, by their ends."""

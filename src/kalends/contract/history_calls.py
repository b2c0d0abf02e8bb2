"""Past jobs of a machine, and past reservations of a batch system: each of them, and sums of reservations."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.fields import MachineName
from kalends.core import limits

PastBy = Literal["over", "submitted", "ran"]
"""The jobs of a period: those that ended in it, were submitted in it, or had nodes in it."""


class ReadHistory(Body, frozen=True, kw_only=True):
    """List ended jobs of `machine` that belong to ``[start, end)`` by the rule `by`.

    Those submitted in it come in order of submission, the others in order of their ends. Without
    `everyone`, the caller's own. `after_s` and `after_job` come from the previous page.
    """

    machine: MachineName
    start: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)]
    end: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)]
    by: PastBy = "over"
    everyone: bool = False
    count: Annotated[int, Meta(ge=1, le=limits.LISTING_MAX)] = 1_000
    after_s: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)] = 0
    after_job: Annotated[int, Meta(ge=0, le=1 << 53)] = 0


class HistoryRow(Answer, frozen=True, kw_only=True):
    """An ended job: its request, its nodes, and the reason of its end. Times are seconds UTC.

    `nodes` were asked for, `nodes_had` it had last. `started` is that of its last attempt; 0 if it never
    had nodes. `end` is one of exit, limit, killed, node-failed, not-started, lost and withdrawn.
    """

    job: int
    user: str
    submitted: int
    over: int
    nodes: int
    limit_s: int
    end: str
    started: int = 0
    project: str = ""
    reservation: str = ""
    """The priority class in which the job ran and was charged."""
    priority: str = ""
    nodes_had: int = 0
    node_seconds: int = 0
    """Charged node-seconds; 0 if the user was not responsible for the end."""
    credit_seconds: int = 0
    """Charged credit-seconds; 3,600 are a credit."""
    cpu_s: float = 0.0
    memory_bytes: int = 0
    """The maximum memory of one of the job's processes, in bytes."""
    stood_s: int = 0
    """Seconds that the last attempt was stopped for more urgent jobs, between `started` and `over`."""
    status: int = 0
    attempt: int = 0
    array: int = 0
    index: int | None = None


class ReservedSpan(Answer, frozen=True, kw_only=True):
    """Reserved nodes, used or not, during ``[start, end)``."""

    user: str
    start: int
    end: int
    nodes: int


class HistoryPage(Answer, frozen=True, kw_only=True):
    """Some jobs, and the machine as it is now: its `description`, its nodes, its priority classes,
    and between whom it is shared out.

    `more`: there are others, on the page of `next_s` and `next_job`.
    """

    machine: str
    description: str
    nodes: int
    classes: dict[str, int]
    share_by: Literal["user", "project"]
    shares: dict[str, int]
    """Shares of the users or projects that have more than one, on a machine with fair shares."""
    rows: tuple[HistoryRow, ...]
    ending_s: int = 0
    """Seconds beyond its limit for which the nodes of each job are planned."""
    reserved: tuple[ReservedSpan, ...] = ()
    """On the first page of what had nodes: the reservations, as many as a listing may have, by their ends."""
    more: bool = False
    next_s: int = 0
    next_job: int = 0


class SlotUser(Answer, frozen=True, kw_only=True):
    """Reservations of a user in a batch system: node-seconds reserved, and used in them by jobs."""

    user: str
    slots: int
    reserved: int
    jobs: int
    used: int


class SlotProject(Answer, frozen=True, kw_only=True):
    """What jobs used in a user's reservations for a `project`, as the batch system calls it."""

    user: str
    project: str
    jobs: int
    used: int


class SlotsUsed(Answer, frozen=True, kw_only=True):
    """Reservations in the batch system `system` that end in a period, and their use by jobs.

    All jobs that ended before `read_until` (seconds UTC) are known; 0: none are. `problem` is why the
    accounting cannot be read now.
    """

    system: str
    users: tuple[SlotUser, ...]
    projects: tuple[SlotProject, ...]
    read_until: int = 0
    problem: str = ""


SLOT_NAME_MAX = 256


class ReadSlots(Body, frozen=True, kw_only=True):
    """List reservations on `machine` in its batch system that end in ``[start, end)``, by their ends.

    Without `everyone`, the caller's own. `after_s` and `after_name` come from the previous page.
    """

    machine: MachineName
    start: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)]
    end: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)]
    everyone: bool = False
    count: Annotated[int, Meta(ge=1, le=limits.LISTING_MAX)] = 1_000
    after_s: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)] = 0
    after_name: Annotated[str, Meta(max_length=SLOT_NAME_MAX)] = ""


class SlotRow(Answer, frozen=True, kw_only=True):
    """A reservation of a batch system, by its `name` there. Times are seconds UTC.

    `end` is the time of release, if that was earlier; `nodes` are its last nodes. `used` are node-seconds of
    `jobs`, all of which have ended.
    """

    reservation: str
    name: str
    user: str
    account: str
    """The user's name in the batch system."""
    start: int
    end: int
    nodes: int
    reserved: int
    """Node-seconds, used or not."""
    jobs: int
    used: int


class SlotPage(Answer, frozen=True, kw_only=True):
    """Some reservations. `more`: there are others, on the page of `next_s` and `next_name`.

    All jobs that ended before `read_until` are known; 0: none are. `problem` is why later ones are not.
    """

    machine: str
    system: str
    rows: tuple[SlotRow, ...]
    read_until: int = 0
    problem: str = ""
    more: bool = False
    next_s: int = 0
    next_name: str = ""

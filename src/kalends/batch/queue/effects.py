"""Effects of a queue: facts first, durably; then all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kalends.batch.queue.facts import JournalEntry
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.milestones import Milestone


@dataclass(slots=True, frozen=True)
class Start:
    """Start attempt `attempt` of the job on `nodes`, with variables `said` about those that start with it."""

    job: BatchJob
    attempt: int
    nodes: tuple[int, ...]
    said: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Kill:
    """End an attempt: warn, wait, and end all of its processes."""

    job: BatchJob
    attempt: int
    detail: str


@dataclass(slots=True, frozen=True)
class Resize:
    """Ask a running program to go on with `nodes`."""

    job: BatchJob
    attempt: int
    change: int
    nodes: tuple[int, ...]


@dataclass(slots=True, frozen=True)
class Withdraw:
    """Take back the change that a program has not answered: it has `nodes` as before.

    The next number is used up by it.
    """

    job: BatchJob
    attempt: int
    change: int
    nodes: tuple[int, ...]


@dataclass(slots=True, frozen=True)
class StandStill:
    """Have all processes of an attempt stand still; its number `stop`."""

    job: BatchJob
    attempt: int
    stop: int


@dataclass(slots=True, frozen=True)
class Continue:
    """Let an attempt go on, on `nodes`, that stands still since it was asked to `stop`."""

    job: BatchJob
    attempt: int
    stop: int
    nodes: tuple[int, ...]


@dataclass(slots=True, frozen=True)
class Relimit:
    """Let an attempt run for `limit_s` in all: its size or its reservation has changed."""

    job: BatchJob
    attempt: int
    limit_s: int


@dataclass(slots=True, frozen=True)
class LookUp:
    """Find out what has become of an attempt that was asked for in an earlier life of the server."""

    job: BatchJob
    attempt: int


@dataclass(slots=True, frozen=True)
class Occupied:
    """The running job has `nodes` nodes until `until_s` at least, as the calendar is to show it; 0: none."""

    number: int
    nodes: int
    start_s: int
    until_s: int


Action = Start | Kill | Resize | Withdraw | StandStill | Continue | Relimit | LookUp


@dataclass(slots=True)
class QueueEffects:
    entries: list[JournalEntry] = field(default_factory=list)
    """To be stored, in this order, before any of the rest is done."""
    actions: list[Action] = field(default_factory=list)
    occupied: list[Occupied] = field(default_factory=list)
    over: list[BatchJob] = field(default_factory=list)
    """Jobs that are over now, for the accounts."""
    milestones: list[Milestone] = field(default_factory=list)
    """What users want to be told."""
    moved: set[int] = field(default_factory=set)
    """Jobs that somebody who watches would want to look at again."""
    unplaced: list[int] = field(default_factory=list)
    """Claims of the calendar whose nodes jobs have that are beyond their time: to be claimed again."""

    def __bool__(self) -> bool:
        return bool(
            self.entries
            or self.actions
            or self.occupied
            or self.over
            or self.moved
            or self.unplaced
        )

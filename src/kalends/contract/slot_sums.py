"""Sums of reservations in a batch system, and of their use by jobs."""

from __future__ import annotations

from kalends.contract.bodies import Answer


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

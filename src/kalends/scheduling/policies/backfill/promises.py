"""Waiting jobs with what they are promised, in order of submission; and which promises can stand."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import TypeVar

from kalends.scheduling.job import Job
from kalends.scheduling.profile import Profile

Promised = TypeVar("Promised")


def put_in_order(waiting: dict[Job, Promised], job: Job, promised: Promised) -> None:
    """Add a job at its place in order of submission."""
    last = next(reversed(waiting), None)
    waiting[job] = promised
    if last is not None and last.order > job.order:
        sorted_again = sorted(waiting.items(), key=lambda item: item[0].order)
        waiting.clear()
        waiting.update(sorted_again)


def displaced(promised: Iterable[tuple[int, int, int, Job]], free: Profile) -> list[Job]:
    """Return the jobs that cannot keep their promises ``(start, end, nodes, job)``, in order of submission.

    `free` is what is free beside all of them, and may have become less. Wherever it does not suffice,
    those submitted last give way, one after the other, and each as a whole.
    """
    changes: dict[int, int] = dict.fromkeys(free.times, 0)
    coming = sorted(promised, key=lambda each: (each[0], each[3].order))
    for start_s, end_s, _, _ in coming:
        changes[max(start_s, free.times[0])] = changes[end_s] = 0
    gone: set[Job] = set()
    active: list[tuple[int, int, int, Job]] = []
    ends: list[tuple[int, int, int, Job]] = []
    taken, at = 0, 0
    for time_s in sorted(changes):
        while ends and ends[0][0] <= time_s:
            _, _, nodes, job = heappop(ends)
            taken -= 0 if job in gone else nodes
        while at < len(coming) and coming[at][0] <= time_s:
            _, end_s, nodes, job = coming[at]
            at += 1
            if end_s > time_s:
                heappush(ends, (end_s, job.order, nodes, job))
                heappush(active, (-job.order, end_s, nodes, job))
                taken += nodes
        room = free.at(time_s)
        while taken > room and active:
            _, end_s, nodes, job = heappop(active)
            if end_s > time_s:
                gone.add(job)
                taken -= nodes
    return sorted(gone, key=lambda job: job.order)

"""Policies that choose the size of a job when they start it (Konuru, Moreira and Naik 1996, section 3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from kalends.scheduling.job import Job
from kalends.scheduling.molding import mold, sizes_of
from kalends.scheduling.policies.ordered.queue import QueuePolicy


class SizingPolicy(QueuePolicy):
    """The common part of policies for jobs with several sizes in one queue; a rigid job has one size."""

    chooses_sizes: ClassVar[bool] = True

    def start(self, job: Job, sizes: Sequence[int], now: int) -> bool:
        """Start a job on the largest of the `sizes` that the cluster allows."""
        for nodes in reversed(sizes):
            mold(job, nodes)
            if self.cluster.start(job, now):
                return True
        return False

    def startable(self, job: Job, room: int, now: int) -> list[int]:
        """Return the sizes of a waiting job, up to `room` nodes, on which it could start now, alone."""
        sizes = [nodes for nodes in sizes_of(job) if nodes <= room]
        if self.cluster.counts and not self.cluster.reserved:
            return sizes
        allowed = []
        for nodes in sizes:
            mold(job, nodes)
            if self.cluster.can_start(job, now):
                allowed.append(nodes)
        return allowed

    def forget_started(self) -> None:
        """Remove started jobs from the queue."""
        self.queue = deque([job for job in self.queue if not job.granted])


class Lazy(SizingPolicy):
    """LS: each job in order of submission that fits, on as many nodes as it can take."""

    def schedule(self, now: int) -> None:
        room = self.cluster.room(now)
        started = False
        for job in self.queue:
            if room < 1:
                break
            sizes = self.startable(job, room, now)
            if sizes and self.start(job, sizes, now):
                room -= job.granted
                started = True
        if started:
            self.forget_started()


class Adaptive(SizingPolicy):
    """AS: as many waiting jobs as fit on their smallest sizes, in order of submission, the others skipped.

    The remaining nodes go to the chosen jobs, in the same order, each as many as it can take. The paper
    leaves open how they are shared out.
    """

    def schedule(self, now: int) -> None:
        room = self.cluster.room(now)
        if room < 1 or not self.queue:
            return
        chosen: list[tuple[Job, list[int]]] = []
        spare = room
        for job in self.queue:
            if spare < 1:
                break
            if sizes_of(job)[0] > spare:
                continue
            sizes = self.startable(job, room, now)
            if sizes and sizes[0] <= spare:
                spare -= sizes[0]
                chosen.append((job, sizes))
        for job, sizes in chosen:
            allowed = [nodes for nodes in sizes if nodes <= sizes[0] + spare]
            if self.start(job, allowed, now):
                spare -= job.granted - sizes[0]
        if chosen:
            self.forget_started()

"""All jobs of a queue that matter: those that are not over, and what is remembered of those that are."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from msgspec import structs

from kalends.batch.queue.facts import JobSubmitted
from kalends.batch.queue.job import BatchJob
from kalends.core import limits
from kalends.core.errors import KeyReused
from kalends.core.jobs import JobRequest


class PastJob(NamedTuple):
    """Facts about an ended job for the jobs that wait for it."""

    started: bool
    succeeded: bool


@dataclass(slots=True)
class ArrayCounts:
    """Progress of an array of `jobs` jobs, for the jobs that wait for all of it."""

    jobs: int
    started: int = 0
    over: int = 0
    succeeded: int = 0


class Submission(NamedTuple):
    """Jobs made by a call with a key, and the digest of the call."""

    first: int
    number: int
    digest: bytes


@dataclass(slots=True)
class JobTable:
    next_number: int = 1
    jobs: dict[int, BatchJob] = field(default_factory=dict)
    """The jobs that are not over, by number, in order of submission."""
    past: OrderedDict[int, PastJob] = field(default_factory=OrderedDict)
    arrays: OrderedDict[int, ArrayCounts] = field(default_factory=OrderedDict)
    """By the number of the first job."""
    submissions: OrderedDict[tuple[str, str], Submission] = field(default_factory=OrderedDict)
    """By user and key."""

    def __iter__(self) -> Iterator[BatchJob]:
        return iter(self.jobs.values())

    def submitted_before(self, user: str, key: str, request: JobRequest) -> Submission | None:
        """Return what a call with this key has made; raises `KeyReused` if it asked for something else."""
        known = self.submissions.get((user, key))
        if known is not None and known.digest != digest_of(request):
            raise KeyReused(
                "this key has submitted another job before",
                where="key",
                remedy="make a new key for a new job",
            )
        return known

    def add(self, fact: JobSubmitted, now: int) -> list[BatchJob]:
        """Make the jobs of a submission, one for each index."""
        request = fact.request
        indices = request.indices or (None,)
        # All indices of a large array in what is stored of each of its jobs would fill the store.
        each = structs.replace(request, indices=()) if request.indices else request
        added = [
            BatchJob(
                number, fact.principal, each, now, fact.key, fact.offered_s, fact.offered_s > 0,
                index=index, array=fact.first if request.indices else 0, pays=fact.pays,
            )
            for number, index in enumerate(indices, fact.first)
        ]  # fmt: skip
        self.next_number = fact.first + len(added)
        self.jobs.update((job.number, job) for job in added)
        if request.indices:
            self.arrays[fact.first] = ArrayCounts(len(added))
        self.submissions[fact.principal.user, fact.key] = Submission(
            fact.first, len(added), digest_of(request)
        )
        self._forget_oldest()
        return added

    def started(self, job: BatchJob) -> None:
        """Count a job that has begun for the first time."""
        if job.array in self.arrays:
            self.arrays[job.array].started += 1

    def remember(self, job: BatchJob) -> None:
        """Keep of a job that is over what may still be asked for: nothing of an offer that nobody took."""
        del self.jobs[job.number]
        if job.offered:
            self.submissions.pop((job.principal.user, job.key), None)
            return
        succeeded = job.ending is not None and job.ending.succeeded
        self.past[job.number] = PastJob(job.begun_attempt > 0, succeeded)
        if job.array in self.arrays:
            self.arrays[job.array].over += 1
            self.arrays[job.array].succeeded += succeeded
        if len(self.past) > limits.JOBS_REMEMBERED_MAX:
            self.past.popitem(last=False)

    def _forget_oldest(self) -> None:
        while len(self.submissions) > limits.JOBS_REMEMBERED_MAX + limits.JOBS_MAX:
            self.submissions.popitem(last=False)
        while len(self.arrays) > limits.JOBS_REMEMBERED_MAX + limits.JOBS_MAX:
            self.arrays.popitem(last=False)


def digest_of(request: JobRequest) -> bytes:
    """Return a digest of the request that does not depend on the order of its environment."""
    encoded = msgspec.msgpack.encode(request, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=16).digest()

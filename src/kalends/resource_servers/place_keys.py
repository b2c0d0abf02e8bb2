"""The keys of jobs that brokers have bid for: they say which claim a job was made for."""

from __future__ import annotations

from typing import Final, NamedTuple

from kalends.batch.queue.job import BatchJob

_KEY: Final = "place"
"""With the hold id and the request's id, the key of an offered job: it has spaces, as no user's key has."""


class Place(NamedTuple):
    """The place that a claim is for: the job `number` of `machine`, and the request.

    The request of a job that no broker has bid for is "".
    """

    machine: str
    number: int
    rid: str


def key_of_place(hold_id: int, rid: str) -> str:
    """Return the key of the job that is made for a claim of the request `rid`."""
    return f"{_KEY} {hold_id} {rid}"


def claim_of_job(job: BatchJob) -> int | None:
    """Return the claim that a job was made for, if it was made for one."""
    word, _, rest = job.key.partition(" ")
    hold_id, _, rid = rest.partition(" ")
    return int(hold_id) if word == _KEY and rid else None


def place_of_job(machine: str, job: BatchJob) -> Place:
    """Return the place that a job has on `machine`."""
    rid = "" if claim_of_job(job) is None else job.key.rpartition(" ")[2]
    return Place(machine, job.number, rid)

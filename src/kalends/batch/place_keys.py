"""The keys of jobs that brokers have bid for: they say which claim a job was made for."""

from __future__ import annotations

from typing import Final, NamedTuple

from kalends.batch.queue.job import BatchJob

GONE: Final = "its request was cancelled, or has another place"
"""Why a job is ended that a broker has placed here."""

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


def request_of_key(key: str) -> str:
    """Return the request that a job with this key was placed for; "" for one that no broker has bid for."""
    word, _, rest = key.partition(" ")
    return rest.partition(" ")[2] if word == _KEY else ""


def claim_of_job(job: BatchJob) -> int | None:
    """Return the claim that a job was made for, if it was made for one."""
    return int(job.key.split(" ")[1]) if request_of_key(job.key) else None


def place_of_job(machine: str, job: BatchJob) -> Place:
    return Place(machine, job.number, request_of_key(job.key))

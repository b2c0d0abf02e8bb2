"""The queues of a site's machines, as its kernel asks them."""

from __future__ import annotations

from typing import Final, Protocol

from kalends.core.errors import Refusal, RefusalCode
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal


class Queues(Protocol):
    """The questions that only queues can answer."""

    def has_job(self, rid: str) -> bool:
        """Whether a job of the request waits or runs here, however long after its time."""

    def why_not_part(self, principal: Principal, part: JobRequest) -> Refusal | None:
        """Return why a queue would not take a part of a job in step, or None."""


class NoQueues:
    """No machine of the site runs jobs."""

    def has_job(self, rid: str) -> bool:
        return False

    def why_not_part(self, principal: Principal, part: JobRequest) -> Refusal | None:
        return no_jobs_on(part.machine)


NO_QUEUES: Final = NoQueues()


def no_jobs_on(resource: str) -> Refusal:
    """Return the refusal of jobs on what runs none."""
    return Refusal(where=resource, code=RefusalCode.NO_PLACE, detail="no jobs run there")

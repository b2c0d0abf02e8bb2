"""A user's own policy's read-only view of a job: all attributes of `Job`, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Final

from kalends.scheduling.job import Job
from kalends.scheduling.molding import mold


class SeenJob:
    """A read-only job, without the true run time that a simulation knows.

    Only the size of a waiting job that has several is set by a policy, as `molding.mold` does it.
    """

    __slots__ = ("__job",)

    id: int
    order: int

    def __init__(self, job: Job) -> None:
        self.__job = job

    def __eq__(self, other: object) -> bool:
        # The cluster compares the jobs themselves.
        return other is self or other is self.__job

    def __hash__(self) -> int:
        return hash(self.__job.order)

    def _mold(self, nodes: int) -> None:
        job = self.__job
        if job.molds is None or job.start_s >= 0 or nodes not in job.molds.sizes:
            raise AttributeError(f"changes what job {job.id} asks for")
        mold(job, nodes)

    def _request(self, requested_s: int) -> None:
        # It comes with the size.
        if requested_s != self.__job.requested_s:
            raise AttributeError(f"changes what job {self.__job.id} asks for")


_SETTERS: Final = {"nodes": SeenJob._mold, "requested_s": SeenJob._request}


def _refusing(name: str) -> Callable[[SeenJob, object], None]:
    def refuse(seen: SeenJob, value: object) -> None:
        raise AttributeError(f"changes {name} of job {seen.id}")

    return refuse


for _name in Job.__struct_fields__:
    _setter = _SETTERS.get(_name) or _refusing(_name)
    setattr(SeenJob, _name, property(attrgetter(f"_SeenJob__job.{_name}"), _setter))

"""Jobs in step: one job on several machines, whose parts start together and know each other.

A request gives the machines, and the number of nodes of each; one job runs on all, or another one on each.
This module decides the environment of a part, so that it is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from kalends.core import identifiers as ids
from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.core.jobs import JobNumber, JobRequest

_PART: Final = "part"

HostName = Annotated[str, Meta(pattern=ids.whole(ids.HOST_NAME_PATTERN))]


class StepPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a job in step: the job of that number on `machine`, and the hosts of its nodes.

    `hosts` are known once the part has nodes; each host is listed once. The program
    began at `began_at`, by the clock of the site (seconds UTC; 0: not yet, or not known).
    """

    machine: Annotated[str, Meta(pattern=ids.whole(ids.RESOURCE_PATTERN))]
    job: JobNumber
    hosts: Annotated[tuple[HostName, ...], Meta(max_length=limits.STEP_HOSTS_MAX)] = ()
    began_at: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)] = 0


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """The programs of a job in step: `job` on every resource of a request, or those in `jobs` on some.

    Without `job` the other resources, e.g. an instrument, are only booked.
    """

    job: JobRequest | None = None
    jobs: Mapping[str, JobRequest] = {}

    def job_on(self, resource: str) -> JobRequest | None:
        """Return the job on `resource`; None for none."""
        return self.jobs.get(resource, self.job)

    def check(self) -> None:
        """Raise `InvalidInput` for jobs that cannot run in step."""
        for job in (self.job, *self.jobs.values()):
            if job is None:
                continue
            job.check(from_wire=True)
            if job.reservation:
                raise InvalidInput(
                    "a job in step makes its own reservation",
                    where="job.reservation",
                    remedy="leave it out; or submit each part with --reservation",
                )
            check_part(job)


def check_part(job: JobRequest) -> None:
    """Raise `InvalidInput` for a part that waits for more than its slot, or is more than one program."""
    waits = job.not_before or job.at or job.after or job.held
    if (
        waits
        or job.indices
        or job.rerun
        or job.at_most_once
        or job.terminal
        or job.sizes
        or job.shape
    ):
        raise InvalidInput(
            "a part of a job in step starts once, with the others, on the nodes of its slot",
            where="job",
            remedy="leave out dependencies, holds, times, arrays, sizes and shapes, rerun, at_most_once "
            "and terminal; the request gives the time and the nodes",
        )


def addresses(parts: Iterable[StepPart]) -> str:
    """Write the machine and the hosts of each part: ``ctc/sp2=sp2.ctc.edu sdsc/onyx=o1,o2``."""
    return " ".join(f"{part.machine}={','.join(part.hosts)}" for part in parts)


def variables_of_part(parts: Sequence[StepPart], machine: str) -> dict[str, str]:
    """Return the environment of the part on `machine`; raises `InvalidInput` if it is too long."""
    text = addresses(parts)
    if len(text) > limits.STEP_ADDRESSES_MAX:
        raise InvalidInput(
            f"the names of all hosts have {len(text)} characters, too many for an environment variable",
            where="parts",
            remedy="ask for fewer nodes",
        )
    number = [part.machine for part in parts].index(machine)
    return {"KALENDS_PARTS": text, "KALENDS_PART": str(number)}


def key_of_part(rid: str) -> str:
    """Return the key of the only part of the job in step `rid` on a machine; no user's key has spaces."""
    return f"{_PART} {rid}"


def is_key_of_part(key: str) -> bool:
    """Return whether a job with this key is a part of a job in step."""
    return key.startswith(f"{_PART} ")


def part_in(job: JobRequest, machine: str, nodes: int, reservation: str) -> JobRequest:
    """Return the job of one part: on all nodes of its slot on `machine`, until the slot ends."""
    return msgspec.structs.replace(
        job, machine=machine, nodes=nodes, reservation=reservation, limit_s=0
    )

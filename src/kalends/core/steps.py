"""Jobs in step: one job on several machines at once, whose parts start together and know each other.

A request says on which machines, and how many nodes of each; what runs there is one job for all of them, or
one for each. What a part finds in its environment is decided here, so that it is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from kalends.core import identifiers as ids
from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.core.features import STEP_STARTS, since
from kalends.core.jobs import JobNumber, JobRequest

_PART: Final = "part"

HostName = Annotated[str, Meta(pattern=ids.whole(ids.HOST_NAME_PATTERN))]


class StepPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a job in step: the job of that number on `machine`, and the hosts of its nodes.

    `hosts` are known once it has nodes; the same host stands once, however many nodes it is. Its program
    began at `began_at`, by the clock of its site (seconds UTC; 0: not yet, or that is not known).
    """

    machine: Annotated[str, Meta(pattern=ids.whole(ids.RESOURCE_PATTERN))]
    job: JobNumber
    hosts: Annotated[tuple[HostName, ...], Meta(max_length=limits.STEP_HOSTS_MAX)] = ()
    began_at: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX), since(STEP_STARTS, hint=True)] = 0


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """What runs in step: `job` on every resource of a request, or what `jobs` names for some of them.

    Without `job` nothing runs on the others, which are only booked: an instrument, say.
    """

    job: JobRequest | None = None
    jobs: Mapping[str, JobRequest] = {}

    def job_on(self, resource: str) -> JobRequest | None:
        """Return what runs on `resource`; None: nothing."""
        return self.jobs.get(resource, self.job)

    def check(self) -> None:
        """Raise `InvalidInput` for jobs that cannot run in step."""
        for job in (self.job, *self.jobs.values()):
            if job is None:
                continue
            job.check(from_wire=True)
            if job.reservation:
                raise InvalidInput(
                    "a reservation, and a request for another",
                    where="job.reservation",
                    remedy="leave it out; or submit each part with --reservation",
                )
            check_part(job)


def check_part(job: JobRequest) -> None:
    """Raise `InvalidInput` for a job that waits for more than its slot, or is more than one program there."""
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
            "and terminal; the request says when, and on how many nodes",
        )


def addresses(parts: Iterable[StepPart]) -> str:
    """Write the machine and the hosts of each part: ``ctc/sp2=sp2.ctc.edu sdsc/onyx=o1,o2``."""
    return " ".join(f"{part.machine}={','.join(part.hosts)}" for part in parts)


def variables_of_part(parts: Sequence[StepPart], machine: str) -> dict[str, str]:
    """Return what the part on `machine` finds in its environment; raises `InvalidInput` for too much."""
    text = addresses(parts)
    if len(text) > limits.STEP_ADDRESSES_MAX:
        raise InvalidInput(
            f"the names of all its hosts are {len(text)} characters, and an environment has no room for that",
            where="parts",
            remedy="ask for fewer nodes",
        )
    number = [part.machine for part in parts].index(machine)
    return {"KALENDS_PARTS": text, "KALENDS_PART": str(number)}


def key_of_part(rid: str) -> str:
    """Return the key of the only part of the job in step `rid` on a machine; no user's key has spaces."""
    return f"{_PART} {rid}"


def is_key_of_part(key: str) -> bool:
    """Return whether a job with such a key is a part of one in step."""
    return key.startswith(f"{_PART} ")


def part_in(job: JobRequest, machine: str, nodes: int, reservation: str) -> JobRequest:
    """Return the job of one part: on all nodes of its slot on `machine`, until the slot ends."""
    return msgspec.structs.replace(
        job, machine=machine, nodes=nodes, reservation=reservation, limit_s=0
    )

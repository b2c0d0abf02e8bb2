"""Changes of jobs by users and operators: hold, release, or end one, or a whole array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kalends.batch.queue.facts import Reason
from kalends.batch.queue.queue import OWN_REASONS, BatchQueue
from kalends.contract.job_calls import ChangeJob
from kalends.core.errors import Conflict, InvalidInput

AT_ONCE: Final = 250
"""Jobs of an array that are changed in one step: others are heard in between."""


class JobChange(NamedTuple):
    """The change, and who asks for it: the job's own user, or an operator, or one who is both."""

    body: ChangeJob
    user: str
    own: bool
    operates: bool

    def carry_out(self, queue: BatchQueue, now: int, numbers: Sequence[int]) -> None:
        """Do it to these jobs, but those that are over; of an array also to no job that it cannot be done to.

        Raises what the queue raises.
        """
        for number in numbers:
            job = queue.flow.table.jobs.get(number)
            if job is None or (self.body.array and self.body.what == "hold" and job.under_way):
                continue
            if job.offered:
                raise Conflict(
                    f"job {number} is only an offer, and not submitted yet",
                    where="job",
                    remedy="wait some seconds: it is then submitted or withdrawn",
                )
            if self.body.what == "kill":
                queue.cancel(number, f"by {self.user}", now)
            elif self.body.what == "hold":
                queue.hold(number, "user" if self.own else "operator", now)
            else:
                reasons: set[Reason] = set(OWN_REASONS) if self.own else set()
                queue.release(number, reasons | ({"operator"} if self.operates else set()), now)


def steps_of_array(queue: BatchQueue, array: int, job: int) -> Iterator[Sequence[int]]:
    """Provide the jobs of an array that are not over, some at a time; the last one first.

    So that none is started in the place of one before it. Raises `InvalidInput` for no array.
    """
    if not array:
        raise InvalidInput(
            f"job {job} is not part of an array", where="array", remedy="name this job alone"
        )
    numbers = sorted(
        (each.number for each in queue.flow.table if each.array == array), reverse=True
    )
    for start in range(0, len(numbers), AT_ONCE):
        yield numbers[start : start + AT_ONCE]

"""Interface of the site that hosts the machines, for the calls about jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from kalends.batch.follower import Foreseen, Question, Span
from kalends.batch.job_watch import JobWatch
from kalends.batch.journal.contract import JobHistory
from kalends.batch.queue.facts import JobPays, Terms
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.shepherds.shepherd_line import Attachment
from kalends.contract import job_calls as c
from kalends.contract.job_calls import JobOutput
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.serving.auth.callers import Caller

T = TypeVar("T")


class Machines(Protocol):
    """Parts of the running site that the operations use."""

    @property
    def queues(self) -> Mapping[str, BatchQueue]:
        """All queues by machine; raises `Unavailable` when the store does not work."""

    @property
    def disabled(self) -> Mapping[str, str]:
        """The machines whose queues do not work at present, with the reason."""

    @property
    def aside(self) -> Mapping[str, str]:
        """The machines that are put aside, with the hosts to which they belong."""

    @property
    def terms(self) -> Mapping[str, Terms]:
        """The owner's configuration of each machine."""

    @property
    def history(self) -> JobHistory:
        """The jobs that are over."""

    def visible(self, caller: Caller, machine: str) -> bool:
        """Return whether the owner lets the caller see the machine."""

    def may_submit(self, principal: Principal, job: JobRequest) -> None:
        """Raise `NotAllowed` if the owner's rules never let `principal` have the nodes of `job`."""

    def nodes_ever(self, principal: Principal, machine: str) -> int:
        """Return the most nodes that a job of `principal` may ask for; 0 if none."""

    def check_submission(self, caller: Caller, job: JobRequest) -> None:
        """Raise what a booking would raise where the nodes of a job cannot be had for its fixed start.

        Raise `NotAllowed` or `InvalidInput` where its user cannot be told of it as asked.
        """

    def reserve(self, principal: Principal, queue: BatchQueue, job: JobRequest) -> JobPays | None:
        """Return what pays for `job`, to be reserved with its submission; None: it costs nothing.

        Raises `LimitExceeded` if its account has too little credit, and `NotAllowed` if there is none.
        """

    async def called(self, machine: str, step: Callable[[BatchQueue, int], T]) -> T:
        """Return the result of a step, once all that it has changed is durable."""

    async def settled(self) -> None:
        """Return when all that has happened is durable, and can be read."""

    @property
    def watch(self) -> JobWatch:
        """Watch of the jobs that have moved."""

    def now_s(self) -> int:
        """Return the time by the clock of the queues."""

    def reservations(self, caller: Caller, machine: str) -> Sequence[c.ReservedNodes]:
        """Return what the calendar keeps free of jobs, with the holders that the caller may see."""

    def left_free(self, machine: str) -> int | None:
        """Return the number of free nodes in `machine`'s batch system; None if it has none."""

    async def foreseen(self, question: Question, machine: str, wait_s: float) -> Foreseen:
        """Return the expected starts of waiting jobs, or of a possible job, as known after `wait_s`."""

    async def delays(self, machine: str, spans: Sequence[Span]) -> Foreseen:
        """Return by how much reservations would delay the jobs that wait; raises `Unavailable`."""

    async def output(
        self, machine: str, number: int, stream: str, offset: int, wait_s: float, attempt: int
    ) -> JobOutput: ...

    def words(self, machine: str, job: BatchJob) -> str:
        """Return the state of a job in a batch system that decides itself; "" if there is no such system."""

    async def attach(self, machine: str, attempt: str) -> Attachment:
        """Return a place at the terminal of an attempt; raises `Conflict` if it does not run."""

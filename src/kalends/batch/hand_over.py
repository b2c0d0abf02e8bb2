"""Jobs handed over to a batch system, which alone decides when they run, and reports to the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from kalends.backends.adapter import SystemSilent
from kalends.backends.desks import wire
from kalends.backends.desks.desk_line import DeskLine
from kalends.backends.desks.handed_over import HandedOver, QueueAccess
from kalends.batch.job_output import Writer, not_kept
from kalends.batch.job_rights import no_account
from kalends.batch.orders import variables_of
from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import Action, Kill, LookUp, Start
from kalends.batch.queue.job import BatchJob
from kalends.batch.runner import Report
from kalends.core.errors import NotAllowed, NotFound, Unavailable
from kalends.core.job_paths import named_path
from kalends.serving.configuration import MachineConfiguration
from kalends.serving.logs import Logger


@dataclass
class HandOver:
    """The attempts of one machine's jobs at `system`; `users` says who each of our users is there."""

    machine: str
    system: str
    access: QueueAccess
    users: Mapping[str, str]
    environment: Mapping[str, str]
    """What the system's commands need."""
    rules: MachineConfiguration
    own: str
    """As whom all of them run there, where this service cannot become others; "": it can."""
    report: Report
    logger: Logger
    _desks: dict[str, DeskLine] = field(default_factory=dict)
    _natives: dict[str, str] = field(default_factory=dict)
    """The number in the system of each attempt, as far as it is known in this life of the process."""

    async def close(self) -> None:
        """Close the desk; jobs in the batch system continue."""
        await asyncio.gather(*(desk.close() for desk in self._desks.values()))

    def carry_out(self, actions: Sequence[Action]) -> None:
        """Begin what a queue has decided, all of which is durable; nothing but these can be decided here."""
        for action in actions:
            if isinstance(action, Start | LookUp | Kill):
                try:
                    desk = self._desk(action.job.principal.user)
                except NotAllowed as error:
                    self._trouble(error.detail)
                    if isinstance(action, Start):
                        self._end(
                            action,
                            f.JobEnding(kind="not-started", detail=error.detail, of_site=True),
                        )
                    continue
                name = name_of(action.job, action.attempt)
                if isinstance(action, Start):
                    desk.submit(name, self._handed(action))
                elif isinstance(action, LookUp):
                    desk.follow(name)
                else:
                    desk.kill(name)

    def check(self, user: str) -> None:
        """Raise `NotAllowed` for a user who is nobody there."""
        self._desk(user)

    @property
    def predicts(self) -> bool:
        """Whether the system can tell when a job would start."""
        return self.access.foresees

    def is_unknown(self, job: BatchJob) -> bool:
        """Return whether the system may not know yet of a job that is offered, or was handed over."""
        handed = job.phase == "starting" and name_of(job, job.attempt) not in self._natives
        return job.offered or handed

    async def foreseen(self, job: BatchJob, nodes: int, wait_s: float) -> int:
        """Return when the system would start `job` on `nodes` nodes (seconds UTC); nothing is held there.

        Raises `SystemSilent` after `wait_s`, `SystemRefused` for a job that it would not take, and
        `NotAllowed`.
        """
        return await self._desk(job.principal.user).foresee(nodes, job.request.limit_s, wait_s)

    def words(self, job: BatchJob) -> str:
        """Return what is known of an attempt that is under way there."""
        if not job.under_way:
            return ""
        native = self._natives.get(name_of(job, job.attempt))
        if native:
            return f"{self.system} has it as {native}"
        if job.phase == "starting":
            return f"it is not known yet whether {self.system} has this job"
        return f"the number of the job in {self.system} is not known"

    async def piece(self, writer: Writer, path: str, offset: int) -> bytes:
        """See `Outputs`; a relative `path` lies in the home of its user there."""
        name = _name(writer.number, writer.attempt, writer.submitted_s)
        try:
            piece = await self._desk(writer.user).read(name, path, offset)
        except SystemSilent as error:
            raise Unavailable(
                str(error), where="job", remedy="ask again", retry_after_s=5.0
            ) from None
        if piece.fault:
            raise NotFound(f"{path or 'its output'}: {piece.fault}", where="stream")
        if writer.over and not piece.there and not piece.data:
            raise not_kept(self.machine, writer, path)
        return piece.data

    def _handed(self, start: Start) -> HandedOver:
        job, request = start.job, start.job.request
        user = job.principal.user
        said = {
            **variables_of(self.machine, job, request.nodes),
            "KALENDS_ATTEMPT": str(start.attempt),
            "KALENDS_LIMIT_S": str(request.limit_s),
        }
        return HandedOver(
            argv=request.command,
            script=request.script,
            nodes=request.nodes,
            limit_s=request.limit_s,
            environment={**self.rules.environment, **request.environment, **said},
            umask=self.rules.umask,
            directory=request.directory,
            input=request.input,
            output=named_path(request.output, job.number, job.index, user),
            error=named_path(request.error, job.number, job.index, user),
        )

    def _desk(self, user: str) -> DeskLine:
        """Return the desk of a user of ours; raises `NotAllowed` for one who is nobody there."""
        if user not in self.users:
            raise no_account(user, self.machine)
        there = self.users[user]
        if self.own not in ("", there):
            raise NotAllowed(
                f"this site submits jobs as its own Unix user, not as {there}",
                where="machine", remedy="ask the owner of the machine to run the site as root",
            )  # fmt: skip
        if there not in self._desks:
            self._desks[there] = DeskLine(
                self.access, there, self.environment, self._heard, self._trouble
            )
        return self._desks[there]

    def _heard(self, news: wire.News) -> None:
        """Take what a desk says, perhaps again: the queue heeds it once."""
        number, attempt, _ = news.attempt.split(".")
        job, att = int(number), int(attempt)
        if isinstance(news, wire.AttemptQueued):
            self._natives[news.attempt] = news.native
            self.report(lambda queue, now: queue.flow.effects.moved.add(job))
        elif isinstance(news, wire.AttemptBegun):
            begun_s = int(news.at_s)
            self.report(lambda queue, now: queue.begun(job, att, now, begun_s))
        elif isinstance(news, wire.AttemptVoided):
            self._natives.pop(news.attempt, None)
            self.report(lambda queue, now: queue.void(job, att, now))
        elif isinstance(news, wire.AttemptEnded):
            self._natives.pop(news.attempt, None)
            ending = f.JobEnding(
                kind=cast(f.EndKind, news.kind), status=news.status, detail=news.detail[:500],
                of_site=news.of_site,
            )  # fmt: skip
            self.report(lambda queue, now: queue.ended(job, att, ending, now))
        else:
            self._trouble(f"job {number}: {news.detail}")

    def _end(self, start: Start, ending: f.JobEnding) -> None:
        number, attempt = start.job.number, start.attempt
        self.report(lambda queue, now: queue.ended(number, attempt, ending, now))

    def _trouble(self, detail: str) -> None:
        self.logger.warning("batch_system_not_reached", machine=self.machine, detail=detail)


def name_of(job: BatchJob, attempt: int) -> str:
    return _name(job.number, attempt, job.submitted_s)


def _name(number: int, attempt: int, submitted_s: int) -> str:
    """Return the name of an attempt that no other ever has, also not after an older store was put back."""
    return f"{number}.{attempt}.{submitted_s:x}"

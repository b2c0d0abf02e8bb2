"""Reading what a job has written, while it runs and as long as it is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kalends.batch.machine_host import JobHistory
from kalends.batch.orders import named_path
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.shepherds.conclusion import State
from kalends.batch.shepherds.launcher import Launcher
from kalends.contract.job_calls import OUTPUT_BYTES_MAX, JobOutput
from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput, NotFound, Unavailable
from kalends.core.jobs import JobRequest

LOOK_EVERY_S: Final = 0.2
"""How often a job's output is looked at for somebody who waits for more."""


@dataclass(frozen=True)
class _WhoseOutput:
    """A job, and the attempt that wrote last."""

    user: str
    request: JobRequest
    index: int | None
    attempt: int
    over: bool


@dataclass(frozen=True)
class OutputReader:
    """What the jobs of one machine have written. `queue` is the queue of the present life of the site."""

    queue: Callable[[], BatchQueue]
    history: JobHistory
    launcher: Launcher
    kept_s: int

    async def read(self, number: int, stream: str, offset: int, wait_s: float) -> JobOutput:
        """Return what there is from `offset` on, from the very file that the job was given.

        Waits for `wait_s` where nothing has come yet. Raises `NotFound` for what is not kept any more,
        `NotAllowed` where the path leads to another file by now, `InvalidInput` and `Unavailable`.
        """
        clock = asyncio.get_running_loop().time
        deadline_s = clock() + wait_s
        while True:
            job = await self._whose(number)
            path = named_path(_stream_path(job.request, stream), number, job.index, job.user)
            name = f"{number}.{job.attempt}"
            if job.over and job.attempt and self.launcher.look(name).state is State.ABSENT:
                raise self._not_kept(number, path)
            data = await asyncio.to_thread(self._piece, name, path, offset)
            if data or job.over or clock() >= deadline_s:
                return JobOutput(data=data, offset=offset, ended=job.over and not data)
            await asyncio.sleep(LOOK_EVERY_S)

    def _piece(self, name: str, path: str, offset: int) -> bytes:
        try:
            return self.launcher.read_output(name, path, offset, OUTPUT_BYTES_MAX)
        except NotFound:
            return b""  # It has not begun to write.

    async def _whose(self, number: int) -> _WhoseOutput:
        queue = self.queue()
        job = queue.flow.table.jobs.get(number)
        if job is not None:
            return _WhoseOutput(job.principal.user, job.request, job.index, job.attempt, over=False)
        past = await self.history.one(queue.name, number)
        if past is None:
            raise Unavailable("it has just ended", remedy="ask again", retry_after_s=0.1)
        return _WhoseOutput(past.user, past.request, past.index, past.attempt, over=True)

    def _not_kept(self, number: int, path: str) -> NotFound:
        kept = format_duration(self.kept_s)
        return NotFound(
            f"what job {self.queue().name}/{number} has written is not kept any more: it is for {kept}",
            where="job",
            remedy=f"read {path} yourself"
            if path
            else "have jobs write to files of yours: --output",
        )


def _stream_path(request: JobRequest, stream: str) -> str:
    """Return where a stream goes as its user has named it, made absolute; "" where the machine keeps it."""
    path = request.error if stream == "error" and request.error else request.output
    if not path or path.startswith("/"):
        return path
    if not request.directory:
        raise InvalidInput(
            f"{path} lies in the home of its user", where="stream", remedy="read it there yourself"
        )
    return f"{request.directory}/{path}"

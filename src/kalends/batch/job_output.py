"""Reading what a job has written, while it runs and as long as it is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from kalends.batch.journal.contract import JobHistory
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.shepherds.conclusion import State
from kalends.batch.shepherds.kept_file import cut_line
from kalends.batch.shepherds.launcher import Launcher
from kalends.contract.job_calls import OUTPUT_BYTES_MAX, JobOutput
from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput, NotFound, Unavailable
from kalends.core.job_paths import named_path
from kalends.core.jobs import JobRequest

LOOK_EVERY_S: Final = 0.2
"""How often a job's output is looked at for somebody who waits for more."""


@dataclass(frozen=True)
class Writer:
    """A job, and the attempt of it that wrote last."""

    number: int
    user: str
    request: JobRequest
    index: int | None
    submitted_s: int
    attempt: int
    over: bool
    could_not_start: bool = False
    """It has written nothing, and never will."""
    over_s: int = 0
    """How long ago it ended, at least."""

    def path(self, stream: str) -> str:
        """Return where a stream goes as its user has named it; "" where the machine keeps it."""
        request = self.request
        path = request.error if stream == "error" and request.error else request.output
        path = named_path(path, self.number, self.index, self.user)
        if not path or path.startswith("/") or not request.directory:
            return path
        return f"{request.directory}/{path}"


class Outputs(Protocol):
    """Paths of the output of one machine's jobs."""

    async def piece(self, writer: Writer, path: str, offset: int) -> bytes:
        """Return what there is at `path` ("" for what the machine keeps) from `offset` on.

        Empty if nothing was written yet. Raises `NotFound` for output that is no longer kept, and what
        else is in the way.
        """


@dataclass(frozen=True)
class OutputReader:
    """Output of the jobs of one machine. `queue` is the queue of the present life of the site."""

    queue: Callable[[], BatchQueue]
    history: JobHistory
    outputs: Outputs

    async def read(
        self, number: int, stream: str, offset: int, wait_s: float, attempt: int = 0
    ) -> JobOutput:
        """Return what there is from `offset` on; waits for `wait_s` where nothing has come yet.

        Of this `attempt`; 0: of the last. Raises what `Outputs.piece` does, `NotFound` for an attempt that
        there was not, and `Unavailable`.
        """
        clock = asyncio.get_running_loop().time
        deadline_s = clock() + wait_s
        while True:
            writer = _at(await self._writer(number), attempt)
            data = b""
            if writer.attempt and not writer.could_not_start:
                data = await self.outputs.piece(writer, writer.path(stream), offset)
            if data or writer.over or clock() >= deadline_s:
                return JobOutput(
                    data=data, offset=offset, ended=writer.over and not data,
                    attempt=0 if writer.path(stream) else writer.attempt,
                )  # fmt: skip
            await asyncio.sleep(LOOK_EVERY_S)

    async def _writer(self, number: int) -> Writer:
        queue = self.queue()
        job = queue.flow.table.jobs.get(number)
        if job is not None:
            return Writer(
                number, job.principal.user, job.request, job.index, job.submitted_s, job.attempt,
                over=False,
            )  # fmt: skip
        past = await self.history.job(queue.name, number)
        if past is None:
            raise Unavailable("it has just ended", remedy="ask again", retry_after_s=0.1)
        return Writer(
            number, past.user, past.request, past.index, past.submitted, past.attempt, over=True,
            could_not_start=past.ending is not None and past.ending.kind == "not-started",
            over_s=queue.last_s - past.over,
        )  # fmt: skip


def _at(writer: Writer, attempt: int) -> Writer:
    """Return the writer at one of its attempts; 0: the last. An earlier one is over."""
    if attempt > writer.attempt:
        had = f"was started {writer.attempt} times" if writer.attempt else "was not started yet"
        raise NotFound(
            f"job {writer.number} has no attempt {attempt}: it {had}",
            where="attempt",
            remedy="leave the attempt out to read the output of the last one",
        )
    if attempt in (0, writer.attempt):
        return writer
    return replace(writer, attempt=attempt, over=True)


@dataclass(frozen=True)
class ShepherdOutputs:
    """Output that shepherds of this host have written, from the very files that they were given."""

    machine: str
    launcher: Launcher
    kept_s: int
    kept_bytes_max: int
    """How much output of a job is kept; 0: all."""

    async def piece(self, writer: Writer, path: str, offset: int) -> bytes:
        """See `Outputs`; raises `NotAllowed` if the path now leads to another file."""
        if path and not path.startswith("/"):
            raise InvalidInput(
                f"{path} lies in the home of its user",
                where="stream",
                remedy="read it there yourself",
            )
        name = f"{writer.number}.{writer.attempt}"
        if writer.over and self.launcher.look(name).state is State.ABSENT:
            expired = writer.over_s >= self.kept_s
            why = f"it is for {format_duration(self.kept_s)}" if expired else "its file is gone"
            raise not_kept(self.machine, writer, path, f": {why}")
        try:
            return await asyncio.to_thread(self._read, name, path, offset)
        except NotFound:
            return b""  # It has not begun to write.

    def _read(self, name: str, path: str, offset: int) -> bytes:
        """Return what there is from `offset` on; of kept output no more than will stay.

        What a program has written beyond that is there until it is cut off (`KeptFile`).
        """
        most, read = self.kept_bytes_max, self.launcher.read_output
        if path or not most:
            return read(name, path, offset, OUTPUT_BYTES_MAX)
        if offset < most:
            return read(name, path, offset, min(OUTPUT_BYTES_MAX, most - offset))
        line = cut_line(most)
        found = read(name, path, most, len(line))
        return line[offset - most :] if found == line else b""


def not_kept(machine: str, writer: Writer, path: str, why: str = "") -> NotFound:
    """Return the error for output that was deleted."""
    return NotFound(
        f"the output of job {machine}/{writer.number} is no longer kept{why}",
        where="job",
        remedy=f"read {path} yourself" if path else "let jobs write to your own files: --output",
    )

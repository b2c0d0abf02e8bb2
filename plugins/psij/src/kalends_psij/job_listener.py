"""Hands what is heard of one job on to PSI/J."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from kalends.client.client import Client
from kalends.contract.job_calls import JobView
from kalends.core.errors import KalendsError
from kalends_psij.job_statuses import statuses_of
from kalends_psij.server_line import ServerLine
from psij import Job, JobExecutor, Launcher

logger = logging.getLogger(__name__)


class JobListener:
    """Tells one PSI/J job its states, from `open` on: by then its native id is known.

    `heard` is called on the event loop of `line`, to which `client` belongs; users are told in their thread.
    """

    def __init__(
        self,
        executor: JobExecutor,
        job: Job,
        line: ServerLine,
        client: Client,
        launcher: Launcher | None,
    ) -> None:
        """Failures of `launcher` are told apart from those of the program; None: it is not known."""
        self._executor = executor
        self._job = job
        self._line = line
        self._client = client
        self._launcher = launcher
        self._is_open = False
        self._last: JobView | None = None
        self._asking: asyncio.Task[None] | None = None

    def heard(self, view: JobView) -> None:
        self._last = view
        if self._is_open:
            self._tell(view)

    def open(self) -> None:
        self._line.soon(self._open)

    def _open(self) -> None:
        self._is_open = True
        if self._last is not None:
            self._tell(self._last)

    def _tell(self, view: JobView) -> None:
        if view.end == "exit" and view.status and self._launcher is not None:
            self._asking = asyncio.create_task(self._tell_failure(view, self._launcher))
        else:
            self._line.tell(partial(self._set, view, ""))

    async def _tell_failure(self, view: JobView, launcher: Launcher) -> None:
        """Tell how a job failed, with the words of its launcher if that is what has failed."""
        message = ""
        try:
            written = await self._client.job_output(view.machine, view.job)
            message = _failure(launcher, written.data.decode(errors="replace"))
        except KalendsError as error:
            logger.info("%s: its launcher's output cannot be read: %s", self._job.id, error)
        self._line.tell(partial(self._set, view, message))

    def _set(self, view: JobView, message: str) -> None:
        for status in statuses_of(view, message):
            self._executor._set_job_status(self._job, status)


def _failure(launcher: Launcher, output: str) -> str:
    """Return what a launcher has said if it failed, "" where its program did."""
    if output.count("\n") and not launcher.is_launcher_failure(output):
        return ""
    return launcher.get_launcher_failure_message(output).strip()

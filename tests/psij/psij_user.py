"""Somebody who uses PSI/J: its calls wait, so each is made in a thread beside the tests' event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from kalends_psij import KalendsExecutorConfig
from psij import Job, JobExecutor, JobSpec, JobState, JobStatus
from tests.processes.laboratory import MACHINE, USER, Laboratory
from tests.support.patience import PATIENCE_S

P = ParamSpec("P")
T = TypeVar("T")


async def beside(call: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> T:
    return await asyncio.to_thread(call, *args, **keywords)


class PsijUser:
    """`laboratory` is where the jobs run; they see `folder`, and write to its `marks`."""

    def __init__(self, laboratory: Laboratory, folder: Path) -> None:
        self.laboratory = laboratory
        self.marks = laboratory.marks
        self.work = folder / "work"

    def executor(self, url: str = "", user: str = USER, **settings: Any) -> JobExecutor:
        config = KalendsExecutorConfig(work_directory=self.work, user=user, **settings)
        return JobExecutor.get_instance(
            "kalends", url=f"{url or self.laboratory.site.url}/{MACHINE}", config=config
        )

    def spec(self, text: str, **more: Any) -> JobSpec:
        return JobSpec("/bin/sh", ["-c", text], directory=self.marks, **more)

    def marking(self, seconds: float = 0, **more: Any) -> JobSpec:
        """A job that notes when it begins and when it ends."""
        request = self.laboratory.marking(seconds)
        return self.spec(request.command[-1], **more)

    async def submitted(self, spec: JobSpec, executor: JobExecutor | None = None) -> Job:
        job = Job(spec)
        await beside((executor or self.executor()).submit, job)
        return job


async def over(job: Job) -> JobStatus:
    status = await beside(job.wait, timedelta(seconds=PATIENCE_S))
    assert status is not None, f"{job} is not over"
    return status


async def active(job: Job) -> None:
    status = await beside(job.wait, timedelta(seconds=PATIENCE_S), [JobState.ACTIVE])
    assert status is not None, f"{job} does not run"

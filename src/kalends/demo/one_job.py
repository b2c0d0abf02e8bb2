"""A job on the machine, submitted by the user, seen running and ended again; nothing of it stays behind."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Final

import kalends
from kalends.client.client import Client
from kalends.contract.job_calls import JobView
from kalends.core.errors import KalendsError, Unavailable
from kalends.core.identifiers import split_resource
from kalends.core.jobs import JobRequest
from kalends.demo.facility import MACHINE, OPERATOR, Facility
from kalends.demo.together import until

LINE: Final = 'echo "job $KALENDS_JOB has nodes $KALENDS_NODES"; sleep 60'
NODES: Final = 4
LIMIT_S: Final = 60
WAITING: Final = ("held", "queued", "kept")


@dataclass(frozen=True)
class JobSeen:
    """A job while it ran, what it had written by then, and the job when it was over."""

    running: JobView
    output: str
    over: JobView


async def run_one(facility: Facility) -> JobSeen:
    """Run a job as `USER`, and end it. Raises the client's errors, and `Unavailable` if it does not start."""
    request = JobRequest(
        machine=MACHINE,
        nodes=NODES,
        limit_s=LIMIT_S,
        command=("/bin/sh", "-c", LINE),
        directory="/",
    )
    async with facility.at_site(split_resource(MACHINE)[0]) as client:
        number = (await client.submit(request)).job.job
        running = await until(
            lambda: client.job(MACHINE, number),
            lambda view: view.phase == "running" or bool(view.end),
            "the job does not start",
        )
        if running.end:
            raise Unavailable(
                f"the job has not run: {running.detail or running.end}", where=MACHINE
            )
        written = await until(
            lambda: client.job_output(MACHINE, number, wait_s=1),
            lambda piece: bool(piece.data),
            "the job writes nothing",
        )
        await client.kill_job(MACHINE, number)
        over = await _over(client, number)
    return JobSeen(running, written.data.decode(), over)


async def end_all(facility: Facility) -> None:
    """End what runs on the machine, if the site still answers; waiting jobs stay for the next start."""
    url, token = facility.site_url(MACHINE), facility.token(OPERATOR)
    with contextlib.suppress(KalendsError):
        async with kalends.connect(url, token=token) as client:
            while jobs := [
                each
                for each in (await client.jobs(MACHINE, everyone=True)).jobs
                if each.phase not in WAITING
            ]:
                for job in jobs:
                    await client.kill_job(MACHINE, job.job)
                for job in jobs:
                    await _over(client, job.job)


async def _over(client: Client, number: int) -> JobView:
    return await until(
        lambda: client.job(MACHINE, number), lambda view: bool(view.end), "the job does not end"
    )

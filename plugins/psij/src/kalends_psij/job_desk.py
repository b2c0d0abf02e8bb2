"""What an executor does: each call is carried out on the event loop of its server's line."""

from __future__ import annotations

from typing import Final, NamedTuple

from kalends.contract.job_calls import JobView
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import split_resource
from kalends.core.limits import LISTING_MAX
from kalends_psij.configuration import KalendsExecutorConfig, access_of
from kalends_psij.job_listener import JobListener
from kalends_psij.job_requests import key_of, request_from
from kalends_psij.job_statuses import native_id, statuses_of
from kalends_psij.server_line import line_to
from psij import Job, JobExecutor, JobSpec, JobStatus, Launcher

NUMBER_DIGITS_MAX: Final = 16


class FollowedJob(NamedTuple):
    """A job that is followed from now on; its `listener` is to be opened."""

    native_id: str
    queued: JobStatus
    listener: JobListener


class JobDesk:
    """The calls of one executor, from any thread. They raise the errors of `kalends.core.errors`."""

    def __init__(
        self, executor: JobExecutor, url: str | None, settings: KalendsExecutorConfig
    ) -> None:
        self._executor = executor
        self._settings = settings
        access, self._machine = access_of(url, settings)
        self._line = line_to(access)

    def submit(self, job: Job, spec: JobSpec, launcher: Launcher) -> FollowedJob:
        return self._line.run(self._submit(job, spec, launcher))

    def cancel(self, native_id: str) -> None:
        self._line.run(self._cancel(*self._named(native_id)))

    def native_ids(self) -> list[str]:
        return self._line.run(self._native_ids())

    def attach(self, job: Job, native_id: str) -> FollowedJob:
        return self._line.run(self._attach(job, *self._named(native_id)))

    async def _submit(self, job: Job, spec: JobSpec, launcher: Launcher) -> FollowedJob:
        if not spec.executable:
            raise InvalidInput("nothing to run", where="executable", remedy="name a program")
        machine = self._machine_of(spec)
        follower = await self._line.follower(machine)
        key = key_of(spec, job.id)
        # A launcher names the job in its log; jobs of one key are to be the same.
        launch = [key if word == job.id else word for word in launcher.get_launch_command(job)]
        request = request_from(
            spec,
            machine,
            launch,
            export=self._settings.export,
            time_s=follower.client.time_s,
            start_s=follower.client.start_s,
        )
        listener = JobListener(self._executor, job, self._line, follower.client, launcher)
        patience_s = self._settings.patience_s
        return _followed(await follower.submit(request, key, listener.heard, patience_s), listener)

    async def _cancel(self, machine: str, number: int) -> None:
        await (await self._line.follower(machine)).client.kill_job(machine, number)

    async def _native_ids(self) -> list[str]:
        if self._machine:
            client = (await self._line.follower(self._machine)).client
        else:
            client = await self._line.site()
        found = await client.jobs(self._machine, count=LISTING_MAX)
        return [native_id(view) for view in found.jobs]

    async def _attach(self, job: Job, machine: str, number: int) -> FollowedJob:
        follower = await self._line.follower(machine)
        listener = JobListener(self._executor, job, self._line, follower.client, None)
        return _followed(await follower.attach(number, listener.heard), listener)

    def _machine_of(self, spec: JobSpec) -> str:
        machine = (spec.attributes and spec.attributes.queue_name) or self._machine
        if not machine:
            raise InvalidInput(
                "no machine is named",
                where="queue_name",
                remedy="give it there, behind the executor's url, or in its configuration",
            )
        split_resource(machine)
        return machine

    def _named(self, native_id: str) -> tuple[str, int]:
        """Read ``lab/box/17``, or ``17`` where a machine is known."""
        machine, _, number = native_id.rpartition("/")
        machine = machine or self._machine
        digits = number.isascii() and number.isdecimal() and len(number) < NUMBER_DIGITS_MAX
        if not (machine and digits and int(number)):
            raise InvalidInput(
                f"{native_id!r} is not a job",
                where="native_id",
                remedy="give what job.native_id was, as lab/box/17",
            )
        split_resource(machine)
        return machine, int(number)


def _followed(view: JobView, listener: JobListener) -> FollowedJob:
    return FollowedJob(native_id(view), statuses_of(view)[0], listener)

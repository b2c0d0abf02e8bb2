"""The executor: PSI/J's calls, with PSI/J's errors. Light, for everybody who imports PSI/J loads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kalends.core import errors
from kalends_psij.configuration import KalendsExecutorConfig
from psij import (
    InvalidJobException,
    Job,
    JobExecutor,
    JobExecutorConfig,
    JobSpec,
    JobState,
    Launcher,
    SubmitException,
)

if TYPE_CHECKING:
    from kalends_psij.job_desk import JobDesk

OF_THE_JOB: Final = (
    errors.InvalidInput, errors.TooLarge, errors.KeyReused, errors.NotFound, errors.Conflict,
    errors.NoCommonTime,
)  # fmt: skip
"""Errors that come again however often such a job is submitted."""

PASSING: Final = (errors.Unavailable, errors.OutcomeUnknown, errors.LimitExceeded)


class KalendsExecutor(JobExecutor):
    """Submits jobs to the queues of machines, and into what was reserved there.

    `url` is the address of a site, or of a broker that knows it; the machine may stand behind it
    (``https://lab.example:7101/lab/box``). A job's `queue_name` names another machine, its `reservation_id`
    a reservation of the user's own. The native id of a job is its name: ``lab/box/17``.
    """

    def __init__(self, url: str | None = None, config: JobExecutorConfig | None = None) -> None:
        """Connects to nothing yet. Raises `ValueError` for an address, machine or token that is none."""
        settings = KalendsExecutorConfig.from_config(config)
        super().__init__(url=url, config=settings)
        from kalends_psij.job_desk import JobDesk

        try:
            self._desk: JobDesk = JobDesk(self, url, settings)
        except errors.InvalidInput as error:
            raise ValueError(str(error)) from error

    def submit(self, job: Job) -> None:
        """Submit a job; see `psij.JobExecutor.submit`.

        A job whose submission has failed may be submitted again: however often, it counts once.
        """
        spec = self._check_job(job)
        try:
            with _as_psij_says(OF_THE_JOB):
                submitted = self._desk.submit(job, spec, self._launcher_of(spec))
        except BaseException:
            # Also at Ctrl-C: PSI/J submits no job again that has an executor.
            job.executor = None
            raise
        job._native_id = submitted.native_id
        self._set_job_status(job, submitted.queued)
        submitted.listener.open()

    def cancel(self, job: Job) -> None:
        """Withdraw a job that waits, or end one that runs; see `psij.JobExecutor.cancel`."""
        if job.native_id is None:
            raise SubmitException("Cannot cancel job: it has not been submitted.")
        if not job.status.final:
            with _as_psij_says():
                self._desk.cancel(job.native_id)

    def list(self) -> list[str]:
        """Return the native ids of the user's jobs that wait or run, on the machine or the whole site."""
        with _as_psij_says():
            return self._desk.native_ids()

    def attach(self, job: Job, native_id: str) -> None:
        """Let `job` be the user's job ``lab/box/17``, or 17 where a machine is known."""
        if job.status.state != JobState.NEW or job.executor is not None:
            raise InvalidJobException("Job must be in NEW state")
        with _as_psij_says():
            attached = self._desk.attach(job, native_id)
        job.executor = self
        job._native_id = attached.native_id
        self._set_job_status(job, attached.queued)
        attached.listener.open()

    def _launcher_of(self, spec: JobSpec) -> Launcher:
        try:
            return self._get_launcher(spec.launcher or Launcher.DEFAULT_LAUNCHER_NAME)
        except ValueError as error:
            raise errors.InvalidInput(str(error), where="launcher") from error


@contextmanager
def _as_psij_says(of_the_job: tuple[type[errors.KalendsError], ...] = ()) -> Iterator[None]:
    """Turn our errors into those of PSI/J; `of_the_job` are those that say that the job cannot be right."""
    try:
        yield
    except of_the_job as error:
        raise InvalidJobException(str(error), exception=error) from error
    except OSError as error:
        # The files of launchers cannot be written.
        raise SubmitException(str(error), exception=error) from error
    except errors.KalendsError as error:
        transient = isinstance(error, PASSING)
        raise SubmitException(str(error), exception=error, transient=transient) from error

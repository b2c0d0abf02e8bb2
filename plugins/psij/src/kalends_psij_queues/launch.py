"""The requests of a desk to PSI/J: submit, watch, cancel."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Final

from psij.executors.batch.batch_scheduler_executor import BatchSchedulerExecutorConfig

import psij
from kalends.backends.desks.handed_over import HandedOver, NotTaken, QueueAccess
from kalends_psij_queues.kind import PsijSettings

PATIENT: Final = 1 << 30
"""Looks without an answer after which PSI/J counts all jobs as failed."""

NO_ANSWER: Final = "Failed to poll"
SHORT_NAMES: Final = "pbs_classic"
"""Names of its jobs are limited to 15 characters, so they get none."""

MARK: Final = "KALENDS_ATTEMPT_NAME"
LOOKS: Final = 2
"""Number of successive looks without a job after which it counts as vanished."""


class Launch:
    """One executor of PSI/J. Thread-safe; PSI/J calls it back from threads of its own."""

    def __init__(self, access: QueueAccess, settings: PsijSettings) -> None:
        self._settings = settings
        self.numbers_processes = settings.executor == "local"
        config = BatchSchedulerExecutorConfig(
            queue_polling_interval=access.look_s, initial_queue_polling_delay=1,
            queue_polling_error_threshold=PATIENT,
        )  # fmt: skip
        self._executor = psij.JobExecutor.get_instance(settings.executor, config=config)
        self._executor.set_job_status_callback(self._hear)
        self._lock = threading.Lock()
        self._jobs: dict[str, psij.Job] = {}
        self._natives: dict[str, str] = {}
        self._ended: dict[str, list[str]] = {}
        """The messages of the successive looks that found a job ended."""

    @property
    def version(self) -> str:
        return f"PSI/J {psij.__version__}"

    def foresee(self, nodes: int, limit_s: int) -> int:
        raise NotTaken("PSI/J predicts no starts")

    def submit(self, attempt: str, name: str, program: str, job: HandedOver) -> str:
        """Submit a job; return its number in the system. Raises `NotTaken`."""
        settings = self._settings
        attributes = psij.JobAttributes(
            duration=timedelta(seconds=job.limit_s),
            queue_name=settings.queue or None,
            account=settings.project or None,
        )
        for key, value in settings.attributes.items():
            attributes.set_custom_attribute(key, value)
        spec = psij.JobSpec(
            "/bin/sh", [program], name=name, directory=Path(program).parent, attributes=attributes,
            resources=psij.ResourceSpecV1(node_count=job.nodes, processes_per_node=1),
            environment={MARK: attempt},
        )  # fmt: skip
        asked = psij.Job(spec)
        if settings.executor != SHORT_NAMES:
            setattr(asked, "name", name)  # noqa: B010  # The templates of PSI/J 0.9.11 look for it here.
        try:
            self._executor.submit(asked)
        except Exception as error:
            raise NotTaken(" ".join(str(error).split()) or type(error).__name__) from error
        if not asked.native_id:
            raise NotTaken("it has given no number")
        self._keep(attempt, asked, str(asked.native_id))
        return str(asked.native_id)

    def attach(self, attempt: str, native: str) -> None:
        """Watch a job that an earlier desk submitted, or one that is to be looked for again."""
        with self._lock:
            if attempt in self._natives:
                return
        self._attach(attempt, native)

    def _attach(self, attempt: str, native: str) -> None:
        job = psij.Job()
        self._keep(attempt, job, native)
        if self.numbers_processes and not _is_ours(native, attempt):
            self._over(job, "")
            return
        try:
            self._executor.attach(job, native)
        except Exception as error:
            self._over(job, str(error))

    def gone(self, attempt: str) -> str | None:
        """Return the message about a job that has vanished; None if it exists, or its state is unknown."""
        with self._lock:
            said = self._ended.get(attempt, [])
            native, job = self._natives.get(attempt), self._jobs.get(attempt)
        if len(said) >= LOOKS:
            return next((each for each in said if each), "")
        if native and job is None:
            # Look again: one look that finds nothing may be wrong.
            self._attach(attempt, native)
        return None

    def cancel(self, attempt: str, name: str, native: str) -> None:
        """Raises `NotTaken`."""
        if not native:
            raise NotTaken("its number is not known: end it with the system's own commands")
        with self._lock:
            job = self._jobs.get(attempt)
        if job is None:
            return
        try:
            self._executor.cancel(job)
        except Exception as error:
            raise NotTaken(str(error)) from error

    def forget(self, attempt: str) -> None:
        with self._lock:
            for each in (self._jobs, self._natives, self._ended):
                each.pop(attempt, None)

    def _keep(self, attempt: str, job: psij.Job, native: str) -> None:
        with self._lock:
            self._jobs[attempt] = job
            self._natives[attempt] = native
        if job.status.final:
            self._over(job, job.status.message or "")

    def _hear(self, job: psij.Job, status: psij.JobStatus) -> None:
        if status.final:
            self._over(job, status.message or "")

    def _over(self, job: psij.Job, said: str) -> None:
        with self._lock:
            for attempt, known in list(self._jobs.items()):
                if known is job:
                    del self._jobs[attempt]
                    if not said.startswith(NO_ANSWER):
                        self._ended.setdefault(attempt, []).append(" ".join(said.split()))
                    else:
                        self._ended[attempt] = []


def _is_ours(native: str, attempt: str) -> bool:
    """Whether a process of this host is the attempt's: its number may have been reused."""
    try:
        environment = Path(f"/proc/{int(native)}/environ").read_bytes()
    except (OSError, ValueError):
        return False
    return f"{MARK}={attempt}".encode() in environment.split(b"\0")

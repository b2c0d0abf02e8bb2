"""The gates of a site between its queues and what runs jobs, one behind the other; for one life."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kalends.batch.queue.effects import Action, Start
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.queue import BatchQueue
from kalends.resource_servers.jobs.start_gate import StartGate, Step
from kalends.resource_servers.jobs.step_gate import StepGate
from kalends.resource_servers.participation.effects import StartWord
from kalends.resource_servers.service import SiteEngine


class StartGates:
    """Jobs that start at most once wait in the first, parts of jobs in step in the second; others in none.

    The arguments are those of `StepGate`.
    """

    def __init__(
        self,
        engine: SiteEngine,
        queues: Mapping[str, BatchQueue],
        carry_out: Callable[[str, Sequence[Action]], None],
        hosts: Callable[[str, Start], tuple[str, ...]],
        report: Callable[[str, Step], None],
    ) -> None:
        self._steps = StepGate(engine, queues, carry_out, hosts, report)
        self._once = StartGate(engine, queues, self._steps.carry_out, report)
        self.carry_out = self._once.carry_out
        self.over = self._once.over
        self.close = self._steps.close
        engine.say_start = self._said

    def _said(self, words: Iterable[StartWord]) -> None:
        self._once.said(words)
        self._steps.said(words)

    def words(self, machine: str, job: BatchJob) -> str:
        """Return what a job waits for here; "" if it does not."""
        return self._once.words(machine, job) or self._steps.words(machine, job)

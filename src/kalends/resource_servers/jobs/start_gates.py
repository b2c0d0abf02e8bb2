"""The gates of a site between its queues and what runs jobs, one behind the other; for one life."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kalends.batch.queue.effects import Action, Start
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.queue import BatchQueue
from kalends.resource_servers.jobs.start_gate import StartGate, Step
from kalends.resource_servers.jobs.step_gate import StepGate
from kalends.resource_servers.participation.effects import StartWord
from kalends.resource_servers.participation.placed_jobs.start_questions import StartQuestions
from kalends.resource_servers.service import SiteEngine


class StartGates:
    """Jobs that start at most once wait in the first, parts of jobs in step in the second; others in none.

    The arguments are those of `StepGate`.
    """

    def __init__(
        self,
        engine: SiteEngine,
        starts: StartQuestions,
        queues: Mapping[str, BatchQueue],
        carry_out: Callable[[str, Sequence[Action]], None],
        hosts: Callable[[str, Start], tuple[str, ...]],
        report: Callable[[str, Step], None],
    ) -> None:
        self._steps = StepGate(engine, starts, queues, carry_out, hosts, report)
        self._once = StartGate(engine, starts, queues, self._steps.carry_out, report)
        self.carry_out = self._once.carry_out
        self.over = self._once.over
        self.close = self._steps.close

    def said(self, words: Iterable[StartWord]) -> None:
        """Tell the gates whether jobs may start that have asked for it."""
        self._once.said(words)
        self._steps.said(words)

    def words(self, machine: str, job: BatchJob) -> str:
        """Return what a job waits for here; "" if it does not."""
        return self._once.words(machine, job) or self._steps.words(machine, job)

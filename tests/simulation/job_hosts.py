"""Hosts that run the jobs of a simulated site, and live on when its server dies.

A host keeps a record of every attempt, as shepherds do. It tells the present life of the site what is new,
and all of it again to a site that looks an attempt up. What ran, on how many nodes and for how long, is
judged by these records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import Action, Kill, LookUp, Relimit, Start
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.shepherds.conclusion import Conclusion, State
from kalends.batch.shepherds.folders import attempt_of, job_of
from tests.simulation.clocks import EPOCH_S

if TYPE_CHECKING:
    from tests.simulation.job_sites import JobSite

Step = Callable[[BatchQueue, int], object]

NEVER: Final = 0.06
"""So often an attempt that was asked for never begins."""

GIVEN_UP_MS: Final = 6_000
"""An attempt that has not begun by then is made void."""

RUNS_S: Final = (1, 4, 12, 30, 90)
"""How long programs run if nothing ends them: the last one longer than any limit."""

ENDS: Final[tuple[tuple[f.EndKind, int], ...]] = (("exit", 88), ("lost", 8), ("not-started", 4))
"""How attempts end that reach neither their limits nor are killed, and how often."""


@dataclass
class Attempt:
    """The record of one attempt."""

    nodes: int = 0
    state: State = State.UNDECIDED
    begun_ms: int = 0
    ended_ms: int = 0
    ending: f.JobEnding = field(default_factory=lambda: f.JobEnding(kind="lost"))


class JobHost:
    """The host of one machine."""

    def __init__(self, site: JobSite) -> None:
        self._site = site
        self._kernel = site.kernel
        self.attempts: dict[str, Attempt] = {}

    # What a launcher tells of them

    def attempts_from(self, first: int) -> list[str]:
        """Return the names of the attempts of jobs from number `first` on, in order."""
        names = [each for each in self.attempts if job_of(each) >= first]
        return sorted(names, key=lambda name: (job_of(name), attempt_of(name)))

    def look(self, name: str) -> Conclusion:
        return Conclusion(self.attempts[name].state if name in self.attempts else State.ABSENT)

    def ran(self, number: int) -> list[Attempt]:
        """Return the attempts of a job that have begun, in order."""
        found = [
            self.attempts[each] for each in self.attempts_from(number) if job_of(each) == number
        ]
        return [each for each in found if each.begun_ms]

    # What a site asks for

    def carry_out(self, actions: Sequence[Action]) -> None:
        for action in actions:
            name = f"{action.job.number}.{action.attempt}"
            match action:
                case Start():
                    self._prepare(name, len(action.nodes), action.job.limit_s)
                case Kill():
                    self._later(2_000, self.end, name, "killed")
                case LookUp():
                    self.attempts.setdefault(name, Attempt())
                    self._later(500, self._tell, name)
                    self._kernel.after(GIVEN_UP_MS, self._give_up, name)
                case Relimit():
                    pass  # No job of these worlds changes its size, or has a reservation.
                case _:
                    raise AssertionError(action)

    def end_all(self, names: Sequence[str]) -> None:
        """End attempts that the site has forgotten, at once."""
        for name in names:
            self.end(name, "killed")

    # The lives of attempts

    def _prepare(self, name: str, nodes: int, limit_s: int) -> None:
        self.attempts.setdefault(name, Attempt()).nodes = nodes
        if not self._kernel.chance(NEVER):
            self._later(2_000, self._begin, name, limit_s)
        self._kernel.after(GIVEN_UP_MS, self._give_up, name)

    def _begin(self, name: str, limit_s: int) -> None:
        attempt = self.attempts[name]
        if attempt.state is not State.UNDECIDED:
            return
        random = self._kernel.random
        attempt.state, attempt.begun_ms = State.RUNNING, self._kernel.now_ms
        self._kernel.note(f"{self._site.name} runs {name} on {attempt.nodes}")
        (kind,) = random.choices([each for each, _ in ENDS], [often for _, often in ENDS])
        runs_s = random.choice(RUNS_S)
        if kind == "exit" and runs_s > limit_s:
            kind, runs_s = "limit", limit_s
        self._kernel.after(runs_s * 1_000 + random.randrange(1_000), self.end, name, kind)
        self._tell(name)

    def end(self, name: str, kind: f.EndKind) -> None:
        """End an attempt that runs, or make one void that has not begun."""
        attempt = self.attempts[name]
        if attempt.state is State.UNDECIDED:
            attempt.state = State.VOID
        elif attempt.state is State.RUNNING:
            attempt.state, attempt.ended_ms = State.ENDED, self._kernel.now_ms
            ran_s = max(attempt.ended_ms - attempt.begun_ms, 1) / 1_000
            attempt.ending = f.JobEnding(kind=kind, ran_s=ran_s)
            self._kernel.note(f"{self._site.name} has run {name}: {kind} after {ran_s}")
        else:
            return
        self._tell(name)

    def _give_up(self, name: str) -> None:
        if self.attempts[name].state is State.UNDECIDED:
            self.end(name, "lost")

    # What the site hears

    def _tell(self, name: str) -> None:
        """Tell the life of the site that is there now; it may not live that long."""
        self._later(300, self._told, name)

    def _told(self, name: str) -> None:
        """Say each thing in a step of its own, as shepherds do."""
        attempt, number, att = self.attempts[name], job_of(name), attempt_of(name)
        begun_s = EPOCH_S + attempt.begun_ms // 1_000
        steps: list[Step] = []
        if attempt.state is State.VOID:
            steps.append(lambda queue, now: queue.void(number, att, now))
        if attempt.begun_ms:
            steps.append(lambda queue, now: queue.begun(number, att, now, begun_s))
        if attempt.state is State.ENDED:
            steps.append(lambda queue, now: queue.ended(number, att, attempt.ending, now))
        for step in steps:
            self._site.enter(self._site.heard, step)

    def _later(self, most_ms: int, do: object, *arguments: object) -> None:
        assert callable(do)
        self._kernel.after(self._kernel.random.randrange(1, most_ms), do, *arguments)

"""The wing of agents that visit the site: its parts, and what the kernel asks of them."""

from __future__ import annotations

from typing import NamedTuple

from kalends.resource_servers.participation.consequences import Consequences
from kalends.resource_servers.participation.kernel import Kernel
from kalends.resource_servers.participation.parts import Plug, Tier
from kalends.resource_servers.participation.visits.agent_holds import AgentHolds
from kalends.resource_servers.participation.visits.agent_recalls import AgentRecalls
from kalends.resource_servers.participation.visits.agent_visits import (
    AgentLimits,
    AgentVisits,
)
from kalends.resource_servers.participation.visits.visit_handler import VisitHandler


class VisitTypes(NamedTuple):
    """The classes of its parts; a test replaces one with a broken one."""

    recalls: type[AgentRecalls] = AgentRecalls
    holds: type[AgentHolds] = AgentHolds


class VisitingAgents:
    """The further parts of a site with agents; see each."""

    def __init__(
        self,
        kernel: Kernel,
        limits: AgentLimits = AgentLimits(),  # noqa: B008  immutable
        types: VisitTypes = VisitTypes(),  # noqa: B008  immutable
    ) -> None:
        ground, base = kernel.ground, kernel.ground.base
        here, book, outbox, numbers = base.here, base.book, base.outbox, base.numbers
        claims, room = ground.claims, ground.room
        self.near = limits.near
        runs = self.runs = base.runs
        visits = self.visits = AgentVisits(runs)
        self.recalls = types.recalls(
            here, book, claims, room, runs, visits, outbox, limits.held_max
        )
        self.ask_back, self.renewed = self.recalls.ask, visits.renewed
        holds = types.holds(
            book, claims, room, kernel.admission, kernel.registers, numbers, limits.held_max,
            kernel.wound_wait.held,
        )  # fmt: skip
        self._handler = VisitHandler(
            here, book, claims, kernel.then, kernel.attempts, room, kernel.admission, visits, runs,
            self.recalls, holds, kernel.registers, outbox, limits,
        )  # fmt: skip

    @property
    def plugs(self) -> tuple[Plug, ...]:
        ends = Plug(Tier.ENDS, timed=self.runs, listen=self._listen, att_of=self.recalls.att_of)
        return (ends, self._handler.plug)

    def _listen(self, then: Consequences) -> None:
        then.cleared.add(self.visits.forget_answered)
        then.attempt_over.add(self.recalls.end)
        then.attempt_over.add(self.visits.end)

    def is_asking(self, rid: str, att: int) -> bool:
        return self.recalls.att_of(rid) == att and rid not in self.visits

"""A site under test that agents visit: runs end as a test says, by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from tests.protocol_support import ANN, COORDS, DAY, HERE, PARTS, T0, Site, rid, secret_of

from kalends.agents.runs import RunOutcome
from kalends.contract import messages as m
from kalends.contract.messages import SiteReport
from kalends.core.principals import Principal
from kalends.core.scripts import Ask, HeldChoice, RunCode, Starts, Stop
from kalends.resource_servers.participation.admission import (
    DEFAULT_LIMITS,
    ParticipantLimits,
)
from kalends.resource_servers.participation.effects import ParticipantEffects, RunTask
from kalends.resource_servers.participation.visits.agent_visits import AgentLimits

SOURCE = "def choose(view, request):\n    return [slot['id'] for slot in view['slots']]\n"
KIND = SOURCE + "\ndef recall(slot, asker, view):\n    return True\n"
"""A script that answers recalls."""

NEAR = "there"


def hash_of(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()


def ask(local: str, length: int = 10, units: int = 1, term: int = 0, offset: int = 0) -> Ask:
    return Ask(term, f"{HERE}/{local}", length, units, offset)


def starts(first: int = 0, last: int = 30, step: int = 10, only: Sequence[int] = ()) -> Starts:
    """Times are as in `tests.protocol_support.want`."""
    base = T0 + DAY
    return Starts(base + first, base + last, step, tuple(base + each for each in only))


def dispatch(
    number: int, *asks: Ask, att: int = 1, source: str | None = SOURCE, script: str = "",
    over: Starts | None = None, near: tuple[Stop, ...] = (), principal: Principal = ANN,
    hold_ms: int = 30_000, stamp: int | None = None, inbox: tuple[str, ...] = (),
) -> m.Dispatch:  # fmt: skip
    return m.Dispatch(
        rid=rid(number), att=att, stamp=number if stamp is None else stamp, principal=principal,
        script=script or hash_of(source or SOURCE), source=source or "", inbox=inbox,
        starts=over or starts(), asks=asks or (ask("one"),), near=near, parts=PARTS,
        need=len(PARTS), coords=COORDS, secret=secret_of(rid(number)), hold_ms=hold_ms,
    )  # fmt: skip


class AgentSite(Site):
    """A `Site` whose errands wait until a test says how they ended."""

    def __init__(
        self, *, agents: AgentLimits | None = None, limits: ParticipantLimits = DEFAULT_LIMITS,
        rules: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.agents = agents or AgentLimits(near=(NEAR,))
        super().__init__(limits=limits, rules=rules)

    def send(self, message: m.Message, source: str = "broker") -> RunTask:
        """Deliver what sets out exactly one run."""
        effects = self.receive(message, source)
        assert not effects.sends, effects.sends
        (errand,) = effects.errands
        return errand

    def end(self, errand: RunTask | int, outcome: RunOutcome) -> ParticipantEffects:
        number = errand if isinstance(errand, int) else errand.number
        self.visiting.runs.errand_done(number, outcome, self.now)
        return self.settle()

    def choose(self, errand: RunTask, answer: Any, **more: Any) -> SiteReport:
        """The run answers; the site's own report."""
        return own(self.end(errand, RunOutcome("ok", answer, **more)))

    def fail(self, errand: RunTask, code: RunCode) -> SiteReport:
        return own(self.end(errand, RunOutcome(code, detail="as it is", line=3)))

    def hold_by_agent(self, message: m.Dispatch, answer: Any) -> SiteReport:
        return self.choose(self.send(message), answer)

    def relayed(self, number: int, report: SiteReport | None) -> ParticipantEffects:
        self.visiting.runs.relayed(number, report, self.now)
        return self.settle()


def report_in(effects: ParticipantEffects) -> m.Report:
    (send,) = effects.sends
    assert isinstance(send.message, m.Report)
    return send.message


def own(effects: ParticipantEffects) -> SiteReport:
    first = report_in(effects).sites[0]
    assert first.site == HERE
    return first


def times(held: Sequence[HeldChoice]) -> list[int]:
    """The starts of slots, counted from where `want` counts."""
    return [slot.start - T0 - DAY for slot in held]

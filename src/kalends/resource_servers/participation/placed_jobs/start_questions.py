"""Jobs that start at most once: before its first process, a job's broker is asked whether it may start here.

Parts of a job in step are asked for in the same way: they may start once all of them have their nodes, and
give up once that is written down. The question goes to all replicas that are connected, and is repeated until
it is answered: at one address of the broker after the other as well. Without an answer nothing starts. That a
job has started elsewhere, which a broker says of its own accord, is passed on, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kalends.contract import messages as m
from kalends.core.intervals import Moment
from kalends.core.steps import StepPart
from kalends.resource_servers.participation.claims.claims_at_rest import Stakes
from kalends.resource_servers.participation.effects import StartWord
from kalends.resource_servers.participation.outbox import REGISTER, ParticipantOutbox
from kalends.resource_servers.participation.repeats import AT_ONCE, Repeat
from kalends.resource_servers.participation.this_site import ThisSite

ASK_AGAIN_MS: Final = 500
ASK_AGAIN_MS_MAX: Final = 15_000


class _Question(NamedTuple):
    turn: Repeat
    parts: tuple[StepPart, ...]
    gives_up: bool


@dataclass(eq=False)
class StartQuestions:
    """Asks for requests that are locked here, and hands on what is said (`StartWord`)."""

    here: ThisSite
    stakes: Stakes
    outbox: ParticipantOutbox
    jitter: Callable[[], float]
    _asked: dict[str, _Question] = field(init=False, default_factory=dict)

    def ask(
        self, rid: str, now: Moment, parts: tuple[StepPart, ...] = (), *, gives_up: bool = False
    ) -> None:
        """Ask until there is an answer, or the request is locked here no more.

        Of a job in step, `parts` are all that have their nodes here by now. With `gives_up` they wait no
        longer: the answer is that all start, or that none does.
        """
        known = self._asked.get(rid)
        if known is None or (known.parts, known.gives_up) != (parts, gives_up):
            self._asked[rid] = _Question(AT_ONCE, parts, gives_up)
            self._ask(rid, now)

    def ready(self, ready: m.ReadyAsk, now: Moment) -> None:
        """Answer at once for parts that have their nodes, and still wait."""
        stake, known = self.stakes.get(ready.rid), self._asked.get(ready.rid)
        if stake is None or stake.att != ready.att or known is None:
            return
        if known.parts and not known.gives_up:
            self._asked[ready.rid] = known._replace(turn=AT_ONCE)
            self._ask(ready.rid, now, ready.question)

    def said(self, says: m.StartSays) -> None:
        """Take the word of the request's own broker."""
        stake = self.stakes.get(says.rid)
        if stake is None or not stake.decided or stake.att != says.att:
            return
        known = self._asked.pop(says.rid, None)
        if known is not None or says.says != "start":
            self.outbox.start(StartWord(says.rid, says.says, says.at, says.parts, says.in_ms))

    def met(self, now: Moment) -> None:
        """Ask everything again: a broker has come that may not have heard it."""
        for rid in list(self._asked):
            self._ask(rid, now)

    def advance(self, now: Moment) -> None:
        for rid in [rid for rid, each in self._asked.items() if each.turn.is_due(now)]:
            self._ask(rid, now)

    def next_deadline_ms(self) -> int | None:
        return min((each.turn.due_ms for each in self._asked.values()), default=None)

    def _ask(self, rid: str, now: Moment, question: int = 0) -> None:
        stake, asked = self.stakes.get(rid), self._asked[rid]
        times, parts = asked.turn.times, asked.parts
        if stake is None or not stake.has("locked"):
            del self._asked[rid]
            self.outbox.start(StartWord(rid, "over", ""))
            return
        ask = m.StartAsk(
            rid=rid, att=stake.att, site=self.here.name, secret=stake.secret, parts=parts,
            question=question, gives_up=asked.gives_up,
        )  # fmt: skip
        self.outbox.send(f"{REGISTER}{stake.register}", ask)
        if times and stake.coords and not parts:  # Which may be too long to be posted there.
            self.outbox.send(stake.coords[times % len(stake.coords)], ask)
        turn = asked.turn.next(now, self.jitter(), ASK_AGAIN_MS, ASK_AGAIN_MS_MAX)
        self._asked[rid] = asked._replace(turn=turn)

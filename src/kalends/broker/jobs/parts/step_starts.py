"""Common starts of jobs in step: all parts begin at one moment, or none does.

Each site asks when its parts have their nodes, and again until it is answered. Once all have come, each site
is asked whether it is still there (`ready`): one that came a minute ago may be cut off by now. When all have
answered within a few seconds, the register writes down where each part runs, and when they start: a few
seconds ahead, so that a lost word can be said again in time. A site that asks later gets the same answer.

A site whose parts wait no longer asks, too: the register writes that none starts. Of these two writes the
first one counts, for ever.

What is left: a site that is cut off between its last answer and the start begins when it hears of it, or
never if that is after the end of its slot. No number of messages can rule that out (Gray 1978).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.parts import CoordinatorPart, after
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import Record, Registered
from kalends.broker.coordination.trust.answer_checks import is_of
from kalends.broker.coordination.trust.credentials import Credentials
from kalends.contract import messages as m
from kalends.core.identifiers import split_resource
from kalends.core.intervals import Moment
from kalends.core.limits import STEP_AHEAD_MS_MAX, STEP_PARTS_MAX
from kalends.core.steps import StepPart

Attempt = tuple[str, int]
"""A request, and the number of its attempt."""

GATHERED_MAX: Final = 10_000
"""Requests whose parts come; sites say again what is forgotten."""

READY_MS: Final = 2_000
"""Within this time all have to answer that they are ready; twice as long for each answer that is late."""
READY_DOUBLINGS: Final = 5
QUESTIONS_MAX: Final = 1_000
"""Questions of one request that are remembered."""
AHEAD_MS: Final = 3_000
"""A start is told so long ahead; longer if the answers took longer."""


@dataclass
class _Gathered:
    """The parts of a request that have their nodes, and those that have answered `question` since."""

    come: dict[str, StepPart] = field(default_factory=dict)
    ready: dict[str, StepPart] = field(default_factory=dict)
    question: int = 0
    asked_ms: int = 0
    until_ms: int = 0
    """When the answers are too old (monotonic)."""
    questions: set[int] = field(default_factory=set)
    """All that were asked; not those of other replicas."""
    late: int = 0
    """How many answers came too late."""


@dataclass(eq=False)
class StepStarts:
    """Parts that were gathered, in memory only; decisions are in the register.

    `certain` tells whether the register has forgotten nothing.
    """

    outbox: CoordinatorOutbox
    credentials: Credentials
    certain: Callable[[], bool]
    _gathered: OrderedDict[Attempt, _Gathered] = field(init=False, default_factory=OrderedDict)

    @property
    def part(self) -> CoordinatorPart:
        return CoordinatorPart(
            follows=(after(r.Assemble, self.decided), after(r.GiveUp, self.decided))
        )

    def asked(self, reply_to: str, ask: m.StartAsk, now: Moment) -> None:
        """Ask the register, for a site that proves its name: for its start, or to give that up."""
        proved = self.credentials.proves(ask.secret, ask.site, ask.rid)
        proved = proved and all(is_of(ask.site, part.machine) for part in ask.parts)
        certain = self.certain()
        if ask.gives_up:
            self.outbox.write(r.GiveUp(ask.rid, ask.att, ask.site, reply_to, proved, certain))
            return
        parts: tuple[StepPart, ...] = ()
        ahead_ms = 0
        if proved and certain:
            gathered = self._gathered_for((ask.rid, ask.att))
            self._note(gathered, ask, now)
            parts = tuple(gathered.ready.values())
            took_ms = now.monotonic_ms - gathered.asked_ms
            ahead_ms = min(max(AHEAD_MS, 2 * took_ms), STEP_AHEAD_MS_MAX)
        begins_ms = now.wall_ms + ahead_ms
        self.outbox.write(
            r.Assemble(ask.rid, ask.att, ask.site, reply_to, parts, proved, begins_ms, certain)
        )

    def decided(self, op: r.Assemble | r.GiveUp, result: Registered, now: Moment) -> None:
        """Tell all sites of a start; the one that asks, that there is none; or ask who is ready."""
        row = result.record
        if row is None or row.state == "open" or op.site not in row.chosen:
            return
        if result.won and row.job.started:
            self._gathered.pop((op.rid, op.att), None)
            parts = tuple(replace(part, began_at=0) for part in row.job.parts)
            if not parts:
                self._say(op.reply_to, row, op.site, "over")
                return
            in_ms = min(max(result.begins_ms - now.wall_ms, 0), STEP_AHEAD_MS_MAX)
            for site in row.chosen:
                to = op.reply_to if site == op.site else site
                self._say(to, row, site, "start", parts=parts, in_ms=in_ms)
        elif row.state == "cancelled":
            self._say(op.reply_to, row, op.site, "over")
        elif (row.state, row.att) == ("commit", op.att) and (op.rid, op.att) in self._gathered:
            self._ask_who_is_ready(op, row, self._gathered[op.rid, op.att], now)

    def _ask_who_is_ready(
        self, op: r.Assemble | r.GiveUp, row: Record, gathered: _Gathered, now: Moment
    ) -> None:
        """Ask all sites once all parts have come; ask again those that have not answered."""
        machines = row.job.machines
        if not machines or not gathered.come.keys() >= set(machines):
            return
        asked = {op.site}
        if now.monotonic_ms >= gathered.until_ms:
            gathered.question = max(gathered.question + 1, now.wall_ms)
            if len(gathered.questions) >= QUESTIONS_MAX:
                gathered.questions.clear()
            gathered.questions.add(gathered.question)
            gathered.asked_ms = now.monotonic_ms
            wait_ms = READY_MS << min(gathered.late, READY_DOUBLINGS)
            gathered.until_ms = now.monotonic_ms + wait_ms
            asked = {split_resource(machine)[0] for machine in machines}
        for machine in machines:
            site = split_resource(machine)[0]
            if site in asked and machine not in gathered.ready:
                asked.discard(site)
                to = op.reply_to if site == op.site else site
                secret = self.credentials.secret(row, site)
                self.outbox.send(
                    to,
                    m.ReadyAsk(rid=row.rid, att=row.att, secret=secret, question=gathered.question),
                )

    def _gathered_for(self, attempt: Attempt) -> _Gathered:
        """Return what is known of a request; that of the oldest ones is forgotten."""
        found = self._gathered.setdefault(attempt, _Gathered())
        if len(self._gathered) > GATHERED_MAX:
            self._gathered.popitem(last=False)
        return found

    def _note(self, gathered: _Gathered, ask: m.StartAsk, now: Moment) -> None:
        """Take note of parts of a site, which has no more of them than a job may have."""
        over = now.monotonic_ms >= gathered.until_ms
        if over:
            gathered.ready.clear()
        answers = ask.question == gathered.question and not over
        if ask.question in gathered.questions and not answers:
            gathered.late += 1
        for part in ask.parts:
            come = StepPart(part.machine, part.job, part.hosts)
            own = sum(is_of(ask.site, machine) for machine in gathered.come)
            if come.machine not in gathered.come and own >= STEP_PARTS_MAX:
                continue
            if gathered.come.get(come.machine) != come:
                gathered.ready.pop(come.machine, None)
            gathered.come[come.machine] = come
            if ask.question and answers:
                gathered.ready[come.machine] = come

    def _say(
        self,
        to: str,
        row: Record,
        site: str,
        says: m.StartVerdict,
        *,
        parts: tuple[StepPart, ...] = (),
        in_ms: int = 0,
    ) -> None:
        secret = self.credentials.secret(row, site)
        said = m.StartSays(
            rid=row.rid, att=row.att, secret=secret, says=says, parts=parts, in_ms=in_ms
        )
        self.outbox.send(to, said)

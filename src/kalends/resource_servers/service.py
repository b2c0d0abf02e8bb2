"""A participant that runs: its effects are carried out, its deadlines kept, its facts stored first.

The order of effects is the whole point. The facts of a step go to the group commit, and the step's
messages leave when these facts, and those of all steps before, are durable. A step without facts
waits too, unless nothing is on its way to the disk; then its messages leave at once.

Another process may have taken over a store in a database. So there what others rely on leaves behind a
write, if only an empty one, and no command to a batch system begins later than that is known for sure.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from kalends.agents.runs import RunOutcome
from kalends.backends.records import SystemAnswer
from kalends.contract import messages as m
from kalends.core.errors import Unavailable
from kalends.core.intervals import Moment
from kalends.resource_servers.journal.contract import (
    NOTHING,
    Journal,
    Prune,
    Setting,
    SiteOperation,
)
from kalends.resource_servers.participation.claims.occupancy import Placed
from kalends.resource_servers.participation.effects import (
    ParticipantEffects,
    PlaceAsk,
    Provision,
    Relay,
    RunTask,
    Send,
    StartWord,
)
from kalends.resource_servers.participation.participant import Participant
from kalends.resource_servers.participation.provision.provisions import Provisions
from kalends.resource_servers.participation.registers import Badge
from kalends.resource_servers.participation.visits.visiting_agents import VisitingAgents
from kalends.stores.group_commit import StoreFailed

T = TypeVar("T")

JOURNAL_KEEP_MS: Final = 7 * 86_400_000
"""What is true no more stays in the journal for a week, for people who ask what happened."""

PRUNE_EVERY_S: Final = 3_600.0


class LifeEnded(StoreFailed):
    """Nothing has failed: a life of the site was ended, so that the next one begins."""


class EngineQueues(Protocol):
    """The queues of the site's machines."""

    def claims_moved(self, placed: Sequence[Placed]) -> None:
        """Follow bookings of claims that have come or gone where jobs run."""

    def ask_places(self, asks: Sequence[PlaceAsk]) -> None:
        """Give places; they come back by `PlacedJobs.offered`."""

    def say_start(self, words: Sequence[StartWord]) -> None:
        """Let jobs start that have asked for it, or end them."""


class SiteEngine:
    """One life of a site, from the opening of its store to its failure or the stop of the server.

    `deliver` sends messages that may leave now; `set_out` begins runs of agents, and visits to near
    sites, whose ends come back by `errand_done` and `relayed`; `provision` asks batch systems, each after
    `still_ours`, whose answers come back by `provisioned`; `alarmed` hears what the protocol forbids,
    `reported` what state is wrong, and how, or that it is over (""); `failed` is called once, when the store
    has failed: then nothing leaves any more, and the engine is to be closed. All on the event loop.
    """

    def __init__(
        self,
        journal: Journal,
        participant: Participant,
        *,
        moment: Callable[[], Moment],
        deliver: Callable[[Sequence[Send]], None],
        set_out: Callable[[Sequence[RunTask], Sequence[Relay]], None],
        provision: Callable[[Sequence[Provision], Callable[[], Awaitable[None]]], None],
        alarmed: Callable[[str], None],
        reported: Callable[[str, str], None],
        failed: Callable[[StoreFailed], None],
        queues: EngineQueues | None = None,
    ) -> None:
        self.participant = participant
        self._journal, self._writer = journal, journal.writer
        self._moment = moment
        self._deliver = deliver
        self._set_out = set_out
        self._provision = provision
        self._alarmed = alarmed
        self._reported = reported
        self._on_failed = failed
        self._queues = queues
        self._failure: StoreFailed | None = None
        self._acts: deque[Callable[[], None]] = deque()
        """What waits until it is known again that the store is ours."""
        self._loop = asyncio.get_running_loop()
        journal.wall_ms = moment().wall_ms
        self.position = participant.position
        """How many facts about stakes are durable."""
        self._marks: dict[str, m.Mark] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = 0
        self._pruning = asyncio.create_task(self._prune_regularly())
        self._carry_out()

    def mark(self, register: str) -> m.Mark:
        """Return the durable position of this site, for the broker of `register`."""
        known = self._marks.get(register)
        if known is None or known.position != self.position:
            known = self._marks[register] = self.participant.past.mark(register, self.position)
        return known

    def _now(self) -> Moment:
        now = self._moment()
        # The clock belongs to the event loop, not to the writer's thread.
        self._journal.wall_ms = now.wall_ms
        return now

    @property
    def behind(self) -> int:
        """Steps whose facts, or whose turn, wait for the disk."""
        return self._writer.unreported

    @property
    def stuck_s(self) -> float:
        """Seconds that the current write has taken, if they are too many; else 0."""
        return self._writer.stuck_s

    @property
    def is_ours(self) -> bool:
        """Whether no other process can have taken over, for this one has shown that it lives."""
        return self._journal.is_ours()

    def receive(self, source: str, messages: Sequence[m.Message]) -> Sequence[Send]:
        """Take messages of one source in one step; returns what will be sent, once it may be.

        Raises `Unavailable` when the store has failed; then none of them was taken. A message that breaks
        the step ends this life of the site; its request is left alone in the next, so that the same
        message cannot end one life after the other.
        """
        if self._failure is not None:
            raise unavailable()
        now = self._now()
        receive = self.participant.receive
        rid = ""
        try:
            for message in messages:
                rid = getattr(message, "rid", "")
                receive(source, message, now)
        except Exception as error:
            if rid:
                self.participant.left_alone.add(rid)
                self._alarmed(
                    f"{rid} is left alone until the next start: {source} broke a step with it"
                )
            raise self._give_up(error) from error
        return self._carry_out()

    def welcome(self, source: str, welcome: m.Welcome, badge: Badge) -> None:
        """From now on `source` speaks for a register.

        Raises `NotAllowed` where its key may not: then nothing has happened; and `Unavailable`.
        """
        if self._failure is not None:
            raise unavailable()
        self.participant.welcome(source, welcome, badge)
        self._carry_out()

    def meet(self, source: str, welcome: m.Welcome) -> None:
        """Answer who was welcomed, now that there is a session to answer on."""
        self._step(partial(self.participant.meet, source, welcome))

    def errand_done(self, number: int, outcome: RunOutcome) -> None:
        """Take the end of a run; one that began in an earlier life of the site changes nothing."""
        self._step(partial(self.participant.wing(VisitingAgents).runs.errand_done, number, outcome))

    def relayed(self, number: int, report: m.SiteReport | None) -> None:
        """Take what a near site has answered; None for nothing."""
        self._step(partial(self.participant.wing(VisitingAgents).runs.relayed, number, report))

    def provisioned(self, number: int, answer: SystemAnswer) -> None:
        """Take the answer of a batch system; one to an earlier life of the site changes nothing."""
        self._step(partial(self.participant.wing(Provisions).answered, number, answer))

    async def called(self, step: Callable[[Participant, Moment], T]) -> T:
        """The result of an operator's call, once all it has changed is durable.

        Raises what `step` raises by `KalendsError`: then nothing has happened. Raises `Unavailable`
        and `StoreFailed` as the others do.
        """
        if self._failure is not None:
            raise unavailable()
        result = step(self.participant, self._now())
        self._carry_out()
        await self.settle()
        return result

    def apply(self, step: Callable[[Participant, Moment], T]) -> T:
        """The result of a step of the site's own queues, which has taken effect in memory.

        Raises `Unavailable` when the store has failed, or the step breaks: then this life is over.
        """
        result = self._take(step)
        self._carry_out()
        return result

    def _take(self, step: Callable[[Participant, Moment], T]) -> T:
        if self._failure is not None:
            raise unavailable()
        try:
            return step(self.participant, self._now())
        except Exception as error:
            raise self._give_up(error) from error

    def end(self, why: str) -> None:
        """End this life, though its store works: the next one is to begin otherwise."""
        self._fail(LifeEnded(why))

    def broken(self, error: Exception) -> Unavailable:
        """A part that shares this life has raised what it should not: return what those who wait are told."""
        return self._give_up(error)

    def persist(self, operations: Sequence[SiteOperation], durable: Callable[[], None]) -> None:
        """Store `operations`, after everything before them, and call `durable` then."""
        self._writer.submit(operations, lambda _: durable(), self._fail)

    def persist_with(
        self,
        step: Callable[[Participant, Moment], None],
        operations: Sequence[SiteOperation],
        durable: Callable[[], None],
    ) -> None:
        """Store `operations`, and by the same write what follows from `step`; raises as `apply` does."""
        self._take(step)
        self._carry_out(operations, durable)

    def persist_later(self, operations: Sequence[SiteOperation]) -> None:
        """Store `operations` in their turn, but not at once: nobody misses them if they are lost."""
        self._writer.submit_later(operations, self._fail)

    def hasten(self) -> None:
        """Store delayed facts at once, because they are about to be read from the store."""
        self._writer.hasten()

    def heard_clock(self, source: str, wall_ms: int) -> None:
        """A broker has said what its wall clock shows."""
        self.participant.retention.heard_clock(source, wall_ms, self._now())

    def heard_mark(self, source: str, mark: m.Mark) -> None:
        """A broker has said how far its register is."""
        self.participant.registers.mark(source, mark)

    def drain(self, *, on: bool, until_s: int) -> None:
        """Take nothing new, and have jobs that wait placed elsewhere; or take everything again."""
        self.participant.admission.drain(on=on, until_s=until_s)
        self._step(self.participant.advance)

    def broker_came(self) -> None:
        """Take the session of a broker, and repeat messages that it may have missed."""
        self._step(self.participant.broker_came)

    def kept(self) -> tuple[int, int]:
        """Return how many promises batch systems keep, and how many they do not keep yet."""
        guard = self.participant.guard
        return guard.kept(self._now()) if isinstance(guard, Provisions) else (0, 0)

    async def settle(self) -> None:
        """Return when everything that was stored up to now is durable; raises `StoreFailed`."""
        await self._writer.run((NOTHING,) if self._journal.fenced else ())

    async def still_ours(self) -> None:
        """Return while no other process can have taken over; raises `StoreFailed` after this life."""
        while self._failure is None and not self._journal.is_ours():
            await self._writer.run((NOTHING,))
        if self._failure is not None:
            raise self._failure

    def when_ours(self, act: Callable[[], None]) -> None:
        """Call `act`, behind all before it, as soon as no other process can have taken over; else never."""
        self._acts.append(act)
        if len(self._acts) == 1:
            self._act()

    def _act(self) -> None:
        while self._acts and self._journal.is_ours() and self._failure is None:
            self._acts.popleft()()
        if self._acts and self._failure is None:
            self.persist((NOTHING,), self._act)

    async def set(self, name: str, value: int) -> None:
        """Store a setting, durably; raises `StoreFailed`."""
        await self._writer.run((Setting(name, value),))

    async def close(self) -> None:
        """Store everything that is on its way, and close the store."""
        if self._timer is not None:
            self._timer.cancel()
        self._pruning.cancel()
        await asyncio.gather(self._pruning, return_exceptions=True)
        await self._journal.close()

    def _carry_out(
        self,
        also: Sequence[SiteOperation] = (),
        durable: Callable[[], None] = lambda: None,
    ) -> Sequence[Send]:
        """Store the facts of a step, and `also` these; do what follows, and call `durable` then."""
        effects = self.participant.take_effects()
        for alarm in effects.alarms:
            self._alarmed(alarm)
        for about, text in effects.reports:
            self._reported(about, f"{about}: {text}" if text else "")
        leaving = effects.sends or effects.provisions
        facts: Sequence[SiteOperation] = [*effects.facts, *also]
        if not facts and self._journal.fenced and effects.weigh:
            facts = (NOTHING,)
        if facts or (leaving and not self._writer.idle):
            done = partial(self._durable, effects, self.participant.position, durable)
            self._writer.submit(facts, done, self._fail)
        elif leaving:
            self._let_go(effects)
        if effects.errands or effects.relays:
            self._set_out(effects.errands, effects.relays)
        if self._queues is not None:
            self._tell_queues(self._queues, effects)
        self._keep_time()
        return effects.sends

    def _tell_queues(self, queues: EngineQueues, effects: ParticipantEffects) -> None:
        if effects.asks:
            queues.ask_places(effects.asks)
        if effects.starts:
            queues.say_start(effects.starts)
        if moved := self.participant.book.take_moved():
            # After this step's facts: what a queue makes of them is stored behind them.
            queues.claims_moved(moved)

    def _durable(
        self,
        effects: ParticipantEffects,
        position: int,
        durable: Callable[[], None],
        results: Sequence[int | None],
    ) -> None:
        self.position = position
        self._let_go(effects)
        durable()

    def _let_go(self, effects: ParticipantEffects) -> None:
        if effects.sends:
            self._deliver(effects.sends)
        if effects.provisions:
            self._provision(effects.provisions, self.still_ours)

    def _fail(self, failure: StoreFailed) -> None:
        """The participant knows things that are not stored: its life ends here."""
        if self._failure is not None:
            return
        self._failure = failure
        if self._timer is not None:
            self._timer.cancel()
        self._on_failed(failure)

    def _keep_time(self) -> None:
        """One timer, for the next deadline of the participant."""
        if self._failure is not None:
            return
        due_ms = self.participant.next_deadline_ms()
        if self._timer is not None:
            if self._timer_due_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer_due_ms = due_ms
        in_s = max(due_ms - self._now().monotonic_ms, 0) / 1000
        self._timer = self._loop.call_later(in_s, self._advance)

    def _advance(self) -> None:
        self._timer = None
        self._step(self.participant.advance)

    def _step(self, step: Callable[[Moment], None]) -> None:
        """A step that nobody waits for."""
        if self._failure is not None:
            return
        try:
            step(self._now())
        except Exception as error:
            self._give_up(error)
            return
        self._carry_out()

    def _give_up(self, error: Exception) -> Unavailable:
        """The boundary of the pure part: a participant that has raised is no longer trusted.

        What is in its memory may be half a step; what is in its store is whole.
        """
        failure = StoreFailed(f"the site restarts from its store: {error!r}")
        failure.__cause__ = error
        self._fail(failure)
        return unavailable()

    async def _prune_regularly(self) -> None:
        while True:
            await asyncio.sleep(PRUNE_EVERY_S)
            # Not by the clock alone: were it ahead, the history of weeks would go at once.
            now_ms = min(self._now().wall_ms, self.participant.retention.sure_time.sure_s * 1000)
            before_ms = now_ms - JOURNAL_KEEP_MS
            removed: int | None = 0
            while removed is not None:
                try:
                    (removed,) = await self._writer.run((Prune(before_ms),))
                except StoreFailed:
                    return


def unavailable() -> Unavailable:
    return Unavailable(
        "the site's store accepts no writes at present",
        remedy="try again in a moment; the operator of the site sees the cause in its log",
        retry_after_s=1.0,
    )

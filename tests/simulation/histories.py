"""A recorder of what sites were asked and what they answered, as histories of every slot.

Between a message's arrival and its answer's leaving, at the harness's clock, it has taken effect. One
that is never answered, for the site lost power or had nothing to say, may have taken effect when it
came, or not at all. Grants, and what is taken back, lie somewhere before the message that tells.

Every slot of capacity 1 is checked by itself: all of a visit or nothing, at one site and across
sites, is the auditor's.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kalends.contract import messages as m
from tests.simulation.clocks import EPOCH_S, SKEW_MS_MAX
from tests.simulation.linearizability import check
from tests.simulation.listening import Listener, milliseconds
from tests.simulation.slot_histories import SlotHistories
from tests.simulation.slot_knowledge import Crash, Exchange, Push
from tests.simulation.slot_register import AVAILABLE, reads, step

if TYPE_CHECKING:
    from tests.simulation.world import World


class Numbers(NamedTuple):
    """What `finish` has checked. `operations` counts each once for every slot that it concerns."""

    operations: int = 0
    messages: int = 0
    histories: int = 0
    explored: int = 0
    unknown: int = 0

    def __add__(self, other: Any) -> Numbers:
        return Numbers(*(one + two for one, two in zip(self, other, strict=True)))


class Recorder(Listener):
    """Of one world: `attach` before it starts, `finish` when its schedule is over."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        super().__init__(now_ms)
        self.numbers = Numbers()
        self.singles: frozenset[str] = frozenset()
        """Resources of capacity 1: others are not looked at."""
        self.guarded: frozenset[str] = frozenset()
        self.barred: frozenset[tuple[str, str]] = frozenset()
        """Users who may not do all with a resource."""
        self._wrong_ms_max = SKEW_MS_MAX
        self._log: list[Exchange | Push | Crash] = []
        self._open: dict[str, dict[Any, deque[Exchange]]] = defaultdict(lambda: defaultdict(deque))

    def attach(self, world: World) -> None:
        super().attach(world)
        self.singles = frozenset(
            name for name, capacity in world.auditor.capacities.items() if capacity == 1
        )
        self._wrong_ms_max = world.clocks_wrong_ms_max
        self.guarded = frozenset(world.auditor.guarded | world.auditor.asked)
        self.barred = frozenset((user, resource) for user, resource, _ in world.auditor.barred)

    def on_delivered(self, site: str, source: str, message: m.Message, moment: int) -> None:
        exchange = Exchange(site, moment, message)
        self._log.append(exchange)
        key = _key_of_request(source, message)
        if key:
            self._open[site][key].append(exchange)

    def on_left(self, site: str, to: str, message: m.Message, moment: int) -> None:
        """An answer, or said by itself."""
        if isinstance(message, m.Stale):
            self._stale(site, message)
            return
        waiting = self._open[site].get(_key_of_answer(to, message))
        if waiting:
            exchange = waiting.popleft()
            exchange.answer, exchange.responded = message, moment
        else:
            self._log.append(Push(site, self._silent_since[site], moment, message))

    def on_crashed(self, site: str, moment: int) -> None:
        """What was asked and is not answered never will be."""
        self._open[site].clear()
        self._log.append(Crash(site, moment))

    def _stale(self, site: str, stale: m.Stale) -> None:
        """It had no effect. Of those that it may answer it answers the oldest.

        An agent's visit is not answered once another attempt has ended it: what is called stale then
        may be a repeat, and the oldest may have had its effect.
        """
        found = [
            waiting
            for kind in ("visit", "dispatch", "renew")
            if (waiting := self._open[site].get((kind, stale.rid, stale.att)))
        ]
        if found:
            exchange = min(found, key=lambda waiting: waiting[0].invoked).popleft()
            if not isinstance(exchange.message, m.Dispatch):
                exchange.answer = stale

    # Judging

    def finish(self) -> list[str]:
        """What is wrong, in words; "unknown" is wrong as well. Also renews `numbers`."""
        slots = SlotHistories(
            self._log, self.singles, self.barred, self._surely_future, self.guarded
        )
        complaints = []
        numbers = Numbers(messages=len(self._log))
        for slot, history in sorted(slots.histories().items()):
            verdict = check(history, step, AVAILABLE, reads=reads)
            unknown = verdict.outcome == "unknown"
            numbers += Numbers(len(history), 0, 1, verdict.explored, unknown)
            if verdict.outcome != "linearizable":
                complaints.append(f"{slot}: {verdict.outcome}: {verdict.culprit}"
                                  f" in one of {verdict.states}")  # fmt: skip
        self.numbers = numbers
        return complaints

    def _surely_future(self, start_s: int, moment: int) -> bool:
        """No clock of any node shows yet that `start_s` has begun."""
        return start_s * 1_000 > EPOCH_S * 1_000 + milliseconds(moment) + self._wrong_ms_max


def _key_of_request(source: str, message: m.Message) -> tuple[Any, ...]:
    """By what its answer will be known; empty when there is no answer."""
    match message:
        case m.Query():
            return ("query", source, message.query_id)
        case m.Decide():
            return (message.outcome, message.rid, message.att)
        case m.PeerAsk():
            return ("peer", source, message.rid, message.att)
        case m.Visit() | m.Dispatch() | m.Prepare() | m.Cancel() | m.Renew():
            return (type(message).__name__.lower(), message.rid, message.att)
    return ()


def _key_of_answer(to: str, message: m.Message) -> tuple[Any, ...]:
    match message:
        case m.View():
            return ("query", to, message.query_id)
        case m.Done():
            return (message.of, message.rid, message.att)
        case m.PeerSays():
            return ("peer", to, message.rid, message.att)
        case m.Visited() | m.Report() | m.Voted() | m.Renewed():
            return (_REQUEST_OF[type(message)], message.rid, message.att)
    return ()


_REQUEST_OF: Final = {
    m.Visited: "visit", m.Report: "dispatch", m.Voted: "prepare", m.Renewed: "renew"
}  # fmt: skip

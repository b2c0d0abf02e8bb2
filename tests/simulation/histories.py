"""A recorder of what sites were asked and what they answered, as histories of every slot.

It listens where a message reaches a site's state machine and where one leaves the site, at the
harness's clock: between the two it may have taken effect. A delivery that is never answered, for the
site lost power or had nothing to say, may have taken effect when it came, or not at all. What a site
does by itself (grants, recalls) lies between the last moment at which all that it had to say was said,
and the message that tells of it.

Every slot of capacity 1 is checked by itself: all of a visit or nothing, at one site and across
sites, is the auditor's.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kalends.core import messages as m
from tests.simulation.clocks import EPOCH_S, SKEW_MS_MAX
from tests.simulation.linearizability import check
from tests.simulation.slot_histories import Crash, Exchange, Push, SlotHistories
from tests.simulation.slot_register import AVAILABLE, TICK_BITS, step

if TYPE_CHECKING:
    from tests.simulation.nodes import Node
    from tests.simulation.world import World


class Numbers(NamedTuple):
    """What `finish` has checked. `operations` counts each once for every slot that it concerns."""

    operations: int = 0
    messages: int = 0
    histories: int = 0
    pieces: int = 0
    explored: int = 0
    unknown: int = 0

    def __add__(self, other: Any) -> Numbers:
        return Numbers(*(one + two for one, two in zip(self, other, strict=True)))


class Recorder:
    """Of one world: `attach` before it starts, `finish` when its schedule is over."""

    def __init__(self) -> None:
        self.numbers = Numbers()
        self._singles: frozenset[str] = frozenset()
        self._barred: frozenset[tuple[str, str]] = frozenset()
        self._now_ms: Callable[[], int] = lambda: 0
        self._moment_ms = 0
        self._moment_number = 0
        self._log: list[Exchange | Push | Crash] = []
        self._open: dict[str, dict[Any, deque[Exchange]]] = defaultdict(lambda: defaultdict(deque))
        self._silent_since: dict[str, int] = defaultdict(int)
        """By site: a moment at which it had said all that it had to say."""
        self._last_delivery_ms: dict[str, int] = {}

    # Listening

    def attach(self, world: World) -> None:
        """Listen to all sites of `world`, which has not started yet."""
        self._now_ms = lambda: world.kernel.now_ms
        self._singles = frozenset(
            name for name, capacity in world.auditor.capacities.items() if capacity == 1
        )
        self._barred = frozenset((user, resource) for user, resource, _ in world.auditor.barred)
        sites = {site.name: site for site in world.sites}
        make_participant, sent = world.make_participant, world.auditor.sent

        def make(name: str, *arguments: Any, **named: Any) -> Any:
            participant = make_participant(name, *arguments, **named)
            receive = participant.receive

            def received(source: str, message: m.Message, now: Any) -> None:
                self.delivered(name, source, message, idle=sites[name].idle)
                receive(source, message, now)

            participant.receive = received
            return participant

        def leaving(node: Node, to: str, message: m.Message) -> None:
            sent(node, to, message)
            if node.name in sites:
                self.left(node.name, to, message)

        world.make_participant = make
        world.auditor.sent = leaving  # type: ignore[method-assign]  # The recorder's wiretap.
        for site in world.sites:
            self._watch_crashes(site)

    def _watch_crashes(self, site: Any) -> None:
        crash = site.crash

        def crashed() -> None:
            if site.up:
                self.crashed(site.name)
            crash()

        site.crash = crashed

    def delivered(self, site: str, source: str, message: m.Message, *, idle: bool) -> None:
        """`message` reaches `site`; `idle`: all that it had to say has left before."""
        invoked = self._moment()
        now_ms = invoked >> TICK_BITS
        if idle and self._last_delivery_ms.get(site) != now_ms:
            self._silent_since[site] = invoked
        self._last_delivery_ms[site] = now_ms
        exchange = Exchange(site, invoked, message)
        self._log.append(exchange)
        for key in _keys_of_request(source, message):
            self._open[site][key].append(exchange)

    def left(self, site: str, to: str, message: m.Message) -> None:
        """`message` leaves `site`: an answer, or said by itself."""
        now = self._moment()
        if isinstance(message, m.Stale):
            self._stale(site, message)
            return
        waiting = self._open[site].get(_key_of_answer(to, message))
        if waiting:
            exchange = waiting.popleft()
            exchange.answer, exchange.responded = message, now
        else:
            self._log.append(Push(site, self._silent_since[site], now, message))

    def crashed(self, site: str) -> None:
        """`site` loses its memory; what was asked of it and not answered never will be."""
        self._open[site].clear()
        self._log.append(Crash(site, self._moment()))
        self._silent_since[site] = self._moment()

    def _stale(self, site: str, stale: m.Stale) -> None:
        """It had no effect. Of those that it may answer it answers the oldest."""
        found = [
            waiting
            for kind in ("visit", "dispatch", "renew")
            if (waiting := self._open[site].get((kind, stale.rid, stale.att)))
        ]
        if found:
            oldest = min(found, key=lambda waiting: waiting[0].invoked)
            oldest.popleft().answer = stale

    def _moment(self) -> int:
        now_ms = self._now_ms()
        self._moment_number = self._moment_number + 1 if now_ms == self._moment_ms else 0
        self._moment_ms = now_ms
        return now_ms << TICK_BITS | self._moment_number

    # Judging

    def finish(self) -> list[str]:
        """What is wrong, in words; "unknown" is wrong as well. Also renews `numbers`."""
        slots = SlotHistories(self._log, self._singles, self._barred, _surely_future)
        complaints = []
        numbers = Numbers(messages=len(self._log))
        for slot, history in sorted(slots.histories().items()):
            verdict = check(history, step, AVAILABLE)
            unknown = verdict.outcome == "unknown"
            numbers += Numbers(
                len(history), 0, 1, verdict.pieces, verdict.explored, unknown
            )
            if verdict.outcome != "linearizable":
                complaints.append(f"{slot}: {verdict.outcome}: {verdict.culprit}"
                                  f" in one of {verdict.states}")  # fmt: skip
        self.numbers = numbers
        return complaints


def _surely_future(start_s: int, moment: int) -> bool:
    """No clock of any node shows yet that `start_s` has begun."""
    return start_s * 1_000 > EPOCH_S * 1_000 + (moment >> TICK_BITS) + SKEW_MS_MAX


def _keys_of_request(source: str, message: m.Message) -> list[tuple[Any, ...]]:
    """By what its answer will be known; none when there is no answer."""
    match message:
        case m.Query():
            return [("query", source, message.query_id)]
        case m.Decide():
            return [(message.outcome, message.rid, message.att)]
        case m.PeerAsk():
            return [("peer", source, message.rid, message.att)]
        case m.Visit() | m.Dispatch() | m.Prepare() | m.Cancel() | m.Renew():
            return [(type(message).__name__.lower(), message.rid, message.att)]
    return []


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

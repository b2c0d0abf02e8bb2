"""The network between brokers and sites, between sites, and between clients and brokers.

Sessions carry frames. A *stream* session is as shipped: in order, until it breaks and loses what is
on its way. A *datagram* session loses, repeats, reorders and delays frames beyond every timer, which
all messages must survive, for they are idempotent. Calls by URL (`Inquire`, `PeerAsk`) and the calls
of clients are single questions with single answers, each of which may get lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kalends.contract import messages as m
from tests.simulation.kernel import Kernel

if TYPE_CHECKING:
    from tests.simulation.nodes import BrokerNode, Node, SiteNode

_ENCODE = msgspec.msgpack.Encoder().encode
_TO_SITE = msgspec.msgpack.Decoder(m.FrameToSite)
_TO_BROKER = msgspec.msgpack.Decoder(m.FrameToBroker)


@dataclass(slots=True)
class Weather:
    """How bad the network is; all zero is a network without faults."""

    loss: float = 0.0
    duplicate: float = 0.0
    late: float = 0.0
    break_session: float = 0.0
    delay_ms_max: int = 60
    late_ms_max: int = 150_000
    """Beyond every timer of the protocol."""


class Session:
    """One session between a broker and a site, named by the broker."""

    def __init__(self, broker: BrokerNode, site: SiteNode, number: int, *, stream: bool) -> None:
        self.broker = broker
        self.site = site
        self.name = f"{broker.name}~{number}"
        self.welcome = broker.welcome(site.name)
        """What the broker says first; it belongs to the opening, so that no fault parts the two."""
        self.stream = stream
        self.alive = True
        self.greeted = False
        """Whether the site's first message has come: without it a session is none."""
        self.last_ms = {True: 0, False: 0}
        """When the last frame arrives, to the site (True) and to the broker."""


SILENT_MS: Final = 20_000
"""A stream on which nothing arrives for so long is broken by its ends."""


class Network:
    """`cuts` holds the directed pairs of node names between which nothing passes."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.weather = Weather()
        self.stream = True
        self.cuts: dict[tuple[str, str], int] = {}
        self.nodes: dict[str, Node] = {}
        self._sessions = 0
        self._live: dict[str, Session] = {}
        self._tokens = 0
        self._replies: dict[str, tuple[Node, Node, str]] = {}

    # Partitions

    def cut(self, one: str, other: str, *, both: bool) -> None:
        for pair in ((one, other), (other, one))[: 2 if both else 1]:
            self.cuts[pair] = self.cuts.get(pair, 0) + 1

    def mend(self, one: str, other: str, *, both: bool) -> None:
        for pair in ((one, other), (other, one))[: 2 if both else 1]:
            left = self.cuts.get(pair, 0) - 1
            if left > 0:
                self.cuts[pair] = left
            else:
                self.cuts.pop(pair, None)

    def heal(self) -> None:
        self.cuts.clear()
        self.weather = Weather(delay_ms_max=self.weather.delay_ms_max)
        for session in list(self._live.values()):
            # What comes later on a stream waits for what is late: its ends give it up as silent.
            late = (
                session.stream and max(session.last_ms.values()) > self._kernel.now_ms + SILENT_MS
            )
            if late or not session.greeted:
                self.break_session(session)

    # Sessions

    def connect(self, broker: BrokerNode, site: SiteNode) -> None:
        """A broker tries to open a session; it hears of success only."""
        if self._blocked(broker.name, site.name) or self._blocked(site.name, broker.name):
            return
        self._sessions += 1
        session = Session(broker, site, self._sessions, stream=self.stream)
        self._kernel.after(self._delay_ms(), self._connected, session, broker.life)

    def _connected(self, session: Session, broker_life: int) -> None:
        broker, site = session.broker, session.site
        if not (broker.up and site.up and broker.life == broker_life):
            return
        if site.name in broker.sessions:
            return
        broker.sessions[site.name] = session
        self._live[session.name] = session
        site.enter(site.accept, session)

    def send(self, session: Session, frame: m.FrameToSite | m.FrameToBroker) -> None:
        """Send `frame` from the end of the session that it is a type of."""
        to_site = isinstance(frame, m.FrameToSite)
        source: Node = session.broker if to_site else session.site
        target: Node = session.site if to_site else session.broker
        body = _ENCODE(frame)
        self._kernel.note(f"{source.name} > {target.name} {shown(frame.messages)}")
        weather = self.weather
        if session.stream:
            if not session.alive:
                return
            if self._blocked(source.name, target.name) or self._kernel.chance(
                weather.break_session
            ):
                self._kernel.fault("session broken", session.name)
                self._kernel.after(
                    self._kernel.random.randrange(3_000), self.break_session, session
                )
                return
            arrives_ms = max(session.last_ms[to_site], self._kernel.now_ms + self._delay_ms())
            session.last_ms[to_site] = arrives_ms + 1
            self._kernel.after(
                arrives_ms - self._kernel.now_ms, self._arrive, session, to_site, body
            )
            return
        copies = 1
        if self._kernel.chance(weather.duplicate):
            self._kernel.fault("duplicate", shown(frame.messages))
            copies = 2
        for _ in range(copies):
            if self._kernel.chance(weather.loss):
                self._kernel.fault("loss", shown(frame.messages))
            else:
                self._kernel.after(self._delay_ms(), self._arrive, session, to_site, body)

    def _arrive(self, session: Session, to_site: bool, body: bytes) -> None:
        source: Node = session.broker if to_site else session.site
        target: Node = session.site if to_site else session.broker
        if session.stream and not session.alive:
            return
        if self._blocked(source.name, target.name):
            if session.stream:
                self.break_session(session)
            self._kernel.fault("lost in a partition", f"{source.name} > {target.name}")
            return
        if to_site:
            session.site.enter(session.site.receive, session, _TO_SITE.decode(body))
        else:
            frame = _TO_BROKER.decode(body)
            session.greeted |= any(isinstance(message, m.Hello) for message in frame.messages)
            session.broker.enter(session.broker.receive, session, frame)

    def break_session(self, session: Session) -> None:
        """Both ends learn of it, each in its own time."""
        if not session.alive:
            return
        session.alive = False
        del self._live[session.name]
        for node in (session.broker, session.site):
            delay_ms = self._kernel.random.randrange(2_000)
            self._kernel.after(delay_ms, node.enter, node.session_lost, session)

    def lose(self, node: Node) -> None:
        """`node` is down: the other ends of its sessions will notice."""
        for session in list(self._live.values()):
            if node in (session.broker, session.site):
                self.break_session(session)

    # Calls by URL

    def post(self, source: Node, url: str, message: m.Message) -> None:
        """A question to `url`; the answer comes back to `source` as a message from that URL."""
        target = self.nodes.get(url.partition("//")[2])
        if target is None:
            return
        self._kernel.note(f"{source.name} post {target.name} {shown([message])}")
        for delay_ms in self._journeys(source, target):
            self._tokens += 1
            token = f"call:{self._tokens}"
            self._replies[token] = (source, target, url)
            self._kernel.after(delay_ms, target.enter, target.asked, token, message)

    def asker(self, token: str) -> str:
        """Who has asked the question `token`; "" once it is answered."""
        asked = self._replies.get(token)
        return asked[0].name if asked is not None else ""

    def reply(self, token: str, message: m.Message) -> None:
        """The first message to `token` is the answer; there is no second."""
        asker = self._replies.pop(token, None)
        if asker is None:
            return
        source, target, url = asker
        self._kernel.note(f"{target.name} answers {source.name} {shown([message])}")
        for delay_ms in self._journeys(target, source):
            self._kernel.after(delay_ms, source.enter, source.answered, url, message)

    # Calls of clients

    def carry(self, target: Node | None, action: Callable[..., None], *arguments: Any) -> None:
        """Bring a client's call to the node `target`, or an answer to the client (None)."""
        if self._kernel.chance(self.weather.loss):
            self._kernel.fault("client loss")
            return
        delay_ms = self._delay_ms()
        if target is None:
            self._kernel.after(delay_ms, action, *arguments)
        else:
            self._kernel.after(delay_ms, target.enter, action, *arguments)

    def _journeys(self, source: Node, target: Node) -> list[int]:
        if self._blocked(source.name, target.name):
            self._kernel.fault("lost in a partition", f"{source.name} > {target.name}")
            return []
        if self._kernel.chance(self.weather.loss):
            self._kernel.fault("loss", "a call")
            return []
        count = 2 if self._kernel.chance(self.weather.duplicate) else 1
        return [self._delay_ms() for _ in range(count)]

    def _blocked(self, source: str, target: str) -> bool:
        return (source, target) in self.cuts

    def _delay_ms(self) -> int:
        if self._kernel.chance(self.weather.late):
            self._kernel.fault("late")
            return self._kernel.random.randrange(self.weather.late_ms_max)
        return self._kernel.random.randrange(1, self.weather.delay_ms_max)


def shown(messages: Sequence[m.Message]) -> str:
    """Messages in the trace."""
    return " ".join(_shown(message) for message in messages)


def _shown(message: m.Message) -> str:
    said = [type(message).__name__]
    for name in ("rid", "att", "mode", "vote", "outcome", "of", "says"):
        value = getattr(message, name, None)
        if value is not None:
            said.append(str(value)[-6:] if name == "rid" else str(value))
    return f"{said[0]}({','.join(said[1:])})"

"""Servers of one owner that say anything at any time, in a world whose other servers are honest.

A hostile site keeps honest books, for brokers must have reasons to deal with it; what it says of them is
kept back, changed, repeated, late, or replaced by something invented. A hostile broker has a register
and a key of its own. Both know the ids, attempts and numbers of everything in the world, as if somebody
had told them, but no secret that nobody told them. In the end they fall silent and stay so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

import msgspec

from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.resource_servers.participation.registers import Badge
from tests.simulation.clocks import EPOCH_S
from tests.simulation.inventing import Inventor
from tests.simulation.kernel import Violation
from tests.simulation.network import Session
from tests.simulation.nodes import BrokerNode, SiteNode

if TYPE_CHECKING:
    from tests.simulation.world import World

TO_SITE: Final = tuple(kind for kind in get_args(m.ToSite) if kind is not m.Welcome)
TO_BROKER: Final = get_args(m.ToBroker)
TO_PEER: Final = (m.PeerAsk, m.Dispatch)
"""What sites ask of each other."""

REGISTER: Final = "e" * 32
KEY: Final = "f" * 64
"""The identity of the hostile broker's register, and what its proofs are derived from."""

_SECRET: Final = re.compile(rb"[0-9a-f]{32}")


class Character(NamedTuple):
    """What a hostile site does with what it would honestly say, and how often it invents something."""

    alter: float = 0.0
    drop: float = 0.0
    repeat: float = 0.0
    delay: float = 0.0
    every_ms: int = 1_000
    burst: int = 1


CHARACTERS: Final = (
    Character(alter=0.3),
    Character(drop=0.4, every_ms=5_000),
    Character(repeat=0.5, delay=0.3),
    Character(every_ms=200),
    Character(every_ms=10_000, burst=100),
    Character(alter=0.1, drop=0.1, repeat=0.2, delay=0.2, every_ms=300, burst=4),
)


class Told:
    """What the honest have said to the hostile, and whether any of it was for others only."""

    def __init__(self, world: World, names: Iterable[str]) -> None:
        self._world = world
        self._names = frozenset(names)
        self._rows_seen = 0
        self._secrets: set[bytes] = set()
        self._rids: set[str] = set()

    def hear(self, message: m.Message) -> None:
        body = msgspec.json.encode(message)
        # Some answers only echo what was asked, or said.
        echo = isinstance(message, m.Stale | m.Cancel) or getattr(message, "outcome", "") in (
            "abort",
            "pending",
        )
        if not echo:
            self._rids.add(getattr(message, "rid", ""))
        self._renew()
        for found in _SECRET.findall(body):
            if found in self._secrets:
                raise Violation(f"a secret of others was told in {message}")

    def finish(self) -> None:
        """Raises `Violation` when they were told of a request that is no business of theirs."""
        apart = {rid for rid in self._rids if self._world.is_apart(rid)}
        if apart:
            raise Violation(f"{sorted(self._names)} were told of {sorted(apart)}")

    def _renew(self) -> None:
        """Secrets are those of every other site, and of every request there."""
        world = self._world
        if self._secrets and self._rows_seen == len(world.auditor.rows):
            return
        self._rows_seen = len(world.auditor.rows)
        own = world.register.reads.secret
        for site in world.honest_sites:
            key = proofs.site_key(own, site.name)
            self._secrets.add(key.encode())
            for rid in world.auditor.rows:
                self._secrets.add(proofs.of_request(key, rid).encode())


class HostileSite(SiteNode):
    """One of the sites that brokers were set up with."""

    said: Counter[str]

    def turn(self, character: Character, asks_peers: float) -> None:
        """Begin to be hostile; `asks_peers` is the share of what it invents that goes to other sites."""
        self.character = character
        self.asks_peers = asks_peers
        self.silent = False
        self.said = Counter()
        self.told = Told(self.world, (self.name,))
        self.inventor = Inventor(self.kernel.random)
        self.inventor.learn("site", self.world.site_names)
        self.inventor.learn("coords", self.network.nodes)
        self.kernel.after(1_000, self._make_mischief)

    def fall_silent(self) -> None:
        self.silent = True

    # What it hears

    def receive(self, session: Session, frame: m.FrameToSite) -> None:
        for message in frame.messages:
            self.told.hear(message)
            self.inventor.hear(message)
        super().receive(session, frame)

    def accept(self, session: Session) -> None:
        self.inventor.hear(session.welcome)
        if not self.silent:
            super().accept(session)

    def asked(self, token: str, message: m.Message) -> None:
        self.told.hear(message)
        self.inventor.hear(message)
        super().asked(token, message)

    def answered(self, url: str, message: m.Message) -> None:
        self.told.hear(message)
        self.inventor.hear(message)
        super().answered(url, message)

    # What it says

    def _send_to(self, to: str, messages: list[Any]) -> None:
        """Each message as its character has it."""
        random, character = self.kernel.random, self.character
        if self.silent:
            return
        for message in messages:
            self.inventor.hear(message)
            fate = random.random()
            if fate < character.drop:
                continue
            if fate < character.drop + character.alter:
                message = self._count("altered", self.inventor.altered(message))
            if random.random() < character.repeat:
                self._count("repeated", message)
                self.later(random.randrange(20_000), self._say, to, message)
            if random.random() < character.delay:
                self._count("late", message)
                self.later(random.randrange(8_000), self._say, to, message)
            else:
                self._say(to, message)

    def _say(self, to: str, message: m.Message) -> None:
        if self.silent:
            return
        if to.startswith("sim://"):
            if to.partition("//")[2] in self.network.nodes:
                self.network.post(self, to, message)
        elif to.startswith("call:"):
            self.network.reply(to, message)
        elif to in self.sessions:
            self._send_frame(self.sessions[to], [message])

    def _make_mischief(self) -> None:
        if self.silent:
            return
        random = self.kernel.random
        self.inventor.learn("rid", self.world.auditor.rows)
        for _ in range(random.randrange(1, self.character.burst + 1)):
            self.enter(self._invent)
        self.kernel.after(random.randrange(1, 2 * self.character.every_ms), self._make_mischief)

    def _invent(self) -> None:
        random = self.kernel.random
        peers = random.random() < self.asks_peers
        kinds = (*TO_PEER, m.Inquire) if peers else TO_BROKER
        message = self.inventor.heard(kinds) if random.random() < 0.2 else None
        if message is None:
            kind = random.choice(kinds)
            truths = {
                name: value
                for name, value in self._truths(peers).items()
                if name in kind.__struct_fields__
            }
            message = self.inventor.message(kind, truths)
        if message is None:
            return
        self._count("invented", message)
        if not peers:
            if self.sessions:
                self._say(random.choice(list(self.sessions)), message)
        elif isinstance(message, m.Inquire):
            self._say(f"sim://{random.choice(self.world.broker_names)}", message)
        else:
            others = [site.name for site in self.world.sites if site is not self]
            self._say(f"sim://{random.choice(others)}", message)

    def _truths(self, peers: bool) -> dict[str, Any]:
        """Most of what it invents names itself, for nobody listens to anything else."""
        random = self.kernel.random
        fixed: dict[str, Any] = {}
        if random.random() < 0.7:
            fixed = {"way": self.name} if peers else {"site": self.name}
        rid = self.inventor.one_of("rid")
        row = self.world.auditor.rows.get(rid) if rid else None
        if row is not None and random.random() < 0.8:
            fixed |= {"rid": rid, "att": row.att}
            if random.random() < 0.7:
                # What it was told when it was welcomed proves itself, whatever it was asked for.
                own = proofs.site_key(self.world.register.reads.secret, self.name)
                fixed["secret"] = proofs.of_request(own, rid)
        return fixed

    def _count(self, how: str, message: Any) -> Any:
        self.said[how] += 1
        self.kernel.fault(f"{how} by a hostile site", type(message).__name__)
        return message


class HostileBroker(BrokerNode):
    """A broker of another owner, with a register and a key of its own; it plans nothing."""

    badge = Badge(key="of another owner")

    def turn(self) -> None:
        self.silent = False
        self.said: Counter[str] = Counter()
        self.told = Told(self.world, (self.name,))
        self.every_ms = self.kernel.random.choice((100, 500, 2_000))
        self.inventor = Inventor(self.kernel.random)
        self.inventor.learn("site", self.world.site_names)
        self.inventor.learn("resource", self.world.auditor.capacities)
        hour = EPOCH_S + 2 * 3_600
        self.inventor.learn("start", range(hour, hour + 4 * 3_600, 3_600))
        self.inventor.learn("end", range(hour + 3_600, hour + 5 * 3_600, 3_600))
        self.inventor.learn("user", ("ann", "bob", "eve", "cyd"))
        self.inventor.learn("units", (1, 2, 3))
        self.inventor.learn("hold_ms", (1_000, 60_000))
        self.own: list[str] = []

    def fall_silent(self) -> None:
        self.silent = True

    def boot(self) -> None:
        for site in self.world.sites:
            self.later(self.kernel.random.randrange(200), self._connect, site)
        self.later(1_000, self._make_mischief)

    def forget(self) -> None:
        """It remembers all that it ever heard."""

    def advance(self) -> None:
        """It waits for nothing."""

    def welcome(self, site: str) -> m.Welcome:
        """Now and then it comes as the register of others, once sites have bound that to their key."""
        theirs = self.world.register.reads.identity
        come = theirs in self.world.auditor.bound[site]
        if come and self.kernel.random.random() < 0.3:
            return m.Welcome(register=theirs, secret=self._key(site))
        return m.Welcome(register=REGISTER, secret=self._key(site))

    def session_lost(self, session: Session) -> None:
        if self.sessions.get(session.site.name) is session:
            del self.sessions[session.site.name]

    def receive(self, session: Session, frame: m.FrameToBroker) -> None:
        for message in frame.messages:
            self.told.hear(message)
            self.inventor.hear(message)

    def asked(self, token: str, message: m.Message) -> None:
        self.told.hear(message)
        self.inventor.hear(message)

    def answered(self, url: str, message: m.Message) -> None:
        self.asked(url, message)

    def _key(self, site: str) -> str:
        return proofs.site_key(KEY, site)

    def _make_mischief(self) -> None:
        if self.silent:
            return
        random = self.kernel.random
        for site in self.world.sites:
            if site.name in self.sessions and random.random() < 0.5:
                self._invent(site)
        self.later(random.randrange(1, 2 * self.every_ms), self._make_mischief)

    def _invent(self, site: SiteNode) -> None:
        """About a request of its own, or one that somebody else has at this site."""
        random = self.kernel.random
        if not self.own or random.random() < 0.1:
            number = random.getrandbits(48)
            self.own = [*self.own[-20:], f"ffffffff-ffff-7fff-bfff-{number:012x}"]
        theirs = [rid for rid in self.world.auditor.stored[site.name] if rid not in self.own]
        if theirs and random.random() < 0.4:
            rid = random.choice(theirs)
            att = self.world.auditor.stored[site.name][rid]["att"]
        else:
            rid, att = random.choice(self.own), random.choice((1, 1, 1, 2, 3))
        fixed: dict[str, Any] = {"rid": rid, "att": att}
        if random.random() < 0.8:
            fixed["secret"] = proofs.of_request(self._key(site.name), rid)
        kind = random.choice((*TO_SITE, m.Visit, m.Visit, m.Prepare, m.Decide, m.Decide))
        if kind is m.Decide:
            fixed |= self._chosen_at(site.name)
        if "rid" not in kind.__struct_fields__:
            fixed = {}
        message = self.inventor.heard((kind,)) if random.random() < 0.1 else None
        message = message or self.inventor.message(kind, fixed)
        if message is not None:
            self.said["invented"] += 1
            self.kernel.fault("invented by a hostile broker", kind.__name__)
            self._send_to(site.name, [message])

    def _chosen_at(self, site: str) -> dict[str, Any]:
        hold_id = self.inventor.one_of("hold_id")
        return (
            {"chosen": {site: [hold_id]}} if hold_id and self.kernel.random.random() < 0.7 else {}
        )

    def _send_to(self, to: str, messages: list[Any]) -> None:
        random = self.kernel.random
        frame = m.FrameToSite(
            v=2, source=self.name, lc=random.choice((0, 1 << 62)), messages=messages,
            wall_ms=random.choice((0, self.now().wall_ms, 1 << 61)),
        )  # fmt: skip
        if to in self.sessions and not self.silent:
            self.network.send(self.sessions[to], frame)

"""Sites that lie to brokers about places: what they offer, promise, and tell of jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, get_args

from msgspec.structs import replace

from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.core.limits import TIME_S_MAX, UNITS_MAX
from kalends.resource_servers.neighbours.links import BrokerLink
from kalends.resource_servers.service import SiteEngine
from tests.shells.lying import Liar, Say, not_a_number, of_here
from tests.shells.substitutes import WALL_AT_BEGIN_S

TO_BROKER: Final = tuple(kind for kind in get_args(m.ToBroker) if kind is not m.Hello)
OF_PLACES: Final = (m.Bid, m.Voted, m.EndOfJob, m.StartAsk, m.Done, m.PartNews, m.Renewed, m.Stale)
"""Most of what is invented is of these."""

NONSENSE: Final = 0.03


class LyingSite(Liar):
    """Its queue and its host are as those of others; brokers hear what it likes."""

    links: dict[BrokerLink, Say]
    keys: dict[str, str]
    """What each broker proves itself by, and it to them."""

    def begin(self) -> None:
        """It has started."""
        self.links, self.keys = {}, {}

    async def live(self) -> None:
        """Invent, until it is silent."""
        while not self.silent:
            await asyncio.sleep(self.chance.uniform(0.05, 2 * self.character.every_s))
            for _ in range(self.chance.randrange(1, self.character.burst + 1)):
                self._invent()

    def leaves(self, link: BrokerLink, message: m.Message, say: Say) -> None:
        """Its engine says `message`."""
        self.links[link] = say
        if isinstance(message, m.Hello):
            say(message)  # Else nobody ever talks to it.
            return
        if isinstance(message, m.Bid) and self.chance.random() < self.character.lures:
            for lure in self._lures(message):
                self.twist(lure, say)
            return
        self.twist(message, say)

    def _lures(self, bid: m.Bid) -> Sequence[m.Message]:
        """What it says in the place of an honest bid."""
        self.said["lures"] += 1
        now_s = WALL_AT_BEGIN_S + int(self.rumours.facility.world.loop.now_s)
        offers, kind = bid.offers, self.chance.randrange(9)
        if not offers:
            return [bid]
        first = offers[0]
        length_s = first.end - first.start

        def at(start: int) -> m.PlaceOffer:
            end = start + length_s
            return replace(first, start=start, end=end, start_by=start, late_start=start)

        match kind:
            case 0 | 1:  # Nobody is as soon.
                return [replace(bid, offers=(at(now_s),))]
            case 2:
                return [replace(bid, offers=(at(max(now_s - 50_000, 0)),))]
            case 3:
                return [replace(bid, offers=(at(TIME_S_MAX - length_s),))]
            case 4:  # It may begin at once, and at the end of all times.
                late = replace(at(now_s), start_by=0, late_start=TIME_S_MAX)
                return [replace(bid, offers=(late,))]
            case 5:
                huge = replace(at(now_s), nodes=UNITS_MAX, job=1 << 52, hold_id=first.hold_id + 1)
                return [replace(bid, offers=(huge,))]
            case 6:
                others = self.inventor.one_of("resource") or first.machine
                return [replace(bid, offers=(replace(first, machine=others),)), bid]
            case 7:
                return [bid, replace(bid, offers=(at(now_s),)), bid]
        return [replace(bid, **self.somebodys()), bid]

    def _invent(self) -> None:
        if self.silent or not self.links:
            return
        link = self.chance.choice(list(self.links))
        kinds = OF_PLACES if self.chance.random() < 0.7 else TO_BROKER
        truths = self.somebodys()
        if self.chance.random() < 0.8:
            truths["site"] = self.name
        if self.keys and "rid" in truths and self.chance.random() < 0.7:
            # It can prove that it is itself, whatever it has to do with the request.
            key = self.chance.choice(list(self.keys.values()))
            truths["secret"] = proofs.of_request(key, truths["rid"])
        if self.chance.random() < 0.3:
            # There are as many names as it likes.
            invented = f"{self.name}/m{self.chance.getrandbits(40)}"
            truths |= {"machine": invented, "parts": ({"machine": invented, "job": 1},)}
        message = self.invented(kinds, truths)
        if message is None or link.closing:
            self.links.pop(link, None)
            return
        self.count("invented", message)
        if self.chance.random() < NONSENSE:
            link._outbox.append(not_a_number(message))
            link._to_write.set()
        else:
            self.links[link](message)


def lie(liars: dict[str, LyingSite]) -> None:
    """From now on what these sites say is theirs to say."""
    push, receive, welcome = BrokerLink.push, SiteEngine.receive, SiteEngine.welcome

    def pushing(link: BrokerLink, message: m.Message) -> None:
        liar = of_here(liars)
        if liar is None or liar.silent:
            push(link, message)
        else:
            liar.leaves(link, message, partial(push, link))

    def receiving(engine: SiteEngine, source: str, messages: Sequence[m.Message]) -> Any:
        if (liar := of_here(liars)) is not None:
            for message in messages:
                liar.inventor.hear(message)
        return receive(engine, source, messages)

    def welcomed(engine: SiteEngine, source: str, said: m.Welcome, badge: Any) -> None:
        if (liar := of_here(liars)) is not None:
            liar.keys[source] = said.secret
        welcome(engine, source, said, badge)

    SiteEngine.welcome = welcomed  # type: ignore[method-assign]
    BrokerLink.push = pushing  # type: ignore[method-assign]
    SiteEngine.receive = receiving  # type: ignore[method-assign]

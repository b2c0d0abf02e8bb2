"""Brokers that lie to sites: go without bids, go twice, give up what is others', ask for what nobody has."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, get_args

import msgspec

from kalends.broker.service import BrokerService
from kalends.broker.sites.site_link import SiteLink
from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.core.jobs import JobRequest
from kalends.core.limits import DURATION_S_MAX, UNITS_MAX
from kalends.core.principals import Principal
from tests.shells.lying import Liar, Say, not_a_number, of_here

TO_SITE: Final = tuple(kind for kind in get_args(m.ToSite) if kind is not m.Welcome)
OF_PLACES: Final = (
    m.Solicit, m.Solicit, m.Prepare, m.Decide, m.Decide, m.Release, m.Cancel, m.Renew, m.StartSays,
    m.EndNoted,
)  # fmt: skip
OWN_MAX: Final = 30
NONSENSE: Final = 0.03
IN_DOUBT_S: Final = 4.0
"""It decides on what it was promised within this time: who never does keeps others from nodes."""


class LyingBroker(Liar):
    """A replica of a broker with users of its own; what it says to sites is its own affair."""

    links: dict[str, Say]
    keys: dict[str, str]
    """What proves itself at each site, for its own register."""
    own: list[str]

    def begin(self) -> None:
        """It has started."""
        self.links, self.keys, self.own = {}, {}, []

    async def live(self) -> None:
        """Invent, until it is silent."""
        while not self.silent:
            await asyncio.sleep(self.chance.uniform(0.05, 2 * self.character.every_s))
            for _ in range(self.chance.randrange(1, self.character.burst + 1)):
                self._invent()

    def leaves(self, link: SiteLink, message: m.Message, say: Say) -> None:
        """Its coordinator says `message`."""
        self.links[link.name] = say
        if isinstance(message, m.Welcome):
            self.keys[link.name] = message.secret
            say(message)
            return
        self.twist(message, say)

    def _invent(self) -> None:
        if self.silent or not self.links:
            return
        site = self.chance.choice(list(self.links))
        kinds = OF_PLACES if self.chance.random() < 0.7 else TO_SITE
        truths = self._about(site)
        if self.chance.random() < 0.4:
            truths |= {"job": self._job(), "machines": (f"{site}/cluster",)}
        message = self.invented(kinds, truths)
        if message is None:
            return
        self.count("invented", message)
        say = self.links[site]
        if self.chance.random() < NONSENSE:
            link = say.args[0]  # type: ignore[attr-defined]
            link._outbox.append(not_a_number(message))
            link._to_write.set()
            return
        say(message)
        if isinstance(message, m.Prepare) or getattr(message, "mode", "") == "vote":
            self._decide_soon(site, message)

    def _about(self, site: str) -> dict[str, Any]:
        """A request of its own, or of somebody else, proved as its own."""
        if not self.own or self.chance.random() < 0.15:
            number = self.chance.getrandbits(48)
            self.own = [*self.own[1 - OWN_MAX :], f"ffffffff-ffff-7fff-bfff-{number:012x}"]
        about = {"rid": self.chance.choice(self.own), "att": self.chance.choice((1, 1, 1, 2, 3))}
        if self.chance.random() < 0.3:
            about = self.somebodys() or about
        if self.chance.random() < 0.9:
            about["secret"] = proofs.of_request(self.keys.get(site, ""), about["rid"])
        user = self.chance.choice(("mallory0", "mallory1", "user0"))
        if self.chance.random() < 0.8:
            about["principal"] = msgspec.to_builtins(Principal(user))
        return about

    def _job(self) -> dict[str, Any]:
        """One like those of others, or one that nobody can run."""
        nodes, limit_s = self.chance.choice(
            ((1, 60), (2, 10), (4, 60), (UNITS_MAX, 60), (4, DURATION_S_MAX), (1, 0))
        )
        job = JobRequest(
            machine="", nodes=nodes, limit_s=limit_s, command=("program", "5.000", "of-a-liar")
        )
        return msgspec.to_builtins(job)  # type: ignore[no-any-return]

    def _decide_soon(self, site: str, asked: Any) -> None:
        """Give up what was promised."""
        secret = proofs.of_request(self.keys.get(site, ""), asked.rid)
        for att in {asked.att, asked.att + 1}:
            abort = m.Decide(rid=asked.rid, att=att, secret=secret, outcome="abort")
            loop = self.rumours.facility.world.loop
            loop.call_later(self.chance.uniform(0, IN_DOUBT_S), self._say_at, site, abort)

    def _say_at(self, site: str, message: m.Message) -> None:
        if site in self.links:
            self.links[site](message)


def lie(liars: dict[str, LyingBroker]) -> None:
    """From now on what these replicas say to sites is theirs to say."""
    send, said = SiteLink.send, BrokerService.site_said

    def sending(link: SiteLink, message: m.Message) -> None:
        liar = of_here(liars)
        if liar is None or liar.silent:
            send(link, message)
        else:
            liar.leaves(link, message, partial(send, link))

    async def hearing(broker: BrokerService, site: str, messages: Sequence[m.Message]) -> None:
        if (liar := of_here(liars)) is not None:
            for message in messages:
                liar.inventor.hear(message)
        await said(broker, site, messages)

    SiteLink.send = sending  # type: ignore[method-assign]
    BrokerService.site_said = hearing  # type: ignore[method-assign]

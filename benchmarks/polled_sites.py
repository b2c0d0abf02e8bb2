"""A broker that looks for n of k machines, each at its own site, in virtual time over drawn delays.

The coordinator and the participants are the real ones; only the network is played: a message takes half
of what was drawn for its site and seed. Nothing but looking is played: no site hears of what follows.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kalends.broker.coordination.coordinator import Coordinator
from kalends.broker.coordination.record.decision_record import Spec
from kalends.broker.coordination.search.slot_search import SlotSearch
from kalends.broker.coordination.transaction import Transaction
from kalends.broker.coordination.trust.credentials import Identity
from kalends.broker.planning.directory import Directory
from kalends.broker.planning.polling.counts import Prospect
from kalends.broker.planning.polling.delays import Lognormal
from kalends.broker.planning.polling.model import MESSAGE_MS
from kalends.broker.planning.polling.polls import Poll
from kalends.broker.planning.polling.site_statistics import Odds
from kalends.calendars import AccessList, AccessRule, ResourceCalendar
from kalends.contract import messages as m
from kalends.core.clock import LogicalClock
from kalends.core.identifiers import request_id
from kalends.core.intervals import Moment
from kalends.core.language import parse_request
from kalends.core.principals import Principal
from kalends.core.resources import ResourceInfo
from kalends.servers.restored_participant import site_machine

T0: Final = 1_800_000_000
HOUR_S: Final = 3_600
USER: Final = Principal("somebody")
EVERYBODY: Final = (AccessRule("all", "everyone", ("see", "hold", "lock")),)
SECRET: Final = "of the benchmark"


class SiteNature(NamedTuple):
    """The chance that its machine is booked, and how its round trips are distributed."""

    busy: float
    delay: Lognormal


class KnownOdds(Odds):
    """What the sites are really like: nothing is learned."""

    def __init__(self, natures: Mapping[str, SiteNature]) -> None:
        super().__init__()
        self._natures = natures

    def busy(self, site: str, at_s: int) -> float:
        return self._natures[site].busy

    def delay(self, site: str) -> Lognormal:
        return self._natures[site].delay


class PolledSites:
    """The sites, which live on from look to look; every seed has an hour of its own."""

    def __init__(self, natures: Sequence[SiteNature]) -> None:
        self.natures = {f"m{number:02}": nature for number, nature in enumerate(natures)}
        self.machines = {
            site: ResourceInfo(name=f"{site}/machine", attributes={"kind": "sgi"})
            for site in self.natures
        }
        self.participants = {
            site: site_machine(
                site,
                {info.name: ResourceCalendar(info, AccessList(EVERYBODY))},
                epoch=1,
                jitter=lambda: 0.0,
                now=Moment(0, T0 * 1_000),
            )
            for site, info in self.machines.items()
        }
        self.ids = itertools.count(1)
        self._draws: dict[int, dict[str, float]] = {}

    def prospects(self) -> list[Prospect]:
        return [
            Prospect(site, 1, nature.busy, nature.delay) for site, nature in self.natures.items()
        ]

    def round_trips(self, seed: int) -> dict[str, float]:
        """What was drawn for `seed`; the first time, its hour is booked where that was drawn, too."""
        if seed not in self._draws:
            draw = random.Random(seed)
            self._draws[seed] = {
                site: draw.lognormvariate(0.0, nature.delay.sigma) * nature.delay.median_ms
                for site, nature in self.natures.items()
            }
            for site, nature in self.natures.items():
                if draw.random() < nature.busy:
                    self._book(site, hour_of(seed))
        return self._draws[seed]

    def _book(self, site: str, start: int) -> None:
        participant, now = self.participants[site], Moment(0, T0 * 1_000)
        rid = request_id(T0 * 1_000, next(self.ids))
        visit = m.Visit(
            rid=rid, att=1, stamp=1, mode="vote", principal=USER,
            wants=(m.Want(f"{site}/machine", start, start + HOUR_S, 1),),
            parts=(m.Part(site, f"http://{site}"),), need=1, coords=("http://broker",),
            secret=SECRET, hold_ms=30_000,
        )  # fmt: skip
        participant.receive("broker", visit, now)
        (sent,) = participant.take_effects().sends
        if not isinstance(sent.message, m.Visited) or sent.message.vote != "yes":
            raise RuntimeError(f"{site} does not book: {sent.message}")
        held = tuple(slot.hold_id for slot in sent.message.held)
        decide = m.Decide(rid=rid, att=1, secret=SECRET, outcome="commit", chosen={site: held})
        participant.receive("broker", decide, now)
        participant.take_effects()


def hour_of(seed: int) -> int:
    """All seeds below 8,000 have hours that can be booked."""
    return T0 + HOUR_S * (24 + seed)


class PollingSearch(SlotSearch):
    """The real one, told how many sites to ask first (0: as it thinks)."""

    polled = 0

    def poll(self, case: Transaction, now: Moment, polled: int = 0) -> Poll:
        return super().poll(case, now, polled or self.polled)


class PollingCoordinator(Coordinator):
    search_type = PollingSearch
    search: PollingSearch


def looks(
    world: PolledSites,
    needed: int,
    seeds: int,
    odds: Odds,
    *,
    polled: int = 0,
    first_seed: int = 0,
) -> list[float]:
    """The cost of a look for each seed, in ms, messages included."""
    return [
        _look_ms(world, needed, seed, odds, polled)
        for seed in range(first_seed, first_seed + seeds)
    ]


def _look_ms(world: PolledSites, needed: int, seed: int, odds: Odds, polled: int) -> float:
    round_trips = world.round_trips(seed)
    coordinator = _coordinator(world, odds, polled)
    text = f"{needed} of {{kind=sgi}}"
    start = hour_of(seed)
    request = parse_request(
        text, duration="1h", not_before=start, not_after=start + HOUR_S, now_s=T0, zone="UTC"
    )
    rid = coordinator.calls.submit(
        USER, f"key-{seed}-{polled}", "digest", Spec(request, text), 1, _at(0)
    )
    flying: list[tuple[float, int, str, m.Message]] = []
    number = itertools.count()
    queries, now_ms, over_ms = 0, 0.0, -1.0
    while over_ms < 0 or flying:
        case = coordinator.cases.get(rid)
        if over_ms < 0 and (case is None or case.phase != "looking"):
            over_ms = now_ms
        for send in coordinator.take_effects().sends:
            if isinstance(send.message, m.Query):
                queries += 1
                sent = (now_ms + round_trips[send.to] / 2, next(number), send.to, send.message)
                heapq.heappush(flying, sent)
        if not flying:
            break
        now_ms, _, site, message = heapq.heappop(flying)
        if isinstance(message, m.View):
            coordinator.receive(site, message, _at(now_ms))
            continue
        participant = world.participants[site]
        participant.receive("broker", message, _at(now_ms))
        (view,) = (send.message for send in participant.take_effects().sends)
        heapq.heappush(flying, (now_ms + round_trips[site] / 2, next(number), site, view))
    return over_ms + MESSAGE_MS * queries


def _coordinator(world: PolledSites, odds: Odds, polled: int) -> PollingCoordinator:
    directory = Directory({site: f"http://{site}" for site in world.natures})
    for site, info in world.machines.items():
        directory.greet(m.Hello(site=site, epoch=1, resources=(info,)))
    coordinator = PollingCoordinator(
        Identity("a", "a:1", ("http://broker",)),
        directory,
        LogicalClock(),
        new_rid=lambda now: request_id(T0 * 1_000, next(world.ids)),
        jitter=lambda: 0.0,
    )
    coordinator.search.odds = odds
    coordinator.search.polled = polled
    return coordinator


def _at(ms: float) -> Moment:
    return Moment(int(ms), T0 * 1_000 + int(ms))

"""Judges of places, who look on: at queues, at the words of brokers, and at programs that begin.

They ask the product nothing, and note what they see; `judge` raises `Broken` in the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from kalends.batch.queue import facts as f
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.shepherds.order import JobOrder
from kalends.broker.service import BrokerService
from kalends.broker.sites.site_link import SiteLink
from kalends.contract import messages as m
from tests.shells import books
from tests.shells.facility import Facility
from tests.shells.job_host import HOSTS, JobHost
from tests.shells.scenarios import Broken
from tests.shells.stage import NODE

HELD_S_MAX: Final = 30.0
"""Where nothing fails a place is taken, or given up, within this time: a hold, and one more attempt."""

HOLE_S_MAX: Final = 5.0
"""Nodes that the first in line could use are not left idle for longer."""


@dataclass
class SeenPlace:
    """A place that a queue has given, or a job that stands there; times since the world began."""

    nodes: int
    offered_s: float
    taken_s: float = 0.0
    ended_s: float = 0.0
    """It was withdrawn."""


class Queues:
    """Sees what all queues write down: how long places are held, and whether nodes are left idle.

    Nothing fails meanwhile, and nobody lies.
    """

    def __init__(self, facility: Facility) -> None:
        self._facility = facility
        self.places: dict[str, dict[int, SeenPlace]] = defaultdict(dict)
        record = BatchQueue.record

        def recording(queue: BatchQueue, fact: f.AnyFact, now: int) -> None:
            record(queue, fact, now)
            if (node := NODE.get()) is not None:
                self._note(node.name, fact)

        BatchQueue.record = recording  # type: ignore[method-assign]

    def _note(self, site: str, fact: f.AnyFact) -> None:
        places, now_s = self.places[site], self._facility.world.loop.now_s
        if isinstance(fact, f.JobSubmitted):
            taken_s = 0.0 if fact.offered_s else now_s
            places[fact.first] = SeenPlace(fact.request.nodes, now_s, taken_s)
        elif isinstance(fact, f.OfferTaken):
            places[fact.job].taken_s = now_s
        elif isinstance(fact, f.JobWithdrawn):
            places[fact.job].ended_s = now_s

    def judge(self) -> None:
        _judge([*self._complaints()])

    def _complaints(self) -> Iterator[str]:
        for site, places in self.places.items():
            for number, place in places.items():
                held_s = (place.taken_s or place.ended_s) - place.offered_s
                if held_s > HELD_S_MAX:
                    yield f"{site}: the place {number} was held for {held_s:.1f} s"
                if place.taken_s and (idle_s := self._idle_before(site, number)) > HOLE_S_MAX:
                    yield f"{site}: {number} was first, and its nodes idle, for {idle_s:.1f} s"

    def _idle_before(self, site: str, number: int) -> float:
        """For how long a job was first in line, with nodes enough, and did not begin."""
        place, places = self.places[site][number], self.places[site]
        begun = {int(run.name.partition(".")[0]): run for run in HOSTS[site].history}
        end_s = begun[number].since_s if number in begun else place.ended_s
        # It is first once all before it have begun, or have gone.
        first_s = max(
            (
                begun[each].since_s if each in begun else other.ended_s or end_s
                for each, other in places.items()
                if each < number
            ),
            default=0.0,
        )
        since_s = max(first_s, place.taken_s)
        busy = [run for run in begun.values() if run.since_s < end_s and run.until_s > since_s]
        times_s = sorted(
            {since_s, end_s, *(run.until_s for run in busy), *(run.since_s for run in busy)}
        )
        idle_s = longest_s = 0.0
        for at_s, next_s in pairwise(times_s):
            if not since_s <= at_s < end_s:
                continue
            used = sum(len(run.nodes) for run in busy if run.since_s <= at_s < run.until_s)
            fits = used + place.nodes <= self._facility.plan.capacity
            idle_s = idle_s + next_s - at_s if fits else 0.0
            longest_s = max(longest_s, idle_s)
        return longest_s


@dataclass
class SeenAttempt:
    """One attempt of a request, as its broker lives through it."""

    bidders: set[str] = field(default_factory=set)
    winners: set[str] = field(default_factory=set)
    released: set[str] = field(default_factory=set)
    over: bool = False


class Words:
    """Hears what brokers say: until the winner has voted, somebody else who has bid keeps a place."""

    def __init__(self, facility: Facility) -> None:
        self._complaints: list[str] = []
        self._loop = facility.world.loop
        self._attempts: dict[tuple[str, str, int], SeenAttempt] = defaultdict(SeenAttempt)
        send, said = SiteLink.send, BrokerService.site_said

        def sending(link: SiteLink, message: m.Message) -> None:
            self._said_to(link.name, message)
            send(link, message)

        async def hearing(broker: BrokerService, site: str, messages: Sequence[m.Message]) -> None:
            for message in messages:
                self._said_by(site, message)
            await said(broker, site, messages)

        SiteLink.send = sending  # type: ignore[method-assign]
        BrokerService.site_said = hearing  # type: ignore[method-assign]

    def judge(self) -> None:
        _judge(self._complaints)

    def _attempt(self, message: Any) -> SeenAttempt:
        node = NODE.get()
        assert node is not None
        return self._attempts[node.name, message.rid, message.att]

    def _said_by(self, site: str, message: m.Message) -> None:
        if isinstance(message, m.Bid) and message.offers:
            attempt = self._attempt(message)
            if not attempt.winners:
                attempt.bidders.add(site)
        elif isinstance(message, m.Voted | m.Stale):
            self._attempt(message).over = True

    def _said_to(self, site: str, message: m.Message) -> None:
        if isinstance(message, m.Prepare):
            self._attempt(message).winners.add(site)
        elif isinstance(message, m.Decide | m.Cancel):
            self._attempt(message).over = True
        elif isinstance(message, m.Release):
            attempt = self._attempt(message)
            attempt.released.add(site)
            # All that is said in one turn is looked at together.
            self._loop.call_soon(self._judge, message.rid, attempt)

    def _judge(self, rid: str, attempt: SeenAttempt) -> None:
        others = attempt.bidders - attempt.winners
        if len(attempt.winners) == 1 and others and not attempt.over and others <= attempt.released:
            self._complaints.append(
                f"of {rid} nobody has a place any more, and {attempt.winners} have not voted"
            )


class Permits:
    """Sees programs that begin: what starts at most once has its permit written down by then."""

    def __init__(
        self, facility: Facility, broker_of: dict[tuple[str, ...], str], liars: Collection[str] = ()
    ) -> None:
        """`broker_of` tells the broker of each command that starts at most once."""
        self._complaints: list[str] = []
        begin = JobHost._begin

        def beginning(host: JobHost, order: JobOrder, boot: int) -> None:
            before = len(host.history)
            begin(host, order, boot)
            broker = broker_of.get(order.argv)
            if len(host.history) > before and broker is not None and host.name not in liars:
                facility.counts["permits"] += 1
                if not _may_start(facility, broker, order.argv, host.name):
                    self._complaints.append(
                        f"{order.argv} has begun at {host.name} without a permit"
                    )

        JobHost._begin = beginning  # type: ignore[method-assign]

    def judge(self) -> None:
        _judge(self._complaints)


def _judge(complaints: Sequence[str]) -> None:
    if complaints:
        raise Broken("; ".join(complaints[:3]))


def _may_start(facility: Facility, broker: str, command: tuple[str, ...], site: str) -> bool:
    with books.reading(books.store_of(facility, broker)) as register:
        permitted = dict(register.execute("select rid, site from start"))
    return any(
        permitted.get(rid) == site
        for rid, row in books.rows(facility, broker).items()
        if tuple(row.body["spec"]["what"]["job"]["command"]) == command
    )

"""kalends itself: the shipped coordinator and participants, with the rules of their shipped shells.

A site's messages leave when the facts before them are durable; a broker's coordinator is told of the
register's answers when they are. Replicas of a broker share one register, and clients are dealt out to
them in turn. Sites' stores are not written; what a sync takes is in `Costs`. Where hours are scarce,
requests stand on waiting lists; elsewhere they wait for what others hold.
"""

from __future__ import annotations

import itertools
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any, Final

from benchmarks.contenders.demand import Order, Scenario
from benchmarks.contenders.network import Leg, Network, Server
from benchmarks.contenders.scheme import Booked, Losses, Reply, given_back
from kalends.broker.coordination.coordinator import Coordinator
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import Spec
from kalends.broker.coordination.trust.credentials import Identity
from kalends.broker.planning.directory import Directory
from kalends.broker.planning.planner import fixed_wants
from kalends.broker.register.sqlite import request_rows, request_writes
from kalends.broker.register.sqlite.broker_store import SCHEMA
from kalends.calendars import Booking, ResourceCalendar, State, open_access
from kalends.contract import messages as m
from kalends.contract.calls import Patience, RequestView
from kalends.core.clock import LogicalClock
from kalends.core.errors import Unavailable
from kalends.core.identifiers import request_id
from kalends.core.intervals import Moment
from kalends.core.principals import Principal
from kalends.core.requests import Alternative, Request, Term
from kalends.core.resources import ResourceInfo
from kalends.servers.restored_participant import site_machine

HOUR_S: Final = 3_600
BEGIN_S: Final = 2_000_000_000 // 86_400 * 86_400
"""What wall clocks show when a run begins."""

WINDOW_S: Final = BEGIN_S + 86_400
"""When the window begins: no hour of it is over while a run lasts."""

ASK_AGAIN_US: Final = 100_000
"""After "the request was just decided": what the broker says to wait before cancelling again."""


class Unexpected(Exception):
    """A machine has raised an alarm, in a world without faults."""


class WatchedCalendar(ResourceCalendar):
    """Keeps account of what was held or promised here and then not locked."""

    def __init__(self, info: ResourceInfo, network: Network, losses: Losses) -> None:
        super().__init__(info, open_access())
        self._timeline = network.timeline
        self._losses = losses
        self._since_us: dict[int, int] = {}

    def book(self, booking: Booking) -> None:
        super().book(booking)
        if booking.state != "locked":
            self._since_us[booking.id] = self._timeline.now_us

    def change_state(self, booking_id: int, state: State) -> Booking:
        if state == "locked":
            self._since_us.pop(booking_id, None)
        return super().change_state(booking_id, state)

    def release(self, booking_id: int) -> Booking:
        released = super().release(booking_id)
        since_us = self._since_us.pop(booking_id, None)
        if since_us is not None:
            self._losses.kept_in_vain_us += self._timeline.now_us - since_us
        return released


class Node(Server, ABC):
    """What sites and brokers share: their clocks, and when they are to be woken."""

    def __init__(self, network: Network, name: str) -> None:
        super().__init__(network)
        self.name = name
        self.url = f"sim://{name}"
        self.logical = LogicalClock(BEGIN_S * 1_000)
        self._waking_us = -1

    @property
    def moment(self) -> Moment:
        ms = self.timeline.now_us // 1_000
        return Moment(ms, BEGIN_S * 1_000 + ms)

    def merge(self, lc: int) -> None:
        self.logical.merge(lc, self.moment.wall_ms)

    def wake(self, deadline_ms: int | None) -> None:
        """Call `advance` at `deadline_ms`, unless that is to happen earlier already."""
        if deadline_ms is None:
            return
        due_us = max(deadline_ms * 1_000, self.timeline.now_us)
        if self._waking_us < 0 or due_us < self._waking_us:
            self._waking_us = due_us
            self.timeline.at(due_us, self._woken, due_us)

    def _woken(self, due_us: int) -> None:
        if self._waking_us == due_us:
            self._waking_us = -1
            self.advance()

    @abstractmethod
    def advance(self) -> None:
        """Let the time pass that has passed."""


class SiteNode(Node):
    """One owner's site."""

    def __init__(
        self, network: Network, name: str, resources: Sequence[str], losses: Losses, seed: int
    ) -> None:
        super().__init__(network, name)
        self._brokers: dict[str, BrokerNode] = {}
        self._losses = losses
        infos = [ResourceInfo(name=resource, grain_s=HOUR_S) for resource in resources]
        self.participant = site_machine(
            name,
            {info.name: WatchedCalendar(info, network, losses) for info in infos},
            epoch=1,
            jitter=Random(f"{seed}:{name}").random,
            now=self.moment,
        )

    def connect(self, broker: BrokerNode) -> None:
        """The broker answers to its name on a session, and to its address otherwise."""
        self._brokers[broker.name] = self._brokers[broker.url] = broker

    def receive(self, source: str, lc: int, message: m.Message) -> None:
        self.merge(lc)
        self.participant.receive(source, message, self.moment)
        self._carry_out()

    def advance(self) -> None:
        self.participant.advance(self.moment)
        self._carry_out()

    def _carry_out(self) -> None:
        effects = self.participant.take_effects()
        if effects.alarms:
            raise Unexpected(f"{self.name}: {effects.alarms}")
        send = partial(self._send, effects.sends)
        if effects.facts:
            self.disk.write(send)
        elif effects.sends:
            self.disk.after_writes(send)
        self.wake(self.participant.next_deadline_ms())

    def _send(self, sends: Sequence[Any]) -> None:
        for to, message in sends:
            self._count(message)
            broker = self._brokers[to]
            lc = self.logical.value
            self.network.to_server(
                _leg(message),
                type(message).__name__,
                broker,
                broker.receive,
                self.name,
                lc,
                message,
            )

    def _count(self, message: m.Message) -> None:
        if isinstance(message, m.Visited | m.Voted | m.Locked) and message.refusals:
            self._losses.refused[message.refusals[0].code] += 1
        elif isinstance(message, m.Recall):
            self._losses.refused["recalled"] += 1


class BrokerNode(Node):
    """One replica."""

    def __init__(
        self,
        network: Network,
        name: str,
        sites: Sequence[SiteNode],
        store: sqlite3.Connection,
        seed: int,
        coords: tuple[str, ...],
    ) -> None:
        super().__init__(network, name)
        self._sites = {site.name: site for site in sites}
        self._store = store
        self._random = Random(f"{seed}:{name}")
        self._tickets: dict[int, Any] = {}
        self._numbers = itertools.count(1)
        self.coordinator = Coordinator(
            Identity(name, f"{name}:1", coords),
            Directory({site.name: site.url for site in sites}),
            self.logical,
            new_rid=lambda now: request_id(now.wall_ms, self._random.getrandbits(74)),
            jitter=self._random.random,
            owner_alive=lambda owner: True,
        )
        for site in sites:
            site.connect(self)
            self.coordinator.receive(site.name, site.participant.hello(), self.moment)

    # Calls of clients, as the HTTP shell carries them out

    def book(self, user: str, key: str, request: Request, patience: Patience, reply: Any) -> None:
        spec = Spec(request=request, wants=fixed_wants(request) or (), patience=patience)
        ticket = next(self._numbers)
        self._tickets[ticket] = reply
        self.coordinator.calls.submit(Principal(user), key, key, spec, ticket, self.moment)
        self._carry_out()

    def cancel(self, rid: str) -> None:
        record = request_rows.row(self._store, rid)
        if record is None:
            raise Unexpected(f"{self.name}: {rid} was reserved, and is not in the register")
        try:
            self.coordinator.calls.cancel(record, next(self._numbers), self.moment)
        except Unavailable:
            self.timeline.after(ASK_AGAIN_US, self.network.to_server, "back", "cancel", self,
                                self.cancel, rid)  # fmt: skip
        self._carry_out()

    # Sites, the register, time

    def receive(self, site: str, lc: int, message: m.Message) -> None:
        self.merge(lc)
        self.coordinator.receive(site, message, self.moment)
        self._carry_out()

    def advance(self) -> None:
        self.coordinator.advance(self.moment)
        self._carry_out()

    def _carry_out(self) -> None:
        effects = self.coordinator.take_effects()
        if effects.alarms:
            raise Unexpected(f"{self.name}: {effects.alarms}")
        if effects.operations:
            self.disk.write(partial(self._stored, effects.operations))
        for to, message in effects.sends:
            site = self._sites[to]
            self.network.to_server(
                _leg(message), type(message).__name__, site, site.receive,
                self.name, self.logical.value, message,
            )  # fmt: skip
        for ticket, view in effects.answers:
            reply = self._tickets.pop(ticket, None)
            if reply is not None:
                self.network.to_client("client", "answer", reply, view)
            else:
                self.network.to_client("back", "answer", given_back)
        self.wake(self.coordinator.next_deadline_ms())

    def _stored(self, operations: Sequence[r.Operation]) -> None:
        self._store.execute("begin immediate")
        results = request_writes.apply(self._store, operations)
        self._store.execute("commit")
        for result in results:
            self.coordinator.registered(result, self.moment)
        self._carry_out()


class Ours:
    """Requests go to a broker, by each client to always the same replica."""

    def __init__(
        self, network: Network, scenario: Scenario, losses: Losses, seed: int, replicas: int = 1
    ) -> None:
        self._network = network
        self._scenario = scenario
        self._patience: Patience = "taken" if scenario.wish == "scarce" else "held"
        self._resources = [
            f"site{number // scenario.per_site}/unit{number % scenario.per_site}"
            for number in range(scenario.resource_count)
        ]
        store = sqlite3.connect(":memory:", isolation_level=None)
        store.executescript(SCHEMA)
        by_site: dict[str, list[str]] = {}
        for name in self._resources:
            by_site.setdefault(name.partition("/")[0], []).append(name)
        self._sites = {
            site: SiteNode(network, site, names, losses, seed) for site, names in by_site.items()
        }
        sites = list(self._sites.values())
        coords = tuple(f"sim://broker{number}" for number in range(replicas))
        self.brokers = [
            BrokerNode(network, f"broker{number}", sites, store, seed, coords)
            for number in range(replicas)
        ]
        self._keys = itertools.count(1)

    def book(self, order: Order, reply: Reply) -> None:
        broker = self.brokers[order.client % len(self.brokers)]
        self._network.to_server(
            "client", "book", broker, broker.book,
            f"client{order.client}", f"key-{next(self._keys)}", self._request(order),
            self._patience, partial(_answered, reply),
        )  # fmt: skip

    def give_back(self, order: Order, booked: Booked) -> None:
        broker = self.brokers[order.client % len(self.brokers)]
        self._network.to_server("back", "cancel", broker, broker.cancel, booked.name)

    def taken(self, resource: int) -> set[int]:
        name = self._resources[resource]
        calendar = self._sites[name.partition("/")[0]].participant.book.calendars[name].calendar
        window_end = WINDOW_S + self._scenario.hours * HOUR_S
        bookings = calendar.listing(WINDOW_S, window_end)
        return {(booking.start - WINDOW_S) // HOUR_S for booking in bookings}

    def _request(self, order: Order) -> Request:
        terms = tuple(Term(resource=self._resources[number]) for number in order.resources)
        first = WINDOW_S + max(order.hour, 0) * HOUR_S
        hours = self._scenario.hours if order.hour < 0 else 1
        return Request(
            alternatives=(Alternative(terms=terms),),
            duration_s=HOUR_S,
            not_before=first,
            not_after=first + hours * HOUR_S,
        )


def _answered(reply: Reply, view: RequestView) -> None:
    if view.state == "reserved":
        reply(Booked(view.id, (view.start - WINDOW_S) // HOUR_S))
    else:
        reply(None)


def _leg(message: m.Message) -> Leg:
    of_cancel = isinstance(message, m.Cancel) or (
        isinstance(message, m.Done) and message.of == "cancel"
    )
    return "back" if of_cancel else "site"

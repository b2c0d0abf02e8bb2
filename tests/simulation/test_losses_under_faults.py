"""Failed nodes in begun slots: whatever is lost, repeated or restarted, in the end the user sees what is so.

A real site and real broker replicas on one register exchange messages that are lost, doubled and reordered.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kalends.broker.coordination.record.views import view_of
from kalends.broker.register.decisions.starts import NOTICES_MAX
from kalends.broker.register.sqlite.request_writes import carry_out
from kalends.broker.register.writes import KeepAddress, NoticeAddress
from kalends.contract import messages as m
from kalends.notices.request_notice import RequestNotice
from kalends.resource_servers.participation.reclaims.reclaim_reminders import ReclaimReminders
from kalends.resource_servers.participation.reclaims.reclaims import OutOfService
from kalends.resource_servers.participation.repeats import REMIND_EVERY_MS_MAX
from tests.effort import examples
from tests.protocol_broker import Broker, new_register
from tests.protocol_support import ANN, DAY, Site

ONE = "here/one"
SITES = ("here", "there")

Step = tuple[str, int]
"""What happens, and a number that chooses what it happens to."""

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["look", "deliver", "lose", "double", "site restarts", "broker restarts", "wait"]
        ),
        st.integers(0, 7),
    ),
    max_size=40,
)


@dataclass
class World:
    """`nodes` of the slot cannot be used. Messages are `on_the_way` to a site, or to the broker ("")."""

    sites: dict[str, Site] = field(init=False)
    broker: Broker = field(init=False)
    rid: str = field(init=False)
    nodes: int = 0
    changes: int = 0
    on_the_way: list[tuple[str, str, m.Message]] = field(default_factory=list)

    def __post_init__(self) -> None:
        register = new_register()
        address = NoticeAddress(ANN.user, "ann@example.org", "UTC", 0)
        carry_out(register, [KeepAddress(address, 3)])
        self.sites = {name: Site(name=name) for name in SITES}
        self.broker = Broker(register)
        self.rid = self.broker.submit()
        self.calm()
        assert self.broker.row(self.rid).done

    # What may happen

    def step(self, what: str, number: int) -> None:
        here = self.sites["here"]
        if what == "look":
            self.look(number % 2)
        elif what == "site restarts":
            here.restart()
            self.look(number % 2)  # They may have come back, or failed, while it was away.
        elif what == "broker restarts":
            self.broker = Broker(self.broker.register, ms=self.broker.ms)
            here.call(lambda site, now: site.broker_came(now))
        elif what == "wait":
            self.wait(10_000)
        self.gather()
        if self.on_the_way and what in ("deliver", "lose", "double"):
            place = number % len(self.on_the_way)
            one = self.on_the_way[place] if what == "double" else self.on_the_way.pop(place)
            if what != "lose":
                self.arrive(*one)

    def look(self, nodes: int) -> None:
        """The site looks at its nodes, as it does at its start."""
        self.changes += nodes != self.nodes
        self.nodes = nodes
        why = "a node is out of service" * bool(nodes)
        out = OutOfService(ONE, 0, 1, nodes, 0, why, begun=((self.rid, nodes),))
        self.sites["here"].call(lambda site, now: site.wing(ReclaimReminders).nodes_out(out, now))

    def wait(self, ms: int) -> None:
        self.broker.advance(ms)
        for name, site in self.sites.items():
            self.keep(name, [send.message for send in site.advance(ms).sends])

    def calm(self) -> None:
        """Nothing is lost any more."""
        for _ in range(4):
            self.gather()
            while self.on_the_way:
                self.arrive(*self.on_the_way.pop(0))
                self.gather()
            self.wait(2 * REMIND_EVERY_MS_MAX)

    # The network

    def gather(self) -> None:
        self.on_the_way += [(to, "broker", each) for to, each in self.broker.sent_whole()]
        for name, site in self.sites.items():
            self.keep(name, [send.message for send in site.unsent])
            site.unsent.clear()

    def keep(self, name: str, messages: list[m.Message]) -> None:
        self.on_the_way += [("", name, each) for each in messages]

    def arrive(self, to: str, source: str, message: m.Message) -> None:
        if not to:
            self.broker.receive(source, message)
        elif to in self.sites:
            self.keep(to, self.sites[to].answers(message))

    # What is so

    def shown(self) -> int:
        return sum(each.units for each in view_of(self.broker.row(self.rid)).units_out)

    def notices(self) -> list[RequestNotice]:
        rows = self.broker.register.execute("select cast(body as blob) from notice order by number")
        return [msgspec.msgpack.decode(body, type=RequestNotice) for (body,) in rows]


@settings(max_examples=examples(60), deadline=None)
@given(steps=STEPS)
@example(steps=[("look", 1), ("lose", 0), ("look", 0), ("double", 0), ("deliver", 0)])
@example(steps=[("look", 1), ("deliver", 0), ("site restarts", 0)])
@example(steps=[("look", 1), ("deliver", 0), ("look", 0), ("lose", 1), ("deliver", 0)])
@example(steps=[("look", 1), ("double", 0), ("look", 0), ("deliver", 2)])
def test_whatever_is_lost_or_doubled_the_user_sees_in_the_end_what_is_so(
    steps: list[Step],
) -> None:
    world = World()
    for what, number in steps:
        world.step(what, number)
    world.calm()
    assert world.shown() == world.nodes
    told = [each.occasion for each in world.notices()]
    expected = ["nodes-out", "nodes-back"] * NOTICES_MAX
    assert told == expected[: len(told)], "they take turns: none is sent twice"
    assert len(told) <= min(world.changes, NOTICES_MAX)
    assert world.sites["here"].participant.losses.next_deadline_ms() is None
    assert len({each.id for each in world.notices()}) == len(told)
    assert world.broker.ms < DAY * 1_000, "the slot has not ended"


def test_the_site_stops_when_the_slot_has_ended_though_no_broker_has_answered() -> None:
    world = World()
    world.look(1)
    world.sites["here"].unsent.clear()
    world.wait(2 * DAY * 1_000)
    assert world.sites["here"].participant.losses.next_deadline_ms() is None

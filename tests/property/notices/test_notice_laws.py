"""What is to be told is told once to each address of its user and to nobody else, whoever crashes when."""

from __future__ import annotations

import sqlite3
from collections import Counter
from zoneinfo import ZoneInfo

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kalends.broker.register.sqlite.notice_table import (
    NOTICES,
    REMINDERS,
    addresses_of,
    waiting_notices,
)
from kalends.broker.register.sqlite.request_writes import carry_out
from kalends.broker.register.writes import (
    ForgetAddress,
    KeepAddress,
    MakeDeliveries,
    NoticeAddress,
    PostNotice,
)
from kalends.notices.delivery import Delivery
from kalends.notices.delivery_table import DELIVERIES
from kalends.notices.request_notice import BUNDLE_MAX, Bundler, RequestNotice, request_delivery

USERS = ("ann", "bob")
TO = ("", "ann@example.org", "https://hooks.example.org/x")
MINUTE_MAX = 2
START = 1_800_000_000


class Telling(RuleBasedStateMachine):
    """Two replicas that both believe that it is for them to deliver, over one register."""

    def __init__(self) -> None:
        super().__init__()
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        self.connection.executescript(NOTICES + REMINDERS + DELIVERIES)
        self.now = START
        self.bundlers = [Bundler(MINUTE_MAX), Bundler(MINUTE_MAX)]
        self.on_the_way: dict[int, MakeDeliveries] = {}
        """What each replica has looked at, and not written yet."""
        self.posted: dict[str, str] = {}
        """Whose each notice is that was posted while its user had an address."""
        self.deliveries: list[Delivery] = []
        self.made: Counter[tuple[int, int, str]] = Counter()
        self.told: Counter[str] = Counter()
        """How many times the notice was taken out to be told."""

    def teardown(self) -> None:
        self.connection.close()

    @rule(user=st.sampled_from(USERS), to=st.sampled_from(TO))
    def add(self, user: str, to: str) -> None:
        address = NoticeAddress(user, to, "UTC", self.now, b"s" if "://" in to else b"")
        assert carry_out(self.connection, [KeepAddress(address, len(TO))]) == [1]

    @rule(user=st.sampled_from(USERS), to=st.sampled_from(TO))
    def remove(self, user: str, to: str) -> None:
        carry_out(self.connection, [ForgetAddress(user, to)])

    @rule(user=st.sampled_from(USERS), number=st.integers(1, 4))
    def happen(self, user: str, number: int) -> None:
        for _ in range(number):
            id = f"notice-{len(self.posted)}-{self.now}"
            notice = RequestNotice(id=id, user=user, occasion="moved", at_s=self.now, by="sdsc")
            carry_out(self.connection, [PostNotice(notice)])
            if addresses_of(self.connection, user):
                self.posted[id] = user

    @rule(replica=st.sampled_from((0, 1)))
    def look(self, replica: int) -> None:
        if replica in self.on_the_way:
            return
        waiting = waiting_notices(self.connection, 500, 500)
        numbers: list[int] = []
        deliveries: list[Delivery] = []
        for bundle in self.bundlers[replica].bundles(waiting.notices, self.now):
            notices = [waiting.notices[number] for number in bundle]
            numbers += bundle
            self.made[replica, self.now // 60, notices[0].user] += 1
            for address in addresses_of(self.connection, notices[0].user):
                to = address.receiver or f"{address.user}@users.example"
                deliveries.append(request_delivery(notices, to, ZoneInfo(address.zone), self.now))
        if numbers:
            self.on_the_way[replica] = MakeDeliveries(tuple(numbers), tuple(deliveries))

    @rule(replica=st.sampled_from((0, 1)))
    def write(self, replica: int) -> None:
        op = self.on_the_way.pop(replica, None)
        if op is None:
            return
        waiting = waiting_notices(self.connection, 500, 500).notices
        if carry_out(self.connection, [op]) == [1]:
            self.deliveries += op.deliveries
            self.told.update(waiting[number].id for number in op.numbers)

    @rule(replica=st.sampled_from((0, 1)))
    def crash(self, replica: int) -> None:
        self.on_the_way.pop(replica, None)
        self.bundlers[replica] = Bundler(MINUTE_MAX)
        for key in [key for key in self.made if key[0] == replica]:
            del self.made[key]

    @rule(by_s=st.integers(1, 70))
    def wait(self, by_s: int) -> None:
        self.now += by_s

    @precondition(lambda self: not self.on_the_way)
    @rule()
    def all_is_told_in_the_end(self) -> None:
        for _ in range(len(self.posted) // BUNDLE_MAX + 2):
            self.now += 60
            self.look(0)
            self.write(0)
        assert set(self.told) == set(self.posted)

    @invariant()
    def nothing_is_told_twice_or_lost(self) -> None:
        assert max(self.told.values(), default=1) == 1
        waiting = {
            each.id for each in waiting_notices(self.connection, 10_000, 10_000).notices.values()
        }
        assert waiting.isdisjoint(self.told)
        assert waiting | set(self.told) == set(self.posted)

    @invariant()
    def each_delivery_has_an_id_of_its_own_and_tells_its_user_s_alone(self) -> None:
        ids = [delivery.id for delivery in self.deliveries]
        assert len(ids) == len(set(ids))
        stored = self.connection.execute("select id from letter").fetchall()
        assert {id for (id,) in stored} == set(ids)
        for delivery in self.deliveries:
            facts = delivery.facts.get("notices", [delivery.facts])
            assert {each["user"] for each in facts} == {delivery.user}

    @invariant()
    def nobody_gets_more_than_so_many_in_a_minute(self) -> None:
        assert all(count <= MINUTE_MAX for count in self.made.values())


TestTelling = Telling.TestCase

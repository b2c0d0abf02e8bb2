"""The schemes of the contention benchmark: nobody books what another has, and it is all or nothing."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
from benchmarks.contenders.central import Central
from benchmarks.contenders.customers import Customers, DoubleBooked
from benchmarks.contenders.demand import (
    SCARCE_HOURS,
    WIDE_HOURS,
    Demand,
    Order,
    Scenario,
    Spread,
    Wish,
)
from benchmarks.contenders.measures import SCHEMES
from benchmarks.contenders.network import Costs, Disk, Network, Server
from benchmarks.contenders.scheme import Booked, Hours, Losses, Scheme, earliest_common
from benchmarks.contenders.virtual_time import Timeline
from benchmarks.contenders.whole_lock import Stamp, WholeLock, Word
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort

RESOURCES = 4
LONG_US = 200_000_000


class Scene:
    """A scheme with orders that are asked for once, and what came of them."""

    def __init__(
        self,
        name: str,
        costs: Costs = Costs(),  # noqa: B008 - immutable
        scenario: Scenario = Scenario(64, RESOURCES),  # noqa: B008 - immutable
    ) -> None:
        self.timeline = Timeline()
        self.losses = Losses()
        self.network = Network(self.timeline, costs)
        self.scenario = scenario
        self.scheme: Scheme = SCHEMES[name](self.network, scenario, self.losses, 1)
        self.answers: dict[int, Booked | None] = {}
        self.told_us: dict[int, int] = {}

    def ask(self, at_us: int, order: Order) -> None:
        self.timeline.at(at_us, self.scheme.book, order, partial(self.told, order))

    def told(self, order: Order, booked: Booked | None) -> None:
        assert order.number not in self.answers, "told twice"
        self.answers[order.number] = booked
        self.told_us[order.number] = self.timeline.now_us

    def taken(self) -> dict[int, set[int]]:
        return {number: self.scheme.taken(number) for number in range(RESOURCES)}


resources = st.sets(st.integers(0, RESOURCES - 1), min_size=1, max_size=3).map(
    lambda chosen: tuple(sorted(chosen))
)
asked = st.lists(
    st.tuples(st.integers(0, 300_000), resources, st.sampled_from([-1, -1, 0, 1])),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("name", SCHEMES)
@settings(max_examples=effort.examples(25), deadline=None)
@given(asked, st.data())
def test_an_hour_is_never_two_orders_and_every_order_gets_all_or_nothing(
    name: str, wanted: list[tuple[int, tuple[int, ...], int]], data: st.DataObject
) -> None:
    scene = Scene(name)
    orders = [Order(n, n, parts, hour) for n, (_, parts, hour) in enumerate(wanted)]
    for (at_us, _, _), order in zip(wanted, orders, strict=True):
        scene.ask(at_us, order)
    scene.timeline.run(LONG_US)
    booked = {order: scene.answers[order.number] for order in orders}
    assert all(answer is not None for order, answer in booked.items() if order.hour < 0)
    assert all(answer.hour == order.hour for order, answer in booked.items()
               if answer is not None and order.hour >= 0)  # fmt: skip
    told = sorted(
        (number, answer.hour)
        for order, answer in booked.items()
        if answer is not None
        for number in order.resources
    )
    assert told == sorted((n, hour) for n, hours in scene.taken().items() for hour in hours)
    given_back = [
        o for o, answer in booked.items() if answer is not None and data.draw(st.booleans())
    ]
    for order in given_back:
        answer = booked.pop(order)
        assert answer is not None
        scene.scheme.give_back(order, answer)
    scene.timeline.run(2 * LONG_US)
    kept = {(n, a.hour) for o, a in booked.items() if a is not None for n in o.resources}
    assert kept == {(n, hour) for n, hours in scene.taken().items() for hour in hours}


@pytest.mark.parametrize("name", SCHEMES)
def test_a_fixed_hour_that_is_taken_is_refused_and_nothing_stays_behind(name: str) -> None:
    scene = Scene(name)
    scene.ask(0, Order(1, 1, (1,), 0))
    scene.ask(1_000_000, Order(2, 2, (0, 1, 2), 0))
    scene.timeline.run(LONG_US)
    assert scene.answers[1] is not None
    assert scene.answers[2] is None
    assert scene.taken() == {0: set(), 1: {0}, 2: set(), 3: set()}
    assert scene.losses.refused.total() >= 1


ROUND_TRIPS = {"ours": 3, "ours-2": 3, "local-clocks": 2, "central": 1, "naive": 4}
"""Ours: to the broker, looking, the vote. Naive: looking, and three holds one after the other."""


@pytest.mark.parametrize("name", SCHEMES)
def test_without_competition_a_booking_takes_the_schemes_own_round_trips(name: str) -> None:
    scene = Scene(name, Costs(one_way_ms=1_000.0, service_us=0, sync_us=0))
    scene.ask(0, Order(1, 1, (0, 1, 2)))
    scene.timeline.run(LONG_US)
    assert scene.answers[1] is not None
    assert scene.answers[1].hour == 0
    assert scene.told_us[1] == ROUND_TRIPS[name] * 2_000_000


SYNCS = {"ours": 2, "ours-2": 2, "local-clocks": 1, "central": 1, "naive": 3}
"""Ours: the promises, and the commit."""


@pytest.mark.parametrize("name", SCHEMES)
def test_nothing_is_said_before_what_it_rests_on_is_durable(name: str) -> None:
    scene = Scene(name, Costs(one_way_ms=1_000.0, service_us=0, sync_us=100_000))
    scene.ask(0, Order(1, 1, (0, 1, 2)))
    scene.timeline.run(LONG_US)
    assert scene.told_us[1] == ROUND_TRIPS[name] * 2_000_000 + SYNCS[name] * 100_000


@given(asked)
def test_the_central_scheduler_serves_in_order_and_gives_each_the_first_hour_that_is_left(
    wanted: list[tuple[int, tuple[int, ...], int]],
) -> None:
    scene = Scene("central")
    taken: set[tuple[int, int]] = set()
    expected: dict[int, int | None] = {}
    in_order = sorted((at_us, n) for n, (at_us, _, _) in enumerate(wanted))
    for at_us, n in in_order:
        _, parts, hour = wanted[n]
        scene.ask(at_us, Order(n, n, parts, hour))
        hours = range(WIDE_HOURS) if hour < 0 else [hour]
        free = (h for h in hours if not any((part, h) in taken for part in parts))
        expected[n] = next(free, None)
        if expected[n] is not None:
            taken |= {(part, expected[n]) for part in parts}
    scene.timeline.run(LONG_US)
    answered = {n: booked and booked.hour for n, booked in scene.answers.items()}
    assert answered == expected


def test_naive_holds_go_back_when_one_is_refused_and_the_time_counts_as_kept_in_vain() -> None:
    scene = Scene("naive", Costs(one_way_ms=1_000.0, service_us=0, sync_us=0))
    scene.ask(0, Order(1, 1, (1, 2), 0))
    scene.ask(1, Order(2, 2, (0, 1, 2), 0))
    scene.timeline.run(LONG_US)
    assert scene.answers[1] is not None
    assert scene.answers[2] is None
    assert scene.taken()[0] == set()
    assert scene.losses.refused == {"held": 1, "taken": 1}
    assert scene.losses.kept_in_vain_us >= 2 * 4_000_000


def test_local_clocks_block_the_younger_for_the_older_ones_round_trip() -> None:
    scene = Scene("local-clocks", Costs(one_way_ms=1_000.0, service_us=0, sync_us=0))
    scene.ask(0, Order(1, 1, (0,)))
    scene.ask(500_000, Order(2, 2, (0,)))
    scene.timeline.run(LONG_US)
    assert [scene.answers[n].hour for n in (1, 2)] == [0, 1]  # type: ignore[union-attr]
    assert scene.losses.blocked_us == 1_500_000
    assert scene.told_us == {1: 4_000_000, 2: 6_000_000}


def test_an_older_request_takes_a_calendar_from_a_younger_one_that_still_waits_for_another() -> (
    None
):
    """The younger has the first calendar and waits for the second; the older wants both."""
    scene = Scene("local-clocks", Costs(one_way_ms=1_000.0, service_us=0, sync_us=0))
    scene.ask(0, Order(1, 5, (1,)))
    scene.ask(1, Order(2, 7, (0, 1)))
    scene.ask(1, Order(3, 6, (0,)))
    scene.timeline.run(LONG_US)
    assert scene.losses.refused["recalled"] == 1
    assert scene.told_us[3] < scene.told_us[2]


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("spread", ["uniform", "zipf"])
def test_where_hours_are_few_every_client_is_served_again_and_again(
    name: str, spread: Spread
) -> None:
    counts: Counter[int] = Counter()
    # One run is chaotic: the least a client got in one of these has ever been between 8 and 19.
    for seed in (1, 2, 3):
        scene = Scene(name, scenario=Scenario(6, RESOURCES, spread, "scarce", kept_ms=200))
        demand = Demand(scene.scenario, seed)
        customers = Customers(scene.timeline, scene.scenario, demand, scene.scheme)
        customers.start()
        scene.timeline.run(6_000_000)
        counts.update(each.order.client for each in customers.served)
        assert max(each.hour for each in customers.served) < SCARCE_HOURS
    assert len(counts) == 6
    # Random back-off promises nothing to anybody; the others serve all of them, time and again.
    assert min(counts.values()) >= (1 if name == "naive" else 30)


def test_a_calendar_that_is_in_use_is_not_given_back() -> None:
    """The recall comes right after the grant, and the younger has all that it needs by then."""
    scene = Scene("local-clocks", Costs(one_way_ms=1_000.0, service_us=0, sync_us=0))
    scene.ask(0, Order(1, 7, (0,)))
    scene.ask(0, Order(2, 6, (0,)))
    scene.timeline.run(LONG_US)
    assert scene.losses.refused["recalled"] == 1
    assert scene.told_us == {1: 4_000_000, 2: 6_000_000}


# Whole locks


class LockScript:
    """Requests of several stamps at one lock, in any order; grants are used or given back."""

    def __init__(self) -> None:
        self.lock = WholeLock()
        self.recalled: set[Stamp] = set()
        self.served: list[Stamp] = []

    def heard(self, words: list[Word]) -> None:
        for word in words:
            if word.kind == "recall":
                assert word.stamp == self.lock.holder
                assert word.stamp not in self.recalled, "asked twice"
                self.recalled.add(word.stamp)
            else:
                assert word.stamp == self.lock.holder
                assert all(word.stamp < each for each in self.lock.waiting)
                self.recalled.discard(word.stamp)


@given(st.lists(st.integers(0, 20), unique=True, max_size=12), st.data())
def test_a_lock_is_granted_to_the_oldest_and_asked_back_once_for_an_older_one(
    times: list[int], data: st.DataObject
) -> None:
    script = LockScript()
    left = list(times)
    while left or script.lock.holder is not None:
        if left and (script.lock.holder is None or data.draw(st.booleans())):
            script.heard(script.lock.request((left.pop(), 0)))
            continue
        holder = script.lock.holder
        assert holder is not None
        older = bool(script.lock.waiting) and script.lock.waiting[0] < holder
        assert older == (holder in script.recalled)
        if older and data.draw(st.booleans()):
            script.heard(script.lock.relinquish(holder))
            assert holder in script.lock.waiting
        else:
            script.served.append(holder)
            script.heard(script.lock.release(holder))
    assert sorted(script.served) == sorted((time, 0) for time in times)


def test_only_the_holder_can_release_or_give_back() -> None:
    lock = WholeLock()
    assert lock.request((1, 1)) == [Word("grant", (1, 1))]
    lock.request((2, 2))
    with pytest.raises(ValueError, match="releases what"):
        lock.release((2, 2))
    with pytest.raises(ValueError, match="gives back what"):
        lock.relinquish((2, 2))
    assert lock.holder == (1, 1)
    assert lock.blocks


# The parts


@given(st.lists(st.sets(st.integers(0, 12)), min_size=1, max_size=3), st.integers(1, 12))
def test_the_earliest_common_hour_is_the_first_that_nobody_has(
    taken: list[set[int]], hours: int
) -> None:
    free = set(range(hours)).difference(*taken)
    assert earliest_common(taken, hours) == min(free, default=None)


def test_a_calendar_of_hours_gives_none_away_twice() -> None:
    hours = Hours()
    hours.take(3, "ann")
    with pytest.raises(ValueError, match="ann's"):
        hours.take(3, "bob")
    hours.free(3, "bob")
    assert hours.taken == {3: "ann"}
    hours.free(3, "ann")
    assert not hours.taken


def test_a_server_takes_one_message_at_a_time_and_lines_keep_the_order() -> None:
    timeline = Timeline()
    network = Network(timeline, Costs(one_way_ms=10.0, service_us=300, sync_us=0))
    server = Server(network)
    seen: list[tuple[str, int]] = []
    for name in "abc":
        network.to_server(
            "site", "word", server, lambda name: seen.append((name, timeline.now_us)), name
        )
    timeline.run(1_000_000)
    assert seen == [("a", 10_300), ("b", 10_600), ("c", 10_900)]
    assert network.sent == {("site", "word"): 3}


def test_what_comes_while_a_disk_syncs_shares_the_next_sync_and_nothing_overtakes_it() -> None:
    timeline = Timeline()
    disk = Disk(timeline, 1_000)
    done: list[tuple[str, int]] = []

    def note(name: str) -> None:
        done.append((name, timeline.now_us))

    disk.after_writes(partial(note, "at once"))
    disk.write(partial(note, "first"))
    disk.write(partial(note, "second"))
    disk.write(partial(note, "third"))
    disk.after_writes(partial(note, "behind"))
    timeline.run(10_000)
    assert done == [
        ("at once", 0), ("first", 1_000), ("second", 2_000), ("third", 2_000), ("behind", 2_000),
    ]  # fmt: skip


def test_events_of_one_moment_keep_their_order_and_time_does_not_go_back() -> None:
    timeline = Timeline()
    seen: list[str] = []
    for name in "abc":
        timeline.at(5, seen.append, name)
    timeline.after(1, seen.append, "before")
    timeline.run(5)
    assert seen == ["before", "a", "b", "c"]
    with pytest.raises(ValueError, match="is over"):
        timeline.at(4, seen.append, "late")
    timeline.run(9)
    assert timeline.now_us == 9


class GivesTwice(Central):
    """A scheme that books what it likes."""

    def book(self, order: Order, reply: object) -> None:
        assert callable(reply)
        self._network.to_client("client", "answer", reply, Booked(str(order.number), 0))


def test_customers_notice_a_scheme_that_books_an_hour_twice() -> None:
    timeline = Timeline()
    scenario = Scenario(3, 3)
    scheme = GivesTwice(Network(timeline, Costs()), scenario, Losses(), 1)
    customers = Customers(timeline, scenario, Demand(scenario, 1), scheme)
    customers.start()
    with pytest.raises(DoubleBooked):
        timeline.run(1_000_000)


@pytest.mark.parametrize("spread", ["uniform", "zipf", "disjoint"])
@pytest.mark.parametrize("wish", ["earliest", "fixed"])
def test_demand_is_a_function_of_seed_and_client_alone(spread: Spread, wish: Wish) -> None:
    scenario = Scenario(4, 20, spread, wish)
    one, other = Demand(scenario, 3), Demand(scenario, 3)
    first = [one.next(client) for client in range(4) for _ in range(5)]
    second = {client: [other.next(client) for _ in range(5)] for client in reversed(range(4))}
    for order in first:
        assert order.resources == second[order.client].pop(0).resources
        assert 2 <= len(order.resources) <= 3
        assert len(set(order.resources)) == len(order.resources)
        assert all(0 <= number < scenario.resource_count for number in order.resources)
        assert order.hour == (0 if wish == "fixed" else -1)
        if spread == "disjoint":
            assert {number // 3 for number in order.resources} == {order.client}


def test_zipf_wants_the_first_resources_most_and_a_refused_fixed_hour_becomes_a_later_one() -> None:
    demand = Demand(Scenario(1, 50, "zipf", "fixed"), 1)
    wanted = [number for _ in range(500) for number in demand.next(0).resources]
    assert wanted.count(0) > 2 * wanted.count(9) > 0
    order = Order(1, 0, (0, 1), 0)
    later = {demand.after_refusal(order).hour for _ in range(500)}
    assert later == set(range(1, 49))
    assert demand.after_refusal(Order(2, 0, (0, 1))) == Order(2, 0, (0, 1))

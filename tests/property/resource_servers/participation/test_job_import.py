"""What jobs used counts once, whatever pieces accounts come in, how late, how often, and over which lives."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from hypothesis import given
from hypothesis import strategies as st

from kalends.backends.records import (
    FinishedJob,
    ListFinishedJobs,
    SystemAnswer,
    SystemState,
    Traits,
)
from kalends.calendars import ResourceCalendar, open_access
from kalends.core.intervals import Moment
from kalends.core.resources import ResourceInfo
from kalends.resource_servers.journal.contract import SlotCursor
from kalends.resource_servers.journal.sqlite import slot_table
from kalends.resource_servers.journal.sqlite.site_history import SqliteSiteHistory
from kalends.resource_servers.journal.sqlite.slot_table import SlotFact
from kalends.resource_servers.participation.provision.extents import Extent
from kalends.resource_servers.participation.provision.job_import import AGAIN_S
from kalends.resource_servers.participation.provision.provisions import Provisions
from kalends.resource_servers.participation.provision.resource_backend import ResourceBackend
from kalends.resource_servers.participation.provision.slots import ReservedSlot, slot_stored
from kalends.servers.restored_participant import guarded_by, site_machine

T = TypeVar("T")

T0: Final = 1_795_700_000
HOUR_S: Final = 3_600
DAYS: Final = 3
RESOURCE: Final = "centre/cluster"
BACKEND: Final = ResourceBackend(
    "machine", ("n1", "n2"), {"ann": "ann"}, Traits(tells_use=True), usage_ms=600_000
)


class _Past(SqliteSiteHistory):
    """The past in an open store."""

    def __init__(self, store: sqlite3.Connection) -> None:
        self.store = store

    async def _read(self, sql: str, asked: Sequence[object], of_row: Callable[[Any], T]) -> list[T]:
        return list(map(of_row, self.store.execute(sql, tuple(asked))))


class World:
    """A site that reads the accounts of a batch system, and its store; both may be lost at any time."""

    def __init__(
        self, slots: Sequence[ReservedSlot], jobs: Sequence[FinishedJob], seed: int
    ) -> None:
        self.random = random.Random(seed)
        self.jobs = [(job, self.random.randrange(AGAIN_S - 60)) for job in jobs]
        """Each with the time after its end in which the accounts do not have it yet."""
        self.store = sqlite3.connect(":memory:")
        self.store.executescript(slot_table.SLOTS)
        for each in slots:
            slot_table.store_fact(self.store, slot_stored(each))
        self.ms = 1_000
        self.begin()

    def begin(self) -> None:
        """A life of the site begins, with what is stored."""
        info = ResourceInfo(
            name=RESOURCE, capacity=2, attributes={}, grain_s=1, horizon_s=86_400 * 30, zone="UTC"
        )
        self.site = site_machine(
            "centre", {RESOURCE: ResourceCalendar(info, open_access())}, epoch=self.ms,
            jitter=self.random.random, now=self.now,
            guard=guarded_by({RESOURCE: BACKEND}, slots=slot_table.known_slots(self.store)),
        )  # fmt: skip

    @property
    def now(self) -> Moment:
        return Moment(self.ms, T0 * 1_000 + self.ms)

    def pass_time(self, seconds: int, *, healthy: bool) -> None:
        self.ms += seconds * 1_000
        self.site.advance(self.now)
        while effects := self.site.take_effects():
            for fact in effects.facts:
                if isinstance(fact, SlotFact):
                    slot_table.store_fact(self.store, fact)
            for each in effects.provisions:
                if not healthy and self.random.random() < 0.2:
                    self.begin()
                    return
                answer = self.answer(each.errand, healthy)
                self.site.wing(Provisions).answered(each.number, answer, self.now)

    def answer(self, errand: object, healthy: bool) -> SystemAnswer:
        clock_s = self.now.wall_s
        if not isinstance(errand, ListFinishedJobs):
            return SystemAnswer("done", state=SystemState(clock_s, T0 - 600, BACKEND.nodes))
        if not healthy and self.random.random() < 0.3:
            return SystemAnswer(self.random.choice(("unknown", "refused")), "not now")
        told = [
            job
            for job, late_s in self.jobs
            if job.end + late_s <= clock_s and errand.since <= job.end < errand.until
        ]
        others = [job for job, late_s in self.jobs if job.end + late_s <= clock_s]
        told += self.random.sample(others, min(len(others), self.random.randrange(4)))
        self.random.shuffle(told)
        return SystemAnswer("done", jobs=tuple(told))

    def used(self) -> dict[str, tuple[int, int]]:
        end = T0 + 100 * 86_400
        past = _Past(self.store)
        rows = asyncio.run(past.slots(RESOURCE, "", 0, end, SlotCursor(), 1_000))
        users = asyncio.run(past.slot_users(RESOURCE, "ann", 0, end))
        projects = asyncio.run(past.slot_projects(RESOURCE, "ann", 0, end))
        assert sum(each.used for each in users) == sum(each.used for each in rows)
        assert sum(each.used for each in projects) == sum(each.used for each in rows)
        return {each.slot.name: (each.jobs, each.used) for each in rows}


@st.composite
def accounts(draw: st.DrawFn) -> tuple[list[ReservedSlot], list[FinishedJob]]:
    """Draw slots, some of which are called by number, and jobs in them, in others' and in none."""
    slots = []
    for number in range(draw(st.integers(1, 4))):
        start = T0 + draw(st.integers(0, (DAYS - 1) * 86_400))
        slots.append(
            ReservedSlot(
                name=f"kal.centre.00000000-{number}",
                system="machine",
                resource=RESOURCE,
                rid=str(number),
                user="ann",
                account="ann",
                start=start,
                since=start,
                end=start + draw(st.integers(60, 12 * HOUR_S)),
                nodes=draw(st.integers(1, 2)),
                numbers=draw(st.sampled_from(((), (str(number),)))),
            )
        )
    jobs = []
    for number in range(draw(st.integers(0, 12))):
        slot = draw(st.sampled_from(slots))
        start = slot.start + draw(st.integers(0, slot.end - slot.start - 1))
        end = start + draw(st.integers(0, 2 * HOUR_S))
        called = draw(
            st.sampled_from((slot.name, *slot.numbers, "", "kal.centre.00000000-99", "99"))
        )
        # A number may be used again: the job of an id that begins anew is another.
        id_ = str(number // 2)
        if any((each.id, each.start) == (id_, start) for each in jobs):
            continue
        spent, project = (end - start) * draw(st.integers(1, 2)), draw(st.sampled_from(("", "dna")))
        jobs.append(FinishedJob(id_, start, end, spent, "ann", project, called))
    return slots, jobs


@given(accounts(), st.integers(0, 1 << 30))
def test_each_job_counts_once_in_its_slot(
    drawn: tuple[list[ReservedSlot], list[FinishedJob]], seed: int
) -> None:
    slots, jobs = drawn
    world = World(slots, jobs, seed)
    while world.now.wall_s < T0 + DAYS * 86_400:
        world.pass_time(world.random.choice((1, 30, 700, 7_000)), healthy=False)
    for _ in range(40):
        world.pass_time(700, healthy=True)
    count: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    for job in jobs:
        for slot in slots:
            if job.reservation == slot.name or job.reservation in slot.numbers:
                count[slot.name] += 1
                spent[slot.name] += job.node_seconds
    assert world.used() == {each.name: (count[each.name], spent[each.name]) for each in slots}


@given(
    st.lists(
        st.tuples(st.integers(0, 400), st.sampled_from(("change", "wait")), st.integers(0, 300),
                  st.integers(1, 5)),
        max_size=8,
    ),
    st.booleans(),
)  # fmt: skip
def test_what_is_reserved_is_counted_as_it_was_in_each_second(
    steps: list[tuple[int, str, int, int]], given_back: bool
) -> None:
    slot = ReservedSlot(
        name="kal.centre.00000000-1", system="machine", resource=RESOURCE, rid="1", user="ann", account="ann",
        start=100, since=100, end=400, nodes=2,
    )  # fmt: skip
    plan = dict.fromkeys(range(100, 400), 2)
    """Of each second: how many nodes."""
    now = 0
    for passed, what, length_s, nodes in steps:
        now += passed
        if what == "wait":
            continue
        start = slot.start if now > slot.start else slot.start + length_s % 50
        end = max(start, now) + length_s + 1
        if now <= slot.start:
            plan = {}
        plan = {second: each for second, each in plan.items() if second < now}
        plan |= dict.fromkeys(range(max(start, now), end), nodes)
        names = tuple(f"n{number}" for number in range(nodes))
        slot.reserve(Extent(start, end, names), now)
    if given_back:
        now += 50
        plan = {second: each for second, each in plan.items() if second < now}
        slot.give_back(now)
    assert slot.node_seconds == sum(plan.values())


def test_nothing_is_said_to_be_read_before_accounts_have_been_read() -> None:
    world = World([], [], 1)
    imports = world.site.wing(Provisions).imports
    for _ in range(10):
        world.pass_time(600, healthy=True)
    assert imports.read_until("machine") == 0
    assert not imports.problem("machine")

"""Every store of a site gives back what was stored, as one in memory does: one suite for all of them.

Facts of claims, queues, slots, reclaims and letters come at random, many in one submission; now and then the
store is closed and opened again.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journal_twin import JournalTwin
from store_support import rid, stake

from kalends.backends.records import FinishedJob
from kalends.batch.journal.contract import (
    Cursor,
    JobEntries,
    JobOver,
    ReservedTime,
    StoredHost,
    StoredState,
)
from kalends.batch.queue.facts import JobBegun, JobEnding, JournalEntry
from kalends.core.jobs import JobRequest
from kalends.core.limits import TIME_S_MAX
from kalends.notices.delivery import DeliveriesDone, Delivery
from kalends.resource_servers.journal.contract import (
    DRAINING,
    Journal,
    Prune,
    Setting,
    SiteHistory,
    SiteOperation,
    SiteStorage,
    SlotCursor,
)
from kalends.resource_servers.journal.sqlite.site_journal import SqliteStorage
from kalends.resource_servers.participation.claims.bills import Share
from kalends.resource_servers.participation.claims.claim_sets import (
    StakeDropped,
    StakeForgotten,
    StakeStored,
    TimeClosed,
    stored,
)
from kalends.resource_servers.participation.credits.entries import CreditEntry, stored_entry
from kalends.resource_servers.participation.effects import EntriesFolded, EntryStored
from kalends.resource_servers.participation.memory.past import RecoveryChanged
from kalends.resource_servers.participation.memory.sure_time import TimePassed
from kalends.resource_servers.participation.provision import grants
from kalends.resource_servers.participation.provision.extents import Extent
from kalends.resource_servers.participation.provision.slots import (
    JobsRead,
    ReservedSlot,
    SlotDropped,
    SlotJob,
    SlotsClosed,
    slot_stored,
)
from kalends.resource_servers.participation.reclaims.reclaims import (
    ReclaimDropped,
    Reclaimed,
    stored_reclaim,
)
from kalends.resource_servers.participation.registers import KnownRegister, RegisterStored

SITE: Final = "sdsc"
EVERY: Final = 1_000
MACHINES: Final = ("sdsc/box", "sdsc/cube")
SYSTEMS: Final = ("slurm", "oar")
USERS: Final = ("ann", "bob", "Änne")

Storage = Callable[[], SiteStorage]
"""One of a site that has stored nothing yet, and the same at each call."""


@contextmanager
def in_a_file() -> Iterator[Storage]:
    memory = Path("/dev/shm")  # Whether a sync reaches a disk is not what is asked here.
    place = memory if memory.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="kalends-journal-", dir=place) as directory:
        yield lambda: SqliteStorage(Path(directory, "site.sqlite"), SITE)


@contextmanager
def in_a_database() -> Iterator[Storage]:
    # With the driver, which is not everywhere.
    import postgres_clusters

    from kalends.resource_servers.journal.postgres.site_journal import PostgresStorage

    with postgres_clusters.in_a_schema() as address:
        yield lambda: PostgresStorage(address, SITE, Path("/nowhere"), {"sdsc/sp2": 1}, "here")


STORES: Final = {"sqlite": in_a_file, "postgres": in_a_database}
"""All kinds of stores that a site may have."""

every_store = pytest.mark.parametrize(
    "store",
    [
        pytest.param(name, marks=(pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")))
        if name == "postgres"
        else name
        for name in STORES
    ],
)

times = st.integers(0, 6)
users = st.sampled_from(USERS)
machines = st.sampled_from(MACHINES)
systems = st.sampled_from(SYSTEMS)
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=4)


def claims() -> list[st.SearchStrategy[SiteOperation]]:
    states: tuple[Literal["prepared", "locked"], ...] = ("prepared", "locked")
    number = st.integers(0, 5)
    return [
        st.builds(
            lambda number, state, event: stored(stake(number, state), event),
            number, st.sampled_from(states), st.sampled_from(("visit-vote", "commit", "cancel")),
        ),
        st.builds(StakeForgotten, number.map(rid)),
        st.builds(StakeDropped, number.map(rid)),
        st.builds(TimeClosed, times),
        st.builds(RecoveryChanged, st.booleans()),
        st.builds(TimePassed, *[st.integers(0, 1 << 53)] * 3),
        st.builds(Setting, st.just(DRAINING), st.integers(0, TIME_S_MAX)),
        st.builds(Prune, st.integers(0, 40)),
        st.builds(_register, st.sampled_from("rst"), texts),
    ]  # fmt: skip


def _register(register: str, key: str) -> RegisterStored:
    known = KnownRegister(register * 32, key, "secret")
    return RegisterStored(known.register, msgspec.msgpack.encode(known))


def of_wings() -> list[st.SearchStrategy[SiteOperation]]:
    key, number = st.sampled_from(("k1", "k2", "k3")), st.integers(1, 4)
    extent = st.builds(Extent, times, times, st.just(("n1",)))
    return [
        st.builds(Reclaimed, key, machines, times, times, times, times, texts).map(stored_reclaim),
        st.builds(ReclaimDropped, key),
        st.builds(grants.NodeGrant, number, texts, machines, texts, users, extent, st.just({})).map(
            grants.stored
        ),
        st.builds(grants.GrantDropped, number),
        st.builds(_delivery, key, users, texts),
        st.builds(DeliveriesDone, st.lists(key, max_size=2).map(tuple)),
        st.builds(_entry, number, users, times),
        st.builds(_folding, number, st.integers(0, 3), users),
    ]


def _entry(number: int, user: str, amount: int) -> EntryStored:
    """A ledger makes no second entry of a key, or of a number."""
    key, account = f"grant:{number}", f"user:{user}"
    shares = (Share(account, key, amount),)
    return stored_entry(
        CreditEntry(key, number, account, "grant", amount, 7, shares, note="for term 1")
    )


def _folding(first: int, count: int, user: str) -> EntriesFolded:
    """Of those that are there: see `possible`."""
    numbers = range(first, first + count)
    account = f"user:{user}"
    key = f"carried:{account}"
    entry = CreditEntry(
        key, first, account, "carried", count, 7, (Share(account, "", count),), until=count
    )
    keys = (*(f"grant:{number}" for number in numbers), key)
    return EntriesFolded(keys, (stored_entry(entry),))


def _delivery(name: str, user: str, text: str) -> Delivery:
    to = f"{user}@here"
    return Delivery(id=name, user=user, to=to, subject="s", text=text, facts={"n": 1}, made_s=1)


def slots() -> list[st.SearchStrategy[SiteOperation]]:
    name = st.sampled_from(("slot1", "slot2", "slot3"))
    slot = st.builds(
        ReservedSlot,
        name=name, system=systems, resource=machines, rid=texts, user=users, account=texts,
        start=times, end=times, nodes=st.integers(1, 3), since=times,
    )  # fmt: skip
    job = st.builds(
        FinishedJob,
        id=st.sampled_from(("1", "2", "3")), start=times, end=times, node_seconds=times, user=users,
        project=texts,
    )  # fmt: skip
    of_slots = st.lists(st.builds(SlotJob, name, job), max_size=3).map(tuple)
    return [
        slot.map(slot_stored),
        st.builds(SlotDropped, name),
        st.builds(SlotsClosed, systems, times),
        st.builds(JobsRead, systems, times, of_slots),
    ]


def jobs() -> list[st.SearchStrategy[SiteOperation]]:
    request = st.builds(
        lambda project: JobRequest(machine=MACHINES[0], command=("x",), limit_s=9, project=project),
        st.sampled_from(("", "p", "q")),
    )
    ending = st.builds(
        JobEnding, kind=st.just("exit"), cpu_s=st.integers(0, 1 << 20).map(lambda n: n / 8)
    )
    return [
        st.builds(JobEntries, machines, st.integers(1, 3).map(lambda n: (None,) * n)),  # type: ignore[arg-type]  # numbered when they are stored
        st.builds(
            JobOver,
            machine=machines, number=st.integers(1, 6), user=users, request=request, submitted=times,
            over=times, phase=st.just("ended"), started=times, node_seconds=times,
            credit_seconds=times, ending=st.none() | ending,
        ),
        st.builds(
            ReservedTime,
            machine=machines, reservation=st.sampled_from("ab"), booked_start=st.integers(0, 1),
            booked_end=st.just(9), user=users, start=times, end=times, nodes=st.integers(1, 3),
            credit_seconds=times,
        ),
        st.builds(StoredHost, machines, texts, texts),
        st.builds(
            StoredState,
            machine=machines, made_by=texts, journal=st.binary(max_size=9), number=times,
            body=st.binary(max_size=99),
        ),
    ]  # fmt: skip


WINGS: Final = {"claims": claims(), "letters": of_wings(), "slots": slots(), "jobs": jobs()}
operations: Final = st.one_of(*(each for kinds in WINGS.values() for each in kinds))
REOPEN: Final = "reopen"


def lives(wing: str) -> st.SearchStrategy[list[Any]]:
    """Submissions of one wing, which meet the same keys often, and openings in between."""
    submission = st.lists(st.one_of(*WINGS[wing]), min_size=1, max_size=12)
    return st.lists(st.just(REOPEN) | submission, min_size=3, max_size=12)


queries: Final = st.lists(
    st.tuples(machines, st.sampled_from(("", *USERS)), times, times, times, st.integers(1, 4)),
    min_size=2,
    max_size=6,
)

Query = tuple[str, str, int, int, int, int]


def possible(twin: JournalTwin, operation: Any) -> SiteOperation | None:
    """Make of `operation` what a site may ask for: a request is dropped for ever, and facts are numbered."""
    if isinstance(operation, StakeStored) and operation.rid in twin.dropped:
        return None
    if isinstance(operation, StakeForgotten | StakeDropped) and operation.rid not in twin.stakes:
        return None
    if isinstance(operation, EntryStored) and any(
        each.key == operation.key for each in twin.credits()
    ):
        return None
    if isinstance(operation, EntriesFolded):
        known = {each.key for each in twin.credits()}
        return msgspec.structs.replace(
            operation, keys=tuple(key for key in operation.keys if key in known)
        )
    if isinstance(operation, JobEntries):
        first = len(twin.entries[operation.machine]) + 1
        numbers = range(first, first + len(operation.entries))
        return JobEntries(
            operation.machine, tuple(JournalEntry(n, 7 * n, JobBegun(n, 1)) for n in numbers)
        )
    return operation  # type: ignore[no-any-return]


def stored_in(twin: JournalTwin, submission: Sequence[Any]) -> list[SiteOperation]:
    """Store what is possible of `submission` in `twin`, one after the other, and return it."""
    now: list[SiteOperation] = []
    for each in submission:
        if (operation := possible(twin, each)) is not None:
            now.append(operation)
            if not isinstance(operation, Prune):
                twin.store(operation)
    return now


class Compared:
    """A store and its twin, over the lives of a site."""

    def __init__(self, storage: Storage) -> None:
        self.twin = JournalTwin()
        self._storage = storage
        self._lives: list[str] = []
        self._epoch = 0
        self._journal: Journal

    async def begin(self) -> None:
        """Open the store, and compare all that a life begins with."""
        journal = self._journal = await self._storage().open(lambda committed: None)
        assert journal.epoch > self._epoch
        self._epoch = journal.epoch
        assert {*journal.past.ended} == {*self._lives}
        self._lives.append(journal.past.life)
        loaded, twin = await journal.load(), self.twin
        assert {each.rid: each for each in loaded.stakes} == twin.stakes
        assert [each.rid for each in loaded.stakes if each.rid in loaded.stakes.resting] == [
            rid for rid in twin.stakes if rid in loaded.stakes.resting
        ]
        assert {*loaded.forgotten} == twin.forgotten
        assert (loaded.epoch, loaded.past) == (journal.epoch, journal.past)
        assert loaded.reclaims == twin.reclaims()
        assert loaded.registers == twin.registers()
        assert loaded.grants == twin.grants()
        assert loaded.credits == twin.credits()
        assert loaded.slots == twin.known_slots()
        assert loaded.passed == twin.passed
        assert loaded.horizon_s == twin.settings.get("horizon_s", 0)
        assert loaded.recovering == bool(twin.settings.get("recovering"))
        assert loaded.draining == twin.settings.get(DRAINING, 0)
        assert loaded.set_aside.told() == []
        assert await journal.deliveries() == twin.deliveries()
        self._compare_queues()

    def _compare_queues(self) -> None:
        assert [*self._journal.jobs.hosts()] == self.twin.hosts()
        for machine in MACHINES:
            read, entries = self._journal.jobs, self.twin.entries[machine]
            for number in {0, 1, len(entries) // 2, len(entries)}:
                assert [*read.entries_after(machine, number)] == entries[number:]
                assert bool(read.mark(machine, number)) == (0 < number <= len(entries))
            assert read.mark(machine, len(entries) + 1) == b""
            assert read.state(machine) == self.twin.states.get(machine)
            assert [*read.reserved_after(machine, 3)] == self.twin.reserved(machine, "", 3, EVERY)

    async def store(self, submission: Sequence[Any]) -> None:
        """Store what is possible of it, all together."""
        now = stored_in(self.twin, submission)
        self._journal.wall_ms += 3
        results = await self._journal.writer.run(now)
        for operation, result in zip(now, results, strict=True):
            assert result is None or isinstance(operation, Prune)

    async def look_back(self, asked: Query) -> None:
        """Compare what the history says, which sees all that was submitted before."""
        storage = self._storage()
        try:
            await self._look_back(storage.history(self._settled), asked)
        finally:
            await storage.close()

    async def _look_back(self, history: SiteHistory, asked: Query) -> None:
        machine, user, start, end, behind, count = asked
        twin, within = self.twin, (machine, user, start, end)
        assert await history.job(machine, count) == twin.job(machine, count)
        for before in (0, behind):
            assert [*await history.newest(machine, user, before, count)] == twin.newest(
                machine, user, before, count
            )
        for by in ("over", "submitted", "ran"):
            page = (*within[:2], by, start, end, Cursor(behind, count), count)
            assert [*await history.jobs(*page)] == twin.jobs(*page)
        assert [*await history.use(*within)] == twin.use(*within)
        assert [*await history.reserved_use(*within)] == twin.reserved_use(*within)
        assert [*await history.reserved(machine, user, start, count, end=end)] == twin.reserved(
            machine, user, start, count, end=end
        )
        place = SlotCursor(behind, "slot2")
        assert [*await history.slots(*within, place, count)] == twin.slots(*within, place, count)
        assert await history.slot_users(*within) == twin.slot_users(*within)
        assert await history.slot_projects(*within) == twin.slot_projects(*within)

    async def _settled(self) -> None:
        await self._journal.writer.run(())

    async def end(self) -> None:
        await self._journal.close()


async def compared(storage: Storage, given_steps: Sequence[Any], asked: Sequence[Query]) -> None:
    site = Compared(storage)
    await site.begin()
    try:
        for step in given_steps:
            if step == REOPEN:
                await site.end()
                await site.begin()
            else:
                await site.store(step)
        for query in asked:
            await site.look_back(query)
        await site.end()
        await site.begin()
    finally:
        await site.end()


@pytest.mark.parametrize("wing", WINGS)
@every_store
@given(st.data())
@settings(max_examples=25, deadline=None)
def test_a_store_gives_back_what_was_stored_in_every_life(
    store: str, wing: str, data: st.DataObject
) -> None:
    with STORES[store]() as storage:
        asyncio.run(compared(storage, data.draw(lives(wing)), data.draw(queries)))


@every_store
@given(st.lists(st.lists(operations, min_size=1, max_size=4), min_size=1, max_size=5))
@settings(max_examples=20, deadline=None)
def test_what_was_submitted_at_once_is_stored_in_the_order_of_submission(
    store: str, submissions: Sequence[Sequence[Any]]
) -> None:
    async def stored_at_once(storage: Storage) -> None:
        twin = JournalTwin()
        journal = await storage().open(lambda committed: None)
        reported: list[int] = []
        for number, each in enumerate(submissions):
            now = stored_in(twin, each)
            journal.writer.submit(now, partial(_note, reported, number), _fail)
        await journal.close()
        assert reported == [*range(len(submissions))]
        site = Compared(storage)
        site.twin, site._lives, site._epoch = twin, [journal.past.life], journal.epoch
        await site.begin()
        await site.end()

    with STORES[store]() as storage:
        asyncio.run(stored_at_once(storage))


def _note(reported: list[int], number: int, results: Sequence[object]) -> None:
    reported.append(number)


def _fail(failure: Exception) -> None:
    raise failure

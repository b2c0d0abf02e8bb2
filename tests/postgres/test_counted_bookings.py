"""A second guard in the database, if the owner wants it: no more units are promised than there are."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import postgres_clusters
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_support import rid, stake

from kalends.resource_servers.journal.contract import SiteOperation
from kalends.resource_servers.journal.postgres import booked_once, booked_units
from kalends.resource_servers.journal.postgres.booked_once import BookedOnce
from kalends.resource_servers.journal.postgres.booked_units import BookedUnits
from kalends.resource_servers.journal.postgres.site_journal import PostgresJournal, PostgresStorage
from kalends.resource_servers.participation.claims.claim_sets import (
    Claim,
    StakeDropped,
    StakeStored,
    decode_stake,
    stored,
)
from kalends.stores.group_commit import Contradicted
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.session import SESSION, settings_of

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]

NODES = "sdsc/nodes"
FOUR: Mapping[str, int] = {"sdsc/sp2": 1, NODES: 4}
HOURS = 12


class Span(NamedTuple):
    start: int
    end: int
    units: int
    common: int = 0


def booked(number: int, state: str, *spans: Span, replaces: int = 0) -> StakeStored:
    claims = [
        Claim(10 * number + place, NODES, each.start, each.end, each.units, state, each.common)  # type: ignore[arg-type]  # states as plain texts
        for place, each in enumerate(spans)
    ]
    old = rid(replaces) if replaces else ""
    return stored(stake(number, claims=claims, replaces=old), "prepare")


async def opened(
    address: Address, units: Mapping[str, int] = FOUR, *, guarded: bool = True
) -> PostgresJournal:
    where = Path("/nowhere")
    storage = PostgresStorage(address, "sdsc", where, units, "here", guard_counted=guarded)
    return await storage.open(lambda committed: None)


def store(
    address: Address, *batches: Sequence[SiteOperation], units: Mapping[str, int] = FOUR,
    guarded: bool = True,
) -> None:  # fmt: skip
    """Each of `batches` in one transaction, in one life."""

    async def all_of_them() -> None:
        journal = await opened(address, units, guarded=guarded)
        try:
            for batch in batches:
                await journal.writer.run(batch)
        finally:
            await journal.close()

    asyncio.run(all_of_them())


@pytest.mark.parametrize("state", ["prepared", "locked"])
@pytest.mark.parametrize(
    "second", [Span(10, 20, 2), Span(19, 30, 2), Span(0, 11, 4), Span(0, 99, 3)]
)
def test_more_units_than_there_are_are_not_booked(
    address: Address, plain: psycopg.Connection[Any], state: str, second: Span
) -> None:
    with pytest.raises(Contradicted, match=f"of the 4 units of {NODES} would be booked"):
        store(address, [booked(1, state, Span(10, 20, 3))], [booked(2, state, second)])
    assert plain.execute("select rid from stake").fetchall() == [(rid(1),)]


@pytest.mark.parametrize(
    "second", [Span(0, 10, 4), Span(20, 30, 4), Span(10, 20, 1), Span(0, 99, 1)]
)
def test_all_units_may_be_booked(address: Address, second: Span) -> None:
    store(address, [booked(1, "locked", Span(10, 20, 3)), booked(2, "prepared", second)])


def test_many_small_bookings_are_added_up_at_each_start(address: Address) -> None:
    one_each = [booked(n, "locked", Span(n, n + 4, 1)) for n in range(1, 12)]
    store(address, one_each)
    with pytest.raises(Contradicted, match="from 5 on"):
        store(address, [booked(20, "locked", Span(5, 6, 1))])


def test_without_the_guard_the_database_counts_nothing(address: Address) -> None:
    store(address, [booked(n, "locked", Span(0, 9, 4)) for n in (1, 2)], guarded=False)


def test_what_was_booked_before_there_was_a_guard_is_exempt_for_good(address: Address) -> None:
    both = [booked(n, "locked", Span(0, 9, 4)) for n in (1, 2)]
    store(address, both, guarded=False)
    store(address, both, [booked(3, "locked", Span(5, 12, 4))])
    with pytest.raises(Contradicted):
        store(address, [booked(4, "locked", Span(11, 12, 1))])


def test_units_that_are_taken_away_are_not_missed_by_what_has_them(address: Address) -> None:
    more, had = {**FOUR, NODES: 8}, booked(1, "locked", Span(0, 9, 8))
    store(address, [had], units=more)
    store(address, [had], [booked(2, "locked", Span(9, 20, 4))])
    with pytest.raises(Contradicted):
        store(address, [booked(3, "locked", Span(19, 21, 1))])
    store(address, [booked(3, "locked", Span(19, 21, 4))], units=more)


def test_of_one_unit_the_other_guard_takes_over(address: Address) -> None:
    store(address, [booked(n, "locked", Span(0, 9, 1)) for n in (1, 2)])
    one = {**FOUR, NODES: 1}
    store(address, [booked(3, "locked", Span(9, 20, 1))], units=one)
    with pytest.raises(Contradicted, match="booked_once"):
        store(address, [booked(4, "locked", Span(19, 29, 1))], units=one)
    store(address, [booked(n, "locked", Span(19, 29, 1)) for n in (4, 5, 6, 7)])


@pytest.mark.parametrize("guard", [booked_once, booked_units])
@pytest.mark.parametrize("analysed", [False, True])
def test_a_booking_looks_at_no_other_one_without_an_index(
    address: Address, plain: psycopg.Connection[Any], guard: ModuleType, analysed: bool
) -> None:
    store(address)
    table = guard.__name__.rpartition(".")[2].replace("booked_once", "booked")
    others = ", 1, 'r' || n" if table == "booked_units" else ", 'r' || n, ''"
    plain.execute(f"alter table {table} set (autovacuum_enabled = off)".encode())
    plain.execute(
        f"insert into {table} select n, int8range(n, n + 1){others}"
        " from generate_series(10, 9000) as n".encode()
    )
    if analysed:
        plain.execute(f"analyze {table}".encode())
    cursor = psycopg.RawCursor(plain)
    for statement in settings_of(SESSION):
        cursor.execute(statement.sql, statement.values)
    wanted = booked(1, "locked", Span(0, 9, 1)), booked(2, "prepared", Span(5, 12, 1), replaces=1)
    of = BookedUnits(FOUR) if table == "booked_units" else BookedOnce({NODES: 1})
    for each in of.statements([decode_stake(fact.body) for fact in wanted], ()):
        cursor.execute(f"explain (costs off) {each.sql}", each.values)
        plan = "\n".join(line for (line,) in cursor.fetchall())
        assert f"Seq Scan on {table}" not in plan, plan


# A slow twin


class Twin:
    """What is booked of each request in each hour, and whether that is too much."""

    def __init__(self) -> None:
        self.booked: dict[str, Counter[int]] = {}

    def store(self, batch: Sequence[StakeStored | StakeDropped]) -> bool:
        """Book the last fact of each request, or nothing at all, where it is too much."""
        last: dict[str, Fact | None] = {}
        for fact in batch:
            last[fact.rid] = FACTS.get(fact.body) if isinstance(fact, StakeStored) else None
        after = {rid: hours for rid, hours in self.booked.items() if rid not in last}
        new = {rid: fact for rid, fact in last.items() if fact is not None}
        while new:
            free = [rid for rid, fact in new.items() if fact.old not in new]
            for each in free:
                fact = new.pop(each)
                has = after.get(fact.old, Counter())
                after[each] = Counter(
                    {hour: max(fact.needs(hour) - has[hour], 0) for hour in range(HOURS)}
                )
        touched = {
            hour for each in last if each in after for hour in after[each] if after[each][hour]
        }
        total = Counter[int]()
        for hours in after.values():
            total.update(hours)
        if any(total[hour] > FOUR[NODES] for hour in touched):
            return False
        self.booked = {rid: hours for rid, hours in after.items() if any(hours.values())}
        return True


class Fact(NamedTuple):
    number: int
    state: str
    spans: tuple[Span, ...]
    replaces: int

    @property
    def old(self) -> str:
        return rid(self.replaces) if self.replaces else ""

    def needs(self, hour: int) -> int:
        if self.state not in ("prepared", "locked"):
            return 0
        by_common = Counter[int]()
        for span in self.spans:
            if span.start <= hour < span.end:
                by_common[span.common] += span.units
        return max(by_common.values(), default=0)

    def stored(self) -> StakeStored:
        fact = booked(self.number, self.state, *self.spans, replaces=self.replaces)
        FACTS[fact.body] = self
        return fact


FACTS: dict[bytes, Fact] = {}
"""Of each fact that was stored, what it says."""


@st.composite
def spans(draw: st.DrawFn) -> Span:
    start = draw(st.integers(0, HOURS - 1))
    return Span(
        start, draw(st.integers(start + 1, HOURS)), draw(st.integers(1, 3)), draw(st.integers(0, 1))
    )


@st.composite
def facts(draw: st.DrawFn) -> StakeStored | StakeDropped:
    number = draw(st.integers(1, 6))
    if draw(st.integers(0, 6)) == 0:
        return StakeDropped(rid(number))
    state = draw(st.sampled_from(["prepared", "locked", "locked", "cancelled"]))
    # A request replaces an older one, as the numbers go.
    replaces = draw(st.integers(0, number - 1)) if draw(st.booleans()) else 0
    parts = draw(st.lists(spans(), min_size=1, max_size=3))
    return Fact(number, state, tuple(parts), replaces).stored()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(facts(), min_size=1, max_size=4), min_size=1, max_size=10))
def test_the_guard_refuses_what_is_too_much_and_nothing_else(
    batches: list[list[StakeStored | StakeDropped]],
) -> None:
    with postgres_clusters.in_a_schema() as address:
        asyncio.run(_compare(address, batches))


async def _compare(
    address: Address, batches: Sequence[Sequence[StakeStored | StakeDropped]]
) -> None:
    twin, journal = Twin(), await opened(address)
    query = (
        "select rid, hour, units from booked_units,"
        " generate_series(lower(during), upper(during) - 1) as hour"
    )
    try:
        for batch in batches:
            fits = twin.store(batch)
            try:
                await journal.writer.run(batch)
            except Contradicted:
                assert not fits, batch
                await journal.close()
                journal = await opened(address)
            else:
                assert fits, batch
            found = await asyncio.to_thread(journal._reader.rows, query)
            wanted = [
                (rid, hour, units)
                for rid, hours in twin.booked.items()
                for hour, units in hours.items()
                if units
            ]
            assert sorted(found) == sorted(wanted)
    finally:
        await journal.close()

"""The guard in the database: one unit is never promised twice, and nothing else is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from store_support import rid, stake

from kalends.resource_servers.journal.contract import SiteOperation
from kalends.resource_servers.journal.postgres.site_journal import PostgresJournal, PostgresStorage
from kalends.resource_servers.participation.claims.claim_sets import (
    Claim,
    StakeDropped,
    StakeStored,
    stored,
)
from kalends.stores.group_commit import Contradicted
from kalends.stores.postgres.address import Address

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]

ONE: Mapping[str, int] = {"sdsc/sp2": 1, "sdsc/nodes": 4}
Span = tuple[int, int]


def booked(
    number: int, state: str, *spans: Span, replaces: int = 0, resource: str = "sdsc/sp2"
) -> StakeStored:
    claims = [
        Claim(10 * number + place, resource, start, end, 1, state, common=place)  # type: ignore[arg-type]  # states as plain texts
        for place, (start, end) in enumerate(spans)
    ]
    old = rid(replaces) if replaces else ""
    return stored(stake(number, claims=claims, replaces=old), "prepare")


async def opened(address: Address, units: Mapping[str, int] = ONE) -> PostgresJournal:
    storage = PostgresStorage(address, "sdsc", Path("/nowhere"), units, "here")
    return await storage.open(lambda committed: None)


def store(
    address: Address, *batches: Sequence[SiteOperation], units: Mapping[str, int] = ONE
) -> None:
    """Each of `batches` in one transaction, in one life."""

    async def all_of_them() -> None:
        journal = await opened(address, units)
        try:
            for batch in batches:
                await journal.writer.run(batch)
        finally:
            await journal.close()

    asyncio.run(all_of_them())


def rows(plain: psycopg.Connection[Any]) -> list[tuple[int, int]]:
    query = "select lower(during), upper(during) from booked order by 1"
    return plain.execute(query).fetchall()


@pytest.mark.parametrize("state", ["prepared", "locked"])
@pytest.mark.parametrize("second", [(10, 20), (19, 30), (0, 11), (12, 13), (0, 99)])
def test_a_unit_that_is_booked_is_not_booked_again(
    address: Address, plain: psycopg.Connection[Any], state: str, second: Span
) -> None:
    with pytest.raises(Contradicted, match="booked_once"):
        store(address, [booked(1, state, (10, 20))], [booked(2, "prepared", second)])
    assert plain.execute("select rid from stake").fetchall() == [(rid(1),)]


def test_two_bookings_in_one_batch_contradict_each_other(address: Address) -> None:
    with pytest.raises(Contradicted):
        store(address, [booked(1, "prepared", (0, 9)), booked(2, "prepared", (8, 12))])


@pytest.mark.parametrize("second", [(0, 10), (20, 30)])
def test_bookings_that_touch_are_none_too_many(address: Address, second: Span) -> None:
    store(address, [booked(1, "locked", (10, 20))], [booked(2, "locked", second)])


def test_the_guard_holds_over_all_lives(address: Address) -> None:
    store(address, [booked(1, "locked", (0, 9))])
    with pytest.raises(Contradicted):
        store(address, [booked(2, "locked", (0, 9))])


@pytest.mark.parametrize(
    "end", [booked(1, "cancelled", (10, 20)), StakeDropped(rid(1)), booked(1, "locked", (30, 40))]
)
@pytest.mark.parametrize("together", [False, True])
def test_time_that_was_given_back_is_booked_by_the_next(
    address: Address, end: SiteOperation, together: bool
) -> None:
    after = [end, booked(2, "prepared", (10, 20))]
    batches = [after] if together else [[each] for each in after]
    store(address, [booked(1, "locked", (10, 20))], *batches)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("end", ["locked", "cancelled"])
def test_a_change_takes_over_what_the_reservation_had(
    address: Address, plain: psycopg.Connection[Any], end: str, together: bool
) -> None:
    facts: list[SiteOperation] = [
        booked(1, "locked", (10, 20)),
        booked(2, "prepared", (15, 30), replaces=1),
    ]
    store(address, *([facts] if together else [[each] for each in facts]))
    assert rows(plain) == [(10, 20), (20, 30)]
    # The old one is stored again meanwhile.
    store(address, [booked(1, "locked", (10, 20))])
    old = booked(1, "replaced" if end == "locked" else "locked", (10, 20))
    store(address, [old, booked(2, end, (15, 30), replaces=1)])
    assert rows(plain) == ([(15, 30)] if end == "locked" else [(10, 20)])


def test_what_a_change_wants_beyond_is_guarded(address: Address) -> None:
    store(address, [booked(1, "locked", (10, 20))], [booked(2, "prepared", (15, 30), replaces=1)])
    with pytest.raises(Contradicted):
        store(address, [booked(3, "prepared", (29, 31))])


def test_alternatives_of_one_request_may_overlap(
    address: Address, plain: psycopg.Connection[Any]
) -> None:
    store(address, [booked(1, "prepared", (0, 10), (5, 15))])
    assert rows(plain) == [(0, 15)]


def test_resources_of_several_units_are_not_guarded(address: Address) -> None:
    store(address, [booked(n, "locked", (0, 9), resource="sdsc/nodes") for n in (1, 2)])


def test_bookings_of_a_time_with_more_units_are_exempt_for_good(address: Address) -> None:
    more = {"sdsc/sp2": 2}
    both = [booked(1, "locked", (0, 9)), booked(2, "locked", (5, 12))]
    store(address, both, units=more)
    store(address, both, [booked(3, "locked", (12, 20))])
    with pytest.raises(Contradicted):
        store(address, [booked(4, "locked", (19, 29))])
    store(address, [booked(4, "locked", (19, 29))], units=more)

"""A node of a real machine is marked broken: only the reservations move that cannot be placed around it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import kalends
from kalends.contract.owner_calls import ReclaimView

from .laboratory import MACHINE, Laboratory, laboratories
from .servers import until
from .test_jobs import laboratory
from .test_reserved_jobs import booking_with

__all__ = ["laboratory"]

HOUR = 3_600


@pytest.fixture
async def mesh() -> AsyncIterator[Laboratory]:
    """A machine on which a reservation has nodes that lie together."""
    rules = 'shape = "mesh2d:2x2"'
    async for each in laboratories(rules=rules):
        yield each


async def begins(booker: kalends.Client, *rids: str) -> list[int]:
    return [(await booker.show(rid)).start for rid in rids]


async def reclaimed(owner: kalends.Client, state: str) -> ReclaimView:
    """What the machine has out of service, once all that has to do with it are in `state`."""
    found: list[ReclaimView] = []

    async def settled() -> bool:
        found[:] = [
            view
            for view in await owner.reclaims()
            if {each.state for each in view.reservations} == {state}
        ]
        return bool(found)

    await until(settled, state)
    return found[0]


async def test_of_reservations_that_fill_the_machine_one_moves_and_it_is_smaller_until_the_repair(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    async with booking_with(laboratory, tmp_path) as booker, laboratory.client("owner") as owner:
        soon = int(time.time()) + 10 * HOUR
        large = (await booker.book(f"{MACHINE}:3", duration="1h", at=soon)).id
        small = (await booker.book(f"{MACHINE}:1", duration="1h", at=soon)).id
        after = (await booker.book(f"{MACHINE}:4", duration="1h", at=soon + 100 * HOUR)).id
        await owner.serve_nodes(MACHINE, "fail", [2], detail="new fans")
        view = await reclaimed(owner, "moved")
        assert view.reason == "a node is out of service: new fans"
        assert (view.units, view.lacking) == (1, ())
        assert [(each.id, each.user) for each in view.reservations] == [(large, "ann")]
        assert (await begins(booker, small, after)) == [soon, soon + 100 * HOUR]
        assert (await begins(booker, large)) == [view.reservations[0].to_start]
        story = await booker.why(large)
        assert any("new fans" in event.detail for event in story.events)
        with pytest.raises(kalends.NoCommonTime):
            await booker.book(f"{MACHINE}:4", duration="1m", at=int(time.time()) + HOUR)
        await owner.serve_nodes(MACHINE, "resume", [2])

        async def whole_again() -> bool:
            return not await owner.reclaims()

        await until(whole_again, "the node counts again")
        await booker.book(f"{MACHINE}:4", duration="1m", at=int(time.time()) + HOUR)


async def test_on_a_topology_one_that_gets_other_nodes_stays_and_one_that_does_not_moves(
    mesh: Laboratory, tmp_path: Path
) -> None:
    async with booking_with(mesh, tmp_path) as booker, mesh.client("owner") as owner:
        soon = int(time.time()) + 10 * HOUR
        first = (await booker.book(f"{MACHINE}:2", duration="1h", at=soon)).id
        second = (await booker.book(f"{MACHINE}:2", duration="1h", at=soon)).id
        alone = (await booker.book(f"{MACHINE}:2", duration="1h", at=soon + 2 * HOUR)).id
        await owner.serve_nodes(MACHINE, "drain", [0], detail="new fans")
        view = await reclaimed(owner, "moved")
        (gone,) = view.reservations
        assert gone.id in (first, second)
        stays = second if gone.id == first else first
        assert (await begins(booker, stays, alone)) == [soon, soon + 2 * HOUR]
        assert (await begins(booker, gone.id)) == [gone.to_start]
        assert gone.to_start != soon


async def test_users_see_failed_nodes_of_what_has_begun_until_these_are_back(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    await see_failed_nodes(laboratory, tmp_path)


async def test_on_a_topology_users_see_which_of_their_own_nodes_have_failed(
    mesh: Laboratory, tmp_path: Path
) -> None:
    await see_failed_nodes(mesh, tmp_path)


async def see_failed_nodes(laboratory: Laboratory, tmp_path: Path) -> None:
    """Nodes of a reservation that has begun fail one after the other, and come back."""
    async with booking_with(laboratory, tmp_path) as booker, laboratory.client("owner") as owner:
        rid = (await booker.book(f"{MACHINE}:4", duration="1h", at=int(time.time()) + 2)).id
        later = int(time.time()) + 10 * HOUR
        other = (await booker.book(f"{MACHINE}:1", duration="1h", at=later)).id

        async def lacks(units: int) -> bool:
            out = (await booker.show(rid)).units_out
            return sum(each.units for each in out) == units

        async def begun() -> bool:
            return (await booker.show(rid)).start < int(time.time())

        await until(begun, "one that has not begun is moved")
        await owner.serve_nodes(MACHINE, "fail", [2], detail="new fans")
        await until(lambda: lacks(1), "it is shown")
        (out,) = (await booker.show(rid)).units_out
        assert (out.resource, out.detail) == (MACHINE, "a node is out of service: new fans")
        await owner.serve_nodes(MACHINE, "drain", [3])
        await until(lambda: lacks(2), "another one")
        assert not (await booker.show(other)).units_out, "it has not begun"
        await owner.serve_nodes(MACHINE, "resume", [2, 3])
        await until(lambda: lacks(0), "all are back")

"""What becomes of promises that a batch system cannot keep: other nodes, another time, or the reason."""

from __future__ import annotations

import pytest

from kalends.backends.records import SystemReservation
from tests.backends.conformance.owners import BOTH, Owners
from tests.backends.conformance.system_at_hand import HOUR_S, put_over, until

pytestmark = pytest.mark.xdist_group("batch-adapters")


@pytest.mark.parametrize("how", ["take_down", "drain", "over", "delete"])
async def test_a_promise_that_a_node_cannot_keep_moves_to_another(
    facility: Owners, how: str
) -> None:
    start = await _soon(facility)
    async with facility.client() as ann:
        booked = await ann.book(BOTH, at=start, duration="1h")
        (ours,) = await facility.ours()
        if not await _spoil(facility, ours, how):
            assert (await facility.ours(), await facility.problems()) == ([ours], "")
            return

        async def elsewhere() -> bool:
            found = await facility.ours()
            return [ours.nodes[0] in each.nodes for each in found] == [False]

        await until(elsewhere, "the promise stays on the node that cannot keep it")
        assert (await facility.ours())[0].start == (await ann.show(booked.id)).start == start

    async def over() -> bool:
        return "promise" not in await facility.problems()

    await until(over, "the operator is told of what is over")


@pytest.mark.parametrize("how", ["take_down", "drain", "over", "delete"])
async def test_a_promise_that_no_node_can_keep_is_moved_to_another_time_and_its_user_told(
    facility: Owners, how: str
) -> None:
    start = await _soon(facility)
    async with facility.client() as ann, facility.client("bob") as bob:
        moved = await ann.book(BOTH, at=start, duration="1h")
        (ours,) = await facility.ours()
        beside = await bob.book("centre/cluster:2", at=start, duration="1h")
        if not await _spoil(facility, ours, how):
            assert await facility.problems() == ""
            assert {each.start for each in await ann.list(state="reserved")} == {start}
            return

        async def elsewhere() -> bool:
            return (await ann.show(moved.id)).start != start

        await until(elsewhere, "it stands where it cannot be kept")
        after = await ann.show(moved.id)
        assert after.state == "reserved"
        assert {claim.start for claim in after.claims} == {after.start}
        told, *_ = [each for each in (await ann.why(moved.id)).events if each.kind == "reclaimed"]
        assert "centre cannot keep centre/cluster from" in told.detail
        assert ours.nodes[0] in told.detail
        assert (await bob.show(beside.id)).start == start

        async def kept() -> bool:
            return sorted(each.start for each in await facility.ours()) == sorted(
                [start, after.start]
            )

        await until(kept, "what is promised is not what is reserved")

    async def told_no_more() -> bool:
        return "a promise is not kept" not in await facility.problems()

    await until(told_no_more, "the operator is told of what is over")
    async with facility.client("operator", "centre") as operator:

        async def withdrawn() -> bool:
            return await operator.reclaims() == ()

        await until(withdrawn, "the site still asks for what it has")


async def test_no_more_promises_are_moved_than_have_to_be(facility: Owners) -> None:
    start = await _soon(facility)
    async with facility.client() as ann, facility.client("bob") as bob:
        large = await ann.book("centre/cluster:2", at=start, duration="1h")
        (ours,) = await facility.ours()
        small = [await bob.book("centre/cluster:1", at=start, duration="1h") for _ in range(2)]
        down = {ours.nodes[0], min(set(facility.system.nodes).difference(ours.nodes))}
        for node in sorted(down):
            await facility.system.take_down(node)

        async def elsewhere() -> bool:
            return (await ann.show(large.id)).start != start

        await until(elsewhere, "it stands where it cannot be kept")

        async def kept() -> bool:
            nodes = [each.nodes for each in await facility.ours() if each.start == start]
            return len(nodes) == 2 and not any(down.intersection(each) for each in nodes)

        await until(kept, "what is left over does not save the other")
        assert {(await bob.show(each.id)).start for each in small} == {start}


async def test_a_promise_that_cannot_be_kept_at_any_time_is_cancelled_with_the_reason(
    facility: Owners,
) -> None:
    start = await _soon(facility)
    async with facility.client() as ann:
        booked = await ann.book(
            "centre/cluster:4 + lab/beam", window=(start, start + HOUR_S + 1_800), duration="1h"
        )
        await facility.system.take_down("n1")

        async def over() -> bool:
            return (await ann.show(booked.id)).state == "cancelled"

        await until(over, "it stands where it cannot be kept")
        problem = (await ann.show(booked.id)).problem
        assert problem is not None
        assert "n1 is out of order; no other time suits" in problem.detail

        async def given_up() -> bool:
            return await facility.ours() == []

        await until(given_up, "it is still reserved")


@pytest.mark.parametrize("changed", [False, True])
async def test_what_is_well_again_in_time_is_not_moved(facility: Owners, *, changed: bool) -> None:
    start = await _soon(facility)
    async with facility.client() as ann:
        booked = await ann.book("centre/cluster:4", at=start, duration="1h")
        await facility.system.drain("n1")
        await facility.operator_is_told("n1")
        if changed:
            booked = await ann.shrink(booked.id, by="30m")
        await facility.system.mend("n1")
        await facility.operator_is_told_no_more()
        assert (await ann.show(booked.id)).start == start


async def test_a_promise_that_is_made_smaller_leaves_the_node_that_is_down(
    facility: Owners,
) -> None:
    start = await _soon(facility)
    async with facility.client() as ann:
        booked = await ann.book("centre/cluster:4", at=start, duration="1h")
        await facility.system.drain("n1")
        await facility.operator_is_told("n1")
        await ann.shrink(booked.id, units={"centre/cluster": 3})

        async def kept() -> bool:
            nodes = [(each.start, each.nodes) for each in await facility.ours()]
            return nodes == [(start, ("n2", "n3", "n4"))]

        await until(kept, "it keeps the node that is down")
    await facility.operator_is_told_no_more()


async def test_what_was_given_up_before_a_restart_is_kept_if_it_is_well_again(
    facility: Owners,
) -> None:
    start = await _soon(facility)
    async with facility.client() as ann:
        booked = await ann.book("centre/cluster:4 + lab/beam", at=start, duration="1h")
        # Without all its owners no reservation is moved.
        await facility.stop_server("lab")
        await facility.system.drain("n1")

        async def given_up() -> bool:
            return "asked to move" in await facility.problems()

        await until(given_up, "it is not given up")
        await facility.stop_server("centre")
        await facility.start_server("centre", wait=False)
        async with facility.client("operator", "centre") as operator:
            (stands,) = await operator.reclaims()
            assert stands.waiting == (booked.id,)
            await facility.system.mend("n1")

            async def withdrawn() -> bool:
                return await operator.reclaims() == ()

            await until(withdrawn, "it is still to be moved")
        await facility.start_server("lab")
        assert (await ann.show(booked.id)).start == start


async def _soon(facility: Owners) -> int:
    """Return a time at which a node that is down now would be so still."""
    async with facility.client() as ann:
        return ann.time_s("now") // HOUR_S * HOUR_S + 6 * HOUR_S


async def _spoil(facility: Owners, ours: SystemReservation, how: str) -> bool:
    """Have the first node of `ours` taken from it; return False where the system refuses that."""
    system, node = facility.system, ours.nodes[0]
    if how == "over":
        return await put_over(system, "theirs", [node], ours.start, ours.end)
    if how == "delete":
        await system.delete(ours.name)
        await system.reserve("theirs", [node], ours.start, ours.end)
    else:
        await getattr(system, how)(node)
    return True

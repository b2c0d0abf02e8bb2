"""What a site promises of cores and licences of a real Slurm, and keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from kalends.backends.records import SystemReservation
from kalends.core.errors import KalendsError, NoCommonTime
from tests.backends.conformance.owners import Owners, owners
from tests.backends.conformance.system_at_hand import HOUR_S, Slots, cleared, until
from tests.backends.slurm_at_hand import SlurmAtHand

pytestmark = [pytest.mark.xdist_group("batch-systems"), pytest.mark.needs_slurm]

OFFERED: Final = (
    {"name": "cluster", "capacity": 2, "nodes": "n[3-4]"},
    {"name": "cores", "capacity": 8, "nodes": "n[1-2]", "cores_each": 4},
    {"name": "matlab", "capacity": 10, "licences": "matlab"},
)
BOTH: Final = "centre/cores:3 + centre/matlab:4"


@pytest.fixture
async def facility(slurm_in_parts: SlurmAtHand, tmp_path: Path) -> AsyncIterator[Owners]:
    async with cleared(slurm_in_parts), owners(tmp_path, slurm_in_parts, OFFERED) as found:
        yield found


def cores_of(reservations: Sequence[SystemReservation]) -> list[int]:
    """The cores of each reservation that has any."""
    return sorted(sum(each.cores) for each in reservations if each.nodes)


def licences_of(reservations: Sequence[SystemReservation]) -> int:
    return sum(count for each in reservations for _, count in each.licences)


async def refusals(facility: Owners, text: str, **when: Any) -> str:
    async with facility.client() as ann:
        with pytest.raises(KalendsError) as caught:
            await ann.book(text, duration="1h", wait_s=20, **when)
    assert isinstance(caught.value, NoCommonTime), caught.value
    return str(caught.value.refusals)


async def test_cores_and_licences_are_reserved_for_their_user_and_go_with_the_booking(
    facility: Owners, all_slots: Slots
) -> None:
    start = all_slots.new()
    async with facility.client("bob") as bob:
        booked = await bob.book(f"{BOTH} + centre/cluster:1", at=start, duration="1h")
        ours = await facility.ours()
        assert {(each.start, each.end, each.users) for each in ours} == {
            (start, start + HOUR_S, (facility.system.other_user,))
        }
        assert (len(ours), cores_of(ours), licences_of(ours)) == (3, [3, 4], 4)
        await bob.cancel(booked.id)

    async def none() -> bool:
        return await facility.ours() == []

    await until(none, "it is still reserved")
    assert await facility.problems() == ""


async def test_reservations_share_nodes_until_there_is_nothing_left(
    facility: Owners, all_slots: Slots
) -> None:
    start = all_slots.new()
    async with facility.client() as ann:
        for cores, licences in ((3, 5), (3, 4)):
            text = f"centre/cores:{cores} + centre/matlab:{licences}"
            await ann.book(text, at=start, duration="1h")
        used = Counter(
            {each.nodes: sum(each.cores) for each in await facility.ours() if each.nodes}
        )
        assert used == {("n1",): 3, ("n2",): 3}, "as few nodes as possible for each"
        assert "free" in await refusals(facility, "centre/cores:3", at=start)
        assert "free" in await refusals(facility, "centre/matlab:2", at=start)
        await ann.book("centre/cores:2 + centre/matlab:1", at=start, duration="1h")
    ours = await facility.ours()
    assert (cores_of(ours), licences_of(ours)) == ([2, 3, 3], 10)


async def test_what_an_operator_deletes_or_changes_is_set_back(
    facility: Owners, all_slots: Slots
) -> None:
    start = all_slots.new()
    async with facility.client() as ann:
        await ann.book(BOTH, at=start, duration="1h")
    before = await facility.ours()
    assert len(before) == 2
    for fields in ({}, {"end": start + 600}, {"users": facility.system.other_user}, {"open": True}):
        for each in before:
            if fields:
                await facility.system.change(each.name, **fields)
            else:
                await facility.system.delete(each.name)

        async def as_before() -> bool:
            found = {each.name: each for each in await facility.ours()}
            return all(found.get(each.name) == each for each in before)

        await until(as_before, f"{fields} is not set back")


async def test_cores_and_licences_are_booked_for_longer_and_for_less(
    facility: Owners, all_slots: Slots
) -> None:
    start = all_slots.new()
    async with facility.client() as ann:
        booked = await ann.book(BOTH, at=start, duration="1h")
        names = {each.name for each in await facility.ours()}
        await ann.extend(booked.id, by="30m")
        after = await facility.ours()
        assert {each.end for each in after} == {start + HOUR_S + 1_800}
        assert {each.name for each in after} == names
        await ann.book("centre/cores:8", at=start + HOUR_S + 1_800, duration="1h")
        with pytest.raises(KalendsError):
            await ann.extend(booked.id, by="30m")
    assert len(await facility.ours()) == 3


async def test_find_sees_the_cores_and_licences_of_others(
    facility: Owners, all_slots: Slots
) -> None:
    start = all_slots.new()
    system = facility.system
    assert isinstance(system, SlurmAtHand)
    await system.run(["n1"], 1_800, options=["-n3", "--licenses=matlab:8"])
    await system.said(
        "scontrol", "create", "reservation", "ReservationName=theirs", f"StartTime=uts{start}",
        f"EndTime=uts{start + HOUR_S}", f"Users={system.other_user}", "Nodes=n2", "CoreCnt=3",
    )  # fmt: skip
    async with facility.client() as ann:

        async def offers(text: str, **when: Any) -> bool:
            return bool((await ann.find(text, duration="10m", **when)).candidates)

        async def seen() -> bool:
            window = ("now", "now+20m")
            soon = [
                await offers(f"centre/{each}", window=window) for each in ("cores:6", "matlab:3")
            ]
            return not any([*soon, await offers("centre/cores:6", at=start)])

        await until(seen, "what others have is offered")
        assert await offers("centre/cores:5 + centre/matlab:2", window=("now", "now+20m"))
        assert await offers("centre/cores:5 + centre/matlab:10", at=start)
        await ann.book("centre/cores:5 + centre/matlab:10", at=start, duration="1h")


async def test_a_part_of_a_node_that_goes_down_moves_to_another(facility: Owners) -> None:
    async with facility.client() as ann:
        await ann.book("centre/cores:3", at=ann.time_s("now") + 2 * HOUR_S, duration="1h")
    (ours,) = await facility.ours()
    (other,) = {"n1", "n2"} - {*ours.nodes}
    await facility.system.drain(ours.nodes[0])

    async def moved() -> bool:
        return [(each.nodes, each.cores) for each in await facility.ours()] == [((other,), (3,))]

    await until(moved, "it stays on a node that is out of order")

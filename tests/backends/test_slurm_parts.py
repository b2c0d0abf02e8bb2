"""Cores of nodes, and licences, reserved in a real Slurm: made, seen, changed and gone."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest
from msgspec import structs

from kalends.backends.adapter import SystemRefused, carry_out
from kalends.backends.check_up import check_up
from kalends.backends.records import (
    ChangeReservation,
    CreateReservation,
    DeleteReservation,
    SystemReservation,
)
from tests.backends.conformance.system_at_hand import HOUR_S, Bench, Slots, cleared, until
from tests.backends.slurm_at_hand import SlurmAtHand

pytestmark = [pytest.mark.xdist_group("batch-systems"), pytest.mark.needs_slurm]


class PartsBench(Bench):
    """Wishes for cores and licences."""

    def cores(self, start: int = 0, length_s: int = HOUR_S, **cores: int) -> SystemReservation:
        wish = self.wish(sorted(cores), start, length_s)
        return structs.replace(wish, cores=tuple(cores[node] for node in sorted(cores)))

    def licences(
        self, count: int, start: int = 0, length_s: int = HOUR_S, name: str = "matlab"
    ) -> SystemReservation:
        wish = self.wish(start=start, length_s=length_s)
        return structs.replace(wish, nodes=(), licences=((name, count),))

    async def has(self, wish: SystemReservation) -> bool:
        """Whether Slurm has just that, whether it tells the cores of each node already or not."""
        found = await self.adapter.find(wish.name)
        if found is None or not found.has_room_of(wish):
            return False
        return structs.replace(found, cores=wish.cores) == wish

    async def refused(self, wish: SystemReservation) -> str:
        before = await self.adapter.find(wish.name)
        errand = ChangeReservation(wish) if before else CreateReservation(wish)
        answer = await carry_out(self.adapter, errand)
        assert (answer.outcome, answer.found) == ("refused", before)
        return answer.detail

    async def keep(self, *wishes: SystemReservation) -> None:
        for wish in wishes:
            answer = await carry_out(self.adapter, CreateReservation(wish))
            assert answer.outcome == "done", answer
            assert await self.has(wish)


@pytest.fixture
async def bench(slurm_in_parts: SlurmAtHand, all_slots: Slots) -> AsyncIterator[PartsBench]:
    async with cleared(slurm_in_parts):
        yield PartsBench(slurm_in_parts, all_slots, time.time_ns() // 1_000)


# Asked for


async def test_cores_of_several_nodes_are_listed_as_they_were_asked_for(bench: PartsBench) -> None:
    wishes = [bench.cores(n1=1, n2=3, n3=4), bench.cores(n2=3, n10=1)]
    await bench.keep(*wishes)
    listed = (await bench.adapter.state()).reservations
    assert all(found.has_room_of(wish) for found, wish in zip(listed, wishes, strict=True))

    async def told() -> bool:
        return [await bench.adapter.find(wish.name) for wish in wishes] == wishes

    await until(told, "the cores of each node are not told after half a minute")


async def test_a_node_is_shared_until_its_cores_are_taken(bench: PartsBench) -> None:
    start = bench.slots.new()
    await bench.keep(bench.cores(start, n1=2), bench.cores(start, n1=1))
    assert "busy" in await bench.refused(bench.cores(start, n1=2))
    await bench.keep(bench.cores(start, n1=1), bench.cores(start + HOUR_S, n1=4))
    assert await bench.refused(bench.cores(start + HOUR_S - 1, n1=1))


async def test_licences_are_counted(bench: PartsBench) -> None:
    start = bench.slots.new()
    assert (await bench.adapter.state()).licences == (("matlab", 10),)
    await bench.keep(bench.licences(6, start))
    assert "of matlab 4 of 10 are free, and 5 are wanted" in await bench.refused(
        bench.licences(5, start)
    )
    await bench.keep(bench.licences(4, start), bench.licences(10, start + HOUR_S))
    assert await bench.refused(bench.licences(1, start, name="nothing"))
    assert await bench.refused(bench.licences(11))


async def test_cores_that_no_node_has_are_refused(bench: PartsBench) -> None:
    assert await bench.refused(bench.cores(n1=5))
    await bench.system.drain("n1")
    assert await bench.refused(bench.cores(n1=1))


# Changed and given up


async def test_cores_are_changed_under_the_same_name(bench: PartsBench) -> None:
    made = bench.cores(n1=2, n2=1)
    await bench.keep(made)
    for changed in (
        structs.replace(made, end=made.end + 600),
        structs.replace(made, end=made.end - 600),
        structs.replace(made, start=made.start + 1_200, end=made.end + 1_200),
        structs.replace(made, cores=(3, 4)),
        structs.replace(made, nodes=("n3",), cores=(4,)),
        structs.replace(made, users=(bench.system.other_user,)),
    ):
        answer = await carry_out(bench.adapter, ChangeReservation(changed))
        assert answer.outcome == "done"
        assert await bench.has(changed)
    assert len((await bench.adapter.state()).reservations) == 1


async def test_more_time_is_refused_where_others_have_the_cores(bench: PartsBench) -> None:
    """Slurm's own update looks at nobody: it would give the same cores to two."""
    made = bench.cores(n1=2)
    await bench.keep(made, bench.cores(made.end, n1=3))
    assert await bench.refused(structs.replace(made, end=made.end + 1))
    await bench.keep(bench.cores(made.end, n1=1))
    assert await bench.refused(structs.replace(made, cores=(5,)))


async def test_licences_are_changed_by_an_update_and_more_than_there_are_is_refused(
    bench: PartsBench,
) -> None:
    made = bench.licences(4)
    await bench.keep(made, bench.licences(8, made.end))
    for changed in (
        structs.replace(made, licences=(("matlab", 10),)),
        structs.replace(made, licences=(("matlab", 2),), end=made.end + 60),
        made,
    ):
        assert (await carry_out(bench.adapter, ChangeReservation(changed))).outcome == "done"
        assert await bench.has(changed)
    assert "2 of 10 are free" in await bench.refused(structs.replace(made, end=made.end + 60))


async def test_what_an_operator_does_is_seen_and_set_back(bench: PartsBench) -> None:
    for made in (bench.cores(n1=2, n2=1), bench.licences(4)):
        await bench.keep(made)
        for fields in (
            {"end": made.end - 600},
            {"end": made.end + 600},
            {"start": made.start + 600},
            {"users": bench.system.other_user},
            {"open": True},
        ):
            await bench.system.change(made.name, **fields)
            assert not await bench.has(made), fields
            await carry_out(bench.adapter, ChangeReservation(made))
            assert await bench.has(made), fields
        await bench.system.delete(made.name)
        assert await bench.adapter.find(made.name) is None
        await bench.keep(made)


async def test_nodes_that_an_operator_gives_to_licences_are_taken_away(bench: PartsBench) -> None:
    made = bench.licences(4)
    await bench.keep(made)
    await bench.system.change(made.name, nodes="n4")
    assert not await bench.has(made)
    await carry_out(bench.adapter, ChangeReservation(made))
    assert await bench.has(made)


# With jobs


async def test_with_a_job_in_them_cores_get_less_time_and_never_more(bench: PartsBench) -> None:
    now_s = (await bench.adapter.state()).clock_s
    wish = bench.cores(now_s - 1, n1=2)
    await carry_out(bench.adapter, CreateReservation(wish))
    job = await bench.system.run(["n1"], 600, reservation=wish.name, options=["-n2"])
    made = await bench.adapter.find(wish.name)
    assert made is not None
    assert "while jobs are in it" in await bench.refused(structs.replace(made, end=made.end + 60))
    shorter = structs.replace(made, end=made.end - 600)
    assert (await carry_out(bench.adapter, ChangeReservation(shorter))).outcome == "done"
    (running,) = (await bench.adapter.state()).jobs
    assert (running.id, running.nodes, running.cores) == (job, ("n1",), (2,))

    async def gone() -> bool:
        return (await carry_out(bench.adapter, DeleteReservation(wish.name))).found is None

    await until(gone, "it is not deleted")


async def test_cores_and_licences_of_running_jobs_are_told_and_not_granted_before_their_limit(
    bench: PartsBench,
) -> None:
    job = await bench.system.run(["n1"], 7_200, options=["-n3", "--licenses=matlab:8"])
    state = await bench.adapter.state()
    (running,) = state.jobs
    assert (running.id, running.cores, running.licences) == (job, (3,), (("matlab", 8),))
    soon, later = state.clock_s + 600, state.clock_s + 7_300
    assert await bench.refused(bench.cores(soon, n1=2))
    assert "2 of 10 are free" in await bench.refused(bench.licences(3, soon))
    await bench.keep(bench.cores(soon, n1=1), bench.licences(2, soon))
    await bench.keep(bench.cores(later, n1=4), bench.licences(10, later))


async def test_jobs_of_others_leave_cores_and_licences_that_are_reserved(
    bench: PartsBench,
) -> None:
    now_s = (await bench.adapter.state()).clock_s
    await bench.keep(bench.cores(now_s + 600, n1=2), bench.licences(8, now_s + 600))
    for options in (["-n3"], ["-n1", "--licenses=matlab:3"]):
        with pytest.raises(AssertionError, match="does not run"):
            await bench.system.run(["n1"], 3_600, options=options, within_s=5)
    await bench.system.run(["n1"], 3_600, options=["-n2", "--licenses=matlab:2"])


# Before a site relies on it


async def test_a_check_tells_of_cores_and_licences_that_are_not_there(bench: PartsBench) -> None:
    users = {"ann": bench.system.user}

    async def problems(cores: int, **licences: int) -> list[str]:
        nodes = dict.fromkeys(["n1", "n2"], cores)
        now_s = int(time.time())
        found = await check_up(bench.adapter, "centre", ["n3"], users, now_s, (), nodes, licences)
        return found.problems

    assert await problems(4, matlab=10) == []
    assert (await bench.adapter.state()).reservations == ()
    told = "\n".join(await problems(16, matlab=12, mathematica=1))
    assert "n1 has 4 cores, and the site offers 16" in told
    assert "matlab has 10 licences, and the site offers 12" in told
    assert "it does not know the licence mathematica" in told


async def test_whole_nodes_are_as_ever_beside_cores(bench: PartsBench) -> None:
    wish = bench.wish(["n3", "n4"])
    assert (await carry_out(bench.adapter, CreateReservation(wish))).outcome == "done"
    found = await bench.adapter.find(wish.name)
    assert found is not None
    assert found.has_room_of(wish)
    with pytest.raises(SystemRefused):
        await bench.adapter.create(bench.cores(wish.start, n3=1))

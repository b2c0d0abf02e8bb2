"""What every adapter does, whatever its system: made, seen, changed and gone, in all weathers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable

import pytest
from msgspec import structs

from kalends.backends.adapter import SystemRefused, SystemSilent, carry_out
from kalends.backends.records import (
    ChangeReservation,
    CreateReservation,
    DeleteReservation,
    EndJobs,
    SystemAnswer,
    SystemReservation,
)
from kalends.resource_servers.jobs.batch_desk import AT_ONCE
from tests.backends.conformance.system_at_hand import (
    HOUR_S,
    Bench,
    SystemAtHand,
    cleared,
    time_passes,
    until,
)

pytestmark = pytest.mark.xdist_group("batch-adapters")


@pytest.fixture
async def bench(system: SystemAtHand, bench_of_all: Bench) -> AsyncIterator[Bench]:
    async with cleared(system):
        yield bench_of_all


# Asked for


async def test_what_is_made_is_listed_as_it_was_asked_for(bench: Bench) -> None:
    wish = bench.wish()
    answer = await carry_out(bench.adapter, CreateReservation(wish))
    assert (answer.outcome, answer.found) == ("done", wish)
    assert (await bench.adapter.state()).reservations == (wish,)


async def test_a_repeat_is_refused_and_tells_what_is_there(bench: Bench) -> None:
    made = await bench.made()
    answer = await carry_out(bench.adapter, CreateReservation(made))
    assert (answer.outcome, answer.found) == ("refused", made)
    assert (await bench.adapter.state()).reservations == (made,)


async def test_the_same_name_for_other_nodes_is_refused_and_tells_what_is_there(
    bench: Bench,
) -> None:
    made = await bench.made(*bench.system.nodes[:2])
    other = structs.replace(made, nodes=bench.system.nodes[2:])
    answer = await carry_out(bench.adapter, CreateReservation(other))
    assert (answer.outcome, answer.found) == ("refused", made)


async def test_one_second_over_another_is_refused(bench: Bench) -> None:
    made = await bench.made()
    gap_s = bench.adapter.traits.gap_s
    over = bench.wish(made.nodes, made.end + gap_s - 1)
    answer = await carry_out(bench.adapter, CreateReservation(over))
    assert (answer.outcome, answer.found) == ("refused", None)


async def test_two_may_touch_at_the_gap_of_the_system(bench: Bench) -> None:
    made = await bench.made()
    touching = bench.wish(made.nodes, made.end + bench.adapter.traits.gap_s)
    assert (await carry_out(bench.adapter, CreateReservation(touching))).found == touching


@pytest.mark.parametrize("wrong", ["user", "node", "past"])
async def test_what_cannot_be_is_refused(bench: Bench, wrong: str) -> None:
    wish = bench.wish()
    wish = {
        "user": structs.replace(wish, users=("nobody-here",)),
        "node": structs.replace(wish, nodes=("n99",)),
        "past": structs.replace(wish, start=1_000_000_000, end=1_000_003_600),
    }[wrong]
    answer = await carry_out(bench.adapter, CreateReservation(wish))
    assert (answer.outcome, answer.found) == ("refused", None)


async def test_what_should_have_begun_begins_now(bench: Bench) -> None:
    now_s = (await bench.adapter.state()).clock_s
    wish = bench.wish(start=now_s - 2)
    found = (await carry_out(bench.adapter, CreateReservation(wish))).found
    assert found is not None
    assert wish.start <= found.start <= now_s + 30
    assert structs.replace(found, start=wish.start) == wish


async def test_a_node_is_not_taken_twice_by_name(bench: Bench) -> None:
    made = await bench.made()
    other = bench.wish(bench.system.nodes[1:3], made.start)
    assert (await carry_out(bench.adapter, CreateReservation(other))).outcome == "refused"
    beside = bench.wish(bench.system.nodes[2:], made.start)
    assert (await carry_out(bench.adapter, CreateReservation(beside))).found == beside


# Changed and given up


async def test_a_change_is_one_update_of_the_same_name(bench: Bench) -> None:
    made = await bench.made()
    for changed in (
        structs.replace(made, end=made.end + 600),
        structs.replace(made, end=made.end - 600),
        structs.replace(made, start=made.start + 1_200, end=made.end + 1_200),
        structs.replace(made, nodes=bench.system.nodes[:3]),
        structs.replace(made, nodes=bench.system.nodes[2:]),
        structs.replace(made, users=(bench.system.other_user,)),
    ):
        answer = await carry_out(bench.adapter, ChangeReservation(changed))
        assert (answer.outcome, answer.found) == ("done", changed)
    assert len((await bench.adapter.state()).reservations) == 1


async def test_a_change_that_is_refused_leaves_everything_as_it_was(bench: Bench) -> None:
    made = await bench.made()
    await bench.made(*made.nodes, start=made.end + bench.adapter.traits.gap_s)
    too_far = structs.replace(made, end=made.end + 1)
    answer = await carry_out(bench.adapter, ChangeReservation(too_far))
    assert (answer.outcome, answer.found) == ("refused", made)


async def test_a_change_of_what_is_not_there_is_refused(bench: Bench) -> None:
    answer = await carry_out(bench.adapter, ChangeReservation(bench.wish()))
    assert (answer.outcome, answer.found) == ("refused", None)


async def test_what_is_deleted_is_gone_and_deleting_it_again_is_no_error(bench: Bench) -> None:
    made = await bench.made()
    for _ in range(2):
        answer = await carry_out(bench.adapter, DeleteReservation(made.name))
        assert (answer.outcome, answer.found) == ("done", None)


async def test_what_is_deleted_twice_at_once_is_gone_and_neither_is_an_error(bench: Bench) -> None:
    made = await bench.made()
    errand = DeleteReservation(made.name)
    answers = await asyncio.gather(*(carry_out(bench.adapter, errand) for _ in range(2)))
    assert [(each.outcome, each.found) for each in answers] == [("done", None)] * 2


async def test_a_system_takes_as_many_at_once_as_a_site_asks_for(bench: Bench) -> None:
    wishes = [bench.wish() for _ in range(bench.system.many)]
    turns = asyncio.Semaphore(AT_ONCE)

    async def made(wish: SystemReservation) -> SystemAnswer:
        async with turns:
            return await carry_out(bench.adapter, CreateReservation(wish))

    answers = await asyncio.gather(*map(made, wishes))
    assert [each.found for each in answers] == wishes
    assert set((await bench.adapter.state()).reservations) == set(wishes)


# With jobs in it


@pytest.mark.parametrize("stubborn", [False, True])
async def test_one_with_a_job_in_it_goes_with_the_job(bench: Bench, stubborn: bool) -> None:
    now_s = (await bench.adapter.state()).clock_s
    wish = bench.wish(start=now_s - 1)
    await carry_out(bench.adapter, CreateReservation(wish))
    job = await bench.system.run(wish.nodes[:1], 3_000, reservation=wish.name, stubborn=stubborn)
    (running,) = (await bench.adapter.state()).jobs
    assert (running.id, running.reservation, running.user) == (job, wish.name, bench.system.user)

    async def gone() -> bool:
        return (await carry_out(bench.adapter, DeleteReservation(wish.name))).found is None

    await until(gone, "it is not deleted")


async def test_jobs_in_it_end_when_they_are_asked_and_stubborn_ones_when_they_are_killed(
    bench: Bench,
) -> None:
    now_s = (await bench.adapter.state()).clock_s
    wish = bench.wish(start=now_s - 1)
    await carry_out(bench.adapter, CreateReservation(wish))
    willing, stubborn = [
        await bench.system.run([node], 3_000, reservation=wish.name, stubborn=stubborn)
        for node, stubborn in zip(wish.nodes, (False, True), strict=True)
    ]

    async def running() -> list[str]:
        return [each.id for each in (await bench.adapter.state()).jobs]

    assert await running() == [willing, stubborn]
    assert (await carry_out(bench.adapter, EndJobs(wish.name))).outcome == "done"
    asks = bench.adapter.traits.asks_jobs
    await until(
        lambda: _is(running(), [stubborn] if asks else [willing, stubborn]),
        "who is asked does not end, or who cannot be asked does",
    )
    await carry_out(bench.adapter, EndJobs(wish.name, at_once=True))
    await until(lambda: _is(running(), []), "who is killed does not end")
    assert await bench.adapter.find(wish.name) is not None
    assert (await carry_out(bench.adapter, EndJobs(wish.name))).outcome == "done"


async def _is(found: Awaitable[list[str]], wanted: list[str]) -> bool:
    return await found == wanted


async def test_a_running_job_is_told_with_its_nodes_and_its_end(bench: Bench) -> None:
    job = await bench.system.run(bench.system.nodes[:2], 1_800)
    state = await bench.adapter.state()
    (running,) = state.jobs
    assert (running.id, running.nodes, running.user) == (
        job, bench.system.nodes[:2], bench.system.other_user,
    )  # fmt: skip
    assert running.end is not None
    assert abs(running.end - state.clock_s - 1_800) < 60
    await bench.system.lengthen(job, 3_600)
    (longer,) = (await bench.adapter.state()).jobs
    assert longer.end == running.start + 3_600


async def test_a_job_without_limit_is_told_without_an_end(bench: Bench) -> None:
    await bench.system.run(bench.system.nodes[:1], None)
    (running,) = (await bench.adapter.state()).jobs
    assert running.end is None or running.end > running.start + 300 * 86_400


async def test_a_time_in_which_a_job_may_run_is_refused(bench: Bench) -> None:
    job = await bench.system.run(bench.system.nodes[:1], 7_200)
    now_s = (await bench.adapter.state()).clock_s
    wish = bench.wish(bench.system.nodes[:1], now_s + 600)
    answer = await carry_out(bench.adapter, CreateReservation(wish))
    assert (answer.outcome, answer.found) == ("refused", None), job


async def test_a_reservation_with_a_job_in_it_is_changed_in_place_or_not_at_all(
    bench: Bench,
) -> None:
    now_s = (await bench.adapter.state()).clock_s
    wish = bench.wish(start=now_s - 1)
    await carry_out(bench.adapter, CreateReservation(wish))
    job = await bench.system.run(wish.nodes[:1], 3_000, reservation=wish.name)
    made = await bench.adapter.find(wish.name)
    assert made is not None
    longer = structs.replace(made, end=made.end + 600)
    answer = await carry_out(bench.adapter, ChangeReservation(longer))
    wanted = ("done", longer) if bench.adapter.traits.changes_in_place else ("refused", made)
    assert (answer.outcome, answer.found) == wanted
    assert [each.id for each in (await bench.adapter.state()).jobs] == [job]


# By hand


async def test_what_an_operator_does_is_seen_and_set_back_by_one_change(bench: Bench) -> None:
    system, made = bench.system, await bench.made()
    by_hand: list[dict[str, object]] = [
        {"end": made.end - 600},
        {"start": made.start + 600},
        {"nodes": system.nodes[0]},
        {"users": system.other_user},
        {"open": True},
    ]
    for fields in by_hand:
        await system.change(made.name, **fields)
        assert await bench.adapter.find(made.name) != made, fields
        assert (await carry_out(bench.adapter, ChangeReservation(made))).found == made, fields


async def test_what_an_operator_deletes_is_seen_to_be_gone(bench: Bench) -> None:
    made = await bench.made()
    await bench.system.delete(made.name)
    assert await bench.adapter.find(made.name) is None


async def test_what_an_operator_puts_over_ours_is_listed_beside_it_or_refused(bench: Bench) -> None:
    made = await bench.made()
    if not bench.system.reserves_over:
        with pytest.raises(Exception, match=r"(?i)overlaps|no suitable queues|not valid"):
            await bench.system.reserve("theirs", made.nodes, made.start, made.end)
        assert (await bench.adapter.state()).reservations == (made,)
        return
    await bench.system.reserve("theirs", made.nodes, made.start, made.end, force=True)
    listed = {each.name: each for each in (await bench.adapter.state()).reservations}
    assert listed[made.name] == made
    assert listed["theirs"].nodes == made.nodes


async def test_a_running_job_is_lengthened_over_ours_or_no_further_than_it_may_be(
    bench: Bench,
) -> None:
    job = await bench.system.run(bench.system.nodes[:1], 1_800)
    state = await bench.adapter.state()
    made = await bench.made(bench.system.nodes[0], start=state.clock_s + HOUR_S)
    await bench.system.lengthen(job, 2 * HOUR_S)
    (before,), (longer,) = state.jobs, (await bench.adapter.state()).jobs
    assert before.end is not None
    assert longer.end is not None
    if bench.system.lengthens_over:
        assert longer.end > made.start
    else:
        assert before.end < longer.end <= made.start
    assert await bench.adapter.find(made.name) == made


async def test_nodes_that_others_have_are_refused(bench: Bench) -> None:
    wish = bench.wish()
    await bench.system.reserve("theirs", wish.nodes[:1], wish.start, wish.end)
    answer = await carry_out(bench.adapter, CreateReservation(wish))
    assert (answer.outcome, answer.found) == ("refused", None)


# Nodes


@pytest.mark.parametrize("how", ["take_down", "drain"])
async def test_a_node_that_is_not_well_is_told_and_refused(bench: Bench, how: str) -> None:
    node = bench.system.nodes[0]
    await getattr(bench.system, how)(node)
    (unwell,) = (await bench.adapter.state()).unwell
    assert (unwell.name, unwell.state) == (node, {"take_down": "down", "drain": "drained"}[how])
    wish = bench.wish([node])
    assert (await carry_out(bench.adapter, CreateReservation(wish))).outcome == "refused"
    await bench.system.mend(node)

    async def granted() -> bool:
        return (await carry_out(bench.adapter, CreateReservation(wish))).found == wish

    await until(granted, "it is not granted when the node is well again")


async def test_a_node_that_left_the_configuration_is_seen_to_be_gone(bench: Bench) -> None:
    made = await bench.made(*bench.system.nodes[2:])
    await bench.system.stop()
    await bench.system.start(bench.system.nodes[:3])

    async def gone() -> bool:
        state = await bench.adapter.state()
        return bench.system.nodes[3] not in state.nodes

    await until(gone, "the node is still there")
    assert await bench.adapter.find(made.name) != made


# The controller


async def test_a_system_that_is_away_is_silent_and_no_no(bench: Bench) -> None:
    await bench.system.stop()
    with pytest.raises(SystemSilent):
        await bench.adapter.state()
    for errand in (CreateReservation(bench.wish()), DeleteReservation("kal.x.00000000-1")):
        assert (await carry_out(bench.adapter, errand)).outcome == "unknown"
    await bench.system.start()
    assert (await bench.adapter.state()).nodes == bench.system.nodes


async def test_what_a_frozen_system_was_asked_for_is_unknown_until_it_is_seen(
    bench: Bench,
) -> None:
    wish = bench.wish()
    await bench.system.freeze()
    assert (await carry_out(bench.adapter, CreateReservation(wish))).outcome == "unknown"
    await bench.system.thaw()

    async def told() -> bool:
        return (await carry_out(bench.adapter, CreateReservation(wish))).found == wish

    await until(told, "it goes on, and neither has it nor grants it")


async def test_a_change_that_a_frozen_system_was_asked_for_is_unknown_and_can_be_had_later(
    bench: Bench,
) -> None:
    made = await bench.made()
    longer = structs.replace(made, end=made.end + 600)
    await bench.system.freeze()
    assert (await carry_out(bench.adapter, ChangeReservation(longer))).outcome == "unknown"
    await bench.system.thaw()

    async def had() -> bool:
        # Made anew, it may have been deleted, and not been made yet.
        errands = (ChangeReservation(longer), CreateReservation(longer))
        answers = [await carry_out(bench.adapter, each) for each in errands]
        return answers[-1].found == longer

    await until(had, "it goes on, and neither has the change nor grants it")
    assert (await bench.adapter.state()).reservations == (longer,)


async def test_after_a_crash_a_grant_is_there_or_can_be_had_again(bench: Bench) -> None:
    made = await bench.made()
    await bench.system.crash()
    await bench.system.start()
    assert await _kept_or_gone(bench, made) in (made, None)

    async def had_again() -> bool:
        return (await carry_out(bench.adapter, CreateReservation(made))).found == made

    await until(had_again, "it is not granted again")


async def test_after_a_crash_what_was_deleted_is_gone_or_can_be_deleted_again(
    bench: Bench,
) -> None:
    made = await bench.made()
    await bench.adapter.delete(made.name)
    await bench.system.crash()
    await bench.system.start()
    assert await _kept_or_gone(bench, made) in (made, None)

    async def gone() -> bool:
        return (await carry_out(bench.adapter, DeleteReservation(made.name))).found is None

    await until(gone, "it is not deleted again")


async def test_what_outlives_the_weak_time_outlives_a_crash(bench: Bench) -> None:
    made = await bench.made()
    await time_passes(bench.adapter, bench.adapter.traits.weak_s + 1)
    await bench.system.crash()
    await bench.system.start()
    assert await _kept_or_gone(bench, made) == made


async def test_the_clock_of_the_system_is_told_and_when_it_began_or_ours_is(bench: Bench) -> None:
    if not bench.adapter.traits.tells_clock:
        assert abs((await bench.adapter.state()).clock_s - time.time()) < 5
        return
    first = await bench.adapter.state()
    assert first.clock_s - first.boot_s >= 0
    await bench.system.stop()

    async def another_second() -> bool:
        return time.time() >= first.clock_s + 2

    await until(another_second, "our own clock stands still")
    await bench.system.start()
    second = await bench.adapter.state()
    assert second.boot_s > first.boot_s
    assert second.clock_s >= first.clock_s + 1


async def test_nothing_is_written_by_looking(bench: Bench) -> None:
    made = await bench.made()
    before = await bench.adapter.state()
    after = await bench.adapter.state()
    assert (before.reservations, before.nodes) == ((made,), after.nodes)
    assert after.reservations == before.reservations


async def _kept_or_gone(bench: Bench, made: SystemReservation) -> SystemReservation | None:
    try:
        return await bench.adapter.find(made.name)
    except (SystemRefused, SystemSilent) as error:
        pytest.fail(f"it has come up, and does not answer: {error}")

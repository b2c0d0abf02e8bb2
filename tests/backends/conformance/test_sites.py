"""What a site promises with a batch system behind it, and keeps, whatever happens to that."""

from __future__ import annotations

import asyncio
import time

import pytest

from kalends.backends.names import name_of
from kalends.contract.messages import PeerAsk
from kalends.core.errors import KalendsError, NoCommonTime, Unavailable
from kalends.resource_servers.participation.memory.in_doubt import InDoubtResolver
from tests.backends.conformance.owners import BOTH, CLUSTER, Owners
from tests.backends.conformance.system_at_hand import HOUR_S, Slots, put_over, time_passes, until

pytestmark = pytest.mark.xdist_group("batch-systems")


async def refused(facility: Owners, text: str, user: str = "ann", **when: object) -> KalendsError:
    async with facility.client(user) as client:
        with pytest.raises(KalendsError) as caught:
            # As long as it takes: a system that does not answer is waited for.
            await client.book(text, duration="1h", wait_s=None, **when)  # type: ignore[arg-type]  # times
    return caught.value


# Booked and given up


async def test_what_is_booked_is_reserved_for_its_user_and_goes_with_it(
    facility: Owners, all_slots: Slots
) -> None:
    start = all_slots.new()
    async with facility.client("bob") as bob:
        booked = await bob.book(BOTH, at=start, duration="1h")
        (ours,) = await facility.ours()
        assert (ours.start, ours.end) == (start, start + HOUR_S)
        assert len(ours.nodes) == 2
        assert ours.users == (facility.system.other_user,)
        await bob.cancel(booked.id)
    await until(lambda: _none(facility), "it is still reserved")
    assert await facility.problems() == ""


async def test_a_user_without_an_account_there_is_refused(
    facility: Owners, all_slots: Slots
) -> None:
    error = await refused(facility, BOTH, "eve", at=all_slots.new())
    assert "no-account" in str(error.refusals)
    assert facility.adapter.writes == []


async def test_a_user_whom_the_system_does_not_know_is_refused_in_words(
    facility: Owners, all_slots: Slots
) -> None:
    error = await refused(facility, BOTH, "cat", at=all_slots.new())
    (refusal,) = error.refusals
    assert refusal.code == "no-account", refusal.detail
    assert "knows no user nobody-here" in refusal.detail
    assert await facility.ours() == []


async def test_where_another_owner_refuses_nothing_is_left(
    facility: Owners, all_slots: Slots
) -> None:
    start = all_slots.new()
    async with facility.client() as ann:
        await ann.book("lab/beam", at=start, duration="1h")
        await refused(facility, BOTH, at=start)
    await until(lambda: _none(facility), "it is reserved, and nobody has it")


async def test_a_hold_reserves_nothing_until_it_is_locked(
    facility: Owners, all_slots: Slots
) -> None:
    async with facility.client() as ann:
        held = await ann.hold(BOTH, at=all_slots.new(), duration="1h")
        assert await facility.ours() == []
        await ann.lock(held.id)
        assert len(await facility.ours()) == 1


async def test_a_vote_that_is_under_way_when_another_site_asks_is_still_a_vote(
    facility: Owners, all_slots: Slots, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lab has promised, hears nothing, and asks the centre, whose batch system thinks still."""
    told = InDoubtResolver.peer_ask

    def peer_ask(self: InDoubtResolver, source: str, ask: PeerAsk) -> None:
        told(self, source, ask)
        facility.adapter.creates.set()

    monkeypatch.setattr(InDoubtResolver, "peer_ask", peer_ask)
    facility.adapter.creates.clear()
    async with facility.client() as ann:
        await ann.book(BOTH, at=all_slots.new(), duration="1h")
    assert len(await facility.ours()) == 1


async def test_four_who_book_at_once_share_the_nodes_and_the_fifth_is_refused(
    facility: Owners, all_slots: Slots
) -> None:
    start = all_slots.new()
    async with facility.client() as ann:
        await asyncio.gather(
            *(ann.book("centre/cluster:1", at=start, duration="1h") for _ in range(4))
        )
        await refused(facility, "centre/cluster:1", at=start)
    assert sorted(node for each in await facility.ours() for node in each.nodes) == list(
        facility.system.nodes
    )


async def test_a_change_is_an_update_of_the_same_reservation(
    facility: Owners, all_slots: Slots
) -> None:
    start = all_slots.new()
    async with facility.client() as ann:
        booked = await ann.book(BOTH, at=start, duration="1h")
        (before,) = await facility.ours()
        facility.adapter.writes.clear()
        await ann.extend(booked.id, by="30m")
        (after,) = await facility.ours()
    assert (after.name, after.nodes, after.end) == (before.name, before.nodes, before.end + 1_800)
    assert facility.adapter.writes == [f"change {before.name}"]


async def test_a_slot_that_has_begun_is_made_longer_and_shorter(facility: Owners) -> None:
    async with facility.client() as ann:
        start = ann.time_s("now") + 3
        booked = await ann.book(CLUSTER + ":2", at=start, duration="1h")
        (before,) = await facility.ours()
        await time_passes(facility.system.adapter, 4)
        longer = await ann.extend(booked.id, by="1h")
        (after,) = await facility.ours()
        # What is made anew begins where the old one had got to.
        assert after.start == before.start or not facility.system.adapter.traits.changes_in_place
        assert (after.end, after.nodes) == (before.end + HOUR_S, before.nodes)
        await ann.shrink(longer.id, by="90m")

        async def shorter() -> bool:
            return [each.end for each in await facility.ours()] == [before.end - HOUR_S // 2]

        await until(shorter, "it is as long as before")


async def test_what_is_moved_is_reserved_at_the_new_time_alone(
    facility: Owners, all_slots: Slots
) -> None:
    first, second = all_slots.new(), all_slots.new()
    async with facility.client() as ann:
        booked = await ann.book(BOTH, at=first, duration="1h")
        await ann.move(booked.id, second)

    async def moved() -> bool:
        return [each.start for each in await facility.ours()] == [second]

    await until(moved, "it is not where it was moved to")


async def test_a_slot_begins_on_time_after_one_whose_job_does_not_want_to_end(
    facility: Owners,
) -> None:
    system = facility.system
    async with facility.client() as ann, facility.client("bob") as bob:
        start = ann.time_s("now") + 3
        end = start + system.job_s_min + system.job_begins_s_max
        await ann.book("centre/cluster:4", at=start, duration=end - start)
        (ours,) = await facility.ours()
        next_s = end + system.adapter.traits.gap_s
        await bob.book("centre/cluster:4", at=next_s, duration="1h")
        job = await system.run(ours.nodes, system.job_s_min, reservation=ours.name, stubborn=True)
        # Else it would not have been started, or its own time would end it.
        await system.lengthen(job, HOUR_S)

        async def gone() -> bool:
            return not (await system.adapter.state()).jobs

        await until(gone, "it is still there")
        told, times_s = zip(*facility.adapter.ends, strict=True)
        assert told == ((False, True) if system.adapter.traits.asks_jobs else (True,))
        assert sorted({*times_s, end}) == [*times_s, end]


# Kept


async def test_what_an_operator_deletes_is_reserved_again_and_told_of_once(
    facility: Owners, all_slots: Slots
) -> None:
    async with facility.client() as ann:
        await ann.book(BOTH, at=all_slots.new(), duration="1h")
    (ours,) = await facility.ours()
    await facility.system.delete(ours.name)

    async def again() -> bool:
        return await facility.ours() == [ours]

    await until(again, "it is not reserved again")

    async def told() -> bool:
        return await facility.told() != "" and await facility.problems() == ""

    await until(told, "nobody hears of it")
    assert f"{ours.name} was deleted there, by a person or in a crash" in await facility.told()
    await facility.looked()
    assert len((await facility.told()).splitlines()) == 1


@pytest.mark.parametrize("what", ["end", "start", "nodes", "users", "open"])
async def test_what_an_operator_changes_is_set_back_and_told_of(
    facility: Owners, all_slots: Slots, what: str
) -> None:
    async with facility.client() as ann:
        await ann.book(BOTH, at=all_slots.new(), duration="1h")
    (ours,) = await facility.ours()
    to = {
        "end": ours.end - 600, "start": ours.start + 600, "nodes": ours.nodes[0],
        "users": facility.system.other_user, "open": True,
    }  # fmt: skip
    await facility.system.change(ours.name, **{what: to[what]})

    async def told() -> bool:
        # Some systems change nothing: there an operator deletes it and makes another.
        changed = f"{ours.name} was changed there" in await facility.told()
        return changed or f"{ours.name} was deleted there" in await facility.told()

    await until(told, "nobody hears of it")
    assert await facility.ours() == [ours], f"{what} is not set back"


async def test_what_is_put_over_a_promise_is_told_to_the_operator_or_refused(
    facility: Owners, all_slots: Slots
) -> None:
    async with facility.client() as ann:
        await ann.book("centre/cluster:4", at=all_slots.new(), duration="1h")
    (ours,) = await facility.ours()
    if not await put_over(facility.system, "theirs", ours.nodes, ours.start, ours.end):
        assert (await facility.ours(), await facility.problems()) == ([ours], "")
        return
    await facility.operator_is_told("promised")
    if facility.system.reserves_over:
        await facility.system.delete("theirs")
    else:
        await facility.system.cancel_all()
    await facility.operator_is_told_no_more()


async def test_a_crash_that_loses_a_promise_is_mended(facility: Owners, all_slots: Slots) -> None:
    async with facility.client() as ann:
        await ann.book(BOTH, at=all_slots.new(), duration="1h")
    (ours,) = await facility.ours()
    await facility.system.crash()
    await facility.system.start()

    async def again() -> bool:
        try:
            # With what it has lost, it may have again what a site of an earlier test had given up.
            return ours in await facility.ours()
        except Exception:  # It has just come up, and is asked again.
            return False

    await until(again, "it is not reserved again")


async def test_what_stands_in_order_is_looked_at_and_left_alone(
    facility: Owners, all_slots: Slots
) -> None:
    async with facility.client() as ann:
        await ann.book(BOTH, at=all_slots.new(), duration="1h")
    (ours,) = await facility.ours()
    await facility.system.reserve("theirs", facility.system.nodes, ours.end + 600, ours.end + 1_200)
    facility.adapter.writes.clear()
    await facility.looked()
    assert facility.adapter.writes == []
    assert (await facility.problems(), await facility.told()) == ("", "")
    state = await facility.system.adapter.state()
    assert sorted(each.name for each in state.reservations) == sorted([ours.name, "theirs"])


async def test_a_site_that_starts_again_keeps_its_promises_and_writes_nothing(
    facility: Owners, all_slots: Slots
) -> None:
    async with facility.client() as ann:
        booked = await ann.book(BOTH, at=all_slots.new(), duration="1h")
        ours = await facility.ours()
        await facility.stop_server("centre")
        facility.adapter.writes.clear()
        await facility.start_server("centre")
        await facility.looked()
        assert (await facility.ours(), facility.adapter.writes) == (ours, [])
        await ann.cancel(booked.id)
    await until(lambda: _none(facility), "it is not given up")


async def test_what_was_cancelled_while_the_system_was_away_goes_when_it_is_back(
    facility: Owners, all_slots: Slots
) -> None:
    async with facility.client() as ann:
        booked = await ann.book(BOTH, at=all_slots.new(), duration="1h")
        await facility.system.stop()
        await ann.cancel(booked.id)
    await facility.system.start()
    await until(lambda: _none(facility), "it is still reserved")


async def test_what_a_namesake_of_the_site_has_made_is_left_alone_and_told_of(
    facility: Owners, all_slots: Slots
) -> None:
    start = all_slots.new()
    name = name_of("centre", "abcdef01", 17)
    await facility.system.reserve(name, facility.system.nodes[:2], start, start + HOUR_S)
    await facility.operator_is_told(
        f"have names of this site, but its store does not list them: {name}"
    )
    await facility.looked()
    assert [each.name for each in await facility.ours()] == [name]
    await refused(facility, "centre/cluster:3", at=start)
    await facility.system.delete(name)
    await facility.operator_is_told_no_more()


async def test_a_site_whose_store_was_lost_leaves_what_that_has_promised(
    facility: Owners, all_slots: Slots
) -> None:
    async with facility.client() as ann:
        await ann.book(BOTH, at=all_slots.new(), duration="1h")
    (old,) = await facility.ours()
    await facility.stop_server("centre")
    facility.lose_store("centre")
    await facility.start_server("centre", wait=False)

    async def told() -> bool:
        return old.name in await facility.problems()

    await until(told, "the operator is not told")
    await facility.looked()
    assert await facility.ours() == [old]


# What others have


async def test_find_and_votes_see_what_others_have(facility: Owners, all_slots: Slots) -> None:
    start = all_slots.new()
    await facility.system.reserve("theirs", facility.system.nodes[:3], start, start + HOUR_S)
    await facility.system.run(facility.system.nodes[3:], 1_800)
    async with facility.client() as ann:

        async def seen() -> bool:
            found = await ann.find("centre/cluster:2", at=start, duration="1h")
            now = await ann.find("centre/cluster:4", window=("now", "now+20m"), duration="10m")
            return not found.candidates and not now.candidates

        await until(seen, "what others have is offered")
        await refused(facility, "centre/cluster:2", at=start)
        await ann.book("centre/cluster:1", at=start, duration="1h")
        await ann.book("centre/cluster:4", at=start + HOUR_S + 120, duration="1h")


async def test_find_and_calendars_say_when_the_system_was_last_seen(
    facility: Owners, all_slots: Slots
) -> None:
    start, made_s = all_slots.new(), int(time.time())
    async with facility.client() as ann, facility.client(at="centre") as at_site:

        async def seen_since() -> bool:
            found = await ann.find(BOTH, at=start, duration="1h")
            shown = await ann.calendar(CLUSTER, start=start, end=start + HOUR_S)
            direct = await at_site.calendar(CLUSTER, start=start, end=start + HOUR_S)
            assert set(found.as_of) == {CLUSTER}, "nothing stands behind the beam line"
            told = (found.as_of[CLUSTER], shown.as_of, direct.as_of)
            assert max(told) <= time.time()
            return min(told) > made_s

        await until(seen_since, "the system is not looked at again")
        beam = await ann.calendar("lab/beam", start=start, end=start + HOUR_S)
        assert beam.as_of == 0


async def test_nodes_that_the_system_does_not_have_are_named_and_not_offered(
    facility: Owners, all_slots: Slots
) -> None:
    await facility.change_resources({"name": "cluster", "capacity": 4, "nodes": "n[1-3],m9"})

    async def told() -> bool:
        return (
            "nodes of centre/cluster: machine does not know these names"
            in await facility.problems()
        )

    await until(told, "the operator is not told")
    assert "m9" in await facility.problems()
    await refused(facility, "centre/cluster:4", at=all_slots.new())


async def test_nodes_that_are_down_are_not_offered(facility: Owners, all_slots: Slots) -> None:
    for node in facility.system.nodes[:2]:
        await facility.system.drain(node)
    async with facility.client() as ann:

        async def seen() -> bool:
            return not (
                await ann.find("centre/cluster:3", window=("now+2h", "now+4h"), duration="1h")
            ).candidates

        await until(seen, "drained nodes are offered")
        for node in facility.system.nodes[:2]:
            await facility.system.mend(node)

        async def back() -> bool:
            return bool(
                (
                    await ann.find("centre/cluster:3", window=("now+2h", "now+4h"), duration="1h")
                ).candidates
            )

        await until(back, "nodes that are well again are not offered")


async def test_a_system_that_is_away_or_frozen_costs_a_refusal_and_nothing_else(
    facility: Owners, all_slots: Slots
) -> None:
    start = all_slots.new()
    for hurt, mend in (
        (facility.system.stop, facility.system.start),
        (facility.system.freeze, facility.system.thaw),
    ):
        await hurt()
        error = await refused(facility, BOTH, at=start)
        assert isinstance(error, NoCommonTime | Unavailable), error
        async with facility.client() as ann:
            # Its other sites go on, and at the centre nothing is lost.
            await ann.book("lab/beam", at=all_slots.new(), duration="1h")
        await mend()
        await facility.system.start()

        async def offered() -> bool:
            async with facility.client() as ann:
                found = await ann.find(BOTH, at=all_slots.new(), duration="1h")
                return bool(found.candidates)

        await until(offered, "it is back, and nothing is offered")
    later = all_slots.new()
    async with facility.client() as ann:
        await ann.book(BOTH, at=later, duration="1h")

    async def alone() -> bool:
        return [each.start for each in await facility.ours()] == [later]

    await until(alone, "what was refused is reserved")


async def _none(facility: Owners) -> bool:
    return await facility.ours() == []

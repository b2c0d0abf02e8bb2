"""What waits for an owner's approval, on real servers: what its user and its owner see and do."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from itertools import takewhile

import pytest
from click.testing import CliRunner, Result

import kalends
from kalends.cli import cli
from kalends.contract.owner_calls import ApprovalView
from kalends.testing import LocalFacility

NOW = "2027-03-01T09:00Z"
SLOT = "2027-03-03T09:00Z"
GUARDED = {"limits": [{"name": "word", "who": "everyone", "approval": True}]}
FACILITIES = {"emlab": {"microscope": GUARDED}, "sdsc": {"sp2": 64}}
PATIENCE_S = 120.0
BOTH = "emlab/microscope + sdsc/sp2:8"


@contextlib.asynccontextmanager
async def at_emlab() -> AsyncIterator[tuple[LocalFacility, kalends.Client, kalends.Client]]:
    """Yield servers, a user's client at their broker, and the owner's at the site that approves."""
    async with (
        LocalFacility(FACILITIES, now=NOW) as servers,
        servers.client("ann") as ann,
        servers.client("operator", at="emlab") as owner,
    ):
        yield servers, ann, owner


async def test_an_approved_booking_is_reserved_by_itself_after_every_server_was_gone() -> None:
    async with at_emlab() as (servers, ann, owner):
        assert (await ann.find(BOTH, duration="2h", at=SLOT)).approval == ("emlab/microscope",)
        booked = await ann.book(BOTH, duration="2h", at=SLOT, note="cells", wait_s=None)
        assert booked.state == "open"
        assert booked.waiting is not None
        assert booked.waiting.approval
        assert booked.waiting.awaited == ("emlab/microscope",)
        for name in ("emlab", "broker", "sdsc"):
            servers.stop(name)
            servers.start(name)
        (asked,) = await owner.approvals()
        assert (asked.id, asked.user, asked.note) == (booked.id, "ann", "cells")
        done = await owner.approve(booked.id[-8:], word="with care")
        assert (done.state, done.by) == ("approved", "operator")
        view = await ann.wait(booked.id, wait_s=60)
        assert view.state == "reserved"
        story = await ann.why(booked.id)
        assert "with care" in " ".join(event.detail for event in story.events)


async def test_a_declined_booking_is_given_up_at_every_site_and_its_user_reads_the_word() -> None:
    async with at_emlab() as (_, ann, owner):
        held = await ann.hold(BOTH, duration="2h", at=SLOT)
        assert (held.state, held.needs_approval) == ("held", ("emlab/microscope",))
        assert await owner.approvals() == ()
        assert (await ann.lock(held.id)).state == "open"
        with pytest.raises(kalends.InvalidInput, match="the comment is missing"):
            await owner.decline(held.id, word=" ")
        await owner.decline(held.id, word="the pump is broken")
        with pytest.raises(kalends.NotAllowed) as refused:
            await ann.wait(held.id, wait_s=60)
        assert "the pump is broken" in refused.value.refusals[0].detail
        with pytest.raises(kalends.Conflict, match="declined already, by operator"):
            await owner.approve(held.id)
        again = await ann.book("sdsc/sp2:64", duration="2h", at=SLOT)
        assert again.state == "reserved"


async def test_what_is_decided_is_found_by_the_short_ids_that_were_shown() -> None:
    async with at_emlab() as (servers, ann, owner):
        first = await ann.book(BOTH, duration="2h", at=SLOT, wait_s=None)
        assert (await owner.approve(first.id[-8:])).state == "approved"
        assert (await ann.wait(first.id[-8:], wait_s=60)).state == "reserved"
        changed = await ann.extend(first.id[-8:], by="1h", wait_s=60)
        assert changed.changing
        short = changed.changing[-8:]
        declined = await owner.decline(short, word="no longer")
        for name in ("emlab", "broker"):
            servers.stop(name)
            servers.start(name)
        assert (await owner.approve(first.id[-8:])).by == "operator"
        assert await owner.decline(short, word="no longer") == declined
        with pytest.raises(kalends.Conflict, match="declined already, by operator"):
            await owner.approve(short)
        with pytest.raises(kalends.NotAllowed, match="declined"):
            await ann.wait(short, wait_s=60)
        with pytest.raises(kalends.NotFound, match="no request 0badc0de"):
            await owner.approve("0badc0de")
        pairs = zip(first.id, changed.changing, strict=True)
        short_of_both = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        with pytest.raises(kalends.InvalidInput, match="may be 2 requests"):
            await owner.approve(short_of_both)
        async with servers.client("bob") as bob:
            with pytest.raises(kalends.NotFound, match="none of your requests"):
                await bob.show(short)


async def test_the_old_slots_stay_until_a_change_beyond_them_is_approved() -> None:
    async with at_emlab() as (_, ann, owner):
        booked = await ann.book(BOTH, duration="2h", at=SLOT)
        await owner.approve(booked.id)
        before = await ann.wait(booked.id, wait_s=60)
        assert (await ann.extend(booked.id, by="1h", wait_s=60)).state == "open"
        (asked,) = await owner.approvals()
        assert asked.change
        assert asked.reservation == booked.id
        shown = await ann.show(booked.id)
        assert (shown.state, shown.end) == ("reserved", before.end)
        await owner.decline(asked.id, word="no longer")
        with pytest.raises(kalends.NotAllowed):
            await ann.wait(shown.changing, wait_s=60)
        assert (await ann.show(booked.id)).end == before.end
        shorter = await ann.shrink(booked.id, by="1h", wait_s=60)
        assert (shorter.state, shorter.end) == ("reserved", before.end - 3_600)


async def test_a_change_that_waits_can_be_given_up_by_itself_and_goes_with_its_reservation() -> (
    None
):
    async with at_emlab() as (_, ann, owner):
        booked = await ann.book(BOTH, duration="2h", at=SLOT)
        await owner.approve(booked.id)
        await ann.wait(booked.id, wait_s=60)
        asked = await ann.move(booked.id, to="2027-03-04T09:00Z", wait_s=60)
        assert asked.changing
        given_up = await ann.cancel(asked.changing[-8:], wait_s=60)
        assert given_up.state == "cancelled"
        assert (await ann.show(booked.id)).state == "reserved"
        assert await owner.approvals() == ()
        last = (await ann.why(booked.id)).events[-1]
        assert last.kind == "released"
        assert last.detail.startswith(
            "the change to emlab/microscope:1, sdsc/sp2:8 from Thu 2027-03-04"
        )
        await ann.extend(booked.id, by="1h", wait_s=60)
        assert (await ann.cancel(booked.id, wait_s=60)).state == "cancelled"
        assert await owner.approvals() == ()
        again = await ann.hold("emlab/microscope", duration="3h", at=SLOT)
        assert again.state == "held"


async def test_a_change_that_waits_refuses_others_until_its_remedy_is_typed() -> None:
    async with at_emlab() as (servers, ann, owner):
        booked = await ann.book(BOTH, duration="2h", at=SLOT)
        await owner.approve(booked.id)
        await ann.wait(booked.id, wait_s=60)
        asked = await ann.extend(booked.id, by="1h", wait_s=60)
        with pytest.raises(kalends.Conflict, match="waits for an owner's approval") as refused:
            await ann.shrink(booked.id, by="1h", wait_s=60)
        assert refused.value.request_id == booked.id
        remedy = f"kalends cancel {asked.changing}"
        assert remedy in refused.value.remedy
        typed = await asyncio.to_thread(_run, servers.url("broker"), "ann", *remedy.split()[1:])
        assert typed.exit_code == 0, typed.output
        shorter = await ann.shrink(booked.id, by="1h", wait_s=60)
        assert (shorter.state, shorter.changing) == ("reserved", "")


async def test_a_slot_that_runs_is_extended_if_its_owner_approves_before_it_ends() -> None:
    async with at_emlab() as (servers, ann, owner):
        booked = await ann.book("emlab/microscope", duration="2h", at=SLOT)
        await owner.approve(booked.id)
        before = await ann.wait(booked.id, wait_s=60)
        assert before.end is not None
        servers.clock.advance(days=2, hours=1)
        assert (await ann.extend(booked.id, by="1h")).state == "open"
        (asked,) = await owner.approvals()
        assert asked.until == before.end
        await owner.approve(asked.id)
        assert (await ann.wait(asked.id, wait_s=60)).state == "reserved"
        assert (await ann.show(booked.id)).end == before.end + 3_600


async def test_what_an_owner_reclaims_stays_until_the_owner_has_approved_another_time() -> None:
    async with at_emlab() as (_, ann, owner):
        booked = await ann.book(BOTH, duration="2h", at=SLOT)
        await owner.approve(booked.id)
        before = await ann.wait(booked.id, wait_s=60)
        await owner.reclaim("emlab/microscope", at=SLOT, duration="4h", reason="a new pump")
        first = await _asked_of(owner)
        assert (first.change, first.reservation) == (True, booked.id)
        await owner.decline(first.id, word="the pump comes then")
        assert (await ann.show(booked.id)).start == before.start
        second = await _asked_of(owner)
        assert second.slots != first.slots
        await owner.approve(second.id)
        assert (await ann.wait(second.id, wait_s=60)).state == "reserved"
        assert (await ann.show(booked.id)).start == second.slots[0].start


async def _asked_of(owner: kalends.Client) -> ApprovalView:
    """Return what waits for `owner`, once something does."""
    async with asyncio.timeout(PATIENCE_S):
        while not (waiting := await owner.approvals()):
            pass
    return waiting[0]


def _run(url: str, user: str, *words: str) -> Result:
    return CliRunner().invoke(cli, [*words, "--broker", url, "--user", user, "--zone", "UTC"])


def test_the_command_line_tells_whom_is_waited_for_and_gives_the_owners_word() -> None:
    with LocalFacility(FACILITIES, now=NOW) as servers:
        broker, site = servers.url("broker"), servers.url("emlab")
        booked = _run(broker, "ann", "book", BOTH, "--for", "2h", "--at", SLOT)
        assert booked.exit_code == 0, booked.output
        assert "waits for the approval of the owner of emlab/microscope until" in booked.output
        assert "(approval)" in _run(broker, "ann", "list", "--waiting").output
        listed = _run(site, "operator", "admin", "requests")
        assert "emlab/microscope" in listed.output
        shown = json.loads(_run(site, "operator", "admin", "requests", "--json").output)
        (asked,) = shown["data"]["requests"]
        declined = _run(site, "operator", "admin", "decline", asked["id"], "--word", "not now")
        assert "declined: not now" in declined.output
        followed = _run(broker, "ann", "show", asked["id"], "--follow")
        assert followed.exit_code == 4
        assert "its owner has declined it: not now" in followed.output
        other = _run(site, "operator", "admin", "approve", asked["id"])
        assert other.exit_code == 1
        assert "it was declined already, by operator" in other.output
        assert _run(site, "operator", "admin", "requests").output == (
            "no request needs your approval\n"
        )
        assert _run(broker, "ann", "list", "--waiting").output == "no request of yours waits\n"
        rules = _run(broker, "ann", "resources", "emlab/microscope").output
        assert "with the owner's approval" in rules


def test_the_command_line_tells_that_another_person_has_to_approve_too() -> None:
    by_two = {"limits": [{"name": "both", "who": "everyone", "approval": True, "approvers": 2}]}
    with LocalFacility({"emlab": {"microscope": by_two}, "sdsc": {"sp2": 64}}, now=NOW) as servers:
        broker, site = servers.url("broker"), servers.url("emlab")
        booked = _run(broker, "ann", "book", BOTH, "--for", "2h", "--at", SLOT, "--json")
        id = json.loads(booked.stdout)["data"]["id"]
        for _ in range(2):
            first = _run(site, "olga", "admin", "approve", id, "--word", "with care")
            assert "approved by olga, and needs the approval of another person" in first.output
        listed = _run(site, "otto", "admin", "requests").output
        assert "approved by olga, needs another" in listed
        assert "is approved: with care" in _run(site, "otto", "admin", "approve", id).output
        assert f"reserved {id[-8:]}" in _run(broker, "ann", "show", id, "--follow").output
        rules = _run(broker, "ann", "resources", "emlab/microscope").output
        assert "with the approval of two people of the owner" in rules


def test_the_command_line_tells_how_a_change_that_waits_is_given_up_without_what_stands() -> None:
    with LocalFacility(FACILITIES, now=NOW) as servers:
        broker, site = servers.url("broker"), servers.url("emlab")
        booked = _run(broker, "ann", "book", BOTH, "--for", "2h", "--at", SLOT, "--json")
        id = json.loads(booked.stdout)["data"]["id"]
        _run(site, "operator", "admin", "approve", id)
        _run(broker, "ann", "show", id, "--follow")
        moved = _run(broker, "ann", "move", id, "--to", "2027-03-04T09:00Z")
        shown = json.loads(_run(broker, "ann", "show", id, "--json").stdout)
        change = shown["data"]["changing"][-8:]
        assert "the reservation stays as it is until then" in moved.output
        assert f"kalends cancel {change} to give the change up" in moved.output
        assert f"kalends cancel {id[-8:]}" not in moved.output
        assert f"kalends show {change}" in _run(broker, "ann", "show", id).output
        assert f"{change} " in _run(broker, "ann", "list", "--waiting").output
        assert "reserved (changing)" in _run(broker, "ann", "list").output
        waits = _run(broker, "ann", "show", change).output
        assert "waits for the approval of the owner of emlab/microscope" in waits
        given_up = _run(broker, "ann", "cancel", change)
        assert given_up.exit_code == 0
        assert f"the change {change} is cancelled; this reservation stays" in given_up.output
        assert f"reserved {id[-8:]}" in given_up.output
        again = _run(broker, "ann", "move", id, "--to", "2027-03-05T09:00Z")
        assert again.exit_code == 0, again.output
        shown = json.loads(_run(broker, "ann", "show", id, "--json").stdout)
        change = shown["data"]["changing"][-8:]
        _run(site, "operator", "admin", "decline", change, "--word", "not then")
        assert "not then" in _run(broker, "ann", "show", change, "--follow").output

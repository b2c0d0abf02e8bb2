"""Jobs in step on real servers of two owners: all parts start together, or none; whoever is killed when."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest

import kalends
from kalends.contract.calls import RequestView
from kalends.contract.job_calls import JobView
from kalends.core.jobs import JobRequest
from kalends.core.steps import StepPart

from .laboratory import USER
from .servers import until
from .test_bids_live import Federation, federation

__all__ = ["federation"]

BOTH = "east/box:2 + west/box:3"


def marking(federation: Federation, text: str, **more: Any) -> JobRequest:
    """A job that runs `text` in the folder of marks of its site."""
    folders = "; ".join(
        f'[ "$KALENDS_MACHINE" = {name}/box ] && cd {each.marks}'
        for name, each in federation.sites.items()
    )
    fields = {"machine": "", "limit_s": 30, "directory": "/", **more}
    return JobRequest(command=("/bin/sh", "-c", f"{folders}; {text}"), **fields)


async def submitted(
    client: kalends.Client,
    job: JobRequest,
    key: str,
    in_s: int | None = 3,
    request: str = BOTH,
    **options: Any,
) -> RequestView:
    """Ask, by `key`, until it is told when it will run; it starts `in_s` from now, or None: soon."""
    now_s = int(time.time())
    if in_s is not None:
        options = {"at": now_s + in_s, **options}
    else:
        # A key stands for one request: "now" would be another each time.
        options = {"window": (now_s, now_s + 86_400), **options}

    failed = 0

    async def told() -> RequestView | None:
        nonlocal failed
        try:
            next_key = f"{key}-{failed}" if failed else key
            view = await client.submit_in_step(request, job, key=next_key, wait_s=20, **options)
        except kalends.OutcomeUnknown:
            return None
        except kalends.Unavailable as error:
            # A request that a site has missed is over, for good: the next one has a key of its own.
            failed += bool(error.request_id)
            return None
        return view if view.state != "open" and len(view.parts) == 2 else None

    return await until(told, f"{key} is submitted")


async def over(federation: Federation, part: StepPart) -> JobView:
    """The job of a part, once it is over."""
    site = federation.sites[part.machine.partition("/")[0]].site
    async with kalends.connect(site.url, user=USER, zone="UTC") as ann:

        async def ended() -> JobView | None:
            view = await ann.job(part.machine, part.job)
            return view if view.end else None

        return await until(ended, f"{part.machine}/{part.job} is over", explain=federation.logs)


async def test_all_parts_start_at_once_and_each_knows_the_addresses_of_all(
    federation: Federation,
) -> None:
    async with kalends.connect(federation.broker.url, user=USER, zone="UTC") as client:
        await federation.connected(client)
        said = 'echo "$KALENDS_PART of $KALENDS_PARTS on $KALENDS_NODE_COUNT" >> marks'
        view = await submitted(client, marking(federation, said), "the-step-in-step")
        assert [part.machine for part in view.parts] == ["east/box", "west/box"]
        jobs = [await over(federation, part) for part in view.parts]
        assert [job.end for job in jobs] == ["exit", "exit"]
        assert [job.reservation for job in jobs] == [view.id, view.id]
        assert {job.started for job in jobs} == {view.start}

        async def given_back() -> RequestView | None:
            shown = await client.show(view.id)
            return shown if shown.parts_ended_at else None

        shown = await until(given_back, "the slots are given back", explain=federation.logs)
        assert view.start <= shown.parts_ended_at < view.end
        for part in view.parts:
            calendar = await client.calendar(part.machine, start=view.start, end=view.end)
            assert calendar.slots == ()
    (host,) = shown.parts[0].hosts
    addresses = f"east/box={host} west/box={host}"
    assert federation.marks() == {f"0 of {addresses} on 2": 1, f"1 of {addresses} on 3": 1}


async def test_a_part_that_fails_ends_the_others_and_cancels_the_reservation(
    federation: Federation,
) -> None:
    async with kalends.connect(federation.broker.url, user=USER, zone="UTC") as client:
        await federation.connected(client)
        fails = '[ "$KALENDS_PART" = 1 ] && exit 3; exec sleep 600'
        view = await submitted(client, marking(federation, fails), "the-step-that-fails")
        lasting, failing = [await over(federation, part) for part in view.parts]
        assert (failing.end, failing.status) == ("exit", 3)
        assert (lasting.end, lasting.detail) == (
            "killed",
            "its reservation no longer has these nodes",
        )
        story = await client.why(view.id)
    assert story.request.state == "cancelled"
    assert f"west/box/{failing.job} exit 3" in [event.detail for event in story.events]


async def test_who_kills_one_part_before_it_starts_ends_all(federation: Federation) -> None:
    async with kalends.connect(federation.broker.url, user=USER, zone="UTC") as client:
        await federation.connected(client)
        view = await submitted(
            client, marking(federation, "echo ran >> marks"), "the-step-not-wanted", in_s=600
        )
        first, second = view.parts
        async with kalends.connect(federation.sites["east"].site.url, user=USER, zone="UTC") as ann:
            await ann.kill_job(first.machine, first.job)
        job = await over(federation, second)
        assert (job.phase, job.detail) == ("withdrawn", "its reservation was cancelled")
        assert (await client.show(view.id)).state == "cancelled"
    assert not federation.marks()


async def test_who_cancels_the_request_ends_all_parts_and_a_repeated_call_makes_no_others(
    federation: Federation,
) -> None:
    async with kalends.connect(federation.broker.url, user=USER, zone="UTC") as client:
        await federation.connected(client)
        at = int(time.time()) + 600
        job = marking(federation, "echo ran >> marks")
        view = await submitted(client, job, "the-step-said-twice", at=at)
        again = await submitted(client, job, "the-step-said-twice", at=at)
        assert (again.id, again.parts) == (view.id, view.parts)
        other = marking(federation, "echo another >> marks")
        with pytest.raises(kalends.KalendsError, match="key"):
            await client.submit_in_step(BOTH, other, key="the-step-said-twice", at=at)
        await client.cancel(view.id)
        jobs = [await over(federation, part) for part in view.parts]
        assert {job.phase for job in jobs} == {"withdrawn"}


@pytest.mark.parametrize("whom", ["east", "broker", "all"])
async def test_all_parts_start_once_whoever_is_killed_before_the_start(
    federation: Federation, whom: str
) -> None:
    """Also if who was killed is back only when the others wait on their nodes."""
    async with kalends.connect(federation.broker.url, user=USER, zone="UTC") as client:
        await federation.connected(client)
        # The slot outlasts restarts on a busy machine.
        job = marking(federation, 'echo "$KALENDS_MACHINE" >> marks', limit_s=300)
        view = await submitted(client, job, "the-step-that-waits", in_s=4)
        servers = [each for each in federation.servers if whom in (each.name, "all")]
        for server in servers:
            await server.kill()
        waits = [each.site for each in federation.sites.values() if each.site not in servers]
        for site in waits:
            (part,) = (each for each in view.parts if each.machine.startswith(site.name))
            async with kalends.connect(site.url, user=USER, zone="UTC") as ann:

                async def has_nodes(part: StepPart = part, ann: kalends.Client = ann) -> bool:
                    found = await ann.job(part.machine, part.job)
                    return found.phase == "starting" and bool(found.reasons)

                await until(has_nodes, "it waits on its nodes", explain=federation.logs)
        assert not federation.marks()
        for server in servers:
            await server.start()
        jobs = [await over(federation, part) for part in view.parts]
    assert [job.end for job in jobs] == ["exit", "exit"]
    assert federation.marks() == {"east/box": 1, "west/box": 1}


async def test_what_runs_in_step_needs_machines_that_take_it(federation: Federation) -> None:
    async with kalends.connect(federation.broker.url, user=USER, zone="UTC") as client:
        await federation.connected(client)
        strange = marking(federation, "true", priority="royal")
        with pytest.raises(kalends.InvalidInput) as refused:
            await client.submit_in_step(BOTH, strange)
        # Whoever refuses first ends it: the other may not have been heard.
        assert {each.detail for each in refused.value.refusals} == {"no priority class royal"}
        assert not (await client.list(state="reserved"))


async def test_of_each_step_all_parts_run_once_or_none_whoever_is_killed_at_any_moment(
    federation: Federation,
) -> None:
    chance = random.Random(11)

    async with kalends.connect(federation.broker.url, user=USER, zone="UTC") as client:
        await federation.connected(client)
        views = {}
        async with asyncio.TaskGroup() as both:
            both.create_task(federation.strike(chance))
            for number in range(4):
                job = marking(federation, f"echo step-{number} >> marks", limit_s=60)
                views[number] = await submitted(
                    client, job, f"the-step-{number}", in_s=None, request="east/box + west/box"
                )
        for view in views.values():
            for part in view.parts:
                await over(federation, part)
    for name, each in federation.sites.items():
        assert each.marked() == {f"step-{number}": 1 for number in views}, name

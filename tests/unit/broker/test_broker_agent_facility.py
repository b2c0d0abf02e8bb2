"""Agents at real servers: two sites and a broker on loopback, scripts run by the language's engine."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from tests.support.ports import free_urls

import kalends
from kalends.core.errors import InvalidInput, NoCommonTime
from kalends.servers.broker import build_broker
from kalends.servers.site import build_site
from kalends.serving.configuration import Configuration, load_configuration
from kalends.serving.http.runner import Service, listen

DAY = (int(time.time()) // 86_400 + 10) * 86_400
"""Midnight (UTC) of a day that is not far away."""

LATEST = """
def choose(view, request):
    send({"seen": len(view["slots"]), "messages": [receive()]})
    return [slot["id"] for slot in reversed(view["slots"])]
"""
BROKEN = """
def choose(view, request):
    return [slot["id"] // 0 for slot in view["slots"]]
"""
APART = """
def choose(view, request):
    early = view["site"] == "caltech"
    wanted = [s for s in view["slots"] if (s["start"] < request["first"] + 7200) == early]
    if request["round"] > 1:
        wanted = view["slots"]
    return [slot["id"] for slot in wanted]
"""


def configuration(text: str, directory: Path) -> Configuration:
    return load_configuration(text, directory)


@asynccontextmanager
async def facility(directory: Path, *, near: bool = False) -> AsyncIterator[kalends.Client]:
    async with AsyncExitStack() as stack:
        urls = dict(zip(("caltech", "sdsc"), free_urls(2), strict=True))
        for site, resource in (("caltech", "onyx"), ("sdsc", "sp2")):
            text = (
                f'[site]\nname = "{site}"\nstore = "{site}.sqlite"\n'
                "[site.agents]\nlanguage_only = true\n"
                f'[[site.resources]]\nname = "{resource}"\ncapacity = 8\ngrain = "15m"\n'
                'attributes = { kind = "big" }\n'
            )
            if near:
                text += "".join(
                    f'[[site.near]]\nname = "{each}"\nurl = "{url}"\n'
                    for each, url in urls.items()
                    if each != site
                )
            of_site = configuration(text, directory).site
            assert of_site is not None
            application = build_site(of_site, version="1")
            address = urls[site].partition("://")[2]
            listening = await listen(Service(site, application, address))
            stack.push_async_callback(listening.stop)
        text = '[broker]\nname = "npaci"\nstore = "npaci.sqlite"\n[broker.agents]\nlanguage_only = true\n'
        for site, url in urls.items():
            text += f'[[broker.sites]]\nname = "{site}"\nurl = "{url}"\n'
        broker = configuration(text, directory).broker
        assert broker is not None
        listening = await listen(Service("npaci", build_broker(broker, version="1"), "127.0.0.1:0"))
        stack.push_async_callback(listening.stop)
        client = await stack.enter_async_context(kalends.connect(listening.url, user="anna"))
        while any(site.state == "down" for site in (await client.resources()).sites):
            pass
        yield client


WINDOW = (DAY + 8 * 3_600, DAY + 18 * 3_600)
BOTH = "sdsc/sp2:4 + caltech/onyx:2"


async def test_an_agent_chooses_the_start_of_a_co_allocation(tmp_path: Path) -> None:
    async with facility(tmp_path) as client:
        await client.upload_agent("latest", LATEST)
        view = await client.book(BOTH, duration="1h", window=WINDOW, agent="latest")
        assert (view.state, view.end, view.attempts) == ("reserved", WINDOW[1], 1)
        assert {note.site for note in view.notes} == {"sdsc", "caltech"}
        story = await client.why(view.id)
        assert [event.kind for event in story.events] == ["agent", "agent", "reserved"]


async def test_sites_that_are_near_answer_together(tmp_path: Path) -> None:
    async with facility(tmp_path, near=True) as client:
        await client.upload_agent("latest", LATEST)
        for _ in range(2):
            view = await client.book(BOTH, duration="1h", window=WINDOW, agent="latest")
            assert (view.state, view.end, view.attempts) == ("reserved", WINDOW[1], 1)
            assert {note.site for note in view.notes} == {"sdsc", "caltech"}
            told = [event.detail for event in (await client.why(view.id)).events]
            assert told[0] == "round 1, caltech: it answered for sdsc, too; 16 starts in common"


async def test_without_an_agent_the_same_request_is_early(tmp_path: Path) -> None:
    async with facility(tmp_path) as client:
        view = await client.book(BOTH, duration="1h", window=WINDOW)
        assert (view.start, view.agent, view.notes) == (WINDOW[0], "", ())


async def test_a_script_that_fails_everywhere_stops_nothing(tmp_path: Path) -> None:
    async with facility(tmp_path) as client:
        await client.upload_agent("broken", BROKEN)
        view = await client.book(BOTH, duration="1h", window=WINDOW, agent="broken")
        assert (view.state, view.start) == ("reserved", WINDOW[0])
        told = [event.detail for event in (await client.why(view.id)).events]
        assert "agent-error in line 3" in told[0]


async def test_agents_that_do_not_agree_meet_in_the_next_round(tmp_path: Path) -> None:
    async with facility(tmp_path) as client:
        await client.upload_agent("apart", APART)
        view = await client.book(BOTH, duration="1h", window=WINDOW, agent="apart")
        assert (view.state, view.attempts) == ("reserved", 2)


async def test_a_hold_of_an_agent_is_one_start_and_can_be_locked_or_released(
    tmp_path: Path,
) -> None:
    async with facility(tmp_path) as client:
        await client.upload_agent("latest", LATEST)
        held = await client.hold(BOTH, duration="1h", window=WINDOW, agent="latest")
        assert (held.state, held.end) == ("held", WINDOW[1])
        calendar = await client.calendar("sdsc/sp2", start=WINDOW[0], end=WINDOW[1])
        taken = [(slot.start, slot.end) for slot in calendar.slots]
        assert taken == [(WINDOW[1] - 3_600, WINDOW[1])]
        told = await client.tell_agent(held.id, message={"price": 3}, key="tell-key-1")
        assert told.state == "held"
        locked = await client.lock(held.id)
        assert (locked.state, locked.end) == ("reserved", WINDOW[1])
        other = await client.hold(BOTH, duration="1h", window=WINDOW, agent="latest")
        assert (await client.release(other.id)).state == "cancelled"


async def test_n_of_k_over_sites(tmp_path: Path) -> None:
    async with facility(tmp_path) as client:
        view = await client.book(
            "2 of {kind=big}:8", duration="1h", window=WINDOW, agent="ready:latest"
        )
        assert (view.state, view.attempts) == ("reserved", 1)
        assert {claim.resource for claim in view.claims} == {"sdsc/sp2", "caltech/onyx"}
        assert view.end == WINDOW[1]


async def test_where_nothing_is_free_the_planner_says_why(tmp_path: Path) -> None:
    async with facility(tmp_path) as client:
        await client.book("caltech/onyx:8", duration="10h", window=WINDOW)
        with pytest.raises(NoCommonTime) as caught:
            await client.book(BOTH, duration="1h", window=WINDOW, agent="ready:latest")
        assert [refusal.where for refusal in caught.value.refusals] == ["caltech/onyx"]


async def test_a_change_of_what_an_agent_chose_goes_without_it(tmp_path: Path) -> None:
    async with facility(tmp_path) as client:
        view = await client.book(BOTH, duration="1h", window=WINDOW, agent="ready:latest")
        moved = await client.move(view.id, WINDOW[0])
        assert (moved.start, moved.agent) == (WINDOW[0], "")


async def test_another_agent_must_be_there_too(tmp_path: Path) -> None:
    async with facility(tmp_path) as client:
        held = await client.hold(BOTH, duration="1h", window=WINDOW, agent="ready:latest")
        with pytest.raises(InvalidInput, match="did you mean ready:earliest"):
            await client.tell_agent(held.id, agent="ready:earlest")
        view = await client.tell_agent(held.id, agent="ready:earliest", key="tell-key-1")
        assert view.agent == "ready:earliest"
        again = await client.tell_agent(held.id, agent="ready:earliest", key="tell-key-1")
        assert again.agent == "ready:earliest"

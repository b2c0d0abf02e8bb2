"""Users' scripts at a real broker: kept, checked in the sandbox, listed, deleted, and booked with."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

import kalends
from kalends.agents.runs import ScriptCheck
from kalends.broker.desk import scripts
from kalends.broker.desk.script_checks import LANGUAGE_ONLY, UNCHECKED, ScriptChecks, accepted
from kalends.broker.desk.scripts import NAMES_MAX
from kalends.client.transports.retry import Backoff
from kalends.core.errors import (
    Conflict,
    InvalidInput,
    LimitExceeded,
    NotAllowed,
    NotFound,
    Unavailable,
)
from kalends.core.limits import SCRIPT_BYTES_MAX
from kalends.core.scripts import script_hash
from kalends.servers.broker import build_broker
from kalends.serving.configuration import AgentsConfiguration, load_configuration
from kalends.serving.http.runner import Service, listen
from kalends.serving.logs import get_logger

ONCE = Backoff(tries_max=1)
WHEN = 4_000_000_000
SOURCE = "def choose(view, request):\n    return []\n"
OTHER = "def choose(view, request):\n    return [0]\n"
ONLY_RECALL = "def recall(slot, asker, view):\n    return True\n"
BROKEN = "import os\n\ndef choose(view, request):\n    try:\n        return []\n    finally:\n        pass\n"


@asynccontextmanager
async def serving(directory: Path, agents: str = "language_only = true") -> AsyncIterator[str]:
    text = f'[broker]\nname = "npaci"\nstore = "npaci.sqlite"\n[broker.agents]\n{agents}\n'
    broker = load_configuration(text, directory).broker
    assert broker is not None
    application = build_broker(broker, version="1")
    listening = await listen(Service("broker npaci", application, "127.0.0.1:0"))
    try:
        yield listening.url
    finally:
        await listening.stop()


def connected(url: str, user: str = "anna") -> kalends.Client:
    return kalends.connect(url, user=user, backoff=ONCE)


def sources(directory: Path) -> set[str]:
    with closing(sqlite3.connect(directory / "npaci.sqlite")) as connection:
        return {row[0] for row in connection.execute("select source from script")}


async def test_a_script_is_kept_under_its_name_and_found_by_its_hash(tmp_path: Path) -> None:
    async with serving(tmp_path) as url, connected(url) as client:
        kept = await client.upload_agent("mine", SOURCE)
        assert (kept.name, kept.script, kept.size_bytes) == (
            "mine",
            script_hash(SOURCE),
            len(SOURCE),
        )
        assert kept.functions == ("choose",)
        assert await client.upload_agent("mine", SOURCE) == kept
        assert await client.agents() == (kept,)
        for reference in ("mine", kept.script):
            assert (await client.agent(reference)).source == SOURCE


async def test_scripts_are_of_their_user_alone(tmp_path: Path) -> None:
    async with serving(tmp_path) as url, connected(url) as anna, connected(url, "bob") as bob:
        await anna.upload_agent("mine", SOURCE)
        assert await bob.agents() == ()
        for reference in ("mine", script_hash(SOURCE)):
            with pytest.raises(NotFound):
                await bob.agent(reference)
            with pytest.raises(InvalidInput, match="you have no script"):
                await bob.book("sdsc/sp2", duration="1h", at=WHEN, agent=reference)
        await bob.upload_agent("mine", OTHER)
        await bob.delete_agent("mine")
        assert (await anna.agent("mine")).source == SOURCE


async def test_a_new_source_replaces_and_the_old_one_is_forgotten(tmp_path: Path) -> None:
    async with serving(tmp_path) as url, connected(url) as client:
        await client.upload_agent("mine", SOURCE)
        await client.upload_agent("mine", OTHER)
        assert [each.script for each in await client.agents()] == [script_hash(OTHER)]
        assert sources(tmp_path) == {OTHER}


async def test_a_source_lives_as_long_as_one_of_its_names(tmp_path: Path) -> None:
    async with serving(tmp_path) as url, connected(url) as anna, connected(url, "bob") as bob:
        await anna.upload_agent("one", SOURCE)
        await anna.upload_agent("two", SOURCE)
        await bob.upload_agent("one", SOURCE)
        await anna.delete_agent(script_hash(SOURCE))
        assert await anna.agents() == ()
        assert sources(tmp_path) == {SOURCE}
        await bob.delete_agent("one")
        assert sources(tmp_path) == set()


async def test_a_repeated_delete_has_the_same_answer_and_an_unknown_name_none(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as url, connected(url) as client:
        kept = await client.upload_agent("mine", SOURCE)
        assert await client.delete_agent("mine") == kept
        assert await client.delete_agent("mine") == kept
        with pytest.raises(NotFound):
            await client.agent("mine")
        with pytest.raises(NotFound):
            await client.delete_agent("yours")
        again = await client.upload_agent("mine", SOURCE)
        assert await client.agents() == (again,)


async def test_scripts_last_over_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as url, connected(url) as client:
        kept = await client.upload_agent("mine", SOURCE)
    async with serving(tmp_path) as url, connected(url) as client:
        assert await client.agents() == (kept,)


async def test_only_so_many_names_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert NAMES_MAX == 100
    monkeypatch.setattr(scripts, "NAMES_MAX", 3)
    async with serving(tmp_path) as url, connected(url) as client:
        for number in range(3):
            await client.upload_agent(f"name-{number}", SOURCE)
        with pytest.raises(LimitExceeded):
            await client.upload_agent("one-more", SOURCE)
        await client.upload_agent("name-0", OTHER)
        await client.delete_agent("name-1")
        await client.upload_agent("one-more", SOURCE)


async def test_every_broken_rule_is_told_at_once_by_line_and_column(tmp_path: Path) -> None:
    async with serving(tmp_path) as url, connected(url) as client:
        with pytest.raises(InvalidInput) as caught:
            await client.upload_agent("mine", BROKEN)
        refusals = caught.value.refusals
        assert {each.where for each in refusals} >= {"line 1, column 1", "line 4, column 5"}
        assert all(each.code and each.detail for each in refusals)
        assert await client.agents() == ()


@pytest.mark.parametrize("source", ["def choose(", "x" * (SCRIPT_BYTES_MAX + 1), "ä" * 20_000])
async def test_what_is_no_script_is_refused(tmp_path: Path, source: str) -> None:
    async with serving(tmp_path) as url, connected(url) as client:
        with pytest.raises(InvalidInput):
            await client.upload_agent("mine", source)


async def test_where_scripts_cannot_be_checked_none_is_taken_and_health_says_so(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, "enabled = false") as url, connected(url) as client:
        with pytest.raises(Unavailable, match="switched off"):
            await client.upload_agent("mine", SOURCE)
        health = await client.health()
        assert health.status == "ok"
        assert health.detail.startswith(UNCHECKED)


async def test_in_the_sandbox_scripts_are_checked_for_real(tmp_path: Path) -> None:
    async with serving(tmp_path, "enabled = true") as url, connected(url) as client:
        health = await client.health()
        if health.detail.startswith(UNCHECKED):  # a host without seccomp takes none
            with pytest.raises(Unavailable):
                await client.upload_agent("mine", SOURCE)
            return
        assert health.detail == ""
        assert (await client.upload_agent("mine", SOURCE)).functions == ("choose",)
        with pytest.raises(InvalidInput) as caught:
            await client.upload_agent("mine", BROKEN)
        assert caught.value.refusals


async def test_without_the_sandbox_health_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path) as url, connected(url) as client:
        assert (await client.health()).detail == LANGUAGE_ONLY


async def test_an_agent_that_is_not_there_is_refused_with_those_of_a_like_name(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as url, connected(url) as client:
        await client.upload_agent("mornings", SOURCE)
        with pytest.raises(InvalidInput, match="did you mean mornings") as caught:
            await client.book("sdsc/sp2", duration="1h", at=WHEN, agent="morning")
        assert caught.value.where == "request.agent"
        for like in ("ready:earlyest", "earliest"):
            with pytest.raises(InvalidInput, match="did you mean ready:earliest"):
                await client.book("sdsc/sp2", duration="1h", at=WHEN, agent=like)


async def test_a_script_without_choose_cannot_be_booked_with(tmp_path: Path) -> None:
    async with serving(tmp_path) as url, connected(url) as client:
        await client.upload_agent("mine", ONLY_RECALL)
        with pytest.raises(InvalidInput, match="does not define choose"):
            await client.book("sdsc/sp2", duration="1h", at=WHEN, agent="mine")


@pytest.mark.parametrize("agent", ["mine", script_hash(SOURCE), "ready:earliest"])
async def test_a_request_names_its_agent_and_shows_its_script(tmp_path: Path, agent: str) -> None:
    async with serving(tmp_path) as url, connected(url) as client:
        await client.upload_agent("mine", SOURCE)
        with pytest.raises(NotFound, match="no such resource"):
            await client.book(
                "sdsc/sp2",
                duration="1h",
                window=(WHEN, WHEN + 7_200),
                agent=agent,
                key="the-key-1",
            )
        view = await client.resolve("the-key-1")
        assert (view.state, view.agent) == ("failed", agent)
        assert len(view.script) == 64
        assert sources(tmp_path) == {SOURCE}


async def test_a_repeated_call_finds_its_request_even_when_the_script_is_gone(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as url, connected(url) as client:
        await client.upload_agent("mine", SOURCE)
        for _ in range(2):
            with pytest.raises(NotFound, match="no such resource"):
                await client.book("sdsc/sp2", duration="1h", at=WHEN, agent="mine", key="the-key-1")
            await client.delete_agent("mine")


async def test_finding_with_an_agent_is_refused_with_a_way_out(tmp_path: Path) -> None:
    async with serving(tmp_path) as url, connected(url) as client:
        with pytest.raises(InvalidInput, match="runs no agents") as caught:
            await client.find(
                client.request(
                    "sdsc/sp2", duration="1h", window=(WHEN, None), agent="ready:earliest"
                )
            )
        assert "leave the agent out" in caught.value.remedy


async def test_a_decided_request_is_told_nothing_more(tmp_path: Path) -> None:
    async with serving(tmp_path) as url, connected(url) as client:
        with pytest.raises(NotFound) as caught:
            await client.book("sdsc/sp2", duration="1h", at=WHEN, agent="ready:earliest")
        with pytest.raises(Conflict, match="its agent has ended"):
            await client.tell_agent(caught.value.request_id, message="too late")


async def test_who_uploads_one_script_does_not_wait_for_all_of_another_user() -> None:
    checking = ScriptChecks(AgentsConfiguration(), get_logger(role="broker", name="npaci"), print)
    ended: list[str] = []

    async def check(user: str, number: int) -> None:
        assert (await checking.check(f"{SOURCE}# {number}\n", user)).code == "ok"
        ended.append(user)

    await checking.start()
    try:
        many = [asyncio.create_task(check("anna", number)) for number in range(24)]
        await asyncio.gather(asyncio.create_task(check("bob", 0)), *many)
    finally:
        await checking.stop()
    assert ended.index("bob") < len(many) // 2


def test_a_user_whose_scripts_are_suspended_is_told_so_and_not_to_write_less() -> None:
    with pytest.raises(NotAllowed) as caught:
        accepted(ScriptCheck("policy-violation"))
    assert "wait" in caught.value.remedy

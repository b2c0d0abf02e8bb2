"""The client's calls about agents, against a real server on loopback."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from client_broker import BROKEN, NOW_S, Broker

import kalends
from kalends.client.client import Client
from kalends.client.connection import in_surroundings
from kalends.client.inputs.scripts import named_script
from kalends.client.methods.agent_calls import AgentCalls
from kalends.client.sync import SyncClient
from kalends.client.transports.retry import Backoff
from kalends.contract import calls
from kalends.core import limits
from kalends.core.errors import (
    Conflict,
    InvalidInput,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    TooLarge,
)
from kalends.core.scripts import script_hash

SOURCE = "def choose(view, request):\n    return [slot['id'] for slot in view['slots']]\n"
HOUR: dict[str, Any] = {"duration": "1h", "at": NOW_S}


@pytest.fixture(params=["session", "http"])
async def client(request: pytest.FixtureRequest, broker: Broker) -> AsyncIterator[Client]:
    async def sleep(seconds: float) -> None:
        """Retries follow at once."""

    made = kalends.connect(
        broker.url, user="ada", zone="UTC", transport=request.param, backoff=Backoff(tries_max=3)
    )
    async with in_surroundings(made, sleep=sleep, wall_clock=lambda: NOW_S) as client:
        yield client


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mornings.py"
    path.write_text(SOURCE)
    return path


def a_run(number: int, id: str) -> calls.RunView:
    return calls.RunView(
        run=str(number), at_ms=NOW_S * 1000, id=id, user="ada", script="0" * 64, function="choose",
        code="ok", steps=12, record=b"\x80",
    )  # fmt: skip


async def test_scripts_are_uploaded_listed_shown_and_deleted(client: Client) -> None:
    uploaded = await client.upload_agent("mornings", SOURCE)
    assert uploaded.script == hashlib.sha256(SOURCE.encode()).hexdigest() == script_hash(SOURCE)
    assert [agent.name for agent in await client.agents()] == ["mornings"]
    for name in ("mornings", uploaded.script):
        assert (await client.agent(name)).source == SOURCE
    await client.delete_agent("mornings")
    assert await client.agents() == ()
    with pytest.raises(NotFound):
        await client.agent("mornings")


async def test_a_script_that_breaks_rules_is_refused_with_all_of_them(client: Client) -> None:
    with pytest.raises(InvalidInput) as refused:
        await client.upload_agent("mine", "import os")
    assert refused.value.refusals == BROKEN
    assert await client.agents() == ()


@pytest.mark.parametrize("name", ["", "Mine", "a b", "../x", "a" * 64])
async def test_a_name_that_is_none_is_refused_before_anything_is_sent(
    client: Client, broker: Broker, name: str
) -> None:
    with pytest.raises(InvalidInput):
        await client.upload_agent(name, SOURCE)
    assert broker.seen == []


async def test_a_request_names_its_agent_and_what_it_is_given_along(
    client: Client, broker: Broker
) -> None:
    arguments = {"at": "09:30", "days": 3, "share": 0.5, "strict": True}
    booked = await client.book("sdsc/sp2", **HOUR, agent="ready:earliest", arguments=arguments)
    assert booked.agent == "ready:earliest"
    ((name, body),) = broker.seen
    assert name == "book"
    assert isinstance(body, calls.Book)
    assert (body.request.agent, body.request.arguments) == ("ready:earliest", arguments)
    assert body.request == client.request(
        "sdsc/sp2", **HOUR, agent="ready:earliest", arguments=arguments
    )


async def test_a_request_in_python_form_takes_an_agent_too(client: Client) -> None:
    plain = client.request("sdsc/sp2", **HOUR)
    assert client.request(plain) is plain
    assert client.request(plain, agent="mine", arguments={"a": 1}).arguments == {"a": 1}


@pytest.mark.parametrize(
    ("agent", "arguments"),
    [
        ("", {"a": 1}), ("mine", {"A": 1}), ("mine", {"a": None}), ("mine", {"a": float("nan")}),
        ("mine", {"a": 1 << 60}), ("mine", {f"a{n}": n for n in range(33)}), ("Mine", {}),
        ("read:earliest", {}), ("./mine.py", {}),
    ],
)  # fmt: skip
async def test_an_agent_that_cannot_be_named_so_is_refused_before_anything_is_sent(
    client: Client, broker: Broker, agent: str, arguments: Any
) -> None:
    with pytest.raises(InvalidInput):
        await client.book("sdsc/sp2", **HOUR, agent=agent, arguments=arguments)
    assert broker.seen == []


@pytest.mark.parametrize("agent", [None, b"mine", 3])
async def test_what_is_neither_text_nor_path_is_refused_as_an_agent(
    client: Client, broker: Broker, agent: Any
) -> None:
    with pytest.raises(InvalidInput, match="a text or a path") as refused:
        await client.book("sdsc/sp2", **HOUR, agent=agent)
    assert refused.value.remedy
    assert broker.seen == []


@pytest.mark.parametrize("source", [SOURCE.encode(), None, Path("mine.py")])
async def test_a_script_that_is_no_text_is_refused_before_it_is_sent(
    client: Client, broker: Broker, source: Any
) -> None:
    with pytest.raises(InvalidInput, match="a script is a text"):
        await client.upload_agent("mine", source)
    assert broker.seen == []


@pytest.mark.parametrize("call", ["book", "hold"])
async def test_a_file_is_uploaded_under_a_name_from_its_hash_and_then_used(
    client: Client, broker: Broker, file: Path, call: str
) -> None:
    view = await getattr(client, call)("sdsc/sp2", **HOUR, agent=file)
    assert [name for name, _ in broker.seen] == ["agent_upload", "book"]
    assert view.agent == f"file-{script_hash(SOURCE)[:16]}"
    assert view.script == script_hash(SOURCE)
    assert client.request("sdsc/sp2", **HOUR, agent=file).agent == view.agent


async def test_nothing_is_uploaded_for_a_request_that_cannot_be_right(
    client: Client, broker: Broker, file: Path
) -> None:
    with pytest.raises(InvalidInput):
        await client.book("no request", **HOUR, agent=file)
    assert broker.seen == []


async def test_an_empty_file_is_uploaded_as_it_is(
    client: Client, broker: Broker, tmp_path: Path
) -> None:
    (tmp_path / "empty.py").touch()
    await client.book("sdsc/sp2", **HOUR, agent=tmp_path / "empty.py")
    assert [name for name, _ in broker.seen] == ["agent_upload", "book"]


async def test_the_mark_that_some_editors_begin_a_file_with_is_no_part_of_the_script(
    client: Client, broker: Broker, tmp_path: Path
) -> None:
    (tmp_path / "marked.py").write_text(SOURCE, encoding="utf-8-sig")
    view = await client.book("sdsc/sp2", **HOUR, agent=tmp_path / "marked.py")
    assert view.script == script_hash(SOURCE)
    uploaded = broker.seen[0][1]
    assert isinstance(uploaded, calls.UploadAgent)
    assert uploaded.source == SOURCE


async def test_a_file_that_is_no_script_is_named(client: Client, tmp_path: Path) -> None:
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe")
    (tmp_path / "long.py").write_text("#" * (limits.SCRIPT_BYTES_MAX + 1))
    for name, error in (
        ("missing.py", InvalidInput), ("binary.py", InvalidInput), ("long.py", TooLarge),
        (".", InvalidInput),
    ):  # fmt: skip
        with pytest.raises(error) as refused:
            await client.book("sdsc/sp2", **HOUR, agent=tmp_path / name)
        assert refused.value.where == str(tmp_path / name)
        assert refused.value.remedy


async def test_an_agent_is_told_things_and_replaced_while_its_request_is_open(
    client: Client, broker: Broker, file: Path
) -> None:
    open_view = await client.book("sdsc/sp2", **HOUR, agent="ready:earliest", wait_s=0)
    for _ in range(2):
        await client.tell_agent(open_view.id, message={"skip": [1, 2]}, key="tell-me-1")
    await client.tell_agent(open_view.id, agent=file, key="tell-me-2")
    first, second = broker.told.values()
    assert (first.message, first.agent) == ('{"skip":[1,2]}', "")
    assert (second.message, second.agent) == ("", named_script(file).name)
    done = await client.book("sdsc/sp2", **HOUR)
    with pytest.raises(Conflict):
        await client.tell_agent(done.id, message=1)
    for bad in (object(), "x" * limits.AGENT_MESSAGE_CHARS_MAX):
        with pytest.raises(InvalidInput):
            await client.tell_agent(open_view.id, message=bad)


async def test_every_call_about_agents_has_a_method_that_makes_it(
    client: Client, broker: Broker
) -> None:
    broker.runs.append(a_run(1, ""))
    await client.upload_agent("mine", SOURCE)
    id = (await client.book("sdsc/sp2", **HOUR, agent="mine", wait_s=0)).id
    await client.agents()
    await client.agent("mine")
    await client.tell_agent(id, message=1)
    await client.delete_agent("mine")
    await client.agent_runs()
    await client.agent_run(1)
    made = {name for name, _ in broker.seen if name.startswith("agent_")}
    assert made == {name for name in calls.OPERATION if name.startswith("agent_")}


async def test_runs_are_listed_without_records_and_fetched_with_them(
    client: Client, broker: Broker
) -> None:
    id = (await client.book("sdsc/sp2", **HOUR)).id
    other = (await client.book("sdsc/sp2", **HOUR)).id
    broker.runs += [a_run(1, id), a_run(2, other), a_run(3, id)]
    assert [run.run for run in await client.agent_runs()] == ["3", "2", "1"]
    assert [run.run for run in await client.agent_runs(id)] == ["3", "1"]
    assert [run.run for run in await client.agent_runs(count=1)] == ["3"]
    assert {run.record for run in await client.agent_runs()} == {b""}
    assert (await client.agent_run(2)).record == b"\x80"
    with pytest.raises(NotFound):
        await client.agent_run("9")
    with pytest.raises(InvalidInput):
        await client.agent_run("../v1")


async def test_a_lost_answer_says_what_can_be_sent_again(client: Client, broker: Broker) -> None:
    full = LimitExceeded("full")
    broker.faults.extend(["drop-after", full, full])
    with pytest.raises(OutcomeUnknown, match="repeat the call, which is safe"):
        await client.upload_agent("mine", SOURCE)
    broker.faults.clear()
    open_view = await client.book("sdsc/sp2", **HOUR, agent="mine", wait_s=0)
    broker.faults.extend(["drop-after", full, full])
    with pytest.raises(OutcomeUnknown, match="the same key tell-me-1") as unknown:
        await client.tell_agent(open_view.id, message=1, key="tell-me-1")
    assert unknown.value.request_id == ""


def test_the_waiting_client_has_every_call_about_agents_too(broker: Broker, file: Path) -> None:
    for name, method in vars(AgentCalls).items():
        if hasattr(kalends.Client, name) and not name.startswith("_"):
            mine = inspect.signature(getattr(SyncClient, name))
            assert list(mine.parameters) == list(inspect.signature(method).parameters), name
    with kalends.connect_sync(broker.url, user="ada") as client:
        assert client.upload_agent("mine", SOURCE).name == "mine"
        assert client.book("sdsc/sp2", **HOUR, agent="mine").script == script_hash(SOURCE)
        assert client.book("sdsc/sp2", **HOUR, agent=file).script == script_hash(SOURCE)
        assert [agent.name for agent in client.agents()] == [named_script(file).name, "mine"]


def test_the_types_of_answers_are_public() -> None:
    assert kalends.AgentView is calls.AgentView
    assert kalends.RunView is calls.RunView
    assert kalends.AgentNote is calls.AgentNote

"""Records of runs: what goes in comes out again, and replays say what differs."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.agent_worlds import DAY_S, MONDAY, Taken, calendar, run, visit

from kalends.agents import ready, records
from kalends.agents.records import RunRecord, decode, encode, record_of, replay, view_hash
from kalends.agents.runs import RunOutcome, ScriptCheck, ScriptRun
from kalends.agents.sandbox.language_only import LanguageOnly
from kalends.core.errors import InvalidInput, TooLarge
from kalends.core.scripts import Ask

SCOPE = "here/scope"
TALKATIVE = """
def choose(view, request):
    send([receive(), receive()])
    return [slot["id"] for slot in view["slots"] if weekday(slot["start"], "Europe/Zurich") == 2]
"""


def job(source: str = TALKATIVE, **more: Any) -> ScriptRun:
    scope = calendar(SCOPE, [Taken(MONDAY, MONDAY + 9_000, holder="ada")], zone="Europe/Zurich")
    seen = visit([scope], [Ask(term=0, resource=SCOPE, length_s=3_600)])
    return seen.job(source, {"at": "09:30", "a": 1.5}, **more)


async def recorded(made: ScriptRun) -> RunRecord:
    return record_of(made, await run(made), number=7, at_ms=99, rid="r", site="here")


class Other:
    """An engine of another version that does to outcomes whatever a test wants."""

    def __init__(self, **changes: Any) -> None:
        self._changes = changes

    async def check(self, source: str, user: str) -> ScriptCheck:
        return await LanguageOnly().check(source, user)

    async def run(self, job: ScriptRun) -> RunOutcome:
        return (await run(job))._replace(**self._changes)

    async def close(self) -> None:
        return


async def test_a_record_holds_all_that_went_in_and_all_that_came_out() -> None:
    made = job(inbox=("hello", {"b": 1, "a": [2.5, None]}))
    outcome = await run(made)
    record = record_of(made, outcome, number=7, at_ms=99, rid="r", site="here")
    assert record.job() == made
    assert record.answer == outcome.answer
    assert record.chosen == len(outcome.answer) > 0
    assert record.sent == (["hello", {"b": 1, "a": [2.5, None]}],)
    assert (record.number, record.at_ms, record.rid, record.site) == (7, 99, "r", "here")
    assert (record.engine, record.steps) == (outcome.engine, outcome.cost.steps)


async def test_a_record_is_the_same_after_its_way_over_the_wire() -> None:
    record = await recorded(job(inbox=("hello",)))
    again = decode(encode(record))
    assert again == record
    assert encode(again) == encode(record)
    assert list(again.arguments[0]) == list(record.arguments[0])
    assert len(encode(record)) < len(msgspec.msgpack.encode(record)) / 3


@pytest.mark.parametrize("name", ready.names())
async def test_a_replay_of_a_decoded_record_comes_to_the_same_end(name: str) -> None:
    record = decode(encode(await recorded(job(ready.source(name)))))
    assert record.code == "ok"
    assert await replay(record, LanguageOnly()) == (True, "")


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("def choose(view, request):\n    return [0.0]\n", "bad-result"),
        ("def choose(view, request):\n    return [0, 0]\n", "bad-result"),
        ("def choose(view, request):\n    return view['nothing']\n", "agent-error"),
        ("def choose(view, request):\n    while True:\n        pass\n", "limit-steps"),
        ("import os\n", "rejected"),
    ],
)
async def test_a_failed_run_is_recorded_without_an_answer_and_fails_again(
    source: str, code: str
) -> None:
    record = decode(encode(await recorded(job(source))))
    assert (record.code, record.answer, record.sent, record.chosen) == (code, None, (), 0)
    assert record.detail
    assert await replay(record, LanguageOnly()) == (True, "")


async def test_a_replay_says_what_differs() -> None:
    record = await recorded(job(inbox=("hello",)))
    other = await replay(record, Other(answer=[1]))
    assert other == (False, "the answer differs")
    other = await replay(record, Other(sent=()))
    assert other == (False, "the messages for the client differ")
    other = await replay(record, Other(code="agent-error", detail="no"))
    assert other == (False, "it ended as agent-error (no), and was ok ()")
    more = msgspec.structs.replace(record, steps=record.steps + 1)
    assert await replay(more, LanguageOnly()) == (
        False, f"it took {record.steps} steps, and {record.steps + 1} then",
    )  # fmt: skip


async def test_a_replay_tells_true_from_one() -> None:
    source = "def choose(view, request):\n    send(1)\n    return []\n"
    record = await recorded(job(source))
    assert not (await replay(msgspec.structs.replace(record, sent=(True,)), LanguageOnly())).same
    assert not (await replay(msgspec.structs.replace(record, sent=(1.0,)), LanguageOnly())).same


async def test_another_version_of_the_engine_is_told_also_where_all_is_the_same() -> None:
    record = await recorded(job())
    same = await replay(record, Other(engine="next"))
    assert same == (True, f"the engine is next, and was {record.engine}")


async def test_a_limit_of_the_host_is_told_as_what_it_is() -> None:
    record = await recorded(job())
    busy = await replay(record, Other(code="busy", detail="later"))
    assert not busy.same
    assert "busy depends on the host and its load" in busy.detail


async def test_equal_views_have_equal_hashes_and_others_have_not() -> None:
    assert view_hash(job()) == view_hash(job()) == view_hash(job("another source"))
    assert view_hash(job()) != view_hash(job(inbox=(1,)))
    view, request = job().arguments
    later = job()._replace(arguments=({**view, "now": MONDAY + DAY_S}, request))
    assert view_hash(job()) != view_hash(later)


async def test_a_record_that_was_changed_is_refused() -> None:
    record = await recorded(job())
    for changed in (
        msgspec.structs.replace(record, source="def choose(view, request):\n    return []\n"),
        msgspec.structs.replace(record, inbox=("more",)),
    ):
        with pytest.raises(InvalidInput):
            decode(encode(changed))


@pytest.mark.parametrize(
    "forged",
    [
        {"arguments": ()},
        {"arguments": (1, 2)},
        {"arguments": ({}, {})},
        {"arguments": ({"slots": 5}, {})},
        {"arguments": ({"slots": [1]}, {})},
        {"arguments": ({"slots": [{"id": []}]}, {})},
        {"arguments": ({"slots": [], "now": msgspec.msgpack.Ext(5, b"x")}, {})},
        {"arguments": ({"slots": []}, {"text": b"bytes"})},
        {"arguments": ({"slots": []}, {1: 2})},
        {"inbox": (datetime.now(UTC),)},
    ],
)
async def test_a_record_that_no_site_has_written_is_refused(forged: dict[str, Any]) -> None:
    record = msgspec.structs.replace(await recorded(job()), **forged)
    record = msgspec.structs.replace(record, view_hash=view_hash(record.job()))
    with pytest.raises(InvalidInput, match="no site"):
        decode(encode(record))


async def test_what_is_no_record_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    record = encode(await recorded(job()))
    nested = b"\x91" * 100_000 + b"\x90"
    for body in (b"", b"x", record[:50], zlib.compress(b"\x80"), zlib.compress(nested)):
        with pytest.raises(InvalidInput, match="record"):
            decode(body)
    monkeypatch.setattr(records, "RECORD_BYTES_MAX", 1_000)
    with pytest.raises(TooLarge):
        decode(record)

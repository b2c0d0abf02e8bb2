"""The agent benchmark: what it counts on the wire, and that both ways of booking follow one rule."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import msgpack
import pytest
from benchmarks import agents as command
from benchmarks.facility import start_line
from benchmarks.slow_line import Passed
from benchmarks.traffic import Counts, Direction
from benchmarks.visits import endings, near, preference, runs, samples, wire
from benchmarks.visits.figures import spread
from benchmarks.visits.preference import Wish
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.agents.sandbox.language_only import LanguageOnly
from kalends.broker.coordination.agents.agent_choice import Need, best_choice
from kalends.calendars import ResourceCalendar
from kalends.contract.calls import CalendarView, RequestView
from kalends.core import limits
from kalends.core.principals import Principal
from kalends.core.scripts import HeldChoice

ROOT = Path(__file__).resolve().parents[3]
HEAD = b"GET /v1/session HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"


def frame(payload: bytes, *, opcode: int = 2, final: bool = True, mask: bytes = b"") -> bytes:
    """One frame after RFC 6455, section 5.2."""
    size = len(payload)
    lengths = (
        bytes([size])
        if size < 126
        else b"\x7e" + size.to_bytes(2, "big")
        if size < 1 << 16
        else b"\x7f" + size.to_bytes(8, "big")
    )
    head = bytes([opcode | 0x80 * final, lengths[0] | 0x80 * bool(mask), *lengths[1:]])
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload)) if mask else payload
    return head + mask + masked


def counted(pieces: Iterable[bytes]) -> Counts:
    counts = Counts()
    direction = Direction(counts)
    for piece in pieces:
        direction.feed(piece)
    return counts


messages = st.lists(st.sampled_from(["visit", "dispatch", "prepare"]), max_size=4)
frames = st.lists(st.tuples(messages, st.integers(0, 200), st.binary(min_size=4, max_size=4)))


@given(frames, st.data())
def test_every_message_counts_once_however_the_stream_is_cut(
    sent: list[tuple[list[str], int, bytes]], data: st.DataObject
) -> None:
    stream, length, kinds = HEAD, 0, []
    for number, (names, padding, mask) in enumerate(sent):
        body = [{"kind": name, "text": "x" * padding} for name in names]
        packed = frame(msgpack.packb({"v": 1, "messages": body}), mask=mask if number % 2 else b"")
        stream += frame(b"still there", opcode=9) + packed
        length += len(packed)
        kinds += names
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    counts = counted(
        stream[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
    )
    assert counts == Counts(
        length, len(sent), len(kinds), {kind: kinds.count(kind) for kind in kinds}
    )


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
@pytest.mark.parametrize("mask", [b"", b"\x01\x80\x00\xff"])
def test_lengths_of_every_form_are_read(size: int, mask: bytes) -> None:
    padding = max(size - len(msgpack.packb([{"number": 1, "answer": b""}])) - 4, 0)
    packed = frame(msgpack.packb([{"number": 1, "answer": bytes(padding)}]), mask=mask)
    counts = counted([HEAD, packed, packed])
    assert (counts.bytes, counts.frames, counts.kinds) == (2 * len(packed), 2, {"reply": 2})


def test_a_message_in_several_frames_counts_once() -> None:
    packed = msgpack.packb([{"number": 1, "name": "book", "body": {}}])
    counts = counted(
        [
            HEAD
            + frame(packed[:5], final=False)
            + frame(b"", opcode=10)
            + frame(packed[5:], opcode=0)
        ]
    )
    assert (counts.frames, counts.messages, counts.kinds) == (2, 1, {"book": 1})


def test_plain_http_is_carried_uncounted() -> None:
    assert counted([b"POST /v1/book HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"]) == Counts()


def test_what_has_passed_since_is_the_difference() -> None:
    earlier = Passed(Counts(10, 2, 2, {"visit": 2}), Counts(1, 1, 1, {"visited": 1}))
    later = Passed(Counts(15, 3, 4, {"visit": 3, "decide": 1}), Counts(1, 1, 1, {"visited": 1}))
    assert later - earlier == Passed(Counts(5, 1, 2, {"visit": 1, "decide": 1}), Counts())
    assert earlier + (later - earlier) == later


async def test_a_slow_line_delivers_what_it_counts() -> None:
    said = frame(msgpack.packb([{"number": 7, "name": "show", "body": {}}]), mask=b"abcd")
    answered = frame(msgpack.packb([{"number": 7, "answer": {}}]))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(len(HEAD + said)) == HEAD + said
        writer.write(HEAD + answered)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        line = start_line(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", one_way_ms=1)
        try:
            port = int(line.url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD + said)
            received = await reader.read()
            passed = await asyncio.to_thread(line.passed)
            writer.close()
        finally:
            line.close()
    assert received == HEAD + answered
    assert passed == Passed(
        Counts(len(said), 1, 1, {"show": 1}), Counts(len(answered), 1, 1, {"reply": 1})
    )


FIRST = samples.FIRST_S
FORTNIGHT_S = 14 * samples.DAY_S
AMOUNTS = (16, 32, 64, 128)
"""Few and large, so that a slot is often exactly large enough, or all taken."""

wishes = st.builds(
    lambda units, halves: Wish(units, halves * 1_800, FIRST, FIRST + FORTNIGHT_S - halves * 1_800),
    st.sampled_from(AMOUNTS),
    st.integers(1, 6),
)


def viewed(here: ResourceCalendar, start: int, end: int) -> CalendarView:
    """What a client is answered when it asks for this calendar."""
    free, until = here.free_steps(Principal("ada"), start, end, FIRST, limits.VIEW_STEPS_MAX)
    return CalendarView(
        resource=here.info, start=start, end=end, until=until, free=tuple(free), slots=()
    )


def by_agent(here: ResourceCalendar, wish: Wish) -> list[int]:
    """The starts that the agent answers, best first, as a site would run it."""
    job = samples.choosing(
        preference.AGENT,
        here,
        slots=(wish.last - wish.first) // here.info.grain_s + 1,
        units=wish.units,
        length_s=wish.length_s,
    )
    outcome = asyncio.run(LanguageOnly().run(job))
    assert outcome.code == "ok", outcome
    starts = {slot["id"]: slot["start"] for slot in job.arguments[0]["slots"]}
    return [starts[number] for number in outcome.answer]


def coarse(seed: int, bookings: int, zone: str = "America/Los_Angeles") -> ResourceCalendar:
    """A calendar on a grain of half an hour, so that a fortnight's starts can all be offered."""
    return samples.calendar(
        f"site{seed % 2}/cluster", bookings, seed, grain_s=1_800, zone=zone, amounts=AMOUNTS
    )


@settings(max_examples=effort.examples(10), deadline=None)
@given(
    st.integers(0, 9),
    st.integers(0, 300),
    st.sampled_from(["America/Los_Angeles", "Europe/Berlin", "Asia/Kolkata"]),
    wishes,
)
def test_the_program_ranks_starts_as_the_agent_does(
    seed: int, bookings: int, zone: str, wish: Wish
) -> None:
    here = coarse(seed, bookings, zone)
    chosen = by_agent(here, wish)
    assert chosen == preference.ranked([viewed(here, FIRST, FIRST + FORTNIGHT_S)], wish)
    by_day = [
        viewed(here, start, end)
        for start, end in preference.working_hours(wish, ZoneInfo(here.info.zone))
    ]
    assert chosen == preference.ranked(by_day, wish)


def test_some_starts_suit_and_others_do_not() -> None:
    wish = Wish(64, 3_600, FIRST, FIRST + FORTNIGHT_S - 3_600)
    chosen = by_agent(coarse(1, 300), wish)
    local = [datetime.fromtimestamp(start, ZoneInfo("America/Los_Angeles")) for start in chosen]
    assert {each.weekday() for each in local} == {1, 2, 3}
    assert {each.hour * 60 + each.minute for each in local} <= {
        *range(540, 631, 30),
        *range(810, 961, 30),
    }
    assert chosen != sorted(chosen)


@settings(max_examples=effort.examples(20))
@given(st.integers(0, 5), st.integers(0, 5), st.data())
def test_the_program_combines_sites_as_the_broker_does(
    one: int, other: int, data: st.DataObject
) -> None:
    rankings = [
        data.draw(st.permutations(range(each, each + 8)).map(lambda order: order[:5]))
        for each in (one, other)
    ]
    held = [
        [
            HeldChoice(
                hold_id=place + 1,
                term=term,
                resource=f"site{term}/cluster",
                start=start,
                end=start + 1,
                units=1,
                common=start,
            )
            for place, start in enumerate(ranking)
        ]
        for term, ranking in enumerate(rankings)
    ]
    needs = [Need(term=term, wanted=1, group=term) for term in range(2)]
    best = best_choice(needs, [enumerate(of_site) for of_site in held])
    assert preference.together(rankings)[:1] == ([best.common] if best else [])


def test_percentiles_are_values_that_so_many_do_not_exceed() -> None:
    found = spread([float(value) for value in range(200, 0, -1)])
    assert found == (100.0, 190.0, 198.0, 200)
    assert spread([7.0])[:3] == (7.0, 7.0, 7.0)
    assert math.isnan(spread([]).p50_ms)


def test_a_failure_is_in_time_up_to_50_ms_after_its_limit() -> None:
    ended = [("limit-cpu", 450.0), ("limit-cpu", 550.0), ("limit-steps", 551.0)]
    found = endings.figures("loop", ended, 0.5)
    assert found["within_limit_and_50_ms"] == 2
    assert found["codes"] == {"limit-cpu": 2, "limit-steps": 1}
    assert (found["p50_ms"], found["max_ms"], found["limit_ms"]) == (550.0, 551.0, 500.0)
    assert endings.figures("never", [], 0.0)["max_ms"] is None


def test_bytes_and_messages_are_those_of_one_booking() -> None:
    """Four were made, one after a refusal; what a fifth has cost in vain is shared by them."""
    view = RequestView(
        id="r", state="reserved", user="user0", text="", created_at=0, start=FIRST, attempts=2
    )
    tally = wire.Tally(100, 2, "agent")
    tally.booked = [wire.Booked(view, refused, 200.0) for refused in (0, 0, 0, 1)]
    tally.booked.append(wire.Booked(None, 3, 900.0))
    tally.sites = Passed(Counts(400, 4, 8, {"dispatch": 8}), Counts(800, 8, 8, {"report": 8}))
    found = tally.figures()
    assert (found["asked"], found["reserved"], found["attempts"]) == (5, 4, 2.0)
    assert found["refused"] == 4 / 4
    assert found["sites"] == {
        "bytes_there": 100.0,
        "bytes_back": 200.0,
        "messages": 4.0,
        "kinds": {"dispatch": 8, "report": 8},
    }
    assert tally.starts() == [FIRST] * 4 + [0]


def test_figures_become_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["--quick", "--only", "views"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-3:]] == ["slots", "100", "1000"]
    assert len({len(line) for line in lines[-3:]}) == 1


def test_it_says_which_sections_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["--only", "checks,everything"])
    assert ended.value.code == 2
    assert "no section everything" in capsys.readouterr().err


def test_as_a_script_it_measures_in_the_sandbox(tmp_path: Path) -> None:
    script = [sys.executable, "benchmarks/agents.py", "--quick", "--only", "checks", "--json"]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["checks"]
    assert found["sandbox"]["codes"] == found["in-process"]["codes"] == {"ok": command.QUICK.calls}
    assert all(figures["calls"] == command.QUICK.calls for figures in found.values())


@pytest.mark.parametrize("name", list(runs.scripts()))
def test_scripts_that_are_timed_choose_something_and_the_same_from_bytecode(name: str) -> None:
    here = samples.calendar("site0/cluster", samples.BOOKINGS)
    job = samples.choosing(runs.scripts()[name], here, slots=100)
    assert len(job.arguments[0]["slots"]) == 100
    engine = runs.InProcess()
    from_source = asyncio.run(engine.run(job))
    assert asyncio.run(engine.check(job.source, job.user)).code == "ok"
    from_bytecode = asyncio.run(engine.run(job))
    assert from_source.code == from_bytecode.code == "ok"
    assert from_source.answer == from_bytecode.answer
    assert len(from_source.answer) >= 10


@pytest.mark.parametrize("case", endings.CASES, ids=lambda case: case.name)
def test_scripts_that_are_to_fail_do(case: endings.Case) -> None:
    here = samples.calendar("site0/cluster", samples.BOOKINGS)
    job = samples.choosing(case.source, here, slots=100)
    outcome = asyncio.run(LanguageOnly(steps_max=100_000).run(job))
    assert outcome.code != "ok"


def test_common_times_of_near_sites_take_fewer_bytes_and_find_the_same() -> None:
    rows = {(row["near"], row["way"]): row for row in near.measure(30)}
    for count in (2, 4):
        each, reports, common = (rows[count, way] for way in near.WAYS)
        assert (each["messages"], reports["messages"], common["messages"]) == (2 * count, 2, 2)
        assert each["common"] == reports["common"] == common["common"] > 0
        assert common["back"] * 10 < reports["back"]
    assert len({rows[1, way]["bytes"] for way in near.WAYS}) == 1

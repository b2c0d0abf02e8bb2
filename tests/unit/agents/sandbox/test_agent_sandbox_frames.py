"""What a worker may send: nothing that is too long is kept, nothing that is not plain is taken."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.agents.sandbox import results, worker
from kalends.agents.sandbox.bytecode import BytecodeCache, Compiled
from kalends.agents.sandbox.frames import FrameTooLong, exchange, missing_bytes
from kalends.agents.sandbox.results import BadRunResult, check_plain, read_result, verdict
from kalends.agents.sandbox.witness import expect_death
from kalends.agents.sandbox.worker import HEADER_BYTES
from kalends.agents.sandbox.zygote_process import ExitStatus, SandboxUnavailable

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
)
plain = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


def body_of(**fields: Any) -> bytes:
    return msgpack.packb({"code": "ok", **fields})  # type: ignore[no-any-return]  # bytes it is


@given(plain, st.lists(plain, max_size=16))
def test_plain_data_comes_through_as_it_is(answer: Any, sent: list[Any]) -> None:
    result = read_result(body_of(answer=answer, sent=sent))
    assert (result.answer, list(result.sent)) == (answer, sent)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_result_or_a_bad_result(body: bytes) -> None:
    try:
        result = read_result(body)
    except BadRunResult:
        return
    assert result.code in results.SAID


@given(st.dictionaries(st.sampled_from(results.RunResult._fields), plain | st.binary(max_size=9)))
def test_fields_of_any_type_are_a_result_or_a_bad_result(fields: dict[str, Any]) -> None:
    try:
        result = read_result(msgpack.packb(fields))
    except BadRunResult:
        return
    assert type(result.line) is int
    assert len(result.detail) <= results.DETAIL_CHARS_MAX
    assert result.detail.isprintable()


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "answer",
    [
        math.nan,
        math.inf,
        1 << 63,
        b"bytes",
        msgpack.ExtType(5, b"x"),
        msgpack.Timestamp(1),
        nested(results.DEPTH_MAX),
        nested(400),
        [0] * (results.ITEMS_MAX + 1),
        [[0] * 200] * 200,
        "x" * (results.TEXT_CHARS_MAX + 1),
        {1: "a"},
        {"x" * (results.TEXT_CHARS_MAX + 1): 1},
    ],
    ids=lambda answer: str(answer)[:20],
)
def test_answers_beyond_a_limit_are_bad_results(answer: Any) -> None:
    with pytest.raises(BadRunResult):
        read_result(body_of(answer=answer))


def test_values_of_types_that_only_look_plain_are_bad_results() -> None:
    class Text(str):
        __slots__ = ()

    for value in (Text("a"), (1,), {1}, object(), 1j, {"a": Text("b")}, [(1,)]):
        with pytest.raises(BadRunResult):
            check_plain(value)


@pytest.mark.parametrize(
    "code", ["limit-cpu", "limit-wall", "crash", "policy-violation", "killed", "busy", "", 1, None]
)
def test_a_worker_cannot_claim_an_end_that_only_the_host_sees(code: Any) -> None:
    with pytest.raises(BadRunResult):
        read_result(msgpack.packb({"code": code}))


def test_a_failed_run_has_no_answer_whatever_the_worker_says() -> None:
    result = read_result(msgpack.packb({"code": "agent-error", "answer": [1], "sent": [2]}))
    assert (result.answer, result.sent) == (None, ())


def test_too_many_messages_are_a_bad_result() -> None:
    with pytest.raises(BadRunResult):
        read_result(body_of(sent=[1] * 17))


def test_a_detail_is_cut_and_shown_on_one_line() -> None:
    result = read_result(msgpack.packb({"code": "agent-error", "detail": "a\x1b[2J\n" * 200}))
    assert result.detail.startswith("a [2J a")
    assert len(result.detail) == results.DETAIL_CHARS_MAX


def test_a_bomb_of_empty_lists_is_a_bad_result() -> None:
    with pytest.raises(BadRunResult):
        read_result(b"\x81\xa6answer" + b"\xdd\x00\x05\x00\x00" + b"\x90" * (5 << 16))


@pytest.mark.parametrize("claim", [b"\xdc\x4e\x20", b"\xdd\xff\xff\xff\xff", b"\xde\xff\xff\xa1a"])
def test_lengths_that_are_only_claimed_cost_no_memory(claim: bytes) -> None:
    for body in (claim * 1_000, b"\x82\xa4code\xa2ok\xa6answer" + claim * 500):
        tracemalloc.start()
        try:
            with pytest.raises(BadRunResult):
                read_result(body)
            _, most_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert most_bytes < 1 << 20


def test_a_check_that_answers_with_millions_of_values_is_not_unpacked() -> None:
    body = b"\x82\xa4code\xa2ok\xa6answer\xdd\x00\x1e\x00\x00" + b"\x90" * (30 << 16)
    tracemalloc.start()
    try:
        with pytest.raises(BadRunResult):
            read_result(body)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 2 * len(body)


def test_a_worker_cannot_name_a_function_again_and_again() -> None:
    with pytest.raises(BadRunResult):
        read_result(body_of(functions=["choose"] * 20_000))


@given(st.binary(max_size=40), st.integers(0, 40))
def test_no_more_is_read_than_the_frame_has(body: bytes, cut: int) -> None:
    frame = len(body).to_bytes(HEADER_BYTES, "big") + body
    received = frame[:cut]
    wanted = missing_bytes(received, 40)
    whole = HEADER_BYTES if len(received) < HEADER_BYTES else len(frame)
    assert wanted == whole - len(received)


def test_a_frame_that_is_too_long_is_refused_by_its_header_alone() -> None:
    with pytest.raises(FrameTooLong) as caught:
        missing_bytes((1 << 31).to_bytes(HEADER_BYTES, "big"), 1_000)
    assert caught.value.length_bytes == 1 << 31


@given(st.binary(max_size=300_000), st.binary(max_size=2_000))
def test_a_job_and_its_result_come_through_whole(job: bytes, result: bytes) -> None:
    async def both() -> tuple[bytes | None, bytes]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            asking = asyncio.create_task(exchange(ours, job, 2_000))
            read = await asyncio.to_thread(_serve, theirs, len(job), result)
            return await asking, read

    assert asyncio.run(both()) == (result, job)


def _serve(channel: socket.socket, length: int, result: bytes) -> bytes:
    received = b""
    while len(received) < HEADER_BYTES + length:
        received += channel.recv(1 << 16)
    channel.sendall(len(result).to_bytes(HEADER_BYTES, "big") + result)
    return received[HEADER_BYTES:]


@pytest.mark.parametrize("written", [b"", b"\0\0", b"\0\0\0\x09half"])
async def test_an_end_before_the_frame_is_whole_is_no_frame(written: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours:
        ours.setblocking(False)
        theirs.sendall(written)
        theirs.close()
        assert await exchange(ours, b"job", 100) is None


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (signal.SIGSYS, "policy-violation"),
        (signal.SIGPROF, "limit-cpu"),
        (signal.SIGXCPU, "limit-cpu"),
        (signal.SIGKILL, "killed"),
        (signal.SIGSEGV, "crash"),
        (signal.SIGABRT, "crash"),
        (63, "crash"),
        (worker.EXIT_NO_MEMORY << 8, "limit-memory"),
        (worker.EXIT_UNABLE << 8, "killed"),
        (worker.EXIT_NO_RESULT << 8, "crash"),
        (0, "crash"),
    ],
)
def test_each_end_without_a_word_has_its_code(status: int, code: str) -> None:
    found = verdict(int(status), 0, 500_000)
    assert found.code == code
    assert found.detail


@pytest.mark.parametrize("status", [signal.SIGKILL, worker.EXIT_UNABLE << 8])
def test_who_has_used_up_the_time_is_told_so_whatever_ended_it(status: int) -> None:
    assert verdict(int(status), 500_001, 500_000).code == "limit-cpu"
    assert verdict(int(status), 500_000, 500_000).code == "killed"


def test_only_a_witness_that_dies_of_the_filter_is_believed() -> None:
    expect_death(ExitStatus(signal.SIGSYS, 0))
    for status in (0, 1, signal.SIGKILL, signal.SIGSEGV, worker.EXIT_UNABLE << 8):
        with pytest.raises(SandboxUnavailable) as caught:
            expect_death(ExitStatus(int(status), 0))
        assert caught.value.remedy
    with pytest.raises(SandboxUnavailable):
        expect_death(None)


def test_a_filter_that_is_not_in_force_is_said_in_words() -> None:
    with pytest.raises(SandboxUnavailable, match="not in force"):
        expect_death(ExitStatus(os.EX_OK, 0))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 60)), max_size=60))
def test_the_cache_keeps_what_was_used_last_and_never_too_much(
    puts: list[tuple[int, int]],
) -> None:
    cache = BytecodeCache(100)
    twin: list[tuple[str, Compiled]] = []
    for number, size in puts:
        source, compiled = f"source {number}", Compiled(bytes(size), ("choose",))
        cache.put("ada", source, "engine", compiled)
        twin = [entry for entry in twin if entry[0] != source] + [(source, compiled)]
        while sum(len(kept.bytecode) for _, kept in twin) > 100:
            twin.pop(0)
        assert cache._bytes == sum(len(kept.bytecode) for _, kept in twin)
        assert len(cache) == len(twin)
        assert cache.get("ada", twin[0][0], "engine") == twin[0][1]
        twin.append(twin.pop(0))


def test_bytecode_of_another_engine_is_not_used() -> None:
    cache = BytecodeCache(100)
    cache.put("ada", "source", "Python-3.11", Compiled(b"x", ("choose",)))
    assert cache.get("ada", "source", "Python-3.12") is None


def test_bytecode_that_was_made_for_one_user_is_unknown_to_all_others() -> None:
    cache = BytecodeCache(100)
    cache.put("ada", "source", "engine", Compiled(b"x", ("choose",)))
    assert cache.get("bob", "source", "engine") is None


def test_bytecode_larger_than_the_cache_is_not_kept() -> None:
    cache = BytecodeCache(100)
    cache.put("ada", "small", "engine", Compiled(b"x", ("choose",)))
    cache.put("ada", "large", "engine", Compiled(bytes(101), ("choose",)))
    assert cache.get("ada", "large", "engine") is None
    assert cache.get("ada", "small", "engine") is not None

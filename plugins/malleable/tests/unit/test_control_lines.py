"""Lines between a program and its control: whole ones, halves, nonsense, and what is beyond its bounds."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.core.limits import CONTROL_LINE_BYTES_MAX, CORES_MAX, RANKS_MAX
from kalends_malleable.control_lines import (
    LEFT_MAX,
    LineBuffer,
    SizeDemand,
    SizeDenial,
    SizePermission,
    SizeReply,
    demand_in,
    denial_in,
    permission_in,
    reply_line,
    sizes_line,
    taking_line,
    want_line,
)


@pytest.mark.parametrize(
    ("line", "demand"),
    [
        (b'{"change": 3, "to": 2, "cores": [0, 1]}', SizeDemand(3, 2, (0, 1))),
        (b'{"change": 3, "to": 2}', SizeDemand(3, 2)),
        (b'{"change": 3, "to": 2, "cores": null, "more": 1}', SizeDemand(3, 2)),
    ],
)
def test_a_demand_is_read(line: bytes, demand: SizeDemand) -> None:
    assert demand_in(line) == demand


@pytest.mark.parametrize(
    "line",
    [
        b"", b"\xff\xfe", b"null", b"[]", b"{}", b'"change"', b"[" * 100_000,
        b'{"change": 0, "to": 2}', b'{"change": true, "to": 2}', b'{"change": "1", "to": 2}',
        b'{"change": 1, "to": 0}', b'{"change": 1, "to": 1e3}', b'{"change": 1, "to": NaN}',
        b'{"change": 1, "to": %d}' % (RANKS_MAX + 1),
        b'{"change": 1, "to": 1, "cores": 1}', b'{"change": 1, "to": 1, "cores": [-1]}',
        b'{"change": 1, "to": 1, "cores": ["0"]}',
        b'{"change": 1, "to": 1, "cores": %s}' % str([0] * (CORES_MAX + 1)).encode(),
    ],
)  # fmt: skip
def test_nonsense_is_no_demand(line: bytes) -> None:
    assert demand_in(line) is None


@given(st.binary(max_size=60))
def test_no_line_does_any_harm(line: bytes) -> None:
    assert demand_in(line) is None
    assert permission_in(line) is None


@pytest.mark.parametrize(
    ("line", "permission"),
    [
        (b'{"go": 3}', SizePermission(3, granted=True)),
        (b'{"withdrawn": 3}', SizePermission(3, granted=False)),
        (b'{"go": 0}', None),
        (b'{"go": true}', None),
        (b'{"go": "3", "withdrawn": 3}', None),
        (b'["go"]', None),
        (b"7", None),
        (b'{"change": 3, "to": 2}', None),
    ],
)
def test_a_permission_is_read_and_nonsense_is_none(
    line: bytes, permission: SizePermission | None
) -> None:
    assert permission_in(line) == permission


def test_what_the_program_says_are_lines_of_json() -> None:
    changed = SizeReply(3, 2, took_s=0.0123456789, moving_s=0.001)
    refused = SizeReply(4, 2, why="x" * 10_000)
    lines = [
        sizes_line([1, 2]),
        want_line(4),
        taking_line(3),
        reply_line(changed),
        reply_line(refused),
    ]
    assert [json.loads(line) for line in lines] == [
        {"sizes": [1, 2]},
        {"want": 4},
        {"taking": 3},
        {"changed": 3, "ranks": 2, "took_s": 0.012346, "moving_s": 0.001},
        {"refused": 4, "why": "x" * 400},
    ]
    assert all(line.count(b"\n") == 1 and line.endswith(b"\n") for line in lines)


@given(
    st.lists(st.binary(max_size=12).map(lambda each: each.replace(b"\n", b"")), max_size=8),
    st.data(),
)
def test_lines_are_the_same_in_whatever_pieces_they_arrive(
    lines: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(line + b"\n" for line in lines) + b"half"
    buffer, found = LineBuffer(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += buffer.take(stream[:size])
        stream = stream[size:]
    assert found == lines


def test_a_line_too_long_is_left_out_and_the_next_one_is_read() -> None:
    buffer = LineBuffer()
    for _ in range(5):
        assert buffer.take(b"x" * (CONTROL_LINE_BYTES_MAX - 1)) == []
    assert buffer.take(b"end\nnext\n") == [b"next"]
    assert buffer.take(b"y" * (CONTROL_LINE_BYTES_MAX + 1) + b"\nnext\n") == [b"next"]


@pytest.mark.parametrize(
    ("line", "denial"),
    [
        (b'{"denied": 4, "why": "others wait"}', SizeDenial(4, "others wait")),
        (b'{"denied": 0, "why": "others wait"}', None),
        (b'{"denied": 4, "why": 7}', None),
        (b'{"denied": true, "why": "x"}', None),
        (b'{"denied": 4}', None),
        (b"[]", None),
        (b"no", None),
    ],
)
def test_a_denial_is_heard_where_it_is_one(line: bytes, denial: SizeDenial | None) -> None:
    assert denial_in(line) == denial


def test_an_answer_names_those_who_have_left_up_to_a_bound() -> None:
    said = json.loads(reply_line(SizeReply(3, 2, left=tuple(range(1, 1_000)))))
    assert said["left"] == list(range(1, LEFT_MAX + 1))
    assert "left" not in json.loads(reply_line(SizeReply(3, 2)))

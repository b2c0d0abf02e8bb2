"""Whatever bytes come in, the wire gives a value of the type or one of two refusals."""

from __future__ import annotations

import copy
from typing import Any, get_args

import msgpack
import msgspec
import pytest
from fuzz_values import SCRAPS, VALUES, mutated
from hypothesis import given
from hypothesis import strategies as st

from kalends.contract import codec
from kalends.contract import messages as m
from kalends.contract.calls import OPERATIONS, Book, CallFrame
from kalends.core.errors import InvalidInput, TooLarge
from kalends.serving.http import bodies

RID = "01234567-89ab-7def-8123-456789abcdef"

SEEDS: list[dict[str, Any]] = [
    {
        "key": "abcdefgh",
        "request": {
            "alternatives": [{"terms": [{"resource": "a/b"}], "weight": 0.5}],
            "duration_s": 60,
            "not_before": 0,
        },
    },
    {"id": RID, "key": "abcdefgh", "start": 60, "units": {"a/b": 3}},
    {"resource": "a/b", "start": 0, "end": 60},
    {"after": -1, "id": RID, "wait_ms": 0},
    {
        "kind": "visit", "rid": RID, "att": 1, "stamp": 1, "mode": "vote", "need": 1,
        "principal": {"user": "anna", "groups": ["staff"]},
        "wants": [{"resource": "a/b", "start": 0, "end": 60, "units": 1}],
        "parts": [{"site": "a", "url": "http://127.0.0.1:1"}],
        "secret": "0123456789abcdef", "hold_ms": 1,
    },
    {"kind": "decide", "rid": RID, "att": 1, "outcome": "commit", "chosen": {"a": [1]}},
    {"kind": "peerask", "rid": RID, "att": 1, "site": "a", "secret": "0123456789abcdef", "until": 1},
    {"v": 2, "source": "broker", "lc": 1, "messages": [{"kind": "cancel", "rid": RID, "att": 1}]},
    {"number": 1, "name": "health", "body": {}},
    {
        "kind": "reclaim", "rid": RID, "att": 1, "resources": ["a/b"], "start": 0, "end": 60,
        "reason": "a new pump", "units": 2,
    },
    {"kind": "endofjob", "rid": RID, "att": 1, "end": "exit", "status": -9, "at": 60, "ran_s": 7},
]  # fmt: skip

KINDS: dict[str, Any] = {
    **{operation.body.__name__: operation.body for operation in OPERATIONS},
    **{kind.__name__: kind for union in (m.ToSite, m.ToBroker, m.BetweenSites)
       for kind in get_args(union)},
    "FrameToSite": m.FrameToSite,
    "FrameToBroker": m.FrameToBroker,
    "CallFrame": CallFrame,
    "plain map": dict[str, Any],
}  # fmt: skip


def _decoded(decode: Any, body: bytes, kind: Any) -> Any:
    """The value, or None when it is properly refused; anything else that is raised fails the test."""
    try:
        return decode(body, kind)
    except (InvalidInput, TooLarge) as error:
        refused = error
    assert refused.where
    assert refused.detail
    return None


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
@given(body=st.binary(max_size=200) | st.sampled_from(SCRAPS))
def test_any_bytes_are_a_value_or_refused(kind: Any, body: bytes) -> None:
    _decoded(codec.decode_json, body, kind)
    _decoded(codec.decode_msgpack, body, kind)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
@given(data=st.data())
def test_what_is_nearly_right_is_a_value_or_refused_the_same_in_both_forms(
    kind: Any, data: st.DataObject
) -> None:
    value = data.draw(mutated(data.draw(st.sampled_from(SEEDS))))
    from_json = _decoded(codec.decode_json, msgspec.json.encode(value), kind)
    from_msgpack = _decoded(codec.decode_msgpack, msgpack.packb(value), kind)
    assert from_json == from_msgpack


@given(value=VALUES)
def test_a_body_is_plain_values_after_normalizing_or_refused(value: Any) -> None:
    raw = {"value": copy.deepcopy(value)}
    try:
        bodies.normalize(raw)
    except InvalidInput:
        return
    packed = bodies.encode(raw, "msgpack")
    assert bodies.decode(packed, "msgpack", bytes_max=len(packed)) == raw


@pytest.mark.parametrize("cut", range(0, 40, 3))
def test_half_a_frame_is_refused(cut: int) -> None:
    frame = msgpack.packb(SEEDS[7])
    assert _decoded(codec.decode_msgpack, frame[: -1 - cut], m.FrameToSite) is None


@pytest.mark.parametrize("depth", [33, 512, 100_000])
def test_deep_nesting_is_refused_by_every_type(depth: int) -> None:
    for kind in (Book, dict[str, Any], m.FrameToSite):
        for body in (b'{"request":' + b"[" * depth + b"]" * depth + b"}", b"[" * depth):
            if kind != dict[str, Any]:
                assert _decoded(codec.decode_json, body, kind) is None
        packed = b"\x81\xa7request" + b"\x91" * depth + b"\x00"
        if kind != dict[str, Any]:
            assert _decoded(codec.decode_msgpack, packed, kind) is None
        for form, body in (
            ("json", b'{"a":' + b"[" * depth + b"]" * depth + b"}"),
            ("msgpack", packed),
        ):
            with pytest.raises((InvalidInput, TooLarge)):
                bodies.decode(body, form, bytes_max=1 << 20)  # type: ignore[arg-type]  # from the loop


@pytest.mark.parametrize(
    "claimed", [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff",
                b"\xc6\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01"],
    ids=["array", "map", "text", "bytes", "extension"],
)  # fmt: skip
def test_a_claim_of_four_billion_elements_builds_nothing(claimed: bytes) -> None:
    assert _decoded(codec.decode_msgpack, claimed, dict[str, Any]) is None
    assert _decoded(codec.decode_msgpack, b"\x81\xa1a" + claimed, dict[str, Any]) is None


@given(kind=st.sampled_from([m.FrameToSite, m.FrameToBroker]), data=st.data())
def test_no_whole_number_of_a_message_is_more_than_a_store_can_hold(
    kind: Any, data: st.DataObject
) -> None:
    seed = data.draw(st.sampled_from([seed for seed in SEEDS if "kind" in seed]))
    message = data.draw(mutated(seed))
    frame = {"v": 2, "source": "a", "lc": data.draw(st.sampled_from([0, 1 << 63, (1 << 64) - 1])),
             "messages": [message]}  # fmt: skip
    value = _decoded(codec.decode_msgpack, msgpack.packb(frame), kind)
    if value is not None:
        for number in _numbers(msgspec.to_builtins(value)):
            assert -(1 << 63) <= number < 1 << 63


def _numbers(value: Any) -> list[int]:
    if isinstance(value, dict):
        return [number for inner in value.values() for number in _numbers(inner)]
    if isinstance(value, list | tuple):
        return [number for inner in value for number in _numbers(inner)]
    return [value] if isinstance(value, int) else []

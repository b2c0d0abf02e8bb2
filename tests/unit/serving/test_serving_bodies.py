"""Bodies: both forms carry the same values, and only values that a field can mean get through."""

from __future__ import annotations

import copy
import math
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.core.errors import InvalidInput, TooLarge
from kalends.serving.http import bodies
from kalends.serving.http.problems import HttpRefusal

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["\0", "a\0b", 5.0, -0.0, 1e300, float(1 << 53), 2.0**54]),
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner)
)
MAPS = st.dictionaries(st.text(max_size=3), VALUES, max_size=4)


def obvious(value: Any) -> Any:
    """What `normalize` makes of `value`, written without regard to speed; `ValueError` if refused."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, dict):
        return {obvious(key): obvious(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [obvious(inner) for inner in value]
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError
        return value
    if isinstance(value, int):
        if value.bit_length() > 63 and value != -(1 << 63):
            raise ValueError
        return value
    if math.isnan(value) or math.isinf(value):
        raise ValueError
    return int(value) if abs(value) <= 1 << 53 and value == math.floor(value) else value


@given(MAPS)
def test_normalize_is_its_obvious_twin(raw: dict[str, Any]) -> None:
    try:
        expected = obvious(raw)
    except ValueError:
        with pytest.raises(InvalidInput):
            bodies.normalize(copy.deepcopy(raw))
        return
    bodies.normalize(raw)
    assert raw == expected
    assert repr(raw) == repr(expected), "5 and 5.0 are equal, and must not be confused"


@given(MAPS)
def test_what_is_normal_is_carried_by_both_forms_and_stays_as_it_is(raw: dict[str, Any]) -> None:
    try:
        bodies.normalize(raw)
    except InvalidInput:
        return
    for form in ("json", "msgpack"):
        encoded = bodies.encode(raw, form)  # type: ignore[arg-type]  # one of the two forms
        assert bodies.decode(encoded, form, bytes_max=1 << 20) == raw  # type: ignore[arg-type]  # as above


@given(st.binary(max_size=60))
def test_no_bytes_break_the_decoders(data: bytes) -> None:
    for form in ("json", "msgpack"):
        try:
            decoded = bodies.decode(data, form, bytes_max=50)  # type: ignore[arg-type]  # a form
        except (InvalidInput, TooLarge):
            continue
        assert isinstance(decoded, dict)


def test_nesting_is_bounded_and_the_path_is_named() -> None:
    raw: dict[str, Any] = {"a": 1}
    for _ in range(31):
        raw = {"a": raw}
    bodies.normalize(copy.deepcopy(raw))
    with pytest.raises(InvalidInput, match="nested") as caught:
        bodies.normalize({"a": raw})
    assert caught.value.where == ".".join("a" * 32)


def test_a_body_beyond_the_limit_is_too_large_in_either_form() -> None:
    for form, data in (("json", b'{"a": "xxxxxxxx"}'), ("msgpack", msgpack.packb({"a": "x" * 9}))):
        with pytest.raises(TooLarge):
            bodies.decode(data, form, bytes_max=10)  # type: ignore[arg-type]  # a form


@given(st.text(max_size=60))
def test_no_header_breaks_the_choice_of_a_form(text: str) -> None:
    for choose in (bodies.form_of_answer, bodies.form_of_body):
        try:
            assert choose(text) in ("json", "msgpack")
        except HttpRefusal as refusal:
            # `choose` says no in exactly one way.
            status = refusal.to_problem().status
            assert status in (406, 415)

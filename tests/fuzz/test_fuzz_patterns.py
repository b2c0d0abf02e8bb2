"""Patterns mean the same to the types that check and to the document that describes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from kalends.contract import messages as m
from kalends.contract.calls import OPERATIONS, Change, UploadAgent
from kalends.core.conversion import convert
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import IN_WORDS, NAME_PATTERN
from kalends.serving.configuration import Configuration

RID = "01234567-89ab-7def-8123-456789abcdef"


def _patterns(described: Any, seen: set[int]) -> Iterator[str]:
    """Every pattern of a type (as `msgspec.inspect` describes it) and of the types inside it."""
    if isinstance(described, list | tuple):
        for inner in described:
            yield from _patterns(inner, seen)
    elif isinstance(described, msgspec.inspect.Type | msgspec.inspect.Field):
        if id(described) in seen:
            return
        seen.add(id(described))
        if isinstance(described, msgspec.inspect.StrType) and described.pattern:
            yield described.pattern
        for field in described.__struct_fields__:
            yield from _patterns(getattr(described, field), seen)


def _all_patterns() -> list[str]:
    kinds: list[Any] = [m.FrameToSite, m.FrameToBroker, m.BetweenSites, Configuration]
    kinds += [operation.body for operation in OPERATIONS]
    return sorted(set(_patterns(msgspec.inspect.multi_type_info(kinds), set())))


PATTERNS = _all_patterns()


def test_there_are_patterns_to_look_at() -> None:
    assert len(PATTERNS) >= 8


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_text_that_does_not_match_is_refused_in_words(pattern: str) -> None:
    kind = Annotated[str, Meta(pattern=pattern)]
    with pytest.raises(InvalidInput) as refused:
        convert("\0", kind)
    assert refused.value.detail in IN_WORDS.values()


def test_the_words_name_the_place_of_what_does_not_match() -> None:
    with pytest.raises(InvalidInput) as refused:
        convert({"name": "my agent", "source": ""}, UploadAgent)
    assert (refused.value.where, refused.value.detail) == ("name", IN_WORDS[NAME_PATTERN])


@pytest.mark.parametrize("pattern", PATTERNS)
@given(data=st.data())
def test_no_pattern_takes_a_line_end_behind_the_text(pattern: str, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(pattern))
    kind = Annotated[str, Meta(pattern=pattern)]
    assert convert(text, kind) == text
    with pytest.raises(InvalidInput):
        convert(text + "\n", kind)


@pytest.mark.parametrize("pattern", PATTERNS)
@given(data=st.data())
def test_the_document_and_the_types_agree_on_every_text(pattern: str, data: st.DataObject) -> None:
    valid = st.from_regex(pattern)
    near = st.builds(lambda text, end: text + end, valid, st.sampled_from("\n\r\0 aé/-"))
    text = data.draw(valid | near | st.text(st.characters(codec="utf-8"), max_size=12))
    validator = jsonschema_rs.Draft202012Validator({"type": "string", "pattern": pattern})
    try:
        convert(text, Annotated[str, Meta(pattern=pattern)])
        taken = True
    except InvalidInput:
        taken = False
    assert validator.is_valid(text) is taken


@pytest.mark.parametrize("units", [0, -1, 10_000_001])
def test_a_change_asks_for_an_amount_that_a_claim_can_have(units: int) -> None:
    with pytest.raises(InvalidInput):
        convert({"id": RID, "key": "abcdefgh", "units": {"a/b": units}}, Change)

"""What is said to any other version is read there strictly, and means the same; or it is not said."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Final, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples
from tests.support.generated_messages import values_of
from tests.support.pretended_features import defaults_of, pretended
from tests.support.wire_shapes import kinds, shapes, strange_in

from kalends.contract import agreement
from kalends.contract import messages as m
from kalends.core.features import Feature, Since

FEATURES: Final = [Feature(f"f{number}", f"the feature {number}") for number in range(4)]
NAMES: Final = [each.name for each in FEATURES]

MESSAGES: Final = [
    *get_args(m.ToSite), *get_args(m.ToBroker), *get_args(m.BetweenSites), m.Refer, m.Referred,
]  # fmt: skip

WHOLE: Final = {
    m.PartNews: FEATURES[0], m.Reclaim: FEATURES[1], m.RoomNeed: FEATURES[2],
    m.OwnerAsk: FEATURES[3], m.OwnerSays: FEATURES[3], m.ReadyAsk: FEATURES[0],
    m.SlotLoss: FEATURES[1], m.LossNoted: FEATURES[1], m.Recharge: FEATURES[2],
}  # fmt: skip


def _drawn(text: str, count: int) -> int:
    return zlib.crc32(text.encode()) % count


FIELDS: Final = {
    (kind, name): Since(FEATURES[_drawn(f"{kind}.{name}", 4)], hint=bool(_drawn(name, 3)))
    for kind in kinds().values()
    if kind.__struct_config__.omit_defaults
    for name in defaults_of(kind)
}
"""All that could ever have come later than the rest."""


@pytest.fixture(autouse=True, scope="module")
def _features() -> Iterator[None]:
    with pretended(FIELDS, WHOLE):
        yield


@pytest.mark.parametrize("kind", MESSAGES, ids=[each.__name__ for each in MESSAGES])
@settings(max_examples=examples(10))
@given(data=st.data(), known=st.sets(st.sampled_from(NAMES)))
def test_what_is_said_to_a_peer_is_read_there_and_means_the_same_or_is_not_said(
    kind: type[m.Message], data: st.DataObject, known: set[str]
) -> None:
    message = data.draw(values_of(kind))
    said = agreement.fitted(message, known)
    matters = set(_what_matters(message, known))
    if isinstance(said, Feature):
        assert said in matters
        return
    assert not matters
    packed = msgspec.msgpack.encode(said)
    assert not strange_in(msgspec.msgpack.decode(packed), kind, known)
    assert _differences(message, msgspec.msgpack.decode(packed, type=kind)) <= {
        mark for mark, since in FIELDS.items() if since.hint and since.feature.name not in known
    }


@given(data=st.data())
def test_a_peer_that_knows_everything_is_said_the_very_message(data: st.DataObject) -> None:
    message = data.draw(values_of(data.draw(st.sampled_from(MESSAGES))))
    assert agreement.fitted(message, frozenset([*NAMES, "of-the-future"])) is message


@given(known=st.sets(st.sampled_from(NAMES)), more=st.sets(st.sampled_from(NAMES)))
def test_who_knows_more_reads_all_that_who_knows_less_reads(
    known: set[str], more: set[str]
) -> None:
    less, all_of = shapes(known), shapes(known | more)
    for kind, fields in less.items():
        assert fields.keys() <= all_of[kind].keys()


def _what_matters(value: Any, known: set[str]) -> Iterator[Feature]:
    """The features that a peer lacks, and without which it would take `value` for something else."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from _what_matters(each, known)
    elif isinstance(value, dict):
        yield from _what_matters(list(value.values()), known)
    elif isinstance(value, msgspec.Struct):
        kind = type(value)
        if kind in WHOLE and WHOLE[kind].name not in known:
            yield WHOLE[kind]
        for name in kind.__struct_fields__:
            field, mark = getattr(value, name), FIELDS.get((kind, name))
            if mark is None or mark.feature.name in known:
                yield from _what_matters(field, known)
            elif field != defaults_of(kind)[name] and not mark.hint:
                yield mark.feature


def _differences(one: Any, other: Any) -> set[tuple[type, str]]:
    """The fields in which two values of one type differ, however deep they lie."""
    if isinstance(one, list | tuple):
        if len(one) != len(other):
            return set()
        pairs = zip(one, other, strict=True)
        return {each for pair in pairs for each in _differences(*pair)}
    if isinstance(one, dict) and one.keys() == other.keys():
        return {each for key in one for each in _differences(one[key], other[key])}
    if not isinstance(one, msgspec.Struct) or not isinstance(other, type(one)) or one == other:
        return set()
    found: set[tuple[type, str]] = set()
    for name in type(one).__struct_fields__:
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine != theirs:
            found |= _differences(mine, theirs) or {(type(one), name)}
    return found

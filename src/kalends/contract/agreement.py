"""Adaptation of messages to a peer with fewer features, without a change of meaning.

A message is sent unchanged, or without hints that the peer does not know. Otherwise it cannot be sent to the
peer at all, and its sender gets the missing feature. No message is sent in part. The marks are those of
`kalends.core.features`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import inspect
from msgspec.structs import replace

from kalends.contract.versions import BASE, ServerVersion, version_in
from kalends.core.errors import Conflict, InvalidInput
from kalends.core.features import MARK, Feature, Since

T = TypeVar("T", bound=msgspec.Struct)

_LISTS: Final = (inspect.ListType, inspect.VarTupleType, inspect.TupleType)


SERVERS_MAX: Final = 10_000
"""Maximum number of servers in `HeardVersions`; the oldest are dropped."""


class FieldMark(NamedTuple):
    """A field's mark, and the value with which the field is left out."""

    since: Since
    default: Any


class _Unsaid(Exception):
    """A message cannot be sent to this peer, which does not know the feature."""

    def __init__(self, feature: Feature) -> None:
        super().__init__(feature.name)
        self.feature = feature


class HeardVersions:
    """The versions of servers that answer single calls, without a session; `ours` is our own version.

    A server has the base version until it has answered, and again after it has refused a question: it may
    have gone back to an older version.
    """

    def __init__(self, ours: ServerVersion) -> None:
        self.ours = ours
        self._heard: dict[str, ServerVersion] = {}

    def fitted(self, url: str, question: T) -> T | Feature:
        """Return `question` for the server at `url`, or the feature that the server lacks."""
        return fitted(question, self.ours.features & self._heard.get(url, BASE).features)

    def heard(self, url: str, status: int, headers: Mapping[str, str]) -> None:
        """Note the version of the server at `url`, which has answered with this status and these headers."""
        self._heard.pop(url, None)
        if status == 400:
            return
        try:
            self._heard[url] = version_in(headers)
        except InvalidInput:
            return
        if len(self._heard) > SERVERS_MAX:
            del self._heard[next(iter(self._heard))]


def fitted(message: T, known: Collection[str]) -> T | Feature:
    """Return `message` for a peer with these `known` features, or the feature that the peer lacks."""
    if all(each.name in known for each in features_in(type(message))):
        return message
    try:
        return _struct(message, known)
    except _Unsaid as unsaid:
        return unsaid.feature


def told(answer: T, known: Collection[str]) -> T:
    """Return `answer` for a client with these `known` features.

    Raises `Conflict` if that is not possible: for a word of an answer that has no `instead`.
    """
    said = fitted(answer, known)
    if isinstance(said, Feature):
        raise Conflict(
            f"the answer is about {said.words}, which this client does not know",
            remedy="upgrade the client",
        )
    return said


@cache
def features_in(kind: type[msgspec.Struct]) -> frozenset[Feature]:
    """Return the features of all marks in `kind`, and in its parts."""
    return frozenset(each.feature for each in _marks_in(inspect.type_info(kind), set()))


def matter_in(kind: type[msgspec.Struct]) -> frozenset[Feature]:
    """Return those of `features_in` without which some value of `kind` cannot be sent at all."""
    found = _marks_in(inspect.type_info(kind), set())
    return frozenset(each.feature for each in found if not each.hint and not each.instead)


def since_of(kind: type[msgspec.Struct]) -> Feature | None:
    """Return the feature that `kind` as a whole was added with."""
    found: Feature | None = getattr(kind, "SINCE", None)
    return found


@cache
def marks(kind: type[msgspec.Struct]) -> dict[str, FieldMark]:
    """Return the marked fields of `kind`."""
    return {
        field.name: FieldMark(found, _default(field))
        for field in _fields(kind)
        if (found := since_at(field.type)) is not None
    }


def since_at(shape: inspect.Type) -> Since | None:
    """Return the mark of a type, if it has one."""
    found = shape.extra.get(MARK) if isinstance(shape, inspect.Metadata) and shape.extra else None
    return found if isinstance(found, Since) else None


def bare(shape: inspect.Type) -> inspect.Type:
    """Return a type without its annotations."""
    return bare(shape.type) if isinstance(shape, inspect.Metadata) else shape


def parts(shape: inspect.Type) -> Iterator[inspect.Type]:
    """Return the types that a type is made of, without those of the fields of structs."""
    match bare(shape):
        case inspect.UnionType(types):
            yield from types
        case inspect.ListType(item) | inspect.VarTupleType(item):
            yield item
        case inspect.TupleType(items):
            yield from items
        case inspect.DictType(key, value):
            yield from (key, value)


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[inspect.Field, ...]:
    shape = inspect.type_info(kind)
    assert isinstance(shape, inspect.StructType)
    return shape.fields


def _default(field: inspect.Field) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _marks_in(shape: inspect.Type, seen: set[type]) -> Iterator[Since]:
    if (found := since_at(shape)) is not None:
        yield found
    kind = bare(shape)
    if isinstance(kind, inspect.StructType) and kind.cls not in seen:
        seen.add(kind.cls)
        if (feature := since_of(kind.cls)) is not None:
            yield Since(feature)
        yield from (mark.since for mark in marks(kind.cls).values())
        for field in kind.fields:
            yield from _marks_in(field.type, seen)
    for part in parts(kind):
        yield from _marks_in(part, seen)


def _struct(value: T, known: Collection[str]) -> T:
    kind = type(value)
    if (feature := since_of(kind)) is not None and feature.name not in known:
        raise _Unsaid(feature)
    marked = marks(kind)
    changes = {}
    for field in _fields(kind):
        old, mark = getattr(value, field.name), marked.get(field.name)
        if mark is not None and mark.since.feature.name not in known:
            if not mark.since.hint and old != mark.default:
                raise _Unsaid(mark.since.feature)
            # Also if it equals the default: msgspec leaves out only that very object.
            new = mark.default
        else:
            new = _value(old, field.type, known)
        if new is not old:
            changes[field.name] = new
    return replace(value, **changes) if changes else value


def _value(value: Any, shape: inspect.Type, known: Collection[str]) -> Any:
    match bare(shape):
        case inspect.StructType():
            return _struct(value, known)
        case inspect.UnionType(types):
            return _member(value, types, known)
        case inspect.ListType(item) | inspect.VarTupleType(item):
            return _same(value, type(value)(_value(each, item, known) for each in value))
        case inspect.TupleType(items):
            pairs = zip(value, items, strict=True)
            return _same(value, tuple(_value(each, item, known) for each, item in pairs))
        case inspect.DictType(_, of_values):
            changed = {key: _value(each, of_values, known) for key, each in value.items()}
            return value if all(changed[key] is value[key] for key in value) else changed
    return value


def _same(old: Any, new: Any) -> Any:
    """Return `old` if nothing in it has changed, as in most of a message."""
    return old if all(one is other for one, other in zip(old, new, strict=True)) else new


def _member(value: Any, types: Collection[inspect.Type], known: Collection[str]) -> Any:
    """Return a value of one of several types: a struct, a list or map, or a word that may be marked."""
    if isinstance(value, msgspec.Struct):
        return _struct(value, known)
    for shape in types:
        kind = bare(shape)
        if isinstance(kind, inspect.LiteralType) and value in kind.values:
            mark = since_at(shape)
            if mark is None or mark.feature.name in known:
                return value
            if not mark.instead:
                raise _Unsaid(mark.feature)
            return mark.instead
        if isinstance(value, dict) and isinstance(kind, inspect.DictType):
            return _value(value, kind, known)
        if isinstance(value, list | tuple) and isinstance(kind, _LISTS):
            return _value(value, kind, known)
    return value

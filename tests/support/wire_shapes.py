"""The contract between servers as plain data: what a server that knows some features reads, to the letter.

A slow twin of `kalends.contract.agreement`, which looks at what is on the wire and not at our types' values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from kalends.contract import agreement
from kalends.contract import messages as m
from kalends.contract.calls import OPERATIONS

ROOTS: tuple[Any, ...] = (
    m.FrameToSite,
    m.FrameToBroker,
    m.PeerAsk,
    m.PeerSays,
    m.Refer,
    m.Referred,
    m.Split,
    m.Splits,
)
"""All that servers say to each other consists of these."""

Shapes = dict[str, dict[str, list[Any]]]
"""By struct, by field: the words that it may have, if it has only some."""


def shapes(known: Collection[str]) -> Shapes:
    """Return what a server with these features reads: every struct, field and word."""
    found: Shapes = {}
    for root in ROOTS:
        _collect(inspect.type_info(root), known, found)
    return found


def words_of_answers(known: Collection[str]) -> dict[str, dict[str, list[Any]]]:
    """Return the words of which each field of an answer to a client has one; fields may come as they like."""
    found: Shapes = {}
    for operation in OPERATIONS:
        _collect(inspect.type_info(operation.answer), known, found)
    told = {
        kind: {name: some for name, some in fields.items() if some}
        for kind, fields in found.items()
    }
    return {kind: fields for kind, fields in told.items() if fields}


def kinds() -> dict[str, type[msgspec.Struct]]:
    """Return all structs that servers say to each other, marked or not, by name."""
    found: dict[str, type[msgspec.Struct]] = {}

    def collect(shape: inspect.Type) -> None:
        bare = agreement.bare(shape)
        if isinstance(bare, inspect.StructType) and bare.cls.__name__ not in found:
            found[bare.cls.__name__] = bare.cls
            for field in bare.fields:
                collect(field.type)
        for part in agreement.parts(bare):
            collect(part)

    for root in ROOTS:
        collect(inspect.type_info(root))
    return found


def strange_in(raw: Any, kind: type[msgspec.Struct], known: Collection[str]) -> list[str]:
    """Return the paths in `raw`, which was read from the wire, that a server of these features refuses."""
    return list(_strange(raw, _type_info(kind), known, kind.__name__))


_type_info = cache(inspect.type_info)


def _collect(shape: inspect.Type, known: Collection[str], found: Shapes) -> None:
    bare = agreement.bare(shape)
    if isinstance(bare, inspect.StructType):
        if bare.cls.__name__ in found or not _is_read(bare.cls, known):
            return
        fields = found[bare.cls.__name__] = {}
        for field in _read_fields(bare, known):
            fields[field.name] = _words(field.type, known)
            _collect(field.type, known, found)
    for part in agreement.parts(bare):
        _collect(part, known, found)


def _is_read(kind: type[msgspec.Struct], known: Collection[str]) -> bool:
    feature = agreement.since_of(kind)
    return feature is None or feature.name in known


def _read_fields(shape: inspect.StructType, known: Collection[str]) -> list[inspect.Field]:
    marks = agreement.marks(shape.cls)
    return [
        field
        for field in shape.fields
        if field.name not in marks or marks[field.name].since.feature.name in known
    ]


def _words(shape: inspect.Type, known: Collection[str]) -> list[Any]:
    bare = agreement.bare(shape)
    if isinstance(bare, inspect.LiteralType):
        return sorted(bare.values, key=str)
    words: list[Any] = []
    for part in agreement.parts(bare):
        mark = agreement.since_at(part)
        if mark is None or mark.feature.name in known:
            words += _words(part, known)
    return sorted(words, key=str)


def _strange(raw: Any, shape: inspect.Type, known: Collection[str], path: str) -> Iterator[str]:
    bare = agreement.bare(shape)
    if isinstance(bare, inspect.UnionType):
        chosen = _chosen(raw, bare, known)
        if chosen is None:
            yield path
        else:
            yield from _strange(raw, chosen, known, path)
    elif isinstance(bare, inspect.StructType):
        if not _is_read(bare.cls, known):
            yield path
        fields = {field.name: field.type for field in _read_fields(bare, known)}
        for name, value in raw.items():
            if name in fields:
                yield from _strange(value, fields[name], known, f"{path}.{name}")
            elif name != bare.tag_field:
                yield f"{path}.{name}"
    elif isinstance(bare, inspect.DictType):
        for key, value in raw.items():
            yield from _strange(value, bare.value_type, known, f"{path}.{key}")
    elif isinstance(bare, inspect.TupleType):
        for number, (value, part) in enumerate(zip(raw, bare.item_types, strict=True)):
            yield from _strange(value, part, known, f"{path}[{number}]")
    elif isinstance(bare, inspect.ListType | inspect.VarTupleType):
        for number, value in enumerate(raw):
            yield from _strange(value, bare.item_type, known, f"{path}[{number}]")


def _chosen(raw: Any, union: inspect.UnionType, known: Collection[str]) -> inspect.Type | None:
    """Return the member of `union` that `raw` is read as; None where there is none."""
    for part in union.types:
        bare, mark = agreement.bare(part), agreement.since_at(part)
        if mark is not None and mark.feature.name not in known:
            continue
        match bare:
            case inspect.StructType():
                if isinstance(raw, dict) and bare.tag == raw.get(bare.tag_field or "", bare.tag):
                    return part
            case inspect.LiteralType(values):
                if raw in values:
                    return part
            case inspect.NoneType():
                if raw is None:
                    return part
            case inspect.ListType() | inspect.VarTupleType() | inspect.TupleType():
                if isinstance(raw, list | tuple):
                    return part
            case inspect.DictType():
                if isinstance(raw, dict):
                    return part
            case _:
                if not isinstance(raw, list | tuple | dict) and raw is not None:
                    return part
    return None

"""Marks on parts of the contract that have none: as if these had come with features, after the base version.

The contract has few marks at a time, and the laws of marks are to hold for whatever is marked next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import msgspec

from kalends.contract import agreement
from kalends.core.features import Feature, Since

Kind = type[msgspec.Struct]


def pretend(
    fields: Mapping[tuple[Kind, str], Since], whole: Mapping[Kind, Feature]
) -> Callable[[], None]:
    """Mark these `fields`, and these structs as a `whole`; call what is returned to take that back."""
    marks, since_of = agreement.marks, agreement.since_of

    def pretended_marks(kind: Kind) -> dict[str, agreement.FieldMark]:
        more = {
            name: agreement.FieldMark(fields[kind, name], default)
            for name, default in defaults_of(kind).items()
            if (kind, name) in fields
        }
        return {**marks(kind), **more}

    agreement.marks = pretended_marks  # type: ignore[assignment]  # the same without its cache
    agreement.since_of = lambda kind: whole.get(kind) or since_of(kind)  # type: ignore[assignment]
    agreement.features_in.cache_clear()

    def take_back() -> None:
        agreement.marks, agreement.since_of = marks, since_of
        agreement.features_in.cache_clear()

    return take_back


@contextmanager
def pretended(
    fields: Mapping[tuple[Kind, str], Since], whole: Mapping[Kind, Feature]
) -> Iterator[None]:
    """As `pretend`, until the end of the ``with``."""
    take_back = pretend(fields, whole)
    try:
        yield
    finally:
        take_back()


def defaults_of(kind: Kind) -> dict[str, object]:
    """The fields of `kind` that can be left out, and what they have then."""
    return {
        field.name: field.default_factory()
        if field.default_factory is not msgspec.NODEFAULT
        else field.default
        for field in msgspec.structs.fields(kind)
        if not field.required
    }

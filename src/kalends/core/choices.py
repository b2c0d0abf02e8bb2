"""The allowed words at a place of a type, if only a few are allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import inspect


def choices_at(kind: Any, where: str) -> list[str]:
    """Return the words of a `kind` at a path such as ``site.machines[0].mode``; none if all are allowed."""
    types = [inspect.type_info(kind)]
    for step in re.findall(r"[^.\[\]]+", where):
        types = [inner for each in types for inner in _steps_into(each, step)]
    return [str(value) for each in _members(types) for value in getattr(each, "values", ())]


def _steps_into(info: inspect.Type, step: str) -> Iterator[inspect.Type]:
    """Yield the types at `step`, a field or an index, of the type that `info` describes."""
    for each in _members([info]):
        if isinstance(each, inspect.StructType):
            yield from (one.type for one in each.fields if one.encode_name == step)
        elif isinstance(each, inspect.DictType):
            yield each.value_type
        elif isinstance(each, inspect.CollectionType):
            yield each.item_type


def _members(types: Iterable[inspect.Type]) -> Iterator[inspect.Type]:
    """Yield `types`, and the parts of a union or of a type with constraints."""
    for each in types:
        if isinstance(each, inspect.UnionType):
            yield from _members(each.types)
        elif isinstance(each, inspect.Metadata):
            yield from _members([each.type])
        else:
            yield each

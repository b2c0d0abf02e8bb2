"""Any message that servers may say to each other, made from its type."""

from __future__ import annotations

import re
from typing import Any, Final

from hypothesis import strategies as st
from msgspec import inspect

from kalends.contract import agreement

MANY_MAX: Final = 2

TEXTS: Final = (
    "", "a", "b2", "site/sp2", "x_y", "0" * 32, "f" * 32, "0" * 64, "a:b", "user:ann",
    "01900000-0000-7000-8000-000000000000", "01900000-0000-7000-8000-000000000001",
)  # fmt: skip
"""Some for each pattern: what hypothesis makes of a pattern costs more than all else here."""


def values_of(kind: type) -> st.SearchStrategy[Any]:
    """Values of `kind`, where each field that has a default has it half of the time."""
    return _of(inspect.type_info(kind))


def _of(shape: inspect.Type) -> st.SearchStrategy[Any]:
    match agreement.bare(shape):
        case inspect.StructType(cls=kind, fields=fields):
            required = {each.name: _of(each.type) for each in fields if each.required}
            optional = {each.name: _of(each.type) for each in fields if not each.required}
            return st.fixed_dictionaries(required, optional=optional).map(
                lambda given: kind(**given)
            )
        case inspect.UnionType(types):
            return st.one_of([_of(each) for each in types])
        case inspect.LiteralType(values):
            return st.sampled_from(values)
        case inspect.VarTupleType(item, least, most):
            return st.lists(_of(item), min_size=least or 0, max_size=_few(least, most)).map(tuple)
        case inspect.TupleType(items):
            return st.tuples(*map(_of, items))
        case inspect.DictType(key, value, least, most):
            return st.dictionaries(
                _of(key), _of(value), min_size=least or 0, max_size=_few(least, most)
            )
        case inspect.IntType(ge=least, le=most, lt=beyond):
            return st.integers(least, most if beyond is None else beyond - 1)
        case inspect.FloatType(ge=least, le=most):
            return st.floats(least, most, allow_nan=False)
        case inspect.StrType(pattern=pattern) if pattern:
            return st.sampled_from([text for text in TEXTS if re.search(pattern, text)])
        case inspect.StrType(min_length=least, max_length=most):
            ascii_ = st.characters(codec="ascii", categories=("L", "N"))
            return st.text(ascii_, min_size=least or 0, max_size=max(least or 0, min(most or 8, 8)))
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case other:
            raise AssertionError(f"no message had a {other} before")


def _few(least: int | None, most: int | None) -> int:
    return max(least or 0, min(MANY_MAX if most is None else most, MANY_MAX))

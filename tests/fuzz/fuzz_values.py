"""Hostile values: what a careless or malicious caller puts where something else is meant."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

TEXTS = (
    "", " ", "\n", "\0", "a\0b", "\ufeff", "\u202e", "é" * 40, "😀", "../../etc/passwd", "%00",
    "' or 1=1 --", "{{7*7}}", "a" * 5_000, "a/b\n", "nan", "1e999", "null", "01234567",
)  # fmt: skip
NUMBERS = (
    0, -1, 1, 2, 59, 60, 10_000_000, 10_000_001, 32_503_680_000, 1 << 31, 1 << 53, (1 << 62) + 1,
    (1 << 63) - 1, 1 << 63, (1 << 64) - 1, -(1 << 63),
)  # fmt: skip
FLOATS = (0.0, -0.0, 0.5, 1e-300, 1e300, -1e300, 5.0)

SCALARS = (
    st.none()
    | st.booleans()
    | st.sampled_from(NUMBERS)
    | st.sampled_from(FLOATS)
    | st.sampled_from(TEXTS)
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.text(st.characters(codec="utf-8"), max_size=8)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)

SCRAPS = (
    b"", b" ", b"null", b"[]", b"{}", b"0", b'""', b"{", b'{"a":', b'{"a":1,}', b"NaN", b"[NaN]",
    b'{"a":Infinity}', b'{"a":1e999}', b'{"a":"\\ud800"}', b'"\\udc00\\ud800"', b'{"\\ud800":1}',
    b'{"a":"\\u0000"}', b'{"a":1,"a":2}', b'{"id":"x","id":"y"}', b"\xff\xfe{}", b"\xef\xbb\xbf{}",
    b'{"a":"\xed\xa0\x80"}', b'{"a":' + b"1" * 400 + b"}", b'{"a":' + b"1" * 5_000 + b"}",
    b'{"a":-' + b"9" * 4_000 + b"}", b'{"a":1' + b"0" * 300 + b".5}", b"[" * 10_000,
    b'{"a":' * 10_000, b"{}{}", b"//{}", b"\xc1", b"\xc0", b"\x80", b"\x81", b"\x81\xc0\xc0",
    b"\x81\xa1a", b"\x81\x01\x02", b"\x82\xa1a\x01\xa1a\x02", b"\x81\xa1a\xcb\x7f\xf8" + b"\0" * 6,
    b"\x81\xa1a\xcb\x7f\xf0" + b"\0" * 6, b"\x81\xa1a\xd4\x01\x00", b"\x81\xa1a\xc4\x01\x00",
    b"\x81\xa1a\xd6\xff\0\0\0\0", b"\x81\xa1a\xc7\x0c\xff" + b"\xff" * 12, b"\x81\xa1\xff\x01",
    b"\x81\xa1a\xa1\xff", b"\x81\xa1a\xa3\xed\xa0\x80", b"\x81\xc4\x01a\x01", b"\x91" * 10_000,
    b"\x81\xa1a" * 10_000, b"\x80\x80", b"\xdf\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff",
)  # fmt: skip
"""Bodies that are broken in ways that parsers have stumbled over."""


@st.composite
def mutated(draw: st.DrawFn, seed: Any) -> Any:
    """`seed` (maps, lists, scalars) with one to three places changed, dropped, added or repeated."""
    value = copy.deepcopy(seed)
    for _ in range(draw(st.integers(1, 3))):
        places = [place for place in _places(value) if place]
        if not places:
            return value
        *path, last = draw(st.sampled_from(places))
        holder = value
        for step in path:
            holder = holder[step]
        match draw(st.sampled_from(["replace", "drop", "add", "nest", "repeat"])):
            case "replace":
                holder[last] = draw(VALUES)
            case "drop":
                del holder[last]
            case "add" if isinstance(holder, dict):
                holder[draw(st.text(st.characters(codec="utf-8"), max_size=8))] = draw(VALUES)
            case "repeat" if isinstance(holder, list):
                holder.extend([copy.deepcopy(holder[last])] * draw(st.sampled_from([1, 40, 600])))
            case _:
                holder[last] = [holder[last]] if draw(st.booleans()) else {"a": holder[last]}
    return value


def _places(value: Any) -> list[tuple[Any, ...]]:
    """The paths of everything in `value`; the empty one is `value` itself."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value[:4]))
    return [(), *((step, *path) for step, below in inner for path in _places(below))]

"""A hint names an attempt, and perhaps the ranks that its program wants; nothing else is one."""

from __future__ import annotations

import pytest

from kalends.batch.shepherds.hints import HINT_BYTES_MAX, Hint, decode_hint, encode_hint


@pytest.mark.parametrize("hint", [Hint("17.1"), Hint("17.1", 4), Hint("9" * 16 + ".999999", 10**7)])
def test_a_hint_is_heard_as_it_was_given(hint: Hint) -> None:
    assert len(encode_hint(hint)) <= HINT_BYTES_MAX
    assert decode_hint(encode_hint(hint)) == hint


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"17.1",
        b"17.1 ",
        b"17.1 -1",
        b"17.1 1.5",
        b"17.1 0 0",
        b"../x 0",
        b"17.1 \xb2",
        b"\xff 0",
    ],
)
def test_what_is_no_hint_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  of any kind
        decode_hint(data)

"""The frame with a function's result is found behind all output, and nothing else is taken for it."""

from __future__ import annotations

import base64
import hashlib
import itertools
import pickle
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.client.functions.result_frames import (
    OUTPUT_BYTES_MAX,
    ResultReader,
    mark_of,
    script_of,
)
from kalends.core.errors import TooLarge
from kalends.core.limits import JOB_SCRIPT_BYTES_MAX

KEY = "key-of-ann"


def frame(content: bytes, *, key: str = KEY, kind: str = "returned", digest: str = "") -> bytes:
    digest = digest or hashlib.sha256(content).hexdigest()
    return f"\n[{mark_of(key)} {kind} {digest} {base64.b64encode(content).decode()}]\n".encode()


def read(*pieces: bytes, bytes_max: int = 1_000) -> ResultReader:
    reader = ResultReader(KEY, bytes_max)
    for piece in pieces:
        reader.feed(piece)
    return reader


@given(st.binary(), st.binary(max_size=1_000), st.lists(st.integers(0, 3_000)))
def test_a_frame_is_found_behind_any_output_however_it_is_cut(
    printed: bytes, content: bytes, cuts: Sequence[int]
) -> None:
    whole = printed + frame(content)
    places = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    pieces = [whole[begin:end] for begin, end in itertools.pairwise(places)]
    assert read(*pieces).frame() == ("returned", content, printed)


def test_a_frame_of_another_call_a_changed_or_cut_one_is_none() -> None:
    others = (
        frame(b"x", key="key-of-bob"),
        frame(b"x", digest="0" * 64),
        frame(b"x")[:-2],
        frame(b"x", kind="forged"),
        frame(b"x").replace(b"eA==", b"eA=x"),
    )
    for other in others:
        assert read(other).frame() is None
        assert read(other, frame(b"y")).frame() == ("returned", b"y", other)


def test_of_a_flood_only_so_much_is_kept_that_the_largest_result_is_whole() -> None:
    largest, flood = b"r" * 1_000, b"f" * 100_000
    reader = read(*[flood] * 30, frame(largest))
    found = reader.frame()
    assert found is not None
    assert (found.content, len(found.output)) == (largest, OUTPUT_BYTES_MAX)
    assert len(reader._kept) <= OUTPUT_BYTES_MAX + 4_000


@pytest.mark.parametrize(
    ("python", "line"), [("python3", "#!/usr/bin/env python3"), ("/opt/p", "#!/opt/p")]
)
def test_the_program_is_one_that_python_reads_and_has_its_limit(python: str, line: str) -> None:
    text = script_of(KEY, (len, ("abc",), {}), python, 1_000, pickle.dumps)
    assert text.splitlines()[0] == line
    compile(text, "job", "exec")
    assert len(text) <= JOB_SCRIPT_BYTES_MAX
    with pytest.raises(TooLarge):
        script_of(
            KEY, (len, (bytes(range(256)) * 500,), {}), python, 1_000, lambda call: call_bytes()
        )


def call_bytes() -> bytes:
    """What no compression makes small."""
    return b"".join(hashlib.sha256(str(number).encode()).digest() for number in range(2_000))

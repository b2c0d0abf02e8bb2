"""What servers of the base version have said to each other is read by those of today, strictly.

`tests/data/frames` has frames that a broker and two sites of the base version exchanged when they looked,
booked, held, locked, waited and cancelled: one for each form of each message.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from tests.support.wire_shapes import strange_in

from kalends.contract import codec
from kalends.contract import messages as m

FRAMES: Final = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data/frames/base-version.jsonl")
    .read_text()
    .splitlines()
]
TYPES: Final[dict[str, Any]] = {each.__name__: each for each in (m.FrameToSite, m.FrameToBroker)}


def test_the_recorded_frames_are_a_whole_day() -> None:
    said = {each["kind"] for frame in FRAMES for each in frame["frame"]["messages"]}
    assert said >= {
        "hello", "welcome", "known", "query", "view", "visit", "visited", "prepare", "voted", "decide",
        "done", "forget", "await", "awaited", "cancel",
    }  # fmt: skip


@pytest.mark.parametrize("recorded", FRAMES)
def test_a_frame_of_the_base_version_is_read(recorded: dict[str, Any]) -> None:
    kind, frame = TYPES[recorded["type"]], recorded["frame"]
    read = codec.decode_frame(msgspec.msgpack.encode(frame), msgspec.msgpack.Decoder(kind))
    assert len(read.messages) == len(frame["messages"])
    assert not strange_in(frame, kind, ())

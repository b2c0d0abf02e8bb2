"""The protocol, told in plain text: every script in tests/protocol_scripts happens as it is written.

After a change of the protocol, read what changed:
KALENDS_RECORD=1 pytest tests/unit/protocol/test_protocol_scripts.py
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest
from tests.protocol_world import World

SCRIPTS = sorted((Path(__file__).parents[2] / "protocol_scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_what_happens_is_what_the_script_tells(path: Path) -> None:
    script = path.read_text()
    happened = World().run(script)
    if os.environ.get("KALENDS_RECORD"):
        path.write_text(happened)
        script = happened
    assert happened == script


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_tells_something_after_every_book(path: Path) -> None:
    lines = path.read_text().splitlines()
    for line, after in pairwise(lines):
        if line.startswith("book "):
            assert after.startswith("> ")


def test_all_that_the_protocol_can_meet_is_told() -> None:
    assert len(SCRIPTS) >= 16

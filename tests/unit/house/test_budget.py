"""The house has a budget of lines, by room: a room grows for a reason, which is written here."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import kalends

ROOT: Final = Path(kalends.__file__).parent

BUDGET: Final = {
    "__init__.py": 150,
    "__main__.py": 30,
    "agents": 7_030,
    "backends": 3_640,
    "batch": 13_800,  # Gaps are within the owner's rules.
    "broker": 20_580,
    "calendars": 4_670,
    "cli": 11_690,  # Readers of an answer may leave early; changes that wait are listed.
    "client": 6_850,  # A change that is decided is found by its id.
    "contract": 4_040,
    "core": 5_010,
    "demo": 2_540,  # Jobs and their output outlast a kept demo.
    "extras.py": 50,
    "federation": 880,
    "machines": 1_020,
    "notices": 1_430,
    "resource_servers": 19_460,  # Ids that users know, shares in use, counts of a comparison.
    "rim": 480,  # Secrets of notices are read here, with the other secret files.
    "scheduling": 7_760,
    "servers": 930,  # Moved from the rooms whose machines it puts together.
    "serving": 7_960,
    "simulation": 6_540,
    "stores": 980,
    "testing": 390,
    "version.py": 10,
    "virtual_sites": 690,
}
"""The lines that each room of `src` may have, blank lines and docstrings included.

Whoever raises a number writes the reason beside it. Whoever makes a room smaller lowers its number.
"""

SLACK: Final = 0.03
"""The share of a budget that may be unused."""

TESTS: Final = 138_640
"""The lines that all of `tests` may have."""


def test_each_room_keeps_within_its_budget() -> None:
    lines = _lines_of_rooms()
    assert {room: count for room, count in lines.items() if count > BUDGET.get(room, 0)} == {}


def test_no_budget_is_larger_than_its_room_needs() -> None:
    lines = _lines_of_rooms()
    unused = {room: most - lines.get(room, 0) for room, most in BUDGET.items()}
    assert {room: rest for room, rest in unused.items() if rest > SLACK * BUDGET[room] + 50} == {}


def test_the_tests_keep_within_their_budget() -> None:
    assert sum(map(_count, Path(__file__).parents[2].rglob("*.py"))) <= TESTS


def _lines_of_rooms() -> dict[str, int]:
    lines: dict[str, int] = {}
    for path in ROOT.rglob("*.py"):
        room = path.relative_to(ROOT).parts[0]
        lines[room] = lines.get(room, 0) + _count(path)
    return lines


def _count(path: Path) -> int:
    return len(path.read_bytes().splitlines())

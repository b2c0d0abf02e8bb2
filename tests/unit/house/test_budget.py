"""The house has a budget of lines, by room: a room grows for a reason, which is written here."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import kalends

ROOT: Final = Path(kalends.__file__).parent

BUDGET: Final = {
    "__init__.py": 160,  # Windows of terms are among the names.
    "__main__.py": 50,  # An interrupt while the program is loaded is neither lost nor another error.
    "agents": 7_190,  # Scripts of owners decide, and those of jobs rank starts, in the same language.
    "backends": 3_640,
    "batch": 15_000,  # Machines belong to hosts, journals lie on PostgreSQL, too; jobs are paid.
    "broker": 30_960,  # Series, their best hours; PostgreSQL; what bids hint at; what comes together.
    "calendars": 4_850,  # Buffers of owners, and what is free beside them. Recurrence rules are in core.
    "cli": 14_370,  # Series, best hours, sharing; sites come and go; stores move; an owner closes it.
    "client": 9_440,  # Functions are jobs, and their results come back; owners join a broker, close sites.
    "contract": 6_060,  # Calls about series, sharing, and about the sites of a broker; hints in bids.
    "core": 7_040,  # Recurrence rules came from calendars; series are on local clocks; hints of buffers.
    "demo": 3_320,  # Servers on a PostgreSQL cluster of its own are killed while users book.
    "extras.py": 50,
    "federation": 1_060,  # What a site learns from bids that it has lost, and the aims of its bids.
    "machines": 1_020,
    "notices": 1_510,  # Stored deliveries are read in the same way by all stores.
    "resource_servers": 25_620,  # Stored on PostgreSQL; owners' scripts decide; jobs are paid; buffers grow.
    "rim": 520,  # A text may name several addresses; scripts are read from files in one way.
    "scheduling": 7_800,
    "servers": 1_600,  # Stores are configured, checked; sites join and leave; standbys are watched.
    "serving": 8_680,  # Prices, buffers; readiness. Sites have signed cards; a reload takes sites.
    "simulation": 6_540,
    "stores": 4_020,  # Stores are moved and compared; faults of connections are named, standbys counted.
    "testing": 390,
    "version.py": 10,
    "virtual_sites": 920,
}
"""The lines that each room of `src` may have, blank lines and docstrings included.

Whoever raises a number writes the reason beside it. Whoever makes a room smaller lowers its number.
"""

SLACK: Final = 0.03
"""The share of a budget that may be unused."""

TESTS: Final = 170_110
"""The lines of all `tests`: one suite has all stores of a register, brokers run on PostgreSQL, a simulated
register answers late or never, as a database does; real ones are failed over under an auditor's eyes;
bids carry hints, aims and ranks."""


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

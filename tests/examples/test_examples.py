"""Every example runs against real servers, and prints what is stored in examples/output.

After a change on purpose, record again and read the difference:
KALENDS_RECORD=1 pytest tests/examples
"""

from __future__ import annotations

import pytest
from transcripts import EXAMPLES, OUTPUT, check, comparable, run_script, run_session

from kalends.client.demo.facility import Facility

SCRIPTS = ["async_many", "first_booking", "move_and_cancel"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_script_prints_what_is_stored(name: str, empty_facility: Facility) -> None:
    variables = empty_facility.environment()
    printed = run_script(EXAMPLES / f"{name}.py", variables)
    check(name, comparable(printed, str(empty_facility.directory)))


def test_the_calendar_engine_alone_prints_what_is_stored() -> None:
    check("calendars", run_script(EXAMPLES / "calendars.py", {}))


def test_the_terminal_session_prints_what_is_stored(own_facility: Facility) -> None:
    printed = run_session(EXAMPLES / "cli-session.sh", own_facility.environment())
    check("cli-session", comparable(printed, str(own_facility.directory)))


def test_first_mistakes_are_answered_as_is_stored(own_facility: Facility) -> None:
    printed = run_session(EXAMPLES / "mistakes.sh", own_facility.environment())
    check("mistakes", comparable(printed, str(own_facility.directory)))


def test_no_example_is_left_out() -> None:
    present = {path.stem for path in EXAMPLES.iterdir() if path.suffix in (".py", ".sh")}
    assert present == {*SCRIPTS, "calendars", "cli-session", "mistakes"}
    assert {path.stem for path in OUTPUT.iterdir()} == present

"""Times in JSON: beside each in seconds stands one that people read, in every answer, by one rule."""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kalends.cli.console.json_times import IN_ROWS, is_time, with_iso_times
from kalends.cli.console.output import json_text
from kalends.contract import calls
from kalends.core.limits import TIME_S_MAX
from kalends.core.resources import ResourceInfo, Slot

NUMBERS = frozenset(
    re.findall(
        r"\w+",
        """
        ahead alternative array asked att attempt attempts bid busy cancelled candidates capacity chosen
        compared count delayed_jobs delays index job jobs late learned_jobs line needed next next_job nodes
        nodes_had number offset out placed polled priority recovered relocked reservations reserved running
        revision silent slots status steps term there units unplanned used waiting free changing_to
        at_risk beside classes comparing refused shares node_numbers out_numbers sizes attributes ended again
        amount balance changes cost_max costs debt fits left no_shows of refunds
        """,
    )
)
"""Whole numbers, and lists and maps of them, in answers that are no times and say no unit."""

POSITION = ("MovedJobs", "after")

UNITS = ("_s", "_us", "_bytes", "_seconds", "answer_ms")


def answers() -> dict[type, dict[str, object]]:
    """All kinds of answers, and what they are made of, with their fields."""
    found: dict[type, dict[str, object]] = {}

    def look(kind: object) -> None:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in found:
            found[kind] = typing.get_type_hints(kind)
            for each in found[kind].values():
                look(each)
        for each in typing.get_args(kind):
            look(each)

    for operation in calls.OPERATIONS:
        look(operation.answer)
    return found


def whole_numbers() -> Iterator[tuple[str, str]]:
    for kind, fields in answers().items():
        for name, declared in fields.items():
            if _numbers(declared):
                yield kind.__name__, name


def _numbers(declared: object) -> bool:
    if declared is int:
        return True
    inside = [each for each in typing.get_args(declared) if each is not Ellipsis]
    return bool(inside) and any(_numbers(each) for each in inside)


def test_every_whole_number_of_an_answer_is_a_time_or_is_known_not_to_be() -> None:
    for kind, name in whole_numbers():
        known = name in NUMBERS or name.endswith(UNITS) or (kind, name) in {*IN_ROWS, POSITION}
        assert is_time(name, kind) != known, (
            f"{kind}.{name}: a time (cli/console/json_times.py), or not?"
        )


def test_a_calendar_tells_its_times_in_both_forms() -> None:
    view = calls.CalendarView(
        resource=ResourceInfo(name="sdsc/sp2", capacity=4), start=1_800_000_000, end=1_800_007_200,
        until=1_800_007_200, free=((1_800_000_000, 1_800_003_600, 4),),
        slots=(Slot(1_800_003_600, 1_800_007_200, 4, "locked"),),
    )  # fmt: skip
    data = json.loads(json_text("calendar", view))["data"]
    assert (data["start"], data["start_iso"]) == (1_800_000_000, "2027-01-15T08:00:00Z")
    assert data["free_iso"] == [["2027-01-15T08:00:00Z", "2027-01-15T09:00:00Z", 4]]
    assert data["slots"][0]["end_iso"] == "2027-01-15T10:00:00Z"
    assert (data["as_of"], data["as_of_iso"]) == (0, None)
    # It is what `kalends agent run` reads.
    assert msgspec.convert(data, calls.CalendarView) == view


def test_milliseconds_keep_their_fraction_and_maps_of_times_their_keys() -> None:
    assert with_iso_times({"at_ms": 1_800_000_000_123})["at_ms_iso"] == ("2027-01-15T08:00:00.123Z")
    assert with_iso_times({"as_of": {"sdsc": 1_800_000_000}})["as_of_iso"] == {
        "sdsc": "2027-01-15T08:00:00Z"
    }


def test_names_that_others_have_given_are_no_times() -> None:
    info = ResourceInfo(name="sdsc/sp2", attributes={"start": 5})
    told = json.loads(json_text("resources", {"resources": [info], "at": 5}))["data"]
    assert told["resources"][0]["attributes"] == {"start": 5}
    assert told["at_iso"] == "1970-01-01T00:00:05Z"


def test_a_word_of_the_same_name_is_left_alone() -> None:
    assert with_iso_times({"end": "killed", "over": True}) == {"end": "killed", "over": True}


@given(st.integers(1, TIME_S_MAX))
def test_both_forms_are_the_same_time(time_s: int) -> None:
    iso = with_iso_times({"start": time_s})["start_iso"]
    assert isinstance(iso, str)
    assert datetime.fromisoformat(iso) == datetime.fromtimestamp(time_s, UTC)


@given(st.integers(max_value=0) | st.integers(min_value=TIME_S_MAX + 1))
def test_what_no_clock_shows_is_null(time_s: int) -> None:
    assert with_iso_times({"start": time_s}) == {"start": time_s, "start_iso": None}

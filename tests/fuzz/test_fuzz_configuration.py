"""Any text as a configuration is a configuration or refused with the path of what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.core.errors import InvalidInput
from kalends.resource_servers.setup.assembly import calendars_of
from kalends.serving.configuration import load_configuration
from kalends.serving.example_configuration import example

BASE = Path("/nowhere")
LINES = example().splitlines()
VALUES = (
    '""', '"\\n"', '"\\u0000"', "true", "-1", "0", "1e999", "nan", "inf", "9" * 30, "[]", "{}", "[[]]",
    '"0s"', '"99999d"', '"-1h"', '"sdsc\\n"', "1979-05-27T07:32:00Z", "07:32:00", "0x7fffffffffffffff",
    '"FREQ=SECONDLY"', '"FREQ=DAILY;COUNT=0"', '"FREQ=YEARLY;BYMONTHDAY=31;BYMONTH=2"', '"../../x"',
    '"group:"', '"nothing"', '"0.0.0.0:1"', '"127.0.0.1:99999"', '"[::1]:0"', '"Nowhere/City"',
)  # fmt: skip


@st.composite
def texts(draw: st.DrawFn) -> str:
    """The example with one to three lines changed, dropped, repeated or cut."""
    lines = list(LINES)
    for _ in range(draw(st.integers(1, 3))):
        number = draw(st.integers(0, len(lines) - 1))
        name, equals, _ = lines[number].partition("=")
        match draw(st.sampled_from(["value", "drop", "repeat", "cut", "move", "noise"])):
            case "value" if equals:
                lines[number] = f"{name}= {draw(st.sampled_from(VALUES))}"
            case "drop":
                lines[number] = ""
            case "repeat":
                lines.insert(number, lines[number])
            case "cut":
                lines[number] = lines[number][: draw(st.integers(0, len(lines[number])))]
            case "move":
                lines.insert(draw(st.integers(0, len(lines))), lines.pop(number))
            case _:
                lines[number] += draw(st.text(max_size=6))
    return "\n".join(lines)


@given(text=texts())
def test_a_configuration_that_is_nearly_right_is_taken_or_refused_with_its_place(text: str) -> None:
    try:
        configuration = load_configuration(text, BASE)
        if configuration.site is not None:
            calendars_of(configuration.site)
    except InvalidInput as error:
        refused = error
    else:
        return
    assert refused.where
    assert refused.detail


@given(text=st.text(max_size=60))
def test_any_text_is_a_configuration_or_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        load_configuration(text, BASE)


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 100_000, "a." * 1_000 + "a = 1", "[" + "a." * 1_000 + "a]", "\0", "\ufeff",
             "a = '''", "a = 1\na = 2", "[site]\n[site]", "\r", "a = " + "9" * 10_000],
    ids=range(10),
)  # fmt: skip
def test_hostile_toml_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        load_configuration(text, BASE)

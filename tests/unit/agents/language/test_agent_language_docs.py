"""docs/agent-language.md names what exists, nothing else, and its examples give what it says."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import pytest

from kalends.agents.language import limits, vocabulary
from kalends.agents.language.checker import parsed
from kalends.agents.language.rules import REMEDIES
from kalends.agents.runs import ScriptRun
from kalends.agents.sandbox.language_only import LanguageOnly
from kalends.core.scripts import RunCode

TEXT = (Path(__file__).parents[4] / "docs" / "agent-language.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The body of the first table below this heading."""
    section = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def names(heading: str) -> list[str]:
    return [row[0].strip("` ") for row in rows(heading)]


@pytest.mark.parametrize(
    ("heading", "existing"),
    [
        ("Rules", set(REMEDIES)),
        ("Builtins", vocabulary.BUILTINS),
        ("Helpers", vocabulary.HELPERS),
        ("How a run ends", set(get_args(RunCode))),
    ],
)
def test_the_page_names_everything_that_exists_once_and_nothing_else(
    heading: str, existing: set[str]
) -> None:
    assert sorted(names(heading)) == sorted(existing)


def test_the_page_names_the_methods_of_each_type() -> None:
    listed = {row[0]: set(re.findall("`(.+?)`", row[1])) for row in rows("Methods")}
    assert listed == {
        "text": vocabulary.STR_METHODS,
        "list": vocabulary.LIST_METHODS,
        "dict": vocabulary.DICT_METHODS,
        "tuple": vocabulary.TUPLE_METHODS,
    }


def test_the_page_names_the_exceptions() -> None:
    sentence = TEXT.split("\n## Builtins\n")[1].split("exist for")[0]
    assert set(re.findall("`(.+?)`", sentence)) == vocabulary.EXCEPTIONS


def test_the_page_gives_the_limits_that_hold() -> None:
    stated = " ".join(row[1] for row in rows("Limits"))
    for limit in (
        limits.SOURCE_BYTES_MAX,
        limits.NODES_MAX,
        limits.SYNTAX_DEPTH_MAX,
        limits.CALLS_MAX,
        limits.DATA_DEPTH_MAX,
        limits.INTEGER_BITS_MAX,
        limits.TEXT_CHARS_MAX,
        limits.ITEMS_MAX,
        limits.FORMAT_WIDTH_MAX,
        limits.MESSAGES_MAX,
        limits.MESSAGE_CHARS_MAX,
        limits.ANSWER_ITEMS_MAX,
        limits.ANSWER_DEPTH_MAX,
        limits.ANSWER_BYTES_MAX,
        limits.ANSWER_TEXT_BYTES_MAX,
    ):
        assert re.search(rf"(?<![\d,]){limit:,}(?![\d])", stated), limit
    assert f"for {1 << limits.CHARS_PER_STEP_BITS} characters" in " ".join(TEXT.split())
    assert limits.NODES_PER_STEP == 4


@pytest.mark.parametrize("row", rows("Builtins") + rows("Helpers"), ids=lambda row: row[0])
async def test_every_example_gives_what_the_page_says(row: list[str]) -> None:
    _, _, example, gives = (cell.strip("` ") for cell in row)
    source = f"def choose(view, request):\n    return {example}\n"
    job = ScriptRun("ada", source, "choose", (None, None), (), {"UTC": ((0, 0),)})
    outcome = await LanguageOnly().run(job)
    assert outcome.code == "ok", outcome.detail
    assert outcome.answer == ast.literal_eval(gives)


async def test_the_script_at_the_top_runs() -> None:
    source = TEXT.split("```python\n")[1].split("```")[0]
    assert parsed(source)[1] == ()
    day_s = 86_400
    starts = [
        9 * 3_600,
        13 * 3_600,
        2 * day_s + 9 * 3_600,
        4 * day_s + 8 * 3_600,
    ]  # Thursday to Monday
    view = {
        "resources": {"sdsc/sp2": {"zone": "UTC"}},
        "slots": [
            {"id": number, "resource": "sdsc/sp2", "start": start}
            for number, start in enumerate(starts)
        ],
    }
    job = ScriptRun("ada", source, "choose", (view, {}), (), {"UTC": ((0, 0),)})
    assert (await LanguageOnly().run(job)).answer == [0, 3, 1]

"""The check of English finds the habits that it names, in every kind of text, and its counts only fall."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prose", ROOT / "tools" / "prose.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


prose: Final = _tool()


def _habits(sentence: str, kind: str = "paragraph") -> set[str]:
    return {habit.name for habit, _ in prose.judge(sentence, kind, first=True)}


@pytest.mark.parametrize(
    ("habit", "clumsy", "better"),
    [
        (
            "who",
            "Who has booked nodes runs jobs on them.",
            "If you booked nodes, run jobs on them.",
        ),
        ("what", "What is booked stays booked.", "Existing bookings stay."),
        ("told", "The user is told the reason.", "The site sends the reason to the user."),
        ("of", "The same of machines.", "The same for machines."),
        ("nobody", "Nobody gets these nodes.", "No other user gets these nodes."),
        ("where", "Where there is none, the job waits.", "If there is none, the job waits."),
        ("so-many", "A node is so many cores.", "A node has eight cores."),
        ("is-no", "The value is no list of numbers.", "The value is not a list of numbers."),
        ("old-word", "The plan is made anew.", "The plan is recomputed."),
        ("chain", "A; b; " + "and then " * 15 + "c.", "One fact."),
        ("start", "It is refused.", "The request is refused."),
    ],
)
def test_each_habit_is_found_and_its_better_form_is_not(
    habit: str, clumsy: str, better: str
) -> None:
    assert habit in _habits(clumsy)
    assert _habits(better) == set()


def test_every_habit_has_a_case_above() -> None:
    cases = test_each_habit_is_found_and_its_better_form_is_not.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert {case[0] for case in cases} == {habit.name for habit in prose.HABITS}


def test_hits_name_the_line_of_pages_docstrings_help_and_errors(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n\nThis is fine.\n\n```\nNobody reads code.\n```\n\n| a | nobody |\n\nNobody\nelse.\n"
    )
    module = tmp_path / "module.py"
    module.write_text(
        '"""A module."""\n\n\n'
        'def find():\n    """Of several the first."""\n'
        '    option(help="The one that it names.")\n'
        '    raise NotFound(f"it is no job of {user}", remedy="ask nobody")\n'
    )
    found = [(hit.line, hit.habit.name) for hit in prose.hits([page, module])]
    assert found == [
        (9, "nobody"),
        (11, "nobody"),
        (4, "of"),
        (4, "start"),
        (6, "start"),
        (7, "is-no"),
        (7, "start"),
        (7, "nobody"),
    ]


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    counts = tmp_path / "counts.json"
    monkeypatch.setattr(prose, "COUNTS", counts)
    return counts


def _hits(file: str, count: int) -> list[object]:
    return [prose.Hit(file, line, prose.CHAIN, "", "A sentence.") for line in range(count)]


def test_a_count_that_rises_fails_and_cannot_be_stored(stored: Path) -> None:
    stored.write_text('{"a.md": 1}')
    for found in (_hits("a.md", 2), _hits("new.md", 1)):
        assert prose.compare(found, lower=False) == 1
        assert prose.compare(found, lower=True) == 1
    assert json.loads(stored.read_text()) == {"a.md": 1}


def test_a_count_that_falls_is_stored_before_the_check_passes(stored: Path) -> None:
    stored.write_text('{"a.md": 3, "gone.md": 1}')
    found = _hits("a.md", 2)
    assert prose.compare(found, lower=False) == 1
    assert prose.compare(found, lower=True) == 0
    assert json.loads(stored.read_text()) == {"a.md": 2}
    assert prose.compare(found, lower=False) == 0

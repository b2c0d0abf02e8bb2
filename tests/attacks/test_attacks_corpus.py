"""The corpus is what it says it is, and those who judge by it see what is wrong."""

from __future__ import annotations

from collections import Counter

import pytest

from kalends.agents.runs import RunOutcome, ScriptCheck
from kalends.core.scripts import Violation

from . import world
from .corpus import ATTACKS, KINDS
from .corpus.kinds import Attack, choosing
from .judging import Canary, problems_of_check, problems_of_control, problems_of_run

ESCAPE = Attack("escape", "reach a class", choosing("return ().__class__"), frozenset({"rejected"}))
FORGERY = Attack(
    "forgery", "True is 1", "", frozenset({"ok"}), answer=[True], judged="bad-result"
)  # fmt: skip


def test_there_are_hundreds_of_attacks_of_every_kind_and_no_two_are_the_same() -> None:
    assert len(ATTACKS) >= 900
    assert all(len(attacks) >= 20 for attacks in KINDS.values())
    for what in ("name", "source"):
        counted = Counter(getattr(attack, what) for attack in ATTACKS)
        assert [each for each, count in counted.items() if count > 1] == []


def test_every_end_that_a_script_can_bring_about_is_the_end_of_some_attack() -> None:
    ends = {code for attack in ATTACKS for code in attack.codes}
    assert ends == {
        "ok", "rejected", "agent-error", "bad-result", "limit-steps", "limit-recursion",
        "limit-output", "limit-memory",
    }  # fmt: skip


def test_every_attack_has_just_one_end() -> None:
    assert [attack.name for attack in ATTACKS if len(attack.codes) != 1] == []


WRONG = {
    "another code": RunOutcome("crash", violations=(Violation(1, 1, "a", "b"),)),
    "no violations": RunOutcome("rejected"),
    "a long detail": RunOutcome(
        "rejected", detail="a" * 301, violations=(Violation(1, 1, "a", "b"),)
    ),
    "an escape": RunOutcome("rejected", detail="\x1b[2J", violations=(Violation(1, 1, "a", "b"),)),
    "a line that is not there": RunOutcome(
        "rejected", line=99, violations=(Violation(1, 1, "a", "b"),)
    ),
    "what it said": RunOutcome("rejected", sent=(1,), violations=(Violation(1, 1, "a", "b"),)),
    "an address": RunOutcome(
        "rejected", violations=(Violation(1, 1, "a", "<function at 0x7f0123456789>"),)
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_outcome_is_seen(wrong: str, canary: Canary) -> None:
    right = RunOutcome("rejected", violations=(Violation(1, 1, "no-dunder", "a name"),))
    job = world.job("mallory", ESCAPE.source)
    assert problems_of_run(ESCAPE, job, right, canary) == []
    assert problems_of_run(ESCAPE, job, WRONG[wrong], canary) != []


def test_an_answer_that_is_only_equal_is_seen(canary: Canary) -> None:
    job = world.job("mallory", FORGERY.source)
    assert problems_of_run(FORGERY, job, RunOutcome("ok", [True]), canary) == []
    assert problems_of_run(FORGERY, job, RunOutcome("ok", [1]), canary) != []
    assert problems_of_run(FORGERY, job, RunOutcome("ok", [1.0]), canary) != []


def test_a_canary_is_seen_wherever_it_comes_out(canary: Canary) -> None:
    job = world.job("mallory", FORGERY.source)
    for leak in (
        RunOutcome("ok", [canary.secret]),
        RunOutcome("ok", [True], sent=({"a": canary.secret},)),
        RunOutcome("ok", [True], detail=canary.secret[7:]),
        RunOutcome("ok", [True], detail=str(canary.directory / "x")),
    ):
        assert problems_of_run(FORGERY, job, leak, canary) != []


def test_a_wrong_check_is_seen(canary: Canary) -> None:
    right = ScriptCheck("rejected", (Violation(2, 12, "no-dunder", "a name"),))
    assert problems_of_check(ESCAPE, right, canary) == []
    assert problems_of_check(ESCAPE, ScriptCheck("ok"), canary) != []
    assert problems_of_check(ESCAPE, ScriptCheck("rejected"), canary) != []
    nowhere = ScriptCheck("rejected", (Violation(0, 1, "no-dunder", "a name"),))
    assert problems_of_check(ESCAPE, nowhere, canary) != []


def test_a_control_that_is_not_as_if_it_were_alone_is_seen() -> None:
    right = RunOutcome("ok", world.HONEST_ANSWER, (world.HONEST_MESSAGE,))
    assert problems_of_control(ESCAPE, right) == []
    assert problems_of_control(ESCAPE, right._replace(answer=[0])) != []
    assert problems_of_control(ESCAPE, right._replace(code="busy")) != []
    assert problems_of_control(ESCAPE, right._replace(sent=("mine",))) != []

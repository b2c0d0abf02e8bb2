"""What is wrong with how an attack ended: its code, its texts, what it has told, and to whom."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from kalends.agents.runs import RunOutcome, ScriptCheck, ScriptRun
from kalends.agents.world.answers import judged

from . import world
from .corpus.kinds import Attack

DETAIL_CHARS_MAX: Final = 300
_ADDRESS: Final = re.compile(r"0x[0-9a-f]{7,}")


class Canary:
    """A secret that is put where a script must not reach; `seen_in` says where it came out.

    It is in the environment and in a file of the working directory, and this process knows it. The
    honest user tells it to their own script.
    """

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.secret = f"canary-{secrets.token_hex(16)}"
        self.directory = directory
        (directory / "canary.txt").write_text(self.secret)
        monkeypatch.chdir(directory)
        monkeypatch.setenv("KALENDS_CANARY", self.secret)

    def seen_in(self, text: str) -> list[str]:
        """What of this host `text` tells: the secret, addresses in memory, or where things are."""
        told = {
            "the canary": self.secret.removeprefix("canary-") in text,
            "an address": _ADDRESS.search(text) is not None,
            "the working directory": str(self.directory) in text,
            "where Python is": any(path in text for path in _PATHS),
            "a traceback": "Traceback" in text,
        }
        return [what for what, is_told in told.items() if is_told]


_PATHS: Final = (sys.prefix, os.path.dirname(os.__file__), "site-packages", "kalends/agents")


def problems_of_run(
    attack: Attack, job: ScriptRun, outcome: RunOutcome, canary: Canary
) -> list[str]:
    """All that is not as it must be after a run of `attack`."""
    problems = []
    if outcome.code not in attack.codes:
        problems.append(f"ends with {outcome.code} ({outcome.detail}), not {sorted(attack.codes)}")
    if len(outcome.detail) > DETAIL_CHARS_MAX or not outcome.detail.isprintable():
        problems.append(f"the detail is too long, or does not print: {outcome.detail!a}")
    if outcome.line > attack.source.count("\n") + attack.source.count("\r") + 1:
        problems.append(f"line {outcome.line} is not in the script")
    if bool(outcome.violations) != (outcome.code == "rejected"):
        problems.append(f"{outcome.code} with the violations {outcome.violations}")
    if outcome.code != "ok" and (outcome.answer is not None or outcome.sent):
        problems.append("something of a failed run is left")
    if outcome.code == "ok":
        problems += _problems_of_answer(attack, job, outcome)
    return named(attack, [*problems, *canary.seen_in(repr(outcome))])


def _problems_of_answer(attack: Attack, job: ScriptRun, outcome: RunOutcome) -> list[str]:
    problems = []
    # By their text, too: 1, 1.0 and True are equal.
    if attack.answer is not ... and repr(outcome.answer) != repr(attack.answer):
        problems.append(f"answers {outcome.answer!r:.200}, not {attack.answer!r:.200}")
    verdict = judged(job, outcome)
    if verdict.code != attack.judged:
        problems.append(f"a site judges its answer {verdict.code}, not {attack.judged}")
    if not verdict.detail.isprintable() or len(verdict.detail) > DETAIL_CHARS_MAX:
        problems.append(f"the verdict is too long, or does not print: {verdict.detail!a}")
    return problems


def problems_of_check(attack: Attack, checked: ScriptCheck, canary: Canary) -> list[str]:
    """All that is not as it must be after a check of `attack` at upload."""
    problems = []
    expected = "rejected" if "rejected" in attack.codes else "ok"
    if checked.code != expected:
        problems.append(f"is checked {checked.code} ({checked.detail}), not {expected}")
    if bool(checked.violations) != (checked.code == "rejected"):
        problems.append(f"{checked.code} with the violations {checked.violations}")
    for line, column, detail in ((v.line, v.column, v.detail) for v in checked.violations):
        if line < 1 or column < 1 or not detail.isprintable() or len(detail) > DETAIL_CHARS_MAX:
            problems.append(f"a violation that cannot be shown: {line}:{column} {detail!a}")
    return named(attack, [*problems, *canary.seen_in(repr(checked))])


def problems_of_control(after: Attack, outcome: RunOutcome) -> list[str]:
    """How the honest control, run right `after` an attack, is not as if it were alone."""
    seen = (outcome.code, outcome.answer, outcome.sent)
    wanted = ("ok", world.HONEST_ANSWER, (world.HONEST_MESSAGE,))
    return [] if seen == wanted else [f"after {after.name!a} the honest control has {outcome}"]


def named(attack: Attack, problems: Iterable[str]) -> list[str]:
    return [f"{attack.name!a:.80}: {problem}" for problem in problems]

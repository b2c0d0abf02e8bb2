"""What scripts do in a schedule: everything that a real run may bring back, honest or not, soon or late.

A site believes nothing of it unchecked, so a run needs no interpreter here: an outcome is drawn from
the seed, of every code and every kind of wrong answer.
"""

from __future__ import annotations

from hashlib import sha256
from random import Random
from typing import Any, Final

from kalends.agents.runs import RunCost, RunOutcome, ScriptRun
from kalends.core.scripts import BLAME, RunCode

SCRIPT: Final = """\
def choose(view, request):
    return [slot["id"] for slot in view["slots"]]


def recall(slot, asker, view):
    return True
"""
"""What clients here name as their agent; both functions are drawn, whatever it says."""

SCRIPT_HASH: Final = sha256(SCRIPT.encode()).hexdigest()

DELAYS_MS: Final = (1, 3, 20, 200, 2_000, 8_000)
"""From a warm worker to one that ends at its deadline, on a host that has stood still."""

FAILURES: Final[tuple[RunCode, ...]] = tuple(code for code in BLAME if code != "ok")


def outcome_of(job: ScriptRun, random: Random) -> RunOutcome:
    """How a run of `job` ends in this schedule."""
    fate = random.random()
    if fate < 0.2:
        return RunOutcome(code=random.choice(FAILURES), detail="as the schedule has it")
    if job.function == "decide":
        return RunOutcome("ok", _decision(random, fate), cost=RunCost(steps=100))
    answer = _choice(job, random) if job.function == "choose" else random.random() < 0.6
    if fate < 0.3:
        answer = _wrong(answer, random)
    sent = ("hello",) if random.random() < 0.1 else ()
    return RunOutcome(code="ok", answer=answer, sent=sent, cost=RunCost(steps=100))


def agreeable(job: ScriptRun, random: Random) -> RunOutcome:
    """How a run ends where scripts mostly work, and choose as others do."""
    if job.function != "choose" or random.random() < 0.1:
        return outcome_of(job, random)
    ids = [slot["id"] for slot in job.arguments[0]["slots"]]
    if random.random() < 0.2:
        random.shuffle(ids)
    sent = ("hello",) if random.random() < 0.1 else ()
    return RunOutcome(code="ok", answer=ids, sent=sent, cost=RunCost(steps=100))


def _decision(random: Random, fate: float) -> Any:
    """What an owner's script answers: mostly yes."""
    if fate < 0.25:
        return random.choice((None, False, "", {"ask": 1}, {"units_max": 0}, [True]))
    return random.choices((True, "no", {"ask": True}, {"units_max": 1}), (65, 15, 10, 10))[0]


def _choice(job: ScriptRun, random: Random) -> list[int]:
    """Some of the slots; mostly in an order that other sites would choose, too."""
    ids = [slot["id"] for slot in job.arguments[0]["slots"]]
    if random.random() < 0.4:
        random.shuffle(ids)
    elif random.random() < 0.5:
        ids.reverse()
    return ids[: random.choice((1, 2, 5, len(ids)))]


def _wrong(answer: Any, random: Random) -> Any:
    ids = answer if isinstance(answer, list) else [0]
    return random.choice(
        (
            None,
            True,
            "all",
            [*ids, 10**6],
            [*ids, *ids, -1],
            [True],
            [1.0],
            {"ids": ids},
            [ids],
            2**70,
        )
    )

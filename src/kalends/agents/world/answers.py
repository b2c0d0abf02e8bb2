"""A script's answers, checked against its inputs; only exactly valid ones pass."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, Literal, NamedTuple

from kalends.agents.runs import RunOutcome, ScriptRun
from kalends.agents.world.offers import Offer
from kalends.core.limits import UNITS_MAX

_SHOWN_MAX: Final = 60

WORD_CHARS_MAX: Final = 200
"""Characters of an owner's reason, which users read."""


class BadResult(Exception):
    """The answer is not one: `detail` says why, in at most 300 printable characters."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


def chosen(answer: Any, offers: Sequence[Offer]) -> list[Offer]:
    """Return the slots that `answer` of ``choose`` names, in its order; raises `BadResult`."""
    known = {offer.id: offer for offer in offers}
    _check_ids(answer, known.keys())
    return [known[number] for number in answer]


def recalled(answer: Any) -> bool:
    """Return whether ``recall`` gives the slot back; raises `BadResult`."""
    if type(answer) is not bool:
        raise BadResult(f"recall answers True or False, not {_kind(answer)}")
    return answer


def picked(answer: Any, machines: Collection[str]) -> list[str]:
    """Return the `machines` that ``pick`` names, the best first; raises `BadResult`."""
    named = answer if type(answer) is list else [answer]
    if not named or not all(type(each) is str for each in named):
        wrong = next((f"a list with {_kind(each)}" for each in named if type(each) is not str), "")
        told = (wrong or "an empty list") if named is answer else _kind(answer)
        raise BadResult(f"pick answers the name of a machine, or a list of names, not {told}")
    strange = next((each for each in named if each not in machines), None)
    if strange is not None:
        raise BadResult(f"{strange[:_SHOWN_MAX]!a} made no bid")
    if len(set(named)) < len(named):
        raise BadResult("a machine is named twice")
    return named


def ranked(answer: Any, ways: Collection[int]) -> list[int]:
    """Return the `ways` that ``rank`` names, the best first; raises `BadResult`."""
    named = answer if type(answer) is list else [answer]
    if not named or not all(type(each) is int for each in named):
        raise BadResult("rank answers the way of a schedule, a whole number, or a list of ways")
    strange = next((each for each in named if each not in ways), None)
    if strange is not None:
        raise BadResult(f"there is no schedule with the way {str(strange)[:_SHOWN_MAX]}")
    if len(set(named)) < len(named):
        raise BadResult("a way is named twice")
    return named


class Decision(NamedTuple):
    """An answer of ``decide``: the configured rules hold ("yes"), "no" with a reason, or "ask" the owner.

    `units_max` above 0: yes up to so many units.
    """

    answer: Literal["yes", "no", "ask"]
    word: str = ""
    units_max: int = 0


def decided(answer: Any) -> Decision:
    """Return the decision that an `answer` of ``decide`` means; raises `BadResult`."""
    if answer is True:
        return Decision("yes")
    if type(answer) is str:
        if not 0 < len(answer) <= WORD_CHARS_MAX or not answer.isprintable():
            raise BadResult(f"a reason is a line of 1 to {WORD_CHARS_MAX} characters")
        return Decision("no", answer)
    if type(answer) is dict and len(answer) == 1:
        if answer.get("ask") is True:
            return Decision("ask")
        most = answer.get("units_max")
        if type(most) is int and 0 < most <= UNITS_MAX:
            return Decision("yes", units_max=most)
    raise BadResult(
        'decide answers True, a reason to refuse, {"ask": True} or {"units_max": 4}, not '
        + _kind(answer)
    )


def judged(job: ScriptRun, outcome: RunOutcome) -> RunOutcome:
    """Return `outcome`, or "bad-result" if its answer does not fit what `job` has shown."""
    if outcome.code != "ok":
        return outcome
    try:
        if job.function == "recall":
            recalled(outcome.answer)
        elif job.function == "pick":
            picked(outcome.answer, [bid["machine"] for bid in job.arguments[0]])
        elif job.function == "rank":
            ranked(outcome.answer, [each["way"] for each in job.arguments[0]])
        elif job.function == "decide":
            decided(outcome.answer)
        else:
            _check_ids(outcome.answer, {slot["id"] for slot in job.arguments[0]["slots"]})
    except BadResult as error:
        return outcome._replace(code="bad-result", answer=None, sent=(), detail=error.detail)
    return outcome


def _check_ids(answer: Any, known: Any) -> None:
    if type(answer) is not list:
        raise BadResult(f"choose answers a list of slot ids, not {_kind(answer)}")
    if len(answer) > len(known):
        raise BadResult(f"{len(answer)} slots are chosen, but only {len(known)} were shown")
    seen: set[int] = set()
    for place, number in enumerate(answer):
        if type(number) is not int:
            raise BadResult(f"a slot id is a whole number, not {_kind(number)} (place {place})")
        if number not in known:
            raise BadResult(
                f"no slot with the id {str(number)[:_SHOWN_MAX]} was shown (place {place})"
            )
        if number in seen:
            raise BadResult(f"slot {number} is chosen twice (place {place})")
        seen.add(number)


def _kind(value: Any) -> str:
    names = {
        "NoneType": "None", "bool": "a truth value", "int": "a whole number", "float": "a float",
        "str": "a text", "list": "a list", "dict": "a dict", "tuple": "a tuple",
    }  # fmt: skip
    return names.get(type(value).__name__, "something else")

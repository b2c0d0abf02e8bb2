"""Priority classes: they order the queue, for those whom the owner lets name them, or they are refused."""

from __future__ import annotations

from typing import Any

import pytest

from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import Start
from kalends.batch.queue.queue import BatchQueue
from kalends.core.errors import InvalidInput, NotAllowed
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.scheduling.registry import POLICIES

ANN = Principal("ann")
OPERATOR = Principal("eve", groups=("operators",))
DONE = f.JobEnding(kind="exit")
TARIFF = {"low": 1, "normal": 10, "high": 30}
BLIND = [each.name for each in POLICIES if not each.by_priority and not each.number]


class Room:
    """A queue of four nodes whose owner keeps the class `high` for operators."""

    def __init__(self, **terms: Any) -> None:
        said = {
            "policy": "easy-priority", "tariff": TARIFF,
            "class_members": {"high": ("group:operators",)}, **terms,
        }  # fmt: skip
        self.queue = BatchQueue("lab/box", f.Terms(machine="pool:4", **said), 1_000)
        self.keys = 0

    def submit(self, who: Principal = ANN, priority: str = "") -> int:
        self.keys += 1
        asked = JobRequest(
            machine="lab/box", limit_s=60, nodes=4, command=("true",), priority=priority
        )
        return self.queue.submit(who, asked, f"the-key-{self.keys}", 1_000)[0]

    def starts(self) -> list[int]:
        actions = self.queue.take_effects().actions
        return [each.job.number for each in actions if isinstance(each, Start)]

    def end(self, number: int, now: int = 1_000) -> f.JobEnding:
        attempt = self.queue.job(number).attempt
        self.queue.begun(number, attempt, now)
        self.queue.ended(number, attempt, DONE, now)
        return DONE


def test_a_more_urgent_class_goes_before_those_who_came_earlier() -> None:
    room = Room()
    running, low, normal = room.submit(), room.submit(priority="low"), room.submit()
    high = room.submit(OPERATOR, "high")
    assert room.starts() == [running]
    for ends, starts in ((running, high), (high, normal), (normal, low)):
        room.end(ends)
        assert room.starts() == [starts]


@pytest.mark.parametrize("policy", BLIND)
@pytest.mark.parametrize("priority", ["low", "high"])
def test_a_class_that_would_have_no_effect_is_refused_by_the_name_of_the_policy(
    policy: str, priority: str
) -> None:
    room = Room(policy=policy)
    said = f"{priority} has no effect: {policy} .* ignores priority classes"
    with pytest.raises(InvalidInput, match=said):
        room.submit(OPERATOR, priority)
    assert room.submit(OPERATOR, "normal") == 1, "the default class is what it has anyway"


def test_a_class_that_has_no_effect_any_more_is_not_charged() -> None:
    room = Room()
    number = room.submit(OPERATOR, "high")
    room.queue.set_policy("easy", 1_000)
    room.end(number, 1_010)
    (over,) = room.queue.take_effects().over
    assert over.credit_seconds == 4 * 10 * TARIFF["normal"]


def test_only_those_whom_the_owner_names_may_name_a_class_above_the_default() -> None:
    room = Room()
    with pytest.raises(NotAllowed, match="may not use the priority class high") as refused:
        room.submit(priority="high")
    assert refused.value.remedy.startswith("you may use low, normal;")
    assert room.submit(OPERATOR, "high") == 1


def test_without_a_word_of_the_owner_nobody_is_above_the_default_and_all_may_be_below() -> None:
    room = Room(class_members={})
    with pytest.raises(NotAllowed, match="high"):
        room.submit(OPERATOR, "high")
    assert room.submit(priority="low") == 1


def test_an_owner_may_keep_a_lower_class_for_some_too() -> None:
    room = Room(class_members={"low": ("user:eve",)})
    with pytest.raises(NotAllowed, match="low"):
        room.submit(priority="low")
    assert room.submit(OPERATOR, "low") == 1

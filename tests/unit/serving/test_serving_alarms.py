"""An operator is told what holds now, and what was a problem and is over."""

from __future__ import annotations

import pytest

from kalends.serving.alarms import ALARMS_KEPT_MAX, Alarms
from kalends.serving.logs import get_logger


@pytest.fixture
def counted() -> list[None]:
    return []


@pytest.fixture
def alarms(counted: list[None]) -> Alarms:
    return Alarms(get_logger(role="site", name="here"), lambda: counted.append(None))


def test_an_alarm_is_a_problem_until_what_it_is_about_is_over(alarms: Alarms) -> None:
    alarms.tell("the clock is an hour ahead", "clock")
    alarms.tell("two have one lock")
    alarms.settle("clock")
    assert alarms.problems == ("two have one lock",)
    assert alarms.settled == ("the clock is an hour ahead",)


def test_what_must_never_happen_stays_a_problem(alarms: Alarms) -> None:
    alarms.tell("two have one lock")
    alarms.settle("clock")
    assert alarms.problems == ("two have one lock",)


def test_the_same_problem_again_is_a_problem_again(alarms: Alarms, counted: list[None]) -> None:
    report = alarms.reporter("clock")
    report("an hour ahead")
    report("")
    report("an hour behind")
    assert (alarms.problems, alarms.settled) == (("an hour behind",), ("an hour ahead",))
    assert len(counted) == 2


def test_only_the_newest_alarms_are_kept(alarms: Alarms) -> None:
    for number in range(ALARMS_KEPT_MAX + 5):
        alarms.tell(str(number))
    assert len(alarms.problems) == ALARMS_KEPT_MAX
    assert alarms.problems[0] == "5"

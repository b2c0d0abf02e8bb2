"""Access lists: who, what, when, how much; and what a refusal says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kalends.calendars import AccessList, AccessRule, Recurrence, open_access
from kalends.calendars.rules.access import ACTIONS, PRINCIPALS_MAX
from kalends.core.errors import InvalidInput
from kalends.core.intervals import Interval
from kalends.core.principals import Principal

ANN = Principal(user="ann", groups=("staff",))
BOB = Principal(user="bob")
HOUR = 3600
MONDAY = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp())
OFFICE = Recurrence("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "08:00", 10 * HOUR, "UTC")
NIGHT = Recurrence("FREQ=DAILY", "18:00", 14 * HOUR, "UTC")


def refused(
    access: AccessList, who: Principal, action: str, first: int, last: int, units: int = 1
) -> str:
    """The rule that refuses on Monday from hour `first` to hour `last`; "" when none does."""
    window = (MONDAY + first * HOUR, MONDAY + last * HOUR)
    refusal = access.refusal(who, action, "site/thing", *window, units)
    return "" if refusal is None else refusal.rule


def test_an_empty_list_allows_nobody_anything() -> None:
    access = AccessList([])
    for action in ACTIONS:
        assert refused(access, ANN, action, 0, 1) == "access-list"
        assert access.windows(ANN, action, MONDAY, MONDAY + HOUR, 1) == []
    assert not access.sees(ANN)


def test_open_access_lets_everyone_see_hold_and_lock_but_not_look_behind_the_slots() -> None:
    access = open_access()
    for action in ("see", "hold", "lock"):
        assert refused(access, BOB, action, 0, 1000, 10_000_000) == ""
        assert access.windows(BOB, action, 0, 1, 1) is None
    assert not access.sees_detail(BOB)


@pytest.mark.parametrize("action", ACTIONS)
def test_no_permission_implies_another(action: str) -> None:
    access = AccessList([AccessRule("only", "everyone", (action,))])
    allowed = [each for each in ACTIONS if access.may_ever(ANN, each)]
    assert allowed == [action]


def test_users_and_groups_of_one_name_are_different() -> None:
    access = AccessList(
        [AccessRule("people", "user:staff", ("hold",)), AccessRule("bobs", "group:bob", ("hold",))]
    )
    assert refused(access, ANN, "hold", 0, 1) == "access-list"
    assert refused(access, BOB, "hold", 0, 1) == "access-list"
    assert refused(access, Principal(user="staff"), "hold", 0, 1) == ""
    assert refused(access, Principal(user="x", groups=("a", "bob")), "hold", 0, 1) == ""


def test_the_windows_of_several_rules_add_up() -> None:
    access = AccessList(
        [
            AccessRule("day", "user:ann", ("hold",), 0, (OFFICE,)),
            AccessRule("night", "everyone", ("hold",), 4, (NIGHT,)),
        ]
    )
    assert refused(access, ANN, "hold", 9, 17, 64) == ""
    assert refused(access, ANN, "hold", 9, 30, 4) == ""
    assert refused(access, ANN, "hold", 9, 30, 5) == "day"
    assert refused(access, BOB, "hold", 18, 32, 4) == ""
    assert refused(access, BOB, "hold", 17, 32, 4) == "night"
    assert refused(access, BOB, "hold", 18, 32, 5) == "night"
    day = (MONDAY, MONDAY + 24 * HOUR)
    assert access.windows(BOB, "hold", *day, 1) == [
        Interval(MONDAY, MONDAY + 8 * HOUR),
        Interval(MONDAY + 18 * HOUR, MONDAY + 24 * HOUR),
    ]
    assert access.windows(BOB, "hold", *day, 5) == []
    assert access.windows(ANN, "hold", *day, 1) == [Interval(*day)]


def test_refusals_say_what_the_rule_allows() -> None:
    access = AccessList(
        [
            AccessRule("secret", "user:eve", ("hold",)),
            AccessRule("small", "everyone", ("hold",), 4),
            AccessRule("office", "group:staff", ("lock",), 0, (OFFICE,)),
        ]
    )
    many = access.refusal(BOB, "hold", "site/thing", 0, HOUR, 5)
    assert many is not None
    assert many.detail == "rule small lets you hold at most 4 units at once"
    late = access.refusal(ANN, "lock", "site/thing", MONDAY, MONDAY + HOUR, 1)
    assert late is not None
    assert late.detail == "rule office lets you lock only Mon-Fri 08:00-18:00 UTC"
    nobody = access.refusal(BOB, "lock", "site/thing", MONDAY, MONDAY + HOUR, 1)
    assert nobody is not None
    assert nobody.detail == "no rule of the owner lets you lock here"
    assert {many.code, late.code, nobody.code} == {"not-allowed"}
    assert {many.where, late.where, nobody.where} == {"site/thing"}


def test_more_principals_than_are_remembered_still_get_right_answers() -> None:
    access = AccessList([AccessRule("ann", "user:ann", ("see",))])
    for number in range(PRINCIPALS_MAX + 10):
        assert not access.sees(Principal(user=f"user{number}"))
    assert access.sees(ANN)
    assert len(access._grants) <= PRINCIPALS_MAX


@pytest.mark.parametrize(
    ("where", "changes"),
    [
        ("access", {"name": ""}), ("access", {"name": "Big Rule"}), ("access", {"name": 5}),
        ("access.rule.who", {"who": "ann"}), ("access.rule.who", {"who": "user:"}),
        ("access.rule.who", {"who": "everyone:else"}), ("access.rule.who", {"who": "group:a b"}),
        ("access.rule.who", {"who": None}),
        ("access.rule.may", {"may": ()}), ("access.rule.may", {"may": ("see", "steal")}),
        ("access.rule.may", {"may": "see"}),
        ("access.rule.units_max", {"units_max": -1}), ("access.rule.units_max", {"units_max": True}),
        ("access.rule.units_max", {"units_max": 1.5}), ("access.rule.units_max", {"units_max": 10**9}),
        ("access.rule.windows", {"windows": ("FREQ=DAILY",)}),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_is_refused_and_its_field_named(
    where: str, changes: dict[str, Any]
) -> None:
    fields: dict[str, Any] = {"name": "rule", "who": "everyone", "may": ("see",), **changes}
    with pytest.raises(InvalidInput) as caught:
        AccessRule(**fields)
    assert caught.value.where == where


def test_two_rules_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidInput):
        AccessList(
            [AccessRule("one", "everyone", ("see",)), AccessRule("one", "user:ann", ("hold",))]
        )

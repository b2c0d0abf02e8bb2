"""Access lists against the direct definition: some matching rule allows every single moment."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from kalends.calendars import AccessList, AccessRule, Membership, Recurrence
from kalends.calendars.rules.access import ACTIONS
from kalends.core.principals import Principal

DAY = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp())
HOUR = 3600

PRINCIPALS = (
    Principal(user="ann", groups=("staff",)),
    Principal(user="bob", groups=("students", "night")),
    Principal(user="staff"),
    Principal(user="", groups=()),
)


memberships = st.integers(-2, 70).map(lambda hour: Membership(DAY + hour * HOUR, "a day"))


@st.composite
def rules(draw: st.DrawFn, name: str) -> AccessRule:
    hours = st.tuples(st.integers(0, 23), st.integers(1, 30))
    return AccessRule(
        name,
        draw(st.sampled_from(["everyone", "user:ann", "user:staff", "group:staff", "group:night"])),
        draw(st.sets(st.sampled_from(ACTIONS), min_size=1).map(frozenset)),
        draw(st.sampled_from([0, 0, 1, 2, 4])),
        tuple(
            Recurrence("FREQ=DAILY", f"{start:02}:00", length * HOUR, "UTC")
            for start, length in draw(st.lists(hours, max_size=2))
        ),
        draw(st.just({}) | st.dictionaries(st.sampled_from(["ann", "bob", "staff"]), memberships)),
    )


access_lists = st.integers(0, 5).flatmap(
    lambda count: st.tuples(*(rules(f"rule{number}") for number in range(count)))
)


def is_matched(rule: AccessRule, principal: Principal) -> bool:
    if rule.members and principal.user not in rule.members:
        return False
    return rule.who in {"everyone", f"user:{principal.user}"} | {
        f"group:{group}" for group in principal.groups
    }


def is_open(rule: AccessRule, hour: int, principal: Principal) -> bool:
    """Whether the hour that begins at `hour` (from `DAY`) is in a daily window, and in the membership."""
    if rule.members and DAY + hour * HOUR >= rule.members[principal.user].until:
        return False
    return not rule.windows or any(
        (hour - window.start.hour) % 24 + 24 * back < window.duration_s // HOUR
        for window in rule.windows
        for back in (0, 1)
    )


def is_allowed(rule: AccessRule, principal: Principal, action: str, units: int) -> bool:
    within = rule.units_max == 0 or units <= rule.units_max
    return action in rule.may and is_matched(rule, principal) and within


@given(
    access_lists,
    st.sampled_from(PRINCIPALS),
    st.sampled_from(ACTIONS),
    st.integers(0, 60),
    st.integers(1, 60),
    st.integers(1, 5),
)
@settings(max_examples=150)
def test_what_is_allowed_is_the_union_of_the_matching_rules(
    every: tuple[AccessRule, ...],
    principal: Principal,
    action: str,
    first: int,
    length: int,
    units: int,
) -> None:
    access = AccessList(every)
    start, end = DAY + first * HOUR, DAY + (first + length) * HOUR
    granting = [rule for rule in every if is_allowed(rule, principal, action, units)]
    hours = [
        hour
        for hour in range(first, first + length)
        if any(is_open(rule, hour, principal) for rule in granting)
    ]
    matching = [rule for rule in every if action in rule.may and is_matched(rule, principal)]
    for _ in range(2):  # the second answer comes from the cache
        assert access.may_ever(principal, action) == bool(matching)
        assert access.sees(principal) == access.may_ever(principal, "see")
        assert access.sees_detail(principal) == access.may_ever(principal, "detail")
        windows = access.windows(principal, action, start, end, units)
        always = any(not (rule.windows or rule.members) for rule in granting)
        assert (windows is None) == always
        if windows is not None:
            found = [t for window in windows for t in range(*window, HOUR)]
            assert found == [DAY + hour * HOUR for hour in hours]
        refusal = access.refusal(principal, action, "site/thing", start, end, units)
        assert (refusal is None) == (len(hours) == length)
        if refusal is not None:
            assert refusal.where == "site/thing"
            assert refusal.rule in {rule.name for rule in matching} | {"access-list"}
            others = {rule.name for rule in every} - {rule.name for rule in matching}
            assert not any(other in refusal.detail for other in others)
            assert "group:" not in refusal.detail
            assert "user:" not in refusal.detail


@given(access_lists, st.sampled_from(PRINCIPALS), st.integers(0, 48), st.integers(1, 48))
@settings(max_examples=100)
def test_the_permitted_profile_is_the_largest_amount_that_is_allowed_at_each_moment(
    every: tuple[AccessRule, ...], principal: Principal, first: int, length: int
) -> None:
    access = AccessList(every)
    start, end = DAY + first * HOUR, DAY + (first + length) * HOUR
    steps = list(access.permitted(principal, "hold", start, end))
    assert steps[0][0] == start
    assert steps[-1][1] == end
    for before, after in pairwise(steps):
        assert before[1] == after[0]
        assert before[2] != after[2]
    for opens, closes, units in steps:
        for time_s in range(opens, closes, HOUR):
            hour = (time_s - DAY) // HOUR
            largest = max(
                (
                    r.units
                    for r in every
                    if is_allowed(r, principal, "hold", 1) and is_open(r, hour, principal)
                ),
                default=0,
            )
            assert units == largest

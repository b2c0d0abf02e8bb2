"""Owners' limits and blackouts: what is shown free is what they let be booked; usage is what is claimed."""

from __future__ import annotations

import io
import itertools
import struct
from collections import Counter
from datetime import UTC, datetime
from functools import cache
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort
from tests.protocol_support import rid

from kalends.calendars import (
    Blackout,
    Blackouts,
    Limit,
    Limits,
    OwnerRules,
    Recurrence,
    ResourceCalendar,
    UsageShare,
    open_access,
    weeks,
)
from kalends.contract.messages import Want
from kalends.core.intervals import Interval
from kalends.core.principals import Principal
from kalends.core.resources import ResourceInfo
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.claims.usage import (
    AT_ONCE,
    STANDING,
    STANDING_TIME,
    Account,
)

HOUR = 3600
DAY = 24 * HOUR
NOON = int(datetime(2026, 3, 2, 12, 20, tzinfo=UTC).timestamp())
MIDNIGHT = NOON - NOON % DAY
ANN = Principal("ann", ("staff",))


def zone_of(rule: str) -> ZoneInfo:
    """A zone by a POSIX rule alone (RFC 9636, section 3.3)."""
    block = struct.pack(">4s c 15x 6l", b"TZif", b"2", 0, 0, 0, 0, 1, 4)
    block += struct.pack(">l ? B", 0, False, 0) + b"AAA\0"
    return ZoneInfo.from_file(io.BytesIO(block + block + f"\n{rule}\n".encode()), key="rule")


ZONES = (
    *map(ZoneInfo, ("UTC", "Europe/Berlin", "America/Los_Angeles", "Australia/Lord_Howe")),
    zone_of("AAA0BBB,M3.5.1/0:30,M10.5.1/0:30"),
)
"""In the last one Monday begins twice in autumn, with half an hour of Sunday between."""

CHANGES = [
    int(datetime(2027, month, day, tzinfo=UTC).timestamp())
    for month, day in ((1, 4), (3, 14), (3, 28), (4, 4), (10, 3), (10, 25), (10, 31), (11, 7))
]
"""Days on which some of them change their clocks, and one on which none does."""

daily = st.builds(
    lambda start, hours: Recurrence("FREQ=DAILY", f"{start:02}:00", hours * HOUR, "UTC"),
    st.integers(0, 23),
    st.integers(1, 12),
)


@st.composite
def ruled(draw: st.DrawFn) -> ResourceCalendar:
    lead_h = draw(st.integers(0, 12))
    limits = [
        Limit(
            f"limit-{number}",
            draw(st.sampled_from(["everyone", "group:staff", "group:guests", "user:ann"])),
            lead_s=lead_h * HOUR,
            ahead_s=draw(st.sampled_from([0, 20, 50])) * HOUR,
            longest_s=draw(st.integers(0, 5)) * HOUR,
            held_max=9,
        )
        for number in range(draw(st.integers(0, 3)))
    ]
    blackouts = Blackouts(
        [
            Blackout(f"blackout-{number}", (times,))
            for number, times in enumerate(draw(st.lists(daily, max_size=2)))
        ]
    )
    if draw(st.booleans()):
        start = MIDNIGHT + draw(st.integers(0, 40)) * HOUR
        blackouts.reclaim("k", start, start + draw(st.integers(1, 20)) * HOUR, "a new magnet")
    info = ResourceInfo(name="site/thing", grain_s=HOUR, horizon_s=60 * HOUR)
    return ResourceCalendar(info, open_access(), (), OwnerRules(Limits(limits), blackouts))


def refused(resource: ResourceCalendar, start: int, end: int) -> bool:
    return resource.refusal(ANN, ("hold", "lock"), start, end, 1, NOON) is not None


@given(ruled())
@settings(max_examples=effort.examples(80), deadline=None)
def test_what_is_shown_free_is_exactly_what_owners_rules_let_be_booked(
    resource: ResourceCalendar,
) -> None:
    steps, _ = resource.free_steps(ANN, MIDNIGHT, MIDNIGHT + 70 * HOUR, NOON, 10_000)
    shown = {at for opens, closes, _ in steps for at in range(opens, closes, HOUR)}
    hours = range(MIDNIGHT, MIDNIGHT + 70 * HOUR, HOUR)
    assert shown == {at for at in hours if not refused(resource, at, at + HOUR)}
    effort.steps["hours under owners' rules"] += len(hours)


@given(ruled(), st.integers(1, 6))
@settings(max_examples=effort.examples(60), deadline=None)
def test_the_earliest_fit_is_the_first_that_owners_rules_let_be_booked(
    resource: ResourceCalendar, length_h: int
) -> None:
    last = MIDNIGHT + 70 * HOUR
    starts = range(MIDNIGHT, last - length_h * HOUR + 1, HOUR)
    expected = next((s for s in starts if not refused(resource, s, s + length_h * HOUR)), None)
    assert resource.earliest_fit(ANN, 1, length_h * HOUR, MIDNIGHT, last, NOON) == expected


@given(
    st.sampled_from(ZONES),
    st.sampled_from(CHANGES),
    st.integers(-24 * 10, 24 * 3),
    st.integers(1, 24 * 20),
)
@settings(max_examples=effort.examples(100), deadline=None)
def test_weeks_are_those_of_the_local_clock_over_both_clock_changes(
    zone: ZoneInfo, change: int, first_h: int, length_h: int
) -> None:
    """The twin reads the clock every half hour: once it has shown a week, the one before is over."""
    step_s = HOUR // 2
    start = change + first_h * HOUR
    end = start + length_h * HOUR
    latest = (0, 0)
    expected: Counter[tuple[int, int]] = Counter()
    for at in range(start - 8 * DAY, end, step_s):
        shown = datetime.fromtimestamp(at, zone).isocalendar()
        latest = max(latest, (shown.year, shown.week))
        if at >= start:
            expected[latest] += step_s
    found = [min(week.end, end) - max(week.start, start) for week in weeks(start, end, zone)]
    assert found == [expected[week] for week in sorted(expected)]


LIMITS = Limits(
    [
        Limit("staff", "group:staff", share=UsageShare(fraction=0.5), held_max=3),
        Limit("all", "everyone", locked_max=3, share=UsageShare(unit_s=40 * HOUR)),
        Limit(
            "pool",
            "group:guests",
            together=True,
            share=UsageShare(unit_s=60 * HOUR),
            held_max=4,
            locked_unit_s=500 * HOUR,
        ),
    ]
)
PRINCIPALS = (ANN, Principal("bob", ("guests",)), Principal("cy", ("guests", "staff")))
RESOURCES = ("here/pool", "here/single")


def book(first_id: int = 1_000_000, limits: Limits = LIMITS) -> ClaimTable:
    numbers = itertools.count(first_id)
    calendars = {
        name: ResourceCalendar(
            ResourceInfo(name=name, capacity=50, grain_s=1, zone="Europe/Berlin"),
            open_access(),
            (),
            OwnerRules(limits),
        )
        for name in RESOURCES
    }
    return ClaimTable(calendars, lambda: next(numbers))


MOVES = {
    "": ("hold", "change", "change"),
    "held": ("prepare", "prepare", "vacate"),
    "prepared": ("lock", "lock", "lock", "vacate"),
    "locked": ("", "", "leave"),
}
"""What may become of a request, by its state."""

moves = st.tuples(
    st.integers(0, 11),
    st.integers(0, 4),
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 400), st.integers(1, 200), st.integers(1, 2)),
        min_size=1,
        max_size=3,
    ),
    st.booleans(),
)


def twin(standing: dict[str, Stake], states: dict[str, str]) -> Counter[Account]:
    """All accounts by adding up every hour of every claim; of old and new the larger counts."""
    total: Counter[Account] = Counter()
    replaced = {stake.replaces for stake in standing.values() if stake.replaces in standing}
    for name, stake in standing.items():
        if name in replaced:
            continue
        mine = by_the_hour(stake, states[name])
        old = standing.get(stake.replaces)
        if old is not None:
            for account, amount in by_the_hour(old, "locked").items():
                mine[account] = max(mine[account], amount)
        total.update(mine)
    return +total


@cache
def week_in_berlin(at: int) -> Interval:
    (week,) = weeks(at, at + 1, ZoneInfo("Europe/Berlin"))
    return week


def by_the_hour(stake: Stake, state: str) -> Counter[Account]:
    largest: Counter[Account] = Counter()
    groups = stake.principal.groups
    for common in {claim.common for claim in stake.claims}:
        amounts: Counter[Account] = Counter()
        for claim in stake.claims:
            if claim.common != common:
                continue
            shared = [("", "pool")] if "guests" in groups else []
            mine = [(stake.principal.user, "")]
            if state != "locked":
                for user, rule in [*(mine if "staff" in groups else []), *shared]:
                    amounts[Account(claim.resource, user, rule, AT_ONCE)] += 1
            if state != "held":
                amounts[Account(claim.resource, *mine[0], STANDING)] += 1
                for user, rule in shared:
                    unit_s = claim.units * (claim.end - claim.start)
                    amounts[Account(claim.resource, user, rule, STANDING_TIME)] += unit_s
            for at in range(claim.start, claim.end, HOUR):
                week = week_in_berlin(at)
                for user, rule in [*mine, *shared]:
                    amounts[Account(claim.resource, user, rule, week)] += claim.units * HOUR
        for account, amount in amounts.items():
            largest[account] = max(largest[account], amount)
    return largest


@given(st.lists(moves, min_size=12, max_size=30))
@settings(max_examples=effort.examples(80), deadline=None)
def test_usage_is_the_sum_over_all_claims_whatever_happens_and_after_a_restart(
    steps: list[tuple[int, int, list[tuple[int, int, int, int]], bool]],
) -> None:
    site = book()
    standing: dict[str, Stake] = {}
    states: dict[str, str] = {}
    generation: Counter[int] = Counter()
    replaced_already: set[str] = set()
    begin = NOON - NOON % HOUR
    for number, (choice, which, shape, alternatives) in enumerate(steps):
        # Ids are never used again.
        while (name := rid(which + 5 * generation[which])) in replaced_already:
            generation[which] += 1
        possible = MOVES[states.get(name, "")]
        step = possible[choice % len(possible)]
        stake = standing.get(name)
        changers = {each.replaces: each for each in standing.values()}
        if step in ("hold", "change") and stake is None:
            old = sorted(n for n, s in states.items() if s == "locked" and n not in changers)
            replaces = old[number % len(old)] if step == "change" and old else ""
            who = standing[replaces].principal if replaces else PRINCIPALS[which % 3]
            claims = [
                Claim(
                    site.new_id(), RESOURCES[thing], begin + first * HOUR,
                    begin + (first + length) * HOUR, units, "held",
                    common=index if alternatives and not replaces else 0,
                )
                for index, (thing, first, length, units) in enumerate(shape)
            ]  # fmt: skip
            made = Stake(name, 1, who, "x" * 16, 1, (), (), claims, replaces=replaces)
            site.stakes[name] = made
            if site.occupy(made, "held", 10_000):
                del site.stakes[name]
            else:
                standing[name], states[name] = made, "held"
        elif step == "prepare" and stake is not None and states[name] == "held":
            common = stake.claims[0].common
            site.keep_only(stake, {c.hold_id for c in stake.claims if c.common == common})
            site.restate(stake, "prepared", None)
            states[name] = "prepared"
        elif step == "lock" and stake is not None and states[name] == "prepared":
            stake.chosen = {"here": ()}
            site.vacate(stake)
            if stake.replaces in standing:
                site.leave(standing.pop(stake.replaces))
                replaced_already.add(stake.replaces)
                del states[stake.replaces], site.stakes[stake.replaces]
            for claim in stake.claims:
                claim.state = "locked"
            assert not site.occupy(stake, "locked", None)
            states[name] = "locked"
        elif step == "vacate" and stake is not None and states[name] != "locked":
            site.vacate(stake)
            del standing[name], states[name], site.stakes[name]
        elif step == "leave" and stake is not None and states[name] == "locked":
            site.leave(stake)
            del standing[name], states[name], site.stakes[name]
        if stake is not None and name not in standing:
            generation[which] += 1
        for each in standing.values():
            for claim in each.claims:
                claim.state = states[each.rid]  # type: ignore[assignment]  # one of the three
        site.check()
        assert site.usage.accounts() == twin(standing, states)
        effort.steps["accounts of usage"] += 1
    reclaimed = Interval(begin, begin + DAY)
    site.calendars[RESOURCES[0]].rules.blackouts.reclaim("k", *reclaimed, "a new magnet")
    for limits, expected in ((Limits(), Counter()), (LIMITS, twin(standing, states))):
        site.take_rules(book(limits=limits).calendars)
        site.check()
        assert site.usage.accounts() == expected, "what is booked counts against changed limits"
        assert site.calendars[RESOURCES[0]].rules.blackouts.open_between(*reclaimed) == []
    durable = [stake for name, stake in standing.items() if states[name] != "held"]
    kept = {stake.rid for stake in durable}
    again = book(2_000_000)
    again.restore(durable)
    assert again.usage.accounts() == twin(
        {n: s for n, s in standing.items() if n in kept}, {n: states[n] for n in kept}
    )


@given(st.integers(0, 20), st.integers(1, 60), st.integers(1, 3))
@settings(max_examples=effort.examples(40), deadline=None)
def test_a_share_is_refused_exactly_where_it_would_be_exceeded(
    first_h: int, length_h: int, units: int
) -> None:
    site = book()
    begin = NOON - NOON % HOUR
    bob = PRINCIPALS[1]
    want = Want(RESOURCES[1], begin + first_h * HOUR, begin + (first_h + length_h) * HOUR, units)
    found = site.refusals(bob, [want], ("hold", "lock"), NOON - 60 * DAY)
    allowed = length_h * units <= 40
    assert {each.code for each in found} == (set() if allowed else {"share"})

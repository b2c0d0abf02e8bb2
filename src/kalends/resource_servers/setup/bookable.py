"""Whether anything can be booked: the grain against hours and limits, and all rules from now on."""

from __future__ import annotations

from typing import Final

from kalends.calendars import (
    AccessRule,
    Limit,
    OwnerRules,
    Recurrence,
    ResourceCalendar,
    Windows,
    first_clash_of_any,
)
from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput
from kalends.core.grains import Grain, grain_of
from kalends.core.intervals import align_up
from kalends.core.limits import WINDOW_S_MAX
from kalends.core.principals import Principal
from kalends.core.requests import CLOCK_CHANGE_S, DAY_S
from kalends.core.resources import ResourceInfo

_FROM_S: Final = 1_577_836_800
"""2020: hours are looked at from here on, for as long as the longest horizon."""

_EVERY_DAY: Final = (Recurrence("FREQ=DAILY", "00:00", DAY_S, "UTC"),)


def check_grain(info: ResourceInfo) -> None:
    """Raise `InvalidInput` unless the grain divides a day: it counts from each local midnight."""
    if DAY_S % info.grain_s:
        nearest = max(each for each in range(1, info.grain_s) if DAY_S % each == 0)
        raise InvalidInput(
            f"{format_duration(info.grain_s)} does not divide a day of 24 hours",
            where="grain",
            remedy=f"write {format_duration(nearest)}, for example",
        )


def check_bookable(info: ResourceInfo, hours: tuple[Recurrence, ...], rules: OwnerRules) -> None:
    """Raise `InvalidInput` if the hours, or the limits of all users, leave no slot of one grain."""
    check_fits(info, hours, "hours")
    users = [Principal("-"), *(_meant(rule) for rule in rules.limits.rules)]
    barred = [_bar(info, rules, user) for user in users]
    if all(barred):
        raise InvalidInput(
            f"{barred[0]}: with a grain of {format_duration(info.grain_s)} nothing could be booked",
            where="grain",
            remedy="give a finer grain, or a higher limit",
        )


def is_bookable(calendar: ResourceCalendar, now_s: int) -> bool:
    """Return whether a user whom the rules name could book a grain of the empty `calendar` from `now_s` on.

    It looks as far ahead as the owner accepts bookings.
    """
    users = [_meant(rule) for rule in calendar.access.rules]
    users += [_meant(rule) for rule in calendar.rules.limits.rules]
    groups = {group for user in users for group in user.groups}
    start = calendar.grain.ceil(now_s)
    end = calendar.grain.floor(now_s + calendar.info.horizon_s)
    return any(
        calendar.access.may_ever(user, "lock")
        and calendar.earliest_fit(
            user, 1, _shortest_s(calendar.info, calendar.rules, user), start, end, now_s
        )
        is not None
        for user in dict.fromkeys([Principal("-"), Principal("-", tuple(sorted(groups))), *users])
    )


def check_fits(info: ResourceInfo, hours: tuple[Recurrence, ...], where: str) -> None:
    """Raise `InvalidInput` if no window of `hours` has room for a slot of one grain."""
    first = first_clash_of_any(hours, _EVERY_DAY, _FROM_S) if hours else None
    if first is None:
        return
    grain = grain_of(info)
    end = min(first.start + WINDOW_S_MAX, first.start + 10 * 366 * DAY_S)
    if not any(_has_room(grain, *each) for each in Windows(hours).between(first.start, end)):
        raise InvalidInput(
            f"{Windows(hours).describe()} never has room for a slot of {format_duration(info.grain_s)},"
            f" the grain, which counts from midnight in {info.zone}",
            where=where,
            remedy="give a finer grain, or hours that begin and end on it",
        )


def _has_room(grain: Grain, start: int, end: int) -> bool:
    return grain.end_of(grain.ceil(start), grain.seconds) <= end


def _meant(rule: Limit | AccessRule) -> Principal:
    kind, _, name = rule.who.partition(":")
    if isinstance(rule, AccessRule) and rule.members and kind != "user":
        longest = max(rule.members, key=lambda user: rule.members[user].until)
        return Principal(longest, (name,) if kind == "group" else ())
    return Principal("-", (name,)) if kind == "group" else Principal(name or "-")


def _shortest_s(info: ResourceInfo, rules: OwnerRules, user: Principal) -> int:
    """Return the length of the shortest booking that `user` may make."""
    shortest = rules.limits.deciding(user, "shortest_s")
    return align_up(max(info.grain_s, shortest.shortest_s if shortest else 0), info.grain_s)


def _bar(info: ResourceInfo, rules: OwnerRules, user: Principal) -> str:
    """Return which limit leaves `user` no slot of one grain, or ""."""
    shortest_s = _shortest_s(info, rules, user)
    shortest_s -= CLOCK_CHANGE_S if info.grain_s == DAY_S else 0
    limits = rules.limits
    longest, ahead, lead = (limits.deciding(user, k) for k in ("longest_s", "ahead_s", "lead_s"))
    if longest and longest.longest_s < shortest_s:
        return f"rule {longest.name} allows at most {format_duration(longest.longest_s)} at a time"
    set_up_s = rules.buffer.before_s
    soonest_end_s = max(lead.lead_s if lead else 0, set_up_s) + shortest_s
    notice = f"rule {lead.name} needs notice of {format_duration(lead.lead_s)}, " if lead else ""
    if set_up_s and not lead:
        notice = f"set-up takes {format_duration(set_up_s)}, "
    if soonest_end_s > info.horizon_s:
        return f"{notice or 'a slot ends '}beyond the horizon of {format_duration(info.horizon_s)}"
    if ahead and soonest_end_s > ahead.ahead_s:
        return (
            f"{notice and notice + 'and '}rule {ahead.name} lets users book at most"
            f" {format_duration(ahead.ahead_s)} ahead"
        )
    for together in (False, True):
        stands = limits.deciding(user, "locked_unit_s", together=together)
        share = limits.deciding(user, "share", together=together)
        if stands and stands.locked_unit_s < shortest_s:
            return f"rule {stands.name} allows {stands.describe_time()}"
        week_s = 7 * DAY_S + CLOCK_CHANGE_S
        if share and share.share and share.share.of(info.capacity, week_s) < shortest_s:
            return f"rule {share.name} allows {share.describe_share()} of a week"
    return ""

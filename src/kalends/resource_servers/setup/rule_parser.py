"""From an owner's configuration of limits, blackouts and priority to the rules of a resource."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from kalends.calendars import (
    Blackout,
    Blackouts,
    HeadStart,
    Limit,
    Limits,
    OwnerRules,
    Recurrence,
    UsageShare,
    is_ever_open,
)
from kalends.core.errors import InvalidInput
from kalends.serving.configuration import (
    BlackoutConfiguration,
    HoursConfiguration,
    LimitConfiguration,
    PriorityConfiguration,
    ResourceConfiguration,
    RulesConfiguration,
)


class _Named(Protocol):
    @property
    def name(self) -> str: ...


NamedT = TypeVar("NamedT", bound=_Named)


def rules_of(resource: ResourceConfiguration, defaults: RulesConfiguration) -> OwnerRules:
    """The rules of `resource`, its own before those of its site.

    Raises `InvalidInput` with the path of what is wrong, from the resource or from ``defaults``.
    """
    limits = [
        _limit_of(each, where, rule_name(each.name, name))
        for each, where, name in _all_of(resource.limits, defaults.limits, "limit", "limits")
    ]
    blackouts = [
        _blackout_of(each, where, rule_name(each.name, name), resource.zone)
        for each, where, name in _all_of(
            resource.blackouts, defaults.blackouts, "blackout", "blackouts"
        )
    ]
    head_starts = [
        *_head_starts(resource.priority, "priority"),
        *_head_starts(defaults.priority, "defaults.priority"),
    ]
    return OwnerRules(Limits(limits), Blackouts(blackouts), head_starts)


def recurrences_of(hours: Sequence[HoursConfiguration], zone: str) -> tuple[Recurrence, ...]:
    """Return when `hours` are; raises `InvalidInput` with the path of what is wrong, from ``hours`` on."""
    found = []
    for number, each in enumerate(hours):
        try:
            found.append(
                Recurrence(
                    each.rrule, each.start, int(each.duration_s), each.zone or zone, each.first
                )
            )
        except InvalidInput as error:
            where = f"hours[{number}].{error.where.removesuffix('_s')}"
            raise InvalidInput(error.detail, where=where, remedy=error.remedy) from error
    return tuple(found)


def rule_name(name: str, otherwise: str) -> str:
    """The owner's name of a rule as refusals show it: ``guests at night`` is ``guests-at-night``."""
    return re.sub(r"\s+", "-", name.strip().lower()) or otherwise


def _all_of(
    own: Sequence[NamedT], defaults: Sequence[NamedT], kind: str, section: str
) -> Iterator[tuple[NamedT, str, str]]:
    """Each rule with its path and the name that it has where its owner gave none."""
    taken = {each.name for each in own if each.name}
    for number, each in enumerate(own, 1):
        yield each, f"{section}[{number - 1}]", f"{kind}-{number}"
    for number, each in enumerate(defaults, 1):
        if each.name not in taken:
            yield each, f"defaults.{section}[{number - 1}]", f"site-{kind}-{number}"


def _limit_of(limit: LimitConfiguration, where: str, name: str) -> Limit:
    share = UsageShare(limit.week_share, round(limit.week_hours * 3_600))
    try:
        return Limit(
            name,
            limit.who,
            limit.together,
            int(limit.ahead_s),
            int(limit.lead_s),
            int(limit.longest_s),
            limit.held_max,
            limit.locked_max,
            round(limit.locked_hours * 3_600),
            share if limit.week_share or limit.week_hours else None,
            "" if limit.approval is None else "needed" if limit.approval else "waived",
        )
    except InvalidInput as error:
        raise _at(error, where) from error


def _blackout_of(blackout: BlackoutConfiguration, where: str, name: str, zone: str) -> Blackout:
    try:
        times = list(recurrences_of(blackout.hours, zone))
        if blackout.begins:
            times.append(_once(blackout, blackout.zone or zone))
    except InvalidInput as error:
        raise _at(error, where) from error
    if not is_ever_open(tuple(times)):
        raise InvalidInput(
            "this blackout never occurs between 1970 and 3000",
            where=where,
            remedy="name days that exist, or remove it",
        )
    return Blackout(name, tuple(times), blackout.reason)


def _once(blackout: BlackoutConfiguration, zone: str) -> Recurrence:
    """One window from `begins` to `ends`, as the clocks of `zone` show them."""
    begins, ends = _local(blackout.begins, "begins"), _local(blackout.ends, "ends")
    if ends <= begins:
        raise InvalidInput(
            "the end is not after the begin", where="ends", remedy="give a later end"
        )
    length_s = int((ends - begins).total_seconds())
    return Recurrence("FREQ=DAILY;COUNT=1", begins.time(), length_s, zone, first=begins.date())


def _local(text: str, where: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise _not_a_time(text, where) from error
    if found.tzinfo is not None or found.microsecond:
        raise _not_a_time(text, where)
    return found


def _not_a_time(text: str, where: str) -> InvalidInput:
    return InvalidInput(
        f"{text!r} is not a local time",
        where=where,
        remedy="write 2026-12-24 or 2026-12-24 18:00; the zone is a separate field",
    )


def _head_starts(priority: Sequence[PriorityConfiguration], where: str) -> Iterator[HeadStart]:
    for number, each in enumerate(priority):
        try:
            yield HeadStart(each.who, int(each.head_start_s) * 1_000)
        except InvalidInput as error:
            raise _at(error, f"{where}[{number}]") from error


def _at(error: InvalidInput, where: str) -> InvalidInput:
    return InvalidInput(error.detail, where=f"{where}.{error.where}", remedy=error.remedy)

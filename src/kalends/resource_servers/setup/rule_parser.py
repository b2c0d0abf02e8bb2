"""From an owner's configuration of limits, blackouts and priority to the rules of a resource."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from kalends.calendars import (
    Approval,
    Blackout,
    Blackouts,
    Buffer,
    HeadStart,
    Limit,
    Limits,
    OwnerRules,
    Recurrence,
    UsageShare,
    is_ever_open,
)
from kalends.core.errors import InvalidInput
from kalends.resource_servers.setup.configured_prices import cancel_of, prices_of, with_tariff
from kalends.resource_servers.setup.named_rules import all_of, recurrences_of, rule_name
from kalends.resource_servers.setup.rule_scripts import rule_script_of
from kalends.serving.configuration import (
    BlackoutConfiguration,
    BufferConfiguration,
    LimitConfiguration,
    MachineConfiguration,
    PriorityConfiguration,
    ResourceConfiguration,
    RulesConfiguration,
)


def rules_of(
    resource: ResourceConfiguration,
    defaults: RulesConfiguration,
    machine: MachineConfiguration | None,
    *,
    ledger: bool,
) -> OwnerRules:
    """The rules of `resource`, its own before those of its site; jobs may run there, on `machine`.

    With a `ledger`, the tariff of the machine is the last of its prices.

    Raises `InvalidInput` with the path of what is wrong, from the resource or from ``defaults``.
    """
    limits = [
        _limit_of(each, where, rule_name(each.name, name))
        for each, where, name in all_of(resource.limits, defaults.limits, "limit", "limits")
    ]
    blackouts = [
        _blackout_of(each, where, rule_name(each.name, name), resource.zone)
        for each, where, name in all_of(
            resource.blackouts, defaults.blackouts, "blackout", "blackouts"
        )
    ]
    head_starts = [
        *_head_starts(resource.priority, "priority"),
        *_head_starts(defaults.priority, "defaults.priority"),
    ]
    where = "decide" if resource.decide is not None else "defaults.decide"
    prices = prices_of(resource, defaults, [*machine.classes] if machine else ())
    if ledger and machine is not None:
        prices = with_tariff(prices, machine)
    script = rule_script_of(resource.decide or defaults.decide, where)
    return OwnerRules(
        Limits(limits),
        Blackouts(blackouts),
        head_starts,
        script,
        prices,
        cancel_of(resource, defaults),
        int(resource.no_show_s),
        _buffer_of(resource, defaults),
        resource.comes_with,
    )


def _buffer_of(resource: ResourceConfiguration, defaults: RulesConfiguration) -> Buffer:
    buffer, where = resource.buffer, "buffer"
    if buffer is None:
        buffer, where = defaults.buffer or BufferConfiguration(), "defaults.buffer"
    try:
        return Buffer(
            int(buffer.before_s), int(buffer.after_s), int(buffer.gap_s), shared=buffer.shared
        )
    except InvalidInput as error:
        raise _at(error, where) from error


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
            _approval_of(limit),
            int(limit.shortest_s),
        )
    except InvalidInput as error:
        raise _at(error, where) from error


def _approval_of(limit: LimitConfiguration) -> Approval:
    if limit.approvers > 1 and not limit.approval:
        raise InvalidInput(
            f"{limit.approvers} people approve nothing here",
            where="approvers",
            remedy="add approval = true, or leave it out",
        )
    if limit.approval is None:
        return ""
    return ("two" if limit.approvers > 1 else "needed") if limit.approval else "waived"


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

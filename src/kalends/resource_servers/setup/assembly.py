"""From a site's configuration to its calendars with their rules."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from kalends.backends.kinds import kind_named
from kalends.calendars import (
    AccessList,
    AccessRule,
    Membership,
    OwnerRules,
    Recurrence,
    ResourceCalendar,
    Windows,
    first_clash_of_any,
    is_ever_open,
    open_access,
)
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import queue_of
from kalends.core.limits import HOURS_TEXT_MAX, UNITS_MAX, WINDOW_S_MAX
from kalends.core.money import parse_credits
from kalends.core.principals import Principal
from kalends.core.resources import ResourceInfo
from kalends.resource_servers.participation.admission import ParticipantLimits
from kalends.resource_servers.participation.credits.accounts import (
    EVERY_USER,
    PayingAccount,
    PayingAccounts,
)
from kalends.resource_servers.participation.visits.agent_visits import AgentLimits
from kalends.resource_servers.setup.bookable import check_bookable, check_fits, check_grain
from kalends.resource_servers.setup.named_rules import recurrences_of, rule_name
from kalends.resource_servers.setup.rule_parser import rules_of
from kalends.rim.web_addresses import is_here, is_loopback
from kalends.serving.auth.addresses import AllowedAddresses
from kalends.serving.auth.callers import split_listen
from kalends.serving.configuration import (
    AccessConfiguration,
    BufferConfiguration,
    ResourceConfiguration,
    SiteConfiguration,
)

_AUDITORS: Final = "\x00auditors"
"""The group of callers with the scope ``audit``; no token can carry such a name."""

_AUDIT_RULE: Final = AccessRule("scope-audit", f"group:{_AUDITORS}", ("see", "detail"))

_ACTIONS: Final = {"see": ("see",), "hold": ("see", "hold"), "lock": ("see", "hold", "lock")}


_ever_open = lru_cache(maxsize=1_024)(is_ever_open)
_clash = lru_cache(maxsize=1_024)(first_clash_of_any)
"""Resources of one site mostly share their hours: the same question is answered once."""


def calendars_of(configuration: SiteConfiguration) -> dict[str, ResourceCalendar]:
    """Empty calendars by full name (``sdsc/sp2``).

    Raises `InvalidInput` with the path of what is wrong; also for hours that are never open, and for
    a rule that only applies when its resource is closed.
    """
    calendars = {}
    for number, resource in enumerate(configuration.resources):
        try:
            machine = next((m for m in configuration.machines if m.resource == resource.name), None)
            ledger = configuration.has_ledger(resource)
            resource = _with_buffer(configuration, resource)
            rules = rules_of(resource, configuration.defaults, machine, ledger=ledger)
            calendar = _calendar_of(configuration, resource, rules)
        except InvalidInput as error:
            where = (
                f"site.{error.where}"
                if error.where.startswith("defaults.")
                else f"site.resources[{number}].{error.where}"
            )
            raise InvalidInput(error.detail, where=where, remedy=error.remedy) from error
        calendars[calendar.info.name] = calendar
    return calendars


def queues_of(configuration: SiteConfiguration) -> dict[str, ResourceCalendar]:
    """Empty calendars of the queues of all machines, by `queue_of`: places in them are claimed there.

    For all there is room, in their order. Nobody sees them, or can book there: a place is what a queue gives
    (`participation/placed_jobs/places`).
    """
    names = [
        queue_of(f"{configuration.name}/{machine.resource}") for machine in configuration.machines
    ]
    infos = [
        ResourceInfo(name=name, capacity=UNITS_MAX, grain_s=1, horizon_s=WINDOW_S_MAX)
        for name in names
    ]
    return {info.name: ResourceCalendar(info, AccessList([])) for info in infos}


def _takes_jobs(site: SiteConfiguration, resource: ResourceConfiguration) -> bool:
    """Whether it can be told when a job would begin there, and its owner bids for them."""
    machines = [each for each in site.machines if each.resource == resource.name]
    decides = site.advisory_system(resource)
    queue = kind_named(decides.kind).queue if decides else None
    foreseen = decides is None or (queue is not None and queue.foresees)
    return (
        any(each.bids for each in machines)
        and foreseen
        and not (resource.nodes or resource.licences)
    )


def limits_of(configuration: SiteConfiguration) -> ParticipantLimits:
    limits = configuration.limits
    return ParticipantLimits(
        limits.held_per_principal_max,
        limits.promised_per_principal_max,
        limits.hold_s_max * 1000,
        int(limits.approval_s),
    )


def accounts_of(configuration: SiteConfiguration) -> PayingAccounts:
    """Return the owner's accounts; raises `InvalidInput` with the place of the fault."""
    names = [each.name for each in configuration.accounts]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise InvalidInput(
                f"there are two accounts {name}",
                where=f"accounts[{number}].name",
                remedy="remove one",
            )
        if name == EVERY_USER and configuration.accounts[number].parent:
            raise InvalidInput(
                "the accounts of all users cannot be parts of one budget",
                where=f"accounts[{number}].parent",
                remedy="leave it out here; give the parent to user:NAME or project:NAME",
            )
    return PayingAccounts(
        PayingAccount(
            each.name,
            each.members,
            each.parent,
            parse_credits(repr(each.debt), f"accounts[{number}].debt"),
        )
        for number, each in enumerate(configuration.accounts)
    )


def agent_limits_of(configuration: SiteConfiguration) -> AgentLimits:
    agents = configuration.agents
    near = tuple(site.name for site in configuration.near)
    return AgentLimits(agents.enabled, agents.held_max, near)


def addresses_of(configuration: SiteConfiguration) -> AllowedAddresses:
    """Return where the site may ask what others have decided."""
    host, _ = split_listen(configuration.listen)
    # One that is reached by another address listens here for a proxy: it is at home nowhere.
    at_home = is_loopback(host) and (not configuration.url or is_here(configuration.url))
    return AllowedAddresses(configuration.calls.to, at_home)


def auditor(principal: Principal) -> Principal:
    """`principal` as one who may see every resource of the site, and who holds what."""
    return Principal(principal.user, (*principal.groups, _AUDITORS))


def _calendar_of(
    site: SiteConfiguration, resource: ResourceConfiguration, rules: OwnerRules
) -> ResourceCalendar:
    hours = recurrences_of(resource.hours, resource.zone)
    _check_open(hours, "hours")
    access = _access_of(resource)
    info = ResourceInfo(
        name=f"{site.name}/{resource.name}",
        capacity=resource.capacity,
        attributes=resource.attributes,
        grain_s=int(resource.grain_s),
        horizon_s=int(resource.horizon_s),
        zone=resource.zone,
        hours=_readable(Windows(hours).describe()) if hours else "",
        description=resource.description,
        rules=rules.describe(),
        advisory=system.name if (system := site.advisory_system(resource)) else "",
        queue=_takes_jobs(site, resource),
        companions=tuple(f"{site.name}/{each}" for each in resource.comes_with),
        gap_s=rules.buffer.between_s,
    )
    check_grain(info)
    for number, each in enumerate(resource.access):
        rule_hours = recurrences_of(each.hours, resource.zone)
        _check_meets(rule_hours, hours, number)
        check_fits(info, rule_hours, f"access[{number}].hours")
    check_bookable(info, hours, rules)
    return ResourceCalendar(info, access, hours, rules)


def _with_buffer(site: SiteConfiguration, resource: ResourceConfiguration) -> ResourceConfiguration:
    """Return `resource`, without a buffer where jobs, or a batch system, use its nodes."""
    system = site.advisory_system(resource) is not None or resource.nodes or resource.licences
    if not (system or any(each.resource == resource.name for each in site.machines)):
        return resource
    if resource.buffer is not None:
        raise InvalidInput(
            "jobs run on this resource, and its queue knows no buffers",
            where="buffer",
            remedy="remove it; a batch system cleans its nodes itself, in an epilog",
        )
    return replace(resource, buffer=BufferConfiguration())


def _readable(hours: str) -> str:
    """As much of `hours` as is told to others; the whole of them holds."""
    return hours if len(hours) <= HOURS_TEXT_MAX else f"{hours[: HOURS_TEXT_MAX - 3]}..."


def _access_of(resource: ResourceConfiguration) -> AccessList:
    if not resource.access:
        return AccessList([*open_access().rules, _AUDIT_RULE])
    rules = []
    barred = []
    for number, access in enumerate(resource.access, 1):
        if access.may == "nothing":
            _check_barring(access, number)
            barred.append(access.who)
        else:
            try:
                rules.append(_rule_of(access, number, resource.zone))
            except InvalidInput as error:
                where = f"access[{number - 1}].{error.where}"
                raise InvalidInput(error.detail, where=where, remedy=error.remedy) from error
    return AccessList([*rules, _AUDIT_RULE], barred)


def _rule_of(access: AccessConfiguration, number: int, zone: str) -> AccessRule:
    return AccessRule(
        rule_name(access.name, f"rule-{number}"),
        access.who,
        _ACTIONS[access.may],
        access.units_max,
        recurrences_of(access.hours, zone),
        {user: _membership(day, zone) for user, day in access.members.items()},
    )


def _membership(last_day: date, zone: str) -> Membership:
    """Return the membership to the end of a day in `zone`; raises `InvalidInput` for one far away."""
    if not 1970 <= last_day.year < 3000:
        raise InvalidInput(
            f"{last_day} is not between 1970 and 3000", where="members", remedy="give a nearer day"
        )
    ends = datetime.combine(last_day + timedelta(days=1), time(), ZoneInfo(zone))
    return Membership(int(ends.timestamp()), last_day.isoformat())


def _check_barring(access: AccessConfiguration, number: int) -> None:
    if access.hours or access.units_max or access.members:
        raise InvalidInput(
            'may = "nothing" holds at all times and for every amount',
            where=f"access[{number - 1}]",
            remedy="leave out hours, members and units_max here, and limit the rules that allow",
        )


def _check_open(hours: tuple[Recurrence, ...], where: str) -> None:
    if hours and not _ever_open(hours):
        raise InvalidInput(
            f"{Windows(hours).describe()} is never open from 1970 to 3000",
            where=where,
            remedy="name days that exist, or leave the hours out for all times",
        )


def _check_meets(
    rule_hours: tuple[Recurrence, ...], hours: tuple[Recurrence, ...], number: int
) -> None:
    """Refuse a rule that only applies while the resource is closed, because it has no effect."""
    where = f"access[{number}].hours"
    _check_open(rule_hours, where)
    if rule_hours and hours and _clash(rule_hours, hours) is None:
        raise InvalidInput(
            f"rule {number + 1} applies only {Windows(rule_hours).describe()}, when the resource is"
            f" never open: it is open {Windows(hours).describe()}",
            where=where,
            remedy="make the two meet, or remove the rule",
        )

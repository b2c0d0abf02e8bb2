"""Resources, and the rules of their owner: access, limits, blackouts, priorities, opening hours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, field

from kalends.contract.messages import Units
from kalends.core import identifiers, limits
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import whole
from kalends.core.resources import AttributeValue
from kalends.core.zone_names import given_zone
from kalends.serving.configuration.sections import (
    AttributeName,
    ClockTime,
    Day,
    DurationS,
    Name,
    Section,
    Text,
    check_at_most,
    check_unique,
)


class HoursConfiguration(Section, frozen=True, kw_only=True):
    """Recurring times: `rrule` (RFC 5545) gives the days, each from `start` for `duration_s`.

    They are in the time zone `zone`, or the resource's. INTERVAL and COUNT count from the day `first`, like
    DTSTART; there are no times before it.
    """

    rrule: Text
    start: ClockTime
    duration_s: DurationS = field(name="duration")
    zone: str = ""
    first: Day | None = None


class AccessConfiguration(Section, frozen=True, kw_only=True):
    """One access rule: the right of `who`, its maximum number of units, and its times.

    `who` is ``everyone``, ``user:NAME`` or ``group:NAME``. `may` is see, hold or lock, each with those before
    it; "nothing" refuses. `units_max` 0 is the whole capacity. Without `hours` the rule always applies.
    """

    name: str = ""
    who: Annotated[str, Meta(pattern=whole(identifiers.WHO_PATTERN))]
    may: Literal["nothing", "see", "hold", "lock"]
    units_max: Annotated[int, Meta(ge=0, le=limits.UNITS_MAX)] = 0
    hours: tuple[HoursConfiguration, ...] = ()


class LimitConfiguration(Section, frozen=True, kw_only=True):
    """The maximum usage of `who`, each or `together`; see `kalends.calendars.Limit`.

    Among the rules that name the same limit and match, the first applies. `locked_max` confirmed slots may
    be open, of `locked_hours` unit-hours together. `week_share` is a fraction of all
    units of a calendar week, `week_hours` a number of unit-hours. `approval`: each booking needs
    the owner's approval, or (false) does not.
    """

    name: str = ""
    who: Annotated[str, Meta(pattern=whole(identifiers.WHO_PATTERN))]
    together: bool = False
    ahead_s: DurationS = field(name="ahead", default=DurationS(0))
    lead_s: DurationS = field(name="lead", default=DurationS(0))
    longest_s: DurationS = field(name="longest", default=DurationS(0))
    held_max: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    locked_max: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    locked_hours: Annotated[float, Meta(ge=0, le=8_784.0 * limits.UNITS_MAX)] = 0.0
    week_share: Annotated[float, Meta(ge=0, le=1)] = 0.0
    week_hours: Annotated[float, Meta(ge=0, le=168.0 * limits.UNITS_MAX)] = 0.0
    approval: bool | None = None


class BlackoutConfiguration(Section, frozen=True, kw_only=True):
    """A time closed to new bookings: once, from `begins` to `ends`, or recurring, by `hours`.

    `begins` and `ends` are in `zone`, or the resource's: ``2026-12-24`` or
    ``2026-12-24 18:00``.
    """

    name: str = ""
    reason: Annotated[str, Meta(max_length=200)] = ""
    begins: Annotated[str, Meta(max_length=32)] = ""
    ends: Annotated[str, Meta(max_length=32)] = ""
    zone: str = ""
    hours: tuple[HoursConfiguration, ...] = ()


class PriorityConfiguration(Section, frozen=True, kw_only=True):
    """A head start: `who` counts as having asked `head_start_s` earlier; the first match applies."""

    who: Annotated[str, Meta(pattern=whole(identifiers.WHO_PATTERN))]
    head_start_s: DurationS = field(name="head_start")


RulesMax = Meta(max_length=limits.RULES_MAX // 4)


class RulesConfiguration(Section, frozen=True, kw_only=True):
    """Rules for every resource of a site, after the resource's own.

    A resource's own rule replaces the default one with the same name.
    """

    limits: Annotated[tuple[LimitConfiguration, ...], RulesMax] = ()
    blackouts: Annotated[tuple[BlackoutConfiguration, ...], RulesMax] = ()
    priority: Annotated[tuple[PriorityConfiguration, ...], RulesMax] = ()


class ResourceConfiguration(RulesConfiguration, frozen=True, kw_only=True):
    """One resource; `name` is local, and has the site's name as a prefix outside.

    Without `hours` it is always open. Without `access` everyone may book it.
    """

    name: Name
    capacity: Units = 1
    grain_s: DurationS = field(name="grain", default=DurationS(60))
    horizon_s: DurationS = field(name="horizon", default=DurationS(366 * 86_400))
    zone: str = "UTC"
    description: Text = ""
    attributes: Annotated[
        dict[AttributeName, AttributeValue], Meta(max_length=limits.ATTRIBUTES_MAX)
    ] = {}
    hours: tuple[HoursConfiguration, ...] = ()
    access: tuple[AccessConfiguration, ...] = ()
    nodes: Annotated[str, Meta(max_length=10_000)] = ""
    """The nodes of the batch system behind it, one for each unit, e.g. ``n[1-64]``; "": none."""
    cores_each: Annotated[int, Meta(ge=0, le=limits.UNITS_MAX)] = 0
    """Cores of each of these nodes, if the units are cores; 0: the units are whole nodes."""
    licences: Annotated[
        str, Meta(pattern=whole(identifiers.perhaps(identifiers.LICENCE_PATTERN)))
    ] = ""
    """The name of licences in a batch system, if the units are licences."""
    batch_system: str = ""
    """The name of the batch system, if the site has several."""


def check_resources(
    resources: Sequence[ResourceConfiguration], defaults: RulesConfiguration
) -> None:
    check_unique([resource.name for resource in resources], "site.resources")
    _check_blackouts(defaults.blackouts, "site.defaults.blackouts")
    for index, resource in enumerate(resources):
        where = f"site.resources[{index}]"
        if identifiers.machine_of(resource.name):
            raise InvalidInput(
                f"names that end with {identifiers.QUEUE_ENDING} are reserved for queues",
                where=f"{where}.name",
                remedy="give it another name",
            )
        check_at_most(resource.grain_s, 86_400, f"{where}.grain")
        given_zone(resource.zone, where=f"{where}.zone")
        _check_hours(resource.hours, f"{where}.hours")
        _check_blackouts(resource.blackouts, f"{where}.blackouts")
        for number, rule in enumerate(resource.access):
            _check_hours(rule.hours, f"{where}.access[{number}].hours")
            if rule.units_max > resource.capacity:
                raise InvalidInput(
                    f"{rule.units_max} units are more than the capacity of {resource.capacity}",
                    where=f"{where}.access[{number}].units_max",
                    remedy="give at most the capacity, or leave units_max out for all units",
                )


def _check_blackouts(blackouts: tuple[BlackoutConfiguration, ...], where: str) -> None:
    for index, blackout in enumerate(blackouts):
        here = f"{where}[{index}]"
        if blackout.zone:
            given_zone(blackout.zone, where=f"{here}.zone")
        _check_hours(blackout.hours, f"{here}.hours")
        if bool(blackout.begins) != bool(blackout.ends) or not (blackout.begins or blackout.hours):
            raise InvalidInput(
                "a blackout needs its times",
                where=here,
                remedy="give begins and ends for one time, or hours for recurring times",
            )


def _check_hours(hours: tuple[HoursConfiguration, ...], where: str) -> None:
    for index, times in enumerate(hours):
        if times.zone:
            given_zone(times.zone, where=f"{where}[{index}].zone")

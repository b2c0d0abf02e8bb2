"""Resources, and the rules of their owner: access, limits, blackouts, priorities, opening hours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
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
    DurationOrNoneS,
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
    it; "nothing" refuses. `units_max` 0 is the whole capacity. Without `hours` the rule always applies. With
    `members` it is about these users only, each until the end of a day: of a certificate, for instance.
    """

    name: str = ""
    who: Annotated[str, Meta(pattern=whole(identifiers.WHO_PATTERN))]
    may: Literal["nothing", "see", "hold", "lock"]
    units_max: Annotated[int, Meta(ge=0, le=limits.UNITS_MAX)] = 0
    hours: tuple[HoursConfiguration, ...] = ()
    members: Annotated[
        dict[Annotated[str, Meta(pattern=whole(identifiers.USER_PATTERN))], Day],
        Meta(min_length=1, max_length=10_000),
    ] = {}


class LimitConfiguration(Section, frozen=True, kw_only=True):
    """The maximum usage of `who`, each or `together`; see `kalends.calendars.Limit`.

    Among the rules that name the same limit and match, the first applies. `locked_max` confirmed slots may
    be open, of `locked_hours` unit-hours together. `week_share` is a fraction of all
    units of a calendar week, `week_hours` a number of unit-hours. `approval`: each booking needs
    the approval of the owner, by one or two `approvers`, or (false) none.
    """

    name: str = ""
    who: Annotated[str, Meta(pattern=whole(identifiers.WHO_PATTERN))]
    together: bool = False
    ahead_s: DurationS = field(name="ahead", default=DurationS(0))
    lead_s: DurationS = field(name="lead", default=DurationS(0))
    longest_s: DurationS = field(name="longest", default=DurationS(0))
    shortest_s: DurationS = field(name="shortest", default=DurationS(0))
    held_max: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    locked_max: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    locked_hours: Annotated[float, Meta(ge=0, le=8_784.0 * limits.UNITS_MAX)] = 0.0
    week_share: Annotated[float, Meta(ge=0, le=1)] = 0.0
    week_hours: Annotated[float, Meta(ge=0, le=168.0 * limits.UNITS_MAX)] = 0.0
    approval: bool | None = None
    approvers: Annotated[int, Meta(ge=1, le=2)] = 1


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


class DecideConfiguration(Section, frozen=True, kw_only=True):
    """Rules as code: the function ``decide`` in the file `script` is asked about each booking.

    If it fails, `on_failure` decides: the other "rules" alone, "ask" the owner for approval, or "no".
    """

    script: Path
    on_failure: Literal["rules", "ask", "no"] = "rules"


class PriceConfiguration(Section, frozen=True, kw_only=True):
    """A price: `credits` of this owner for a unit and an hour, for `who`, within `hours`.

    Without `hours` it always applies. It has at most three decimals. The first one that means the user and
    covers the second applies. With a `priority`, named ``class``, it holds for jobs of that class.
    """

    name: str = ""
    who: Annotated[str, Meta(pattern=whole(identifiers.WHO_PATTERN))] = "everyone"
    credits: float
    hours: tuple[HoursConfiguration, ...] = ()
    priority: Annotated[str, Meta(max_length=64)] = field(name="class", default="")


class AccountConfiguration(Section, frozen=True, kw_only=True):
    """An account: `name` is ``user:NAME``, ``project:NAME``, or ``everyone`` for users without an entry.

    `members` may charge a project. An account may owe up to `debt` credits. Its `parent` pays, too: a budget.
    """

    name: Annotated[str, Meta(pattern=whole(identifiers.PAYER_PATTERN))]
    members: Annotated[
        tuple[Annotated[str, Meta(pattern=whole(identifiers.WHO_PATTERN))], ...],
        Meta(max_length=1_000),
    ] = ()
    parent: Annotated[
        str, Meta(pattern=whole(identifiers.perhaps(identifiers.ACCOUNT_PATTERN)))
    ] = ""
    debt: Annotated[float, Meta(ge=0)] = 0.0


class CancelConfiguration(Section, frozen=True, kw_only=True):
    """A cancel is free until `free_until_s` before the start; then `fee` percent of the price are kept.

    Of what has begun, `unused` percent of the price of the time not yet used are paid back.
    """

    free_until_s: DurationOrNoneS = field(name="free_until", default=DurationOrNoneS(0))
    fee: int = 0
    unused: int = 0


class BufferConfiguration(Section, frozen=True, kw_only=True):
    """Time around each booking that no user can book: `before_s` for set-up, `after_s` for clearing.

    Between two bookings of one unit there are both, or the longer one if `shared`; and at least `gap_s`.
    """

    before_s: DurationOrNoneS = field(name="before", default=DurationOrNoneS(0))
    after_s: DurationOrNoneS = field(name="after", default=DurationOrNoneS(0))
    gap_s: DurationOrNoneS = field(name="gap", default=DurationOrNoneS(0))
    shared: bool = False


RulesMax = Meta(max_length=limits.RULES_MAX // 4)


class RulesConfiguration(Section, frozen=True, kw_only=True):
    """Rules for every resource of a site, after the resource's own.

    A resource's own rule replaces the default one with the same name, and its own `cancel`, `decide` and
    `buffer` the default ones.
    """

    limits: Annotated[tuple[LimitConfiguration, ...], RulesMax] = ()
    blackouts: Annotated[tuple[BlackoutConfiguration, ...], RulesMax] = ()
    priority: Annotated[tuple[PriorityConfiguration, ...], RulesMax] = ()
    prices: Annotated[tuple[PriceConfiguration, ...], RulesMax] = ()
    cancel: CancelConfiguration | None = None
    decide: DecideConfiguration | None = None
    buffer: BufferConfiguration | None = None


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
    comes_with: Annotated[tuple[Name, ...], Meta(max_length=limits.COMPANIONS_MAX)] = field(
        name="with", default=()
    )
    """Other resources of the site that every booking of this one has, too."""
    no_show_s: DurationS = field(name="no_show", default=DurationS(0))
    """A slot for which nobody checks in for so long is given back; 0: never."""
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
    for number, price in enumerate(defaults.prices):
        _check_hours(price.hours, f"site.defaults.prices[{number}].hours")
    for index, resource in enumerate(resources):
        where = f"site.resources[{index}]"
        if identifiers.machine_of(resource.name):
            raise InvalidInput(
                f"names that end with {identifiers.QUEUE_ENDING} are reserved for queues",
                where=f"{where}.name",
                remedy="give it another name",
            )
        _check_companions(resource, resources, f"{where}.with")
        check_at_most(resource.grain_s, 86_400, f"{where}.grain")
        given_zone(resource.zone, where=f"{where}.zone")
        _check_hours(resource.hours, f"{where}.hours")
        _check_blackouts(resource.blackouts, f"{where}.blackouts")
        for number, price in enumerate(resource.prices):
            _check_hours(price.hours, f"{where}.prices[{number}].hours")
        for number, rule in enumerate(resource.access):
            _check_hours(rule.hours, f"{where}.access[{number}].hours")
            if rule.units_max > resource.capacity:
                raise InvalidInput(
                    f"{rule.units_max} units are more than the capacity of {resource.capacity}",
                    where=f"{where}.access[{number}].units_max",
                    remedy="give at most the capacity, or leave units_max out for all units",
                )


def _check_companions(
    resource: ResourceConfiguration, resources: Sequence[ResourceConfiguration], where: str
) -> None:
    """Raise `InvalidInput` for a companion that does not exist, or comes with `resource` itself."""
    companions = {each.name: each.comes_with for each in resources}
    for number, name in enumerate(resource.comes_with):
        here = f"{where}[{number}]"
        if name not in companions:
            raise InvalidInput(
                f"there is no resource {name} at this site",
                where=here,
                remedy="name another resource of this file",
            )
        reached = [name]
        for each in reached:  # It grows.
            reached += [more for more in companions.get(each, ()) if more not in reached]
        if resource.name in reached:
            raise InvalidInput(
                f"{resource.name} would come with itself",
                where=here,
                remedy="let one of the two come with the other, and not both",
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

"""Prices, from an owner's configuration: rules that can never apply are refused, with their place."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Final

from kalends.calendars import PriceRule, Prices, Recurrence, Windows, first_clash_of_any
from kalends.core.errors import InvalidInput
from kalends.core.intervals import Interval
from kalends.core.limits import TIME_S_MAX, WINDOW_S_MAX
from kalends.core.money import CancelRule, rate_of
from kalends.core.requests import DAY_S
from kalends.resource_servers.setup.named_rules import all_of, recurrences_of, rule_name
from kalends.serving.configuration import (
    MachineConfiguration,
    PriceConfiguration,
    ResourceConfiguration,
    RulesConfiguration,
)

_FROM_S: Final = 1_577_836_800
"""2020: from here on, rules are looked at until ten years after they first apply."""

_EVERY_DAY: Final = (Recurrence("FREQ=DAILY", "00:00", DAY_S, "UTC"),)

_same_prices = lru_cache(maxsize=1_024)(Prices)
"""Resources of one site mostly share their prices, and then one object with what it has expanded."""


def prices_of(
    resource: ResourceConfiguration, defaults: RulesConfiguration, classes: Collection[str]
) -> Prices:
    """The prices of `resource`, its own before those of its site; its machine has jobs of `classes`.

    Raises `InvalidInput` with the path of what is wrong, from the resource or from ``defaults``: also for a
    price that can never apply, because those before it leave it nothing.
    """
    named = list(all_of(resource.prices, defaults.prices, "price", "prices"))
    rules = tuple(_price_of(each, where, name, resource.zone) for each, where, name in named)
    prices = _same_prices(rules)
    own = len(resource.prices)
    for number, rule in enumerate(rules[:own]):
        where = named[number][1]
        if rule.priority and rule.priority not in classes:
            raise InvalidInput(
                f"there are no jobs of the class {rule.priority!r} here",
                where=f"{where}.class",
                remedy=f"choose from {', '.join(classes)}" if classes else "leave it out",
            )
        _check_applies(rule, rules[:number], where)
    for number, rule in enumerate(rules[own:], own):
        _check_applies(rule, rules[own:number], named[number][1])
    return prices


def with_tariff(prices: Prices, machine: MachineConfiguration) -> Prices:
    """Return `prices`, and behind them the tariff of the `machine`: for jobs by class, and for slots."""
    if not (machine.tariff or machine.reserved_credits):
        return prices
    tariff = [
        PriceRule(f"tariff-{name}", "everyone", machine.tariff.get(name, 0) * 1_000, (), name)
        for name in machine.classes
    ]
    reserved = PriceRule("reserved", "everyone", machine.reserved_credits * 1_000)
    known = {rule.name for rule in prices.rules}
    return Prices(
        (*prices.rules, *(each for each in (*tariff, reserved) if each.name not in known))
    )


def cancel_of(resource: ResourceConfiguration, defaults: RulesConfiguration) -> CancelRule:
    """The price of a cancel on `resource`, or on every resource of its site."""
    found = resource.cancel or defaults.cancel
    if found is None:
        return CancelRule()
    where = "cancel" if resource.cancel is not None else "defaults.cancel"
    try:
        rule = CancelRule(int(found.free_until_s), found.fee, found.unused)
    except InvalidInput as error:
        raise InvalidInput(
            error.detail, where=f"{where}.{error.where}", remedy=error.remedy
        ) from error
    if rule.fee and not rule.free_until_s:
        raise InvalidInput(
            "a cancel is free until the start, so this fee never applies",
            where=f"{where}.fee",
            remedy='give free_until, e.g. "1d", or leave the fee out',
        )
    return rule


def _price_of(price: PriceConfiguration, where: str, name: str, zone: str) -> PriceRule:
    try:
        return PriceRule(
            rule_name(price.name, name),
            price.who,
            rate_of(repr(price.credits), "credits"),
            recurrences_of(price.hours, zone),
            price.priority,
        )
    except InvalidInput as error:
        raise InvalidInput(
            error.detail, where=f"{where}.{error.where}", remedy=error.remedy
        ) from error


def _check_applies(rule: PriceRule, before: Sequence[PriceRule], where: str) -> None:
    """Refuse `rule` if it has no second, or those of `before` who mean the same users leave it none."""
    first, end = _reach(rule.windows or _EVERY_DAY)
    if first >= end:
        raise InvalidInput(
            f"the price {rule.name} never applies from 2020 to 3000",
            where=f"{where}.hours",
            remedy="name days that exist, or remove it",
        )
    left = [Interval(first, end)]
    if rule.windows:
        left = _windows(rule.windows).between(first, end)
    for each in before:
        if each.who in ("everyone", rule.who) and each.priority in ("", rule.priority):
            taken = _windows(each.windows).between(first, end) if each.windows else None
            left = _without(left, taken) if taken is not None else []
            if not left:
                raise InvalidInput(
                    f"the price {rule.name} never applies: {each.name} stands before it, and decides first",
                    where=where,
                    remedy=f"put it before {each.name}, or remove it",
                )


@lru_cache(maxsize=1_024)
def _reach(windows: tuple[Recurrence, ...]) -> tuple[int, int]:
    """Return the ten years from the first second of `windows` on; an empty interval if there is none."""
    found = first_clash_of_any(windows, _EVERY_DAY, _FROM_S)
    return (found.start, min(found.start + WINDOW_S_MAX, TIME_S_MAX)) if found else (0, 0)


_windows = lru_cache(maxsize=256)(Windows)


def _without(ones: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """Return what is in `ones` and not in `others`; both are in order, and disjoint."""
    left = []
    rest = iter(others)
    other = next(rest, None)
    for start, end in ones:
        while other is not None and other.end <= start:
            other = next(rest, None)
        at = start
        while other is not None and other.start < end:
            if other.start > at:
                left.append(Interval(at, other.start))
            at = max(at, other.end)
            if other.end > end:
                break
            other = next(rest, None)
        if at < end:
            left.append(Interval(at, end))
    return left

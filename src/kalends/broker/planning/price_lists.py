"""Price lists as sites show them, and what a slot costs by them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kalends.contract.messages import View, Want
from kalends.core.identifiers import site_of
from kalends.core.money import cost_by
from kalends.core.requests import Request
from kalends.core.spans import Step


class PriceLists(msgspec.Struct, frozen=True):
    """`of` has the name of the list of each resource that costs; `lists` have ``(start, end, rate)``."""

    of: dict[str, str] = {}
    lists: dict[str, tuple[Step, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self.of)

    def added(self, views: Iterable[View]) -> PriceLists:
        """Return these lists and those of `views`; a later view takes the place of an earlier one."""
        of, lists = dict(self.of), dict(self.lists)
        for view in views:
            for seen in view.views:
                of.pop(seen.resource, None)
                if seen.terms:
                    of[seen.resource] = _name(seen.resource, seen.terms)
            site = view.views[0].resource if view.views else ""
            lists |= {_name(site, each.terms): each.steps for each in view.prices}
        return PriceLists(of, lists) if of or lists else self

    def steps(self, resource: str) -> tuple[Step, ...]:
        """Return the price list of `resource`; () if it is free of charge."""
        return self.lists.get(self.of.get(resource, ""), ())

    def owners(self) -> list[str]:
        """Return the sites that have any price, in order."""
        return sorted({site_of(name) for name in self.of})

    def costs(self, wants: Iterable[Want]) -> dict[str, int]:
        """Return what `wants` cost at each site that prices any of them, in parts."""
        found: dict[str, int] = {}
        for want in wants:
            if steps := self.steps(want.resource):
                site = site_of(want.resource)
                found[site] = found.get(site, 0) + cost(steps, want)
        return found


NOTHING_PRICED = PriceLists()


def cost(steps: Sequence[Step], want: Want) -> int:
    """Return the parts that `want` costs by the list `steps`."""
    return cost_by(steps, want.units, want.start, want.end)


def compared(costs: Mapping[str, int], request: Request) -> int:
    """Return one number for `costs` at several sites, by the rates of `request`; without one it is 1,000."""
    return sum(parts * request.rates.get(site, 1_000) for site, parts in costs.items())


def _name(resource: str, terms: str) -> str:
    return f"{site_of(resource)} {terms}"

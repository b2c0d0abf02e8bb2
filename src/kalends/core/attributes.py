"""Matching of resources with a request's comparisons, strict about types; and preferences by them.

- A resource meets a comparison only if it has the attribute: even ``gpu != a100`` needs some ``gpu``.
- Numbers compare with numbers, whole or not; strings with strings, by code point and case; booleans
  are neither numbers nor ordered. Between kinds nothing is equal and nothing is ordered: ``!=``
  holds, every other operator does not.
- ``in`` holds when ``=`` holds for one of the listed values.
- ``site`` and ``name`` are the two halves of a resource's name; an owner cannot change them.
- ``through`` are the virtual sites by which a broker reaches it: ``=`` and ``in`` hold if one of them does,
  ``!=`` if it is reached without that one.

Preferences of a user for some machines, for a job: "Preferences ... are a weaker form of constraints. For
example, a job may indicate site preferences, but the system is free to consider other sites as well."
(Weissman and Grimshaw 1996, section 3.) Here their unit is seconds of waiting, which can be compared with the
sites' bids.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from kalends.core import limits
from kalends.core.identifiers import split_resource
from kalends.core.requests import Attribute
from kalends.core.resources import AttributeValue, ResourceInfo

_ORDERINGS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


Described = Mapping[str, AttributeValue | tuple[str, ...]]
"""Attributes of a resource: one value each, or several of which any may match."""


def described(info: ResourceInfo) -> Described:
    """Return the attributes that comparisons may name: the owner's, ``site``, ``name`` and ``through``."""
    site, name = split_resource(info.name)
    return {**info.attributes, "site": site, "name": name, "through": info.through}


def matches(attributes: Described, comparisons: Iterable[Attribute]) -> bool:
    """Return whether `attributes` meet all `comparisons`, by the rules of the module; true for none."""
    return all(
        comparison.name in attributes and _holds(attributes[comparison.name], comparison)
        for comparison in comparisons
    )


def _holds(value: AttributeValue | tuple[str, ...], comparison: Attribute) -> bool:
    if isinstance(value, tuple):
        every = all if comparison.operator == "!=" else any
        return every(_holds(one, comparison) for one in value)
    wanted = comparison.value
    if isinstance(wanted, tuple):
        return comparison.operator == "in" and any(_equal(value, one) for one in wanted)
    if comparison.operator == "=":
        return _equal(value, wanted)
    if comparison.operator == "!=":
        return not _equal(value, wanted)
    ordering = _ORDERINGS.get(comparison.operator)
    if ordering is None or _kind(value) is not _kind(wanted) or _kind(value) is bool:
        return False
    return ordering(value, wanted)


def _equal(value: AttributeValue, wanted: AttributeValue) -> bool:
    return _kind(value) is _kind(wanted) and value == wanted


def _kind(value: AttributeValue) -> type:
    """Return `bool`, `str`, or `float` for any number; Python's bool is an int, but not here."""
    return float if type(value) is int else type(value)


class PlacePreference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A preference: on a machine that meets all `attributes`, the job may end `worth_s` seconds later."""

    attributes: Annotated[
        tuple[Attribute, ...], Meta(min_length=1, max_length=limits.ATTRIBUTES_MAX)
    ]
    worth_s: Annotated[int, Meta(ge=1, le=limits.DURATION_S_MAX)]


def worth_s(preferences: Iterable[PlacePreference], attributes: Described) -> int:
    """Return the worth of a machine with `attributes`, in seconds: the sum of all met preferences."""
    return sum(each.worth_s for each in preferences if matches(attributes, each.attributes))

"""Preferences of a user for some machines over others, for a job.

"Preferences ... are a weaker form of constraints. For example, a job may indicate site preferences, but the
system is free to consider other sites as well." (Weissman and Grimshaw 1996, section 3.) Here their unit is
seconds of waiting, which can be compared with the sites' bids.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from kalends.core import limits
from kalends.core.attributes import Described, matches
from kalends.core.requests import Attribute


class PlacePreference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A preference: on a machine that meets all `attributes`, the job may end `worth_s` seconds later."""

    attributes: Annotated[
        tuple[Attribute, ...], Meta(min_length=1, max_length=limits.ATTRIBUTES_MAX)
    ]
    worth_s: Annotated[int, Meta(ge=1, le=limits.DURATION_S_MAX)]


def worth_s(preferences: Iterable[PlacePreference], attributes: Described) -> int:
    """Return the worth of a machine with `attributes`, in seconds: the sum of all met preferences."""
    return sum(each.worth_s for each in preferences if matches(attributes, each.attributes))

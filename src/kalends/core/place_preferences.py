"""What it is worth to a user to have a job on some machines rather than on others.

"Preferences ... are a weaker form of constraints. For example, a job may indicate site preferences, but the
system is free to consider other sites as well." (Weissman and Grimshaw 1996, section 3.) Here they are said
in the one unit that can be compared with what sites offer: seconds of waiting.
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
    """On a machine that meets all of `attributes` the job may end `worth_s` seconds later."""

    attributes: Annotated[
        tuple[Attribute, ...], Meta(min_length=1, max_length=limits.ATTRIBUTES_MAX)
    ]
    worth_s: Annotated[int, Meta(ge=1, le=limits.DURATION_S_MAX)]


def worth_s(preferences: Iterable[PlacePreference], attributes: Described) -> int:
    """Return how many seconds of waiting a machine with `attributes` is worth: all that it meets."""
    return sum(each.worth_s for each in preferences if matches(attributes, each.attributes))

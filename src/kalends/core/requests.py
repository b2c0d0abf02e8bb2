"""What a user wants: terms, duration, window, preferences, priority, agent (DESIGN: requests).

The Python form is these types; the text form of the terms is in `kalends.core.language`, and both
mean the same. Everything is a plain immutable value; `Request.check()` raises for what can never be
right, whoever made it.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kalends.core import identifiers as ids
from kalends.core import limits
from kalends.core.resources import AttributeValue

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "in"]


class _Value(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Base of the request's parts: immutable values, unknown fields refused."""


class Attribute(_Value, frozen=True, kw_only=True):
    """One comparison, as ``memory>=64``; `value` is a tuple for ``in`` only."""

    name: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_.-]{0,62}$")]
    operator: Operator
    value: AttributeValue | tuple[AttributeValue, ...]


class Term(_Value, frozen=True, kw_only=True):
    """One resource by name, or `count` different resources by attributes, `units` of each.

    `offset_s` moves this stage from the common start; `duration_s` 0 means the request's duration.
    `units_max` above `units` makes the term moldable: more is better.
    """

    resource: Annotated[str, Meta(pattern=rf"^({ids.RESOURCE_PATTERN})?$")] = ""
    attributes: Annotated[tuple[Attribute, ...], Meta(max_length=limits.ATTRIBUTES_MAX)] = ()
    count: Annotated[int, Meta(ge=1, le=limits.SELECTED_MAX)] = 1
    units: Annotated[int, Meta(ge=1, le=limits.UNITS_MAX)] = 1
    units_max: Annotated[int, Meta(ge=0, le=limits.UNITS_MAX)] = 0
    offset_s: Annotated[int, Meta(ge=-limits.OFFSET_S_MAX, le=limits.OFFSET_S_MAX)] = 0
    duration_s: Annotated[int, Meta(ge=0, le=limits.DURATION_S_MAX)] = 0


class Alternative(_Value, frozen=True, kw_only=True):
    """Terms that are wanted together; `weight` is a preference among alternatives."""

    terms: Annotated[tuple[Term, ...], Meta(min_length=1, max_length=limits.TERMS_MAX)]
    weight: float = 0.0


class TimePreference(_Value, frozen=True, kw_only=True):
    """`weight` for starts within ``[start, end)``."""

    start: int
    end: int
    weight: float


class Request(_Value, frozen=True, kw_only=True):
    """`alternatives` in order of preference, all terms of one at a common start.

    The reservation starts no earlier than `not_before` and every stage ends by `not_after` (integer
    seconds UTC). A window exactly as long as the stages fixes the start. `not_after` 0 leaves the
    end to the owners' horizons.
    """

    alternatives: Annotated[
        tuple[Alternative, ...], Meta(min_length=1, max_length=limits.ALTERNATIVES_MAX)
    ]
    duration_s: Annotated[int, Meta(ge=1, le=limits.DURATION_S_MAX)]
    not_before: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)]
    not_after: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)] = 0
    preferences: Annotated[tuple[TimePreference, ...], Meta(max_length=64)] = ()
    priority: Annotated[int, Meta(ge=-100, le=100)] = 0
    agent: Annotated[str, Meta(max_length=128)] = ""
    note: Annotated[str, Meta(max_length=200)] = ""

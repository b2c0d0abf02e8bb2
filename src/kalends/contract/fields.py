"""Types in both calls of users and messages between servers."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kalends.core import identifiers as ids
from kalends.core import limits

SiteName = Annotated[str, Meta(pattern=ids.whole(ids.NAME_PATTERN))]

RequestId = Annotated[str, Meta(pattern=ids.whole(ids.REQUEST_ID_PATTERN))]
IdPart = Annotated[str, Meta(pattern=ids.whole(ids.ID_PART_PATTERN))]
Key = Annotated[str, Meta(pattern=ids.whole(ids.KEY_PATTERN))]
ResourceName = Annotated[str, Meta(pattern=ids.whole(ids.RESOURCE_PATTERN))]
MachineName = ResourceName
TimeS = Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)]
Units = Annotated[int, Meta(ge=1, le=limits.UNITS_MAX)]

EndWord = Literal["exit", "limit", "killed", "node-failed", "not-started", "lost", "withdrawn"]
"""How a job ended; `withdrawn`: it never ran."""


class Want(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`units` of `resource` during ``[start, end)``."""

    resource: ResourceName
    start: TimeS
    end: TimeS
    units: Units


WaitMs = Annotated[int, Meta(ge=0, le=120_000)]

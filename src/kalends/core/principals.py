"""Principals: users and their groups."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class Principal(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A user and their groups, as the broker or the token vouches for them."""

    user: Annotated[str, Meta(max_length=128)]
    groups: Annotated[tuple[Annotated[str, Meta(max_length=128)], ...], Meta(max_length=64)] = ()

"""Principals: users and their groups, and the realms that vouch for them.

A name shows the realm that vouches for it. ``ada`` is the ada of the server's own issuer; ``ada@kit.edu`` is
another person, of the realm ``kit.edu``. The text after the last ``@`` is the realm, in lower case; names
are compared whole.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class Principal(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A user and their groups, as the broker or the token vouches for them."""

    user: Annotated[str, Meta(max_length=128)]
    groups: Annotated[tuple[Annotated[str, Meta(max_length=128)], ...], Meta(max_length=64)] = ()


def in_realm(name: str, realm: str) -> str:
    """Return the full name of a user or group of `realm`; "" is the server's own realm."""
    return f"{name}@{realm}" if realm else name


def realm_of(name: str) -> str:
    """Return the realm of a user or group; "" for a plain name."""
    return name.rpartition("@")[2].lower() if "@" in name else ""

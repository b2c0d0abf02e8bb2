"""Principals: users and their groups, the realms that vouch for them, and the names that a key may use.

A name shows the realm that vouches for it. ``ada`` is the ada of the server's own issuer; ``ada@kit.edu`` is
another person, of the realm ``kit.edu``. The text after the last ``@`` is the realm, in lower case; names
are compared whole.
"""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase
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


class VouchedNames(msgspec.Struct, frozen=True):
    """The users that a key may name: `users` and `groups` by shell patterns of whole names.

    A key vouches for the names of its own `realm`. For a name of another realm with a key here, one of
    `realms`, it needs a pattern that ends with that realm: ``*@kit.edu``, not ``*``. So no key takes names of
    another realm by accident. A key of a realm never names plain users.

    `brokers` are the brokers that may use the key. Without any, a name belongs to the first key that uses it.
    """

    users: tuple[str, ...] = ("*",)
    groups: tuple[str, ...] = ("*",)
    brokers: tuple[str, ...] = ()
    realm: str = ""
    realms: frozenset[str] = frozenset()

    def beyond(self, principal: Principal) -> str:
        """Return text for the part of `principal` that the key may not name; "" for none."""
        if not self._may_name(principal.user, self.users):
            return f"the user {principal.user!a}"
        for group in principal.groups:
            if not self.has_group(group):
                return f"the group {group!a}"
        return ""

    def has_group(self, group: str) -> bool:
        return self._may_name(group, self.groups)

    def speaks_as(self, source: str) -> bool:
        """Return whether `source` is one of `brokers`, or a replica of one."""
        return any(source == name or source.startswith(f"{name}-") for name in self.brokers)

    def _may_name(self, name: str, patterns: Collection[str]) -> bool:
        realm = realm_of(name)
        own = realm == self.realm or not (self.realm or realm in self.realms)
        return any(
            fnmatchcase(name, pattern)
            for pattern in patterns
            if own or (realm and pattern.endswith(f"@{realm}"))
        )


ANYBODY = VouchedNames()

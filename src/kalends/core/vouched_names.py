"""Whom a key may vouch for: names within patterns of its owner's, and within realms."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase

import msgspec

from kalends.core.principals import Principal, realm_of


class VouchedNames(msgspec.Struct, frozen=True):
    """The users that a key may name: `users` and `groups` by shell patterns of whole names.

    It speaks for the names of its own `realm`. For those of another realm that has a key here, one of
    `realms`, it speaks only by a pattern that ends with that realm: ``*`` is not enough, ``*@kit.edu`` is. So
    nobody takes the names of others by accident. A key of a realm never names plain users.

    `brokers` are the brokers that may use the key; without any, those that come with it first.
    """

    users: tuple[str, ...] = ("*",)
    groups: tuple[str, ...] = ("*",)
    brokers: tuple[str, ...] = ()
    realm: str = ""
    realms: frozenset[str] = frozenset()

    def beyond(self, principal: Principal) -> str:
        """Return the part of `principal` that the key may not name, in words; "" for none."""
        if not self._may_name(principal.user, self.users):
            return f"the user {principal.user!a}"
        for group in principal.groups:
            if not self.has_group(group):
                return f"the group {group!a}"
        return ""

    def has_group(self, group: str) -> bool:
        return self._may_name(group, self.groups)

    def speaks_as(self, source: str) -> bool:
        """Whether `source` is one of `brokers`, or a replica of one."""
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

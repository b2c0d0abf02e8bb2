"""Names of the claims for user, groups and scopes in the tokens of an issuer.

The tokens of kalends, OpenID providers and SciTokens use different claims for the same things. A claim has
the name that it has in the token; for a claim inside another the names are joined by dots:
``realm_access.roles``.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from kalends.core.principals import realm_of

TEXTS_MAX: Final = 1_000
"""Groups, or scopes, in one claim."""


class ClaimNames(msgspec.Struct, frozen=True):
    """The claims of one issuer's tokens.

    `audiences` are the accepted audiences; none: this server's name. With `scoped`, the claim `user`
    includes the realm (``ada@kit.edu``). `scopes` are patterns of the issuer's scopes that grant a scope of
    kalends; by default the names are equal. With `many_groups`, groups that the key may not vouch for are
    left out; else the token is refused.
    """

    user: str = "sub"
    groups: str = "groups"
    scope: str = "scope"
    audiences: tuple[str, ...] = ()
    scoped: bool = False
    many_groups: bool = False
    scopes: dict[str, tuple[str, ...]] = {}

    def user_in(self, claims: Mapping[str, Any], realm: str) -> str:
        """Return the user, without the realm; raises `ValueError` for none, or one of another realm."""
        said = _claim(claims, self.user)
        if not isinstance(said, str):
            raise ValueError(f"its claim {self.user!a} names no user")
        if not self.scoped:
            return said
        if realm_of(said) != realm:
            raise ValueError(f"its user {said[:64]!a} is not of the realm {realm!a}")
        return said.rpartition("@")[0]

    def groups_in(self, claims: Mapping[str, Any]) -> list[str]:
        """Return the groups; raises `ValueError` for a claim that cannot be read."""
        said = _claim(claims, self.groups)
        return [] if said is None else _texts(said, self.groups)

    def scopes_in(self, claims: Mapping[str, Any], allowed: frozenset[str]) -> frozenset[str]:
        """Return the scopes among `allowed` that the token has; raises `ValueError` as `groups_in`."""
        said = _claim(claims, self.scope)
        if isinstance(said, str):
            said = said.split()
        theirs = ["", *(_texts(said, self.scope) if said is not None else ())]
        return frozenset(
            ours
            for ours in allowed
            if any(
                fnmatchcase(each, pattern)
                for pattern in self.scopes.get(ours, (ours,))
                for each in theirs
            )
        )


OUR_CLAIMS: Final = ClaimNames()


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return the claim `name`, or None; a name with dots is also looked up inside other claims."""
    if name in claims:
        return claims[name]
    outer, dot, inner = name.partition(".")
    nested = claims.get(outer)
    return _claim(nested, inner) if dot and isinstance(nested, dict) else None


def _texts(said: Any, name: str) -> list[str]:
    texts = [said] if isinstance(said, str) else said
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise ValueError(f"its claim {name!a} is not a list of texts")
    if len(texts) > TEXTS_MAX:
        raise ValueError(f"its claim {name!a} has more than {TEXTS_MAX} texts")
    return texts

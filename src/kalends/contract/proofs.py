"""Secrets that prove who may speak about a request, each for one site and for nobody else.

A register has one secret of its own, which never leaves its broker. From it everything else is derived,
one way: the *site key*, which a site is told when it is welcomed; and from the site key what proves a
message about one request there, a question of one peer, and a visit that one near site passes on. Whoever
has one of these can work out none of the others, and a site can check each without having heard of the
request before. Derivation is HMAC-SHA256 (RFC 2104), cut to 128 bits.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Final

_HEX_DIGITS: Final = 32


def site_key(register_secret: str, site: str) -> str:
    """What the broker and `site` share, and nobody else knows."""
    return _derived(register_secret, "site", site)


def of_request(key: str, rid: str) -> str:
    """Proves, at the site whose key it is, that a message about `rid` is of the register that made it.

    And proves to the broker that an inquiry about `rid` is of that site.
    """
    return _derived(key, "request", rid)


def of_peer(key: str, rid: str, asker: str) -> str:
    """Proves, at the site whose key it is, that the site `asker` takes part in `rid`."""
    return _derived(key, "peer", rid, asker)


def of_visit(key: str, rid: str, att: int, way: str, asked: str, *whose: str) -> str:
    """Proves, at the site whose key it is, that the site `way` was sent there with `rid` at `att`.

    `asked` is what the agent may choose from there (`kalends.core.scripts.asked_for`), `whose` the stamp,
    the user and the groups of the request: nobody on the way may change any of it.
    """
    return _derived(key, "visit", rid, str(att), way, asked, *whose)


def of_commit(key: str, rid: str, att: int, hold_ids: Iterable[int]) -> str:
    """Proves, at the site whose key it is, that `att` of `rid` was committed with these holds there."""
    return _derived(key, "commit", rid, str(att), *map(str, sorted(hold_ids)))


def of_decision(register_secret: str, site: str, rid: str, att: int, *what: str) -> str:
    """Proves to the register itself, to which `site` shows it, that it has once told this to that site.

    Not even the site can make it: a register that has forgotten its own word may believe it again.
    """
    return _derived(register_secret, "decision", site, rid, str(att), *what)


def of_mark(secret: str, told: str, life: str, position: int) -> str:
    """Proves to whose `secret` it is that it has told `told`, a site or a register, that it was so far."""
    return _derived(secret, "mark", told, life, str(position))


def same(said: str, true: str) -> bool:
    """Whether two secrets are equal, in a time that tells nothing of where they differ."""
    return hmac.compare_digest(said.encode(), true.encode())


def _derived(key: str, *words: str) -> str:
    return hmac.digest(key.encode(), "\n".join(words).encode(), "sha256").hex()[:_HEX_DIGITS]

"""Secrets that prove the origin of a message about a request, each for one site only.

A register has one secret, which never leaves its broker. All others are derived from it, one way: the *site
key*, which a site gets when it is welcomed; and from the site key the proofs of a message about one request
there, of a question of one peer, of a visit that one near site passes on, and of what was chosen then. None
of the others can be computed from one of these, and a site can check each without knowing the request.
Derivation is HMAC-SHA256 (RFC 2104), cut to 128 bits.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Final

_HEX_DIGITS: Final = 32


def site_key(register_secret: str, site: str) -> str:
    """Return the secret that only the broker and `site` share."""
    return _derived(register_secret, "site", site)


def of_request(key: str, rid: str) -> str:
    """Return the proof, at the site with this key, that a message about `rid` is from its register.

    Also proves to the broker that an inquiry about `rid` is from that site.
    """
    return _derived(key, "request", rid)


def of_peer(key: str, rid: str, asker: str) -> str:
    """Return the proof, at the site with this key, that the site `asker` takes part in `rid`."""
    return _derived(key, "peer", rid, asker)


def of_visit(key: str, rid: str, att: int, way: str, asked: str, *whose: str) -> str:
    """Return the proof, at the site with this key, that the site `way` was sent there with `rid` at `att`.

    `asked` are the agent's choices there (`kalends.core.scripts.asked_for`), `whose` the stamp, the user and
    the groups of the request. No server on the way can change them.
    """
    return _derived(key, "visit", rid, str(att), way, asked, *whose)


def of_choice(key: str, rid: str, att: int, *what: str) -> str:
    """Return the proof of the site with this key that an agent's visit with `rid` at `att` has led to `what`.

    Sites that pass it on can join such proofs of several sites (`joined`), and make or change none.
    """
    return _derived(key, "choice", rid, str(att), *what)


def joined(proofs: Iterable[str]) -> str:
    """Return one proof in place of several that differ, as short as each (Katz and Lindell 2008).

    Whoever has the keys makes the same one; nobody else can, of anything that was not proved.
    """
    all_bits = 0
    for proof in proofs:
        all_bits ^= int(proof, 16)
    return f"{all_bits:0{_HEX_DIGITS}x}"


def of_commit(key: str, rid: str, att: int, hold_ids: Iterable[int]) -> str:
    """Return the proof, at the site with this key, that `att` of `rid` was committed with these holds."""
    return _derived(key, "commit", rid, str(att), *map(str, sorted(hold_ids)))


def of_decision(register_secret: str, site: str, rid: str, att: int, *what: str) -> str:
    """Return the proof, shown by `site` to the register, that the register once sent this to the site.

    Not even the site can make it, so a register that has lost its own message can trust it.
    """
    return _derived(register_secret, "decision", site, rid, str(att), *what)


def of_mark(secret: str, told: str, life: str, position: int) -> str:
    """Return the owner's proof by `secret` that it reported this position to `told`, a site or register."""
    return _derived(secret, "mark", told, life, str(position))


def of_cost(secret: str, rid: str, att: int, cost: str) -> str:
    """Return the site's own proof by `secret` that it has voted for `att` of `rid` at this cost."""
    return _derived(secret, "cost", rid, str(att), cost)


def same(said: str, true: str) -> bool:
    """Return whether two secrets are equal, in a time that does not depend on where they differ."""
    return hmac.compare_digest(said.encode(), true.encode())


def _derived(key: str, *words: str) -> str:
    return hmac.digest(key.encode(), "\n".join(words).encode(), "sha256").hex()[:_HEX_DIGITS]

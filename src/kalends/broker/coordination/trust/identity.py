"""The identity of a broker replica."""

from __future__ import annotations

from typing import NamedTuple


class Identity(NamedTuple):
    """`owner` is unique to this start of the replica, `coords` are the URLs of all replicas.

    `secret` is the register's: from it is derived what proves anything to sites (`kalends.contract.proofs`).
    """

    name: str
    owner: str
    coords: tuple[str, ...]
    secret: str = ""

"""Calls about a server itself, and about who calls it."""

from __future__ import annotations

from typing import Literal

from kalends.contract.bodies import Answer, Body


class Nothing(Body, frozen=True, kw_only=True):
    pass


Role = Literal["site", "broker", "virtual"]
"""The role, name and status of a server."""


class Health(Answer, frozen=True, kw_only=True):
    status: Literal["ok", "starting", "draining", "failing"]
    role: Role
    name: str
    version: str
    detail: str = ""


class CallerView(Answer, frozen=True, kw_only=True):
    """The caller's identity at the server called `server`, and the rights of the caller's token there.

    `user` and `groups` end with the `realm` of the issuer, if it has one. `key` is the id of the key that
    vouches for them; "open": the server asks for no token. The token is for the servers that accept one of
    `audiences` (the first of them). It is valid until `expires_at` (0: no
    end); `now` is the time of the server's clock (seconds UTC).
    """

    server: str
    role: Role
    user: str
    realm: str = ""
    groups: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    key: str
    audiences: tuple[str, ...] = ()
    expires_at: int = 0
    now: int

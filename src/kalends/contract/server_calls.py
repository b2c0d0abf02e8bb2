"""Calls about a server itself, its caller, and passes: a broker's tokens for its users at its sites."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.core import identifiers as ids


class Nothing(Body, frozen=True, kw_only=True):
    pass


Role = Literal["site", "broker", "virtual"]
"""The role, name and status of a server."""


class Health(Answer, frozen=True, kw_only=True):
    """`until` is when a drain ends by itself (seconds UTC); 0: it has no end, or nothing is drained.

    The `store` works, or hangs on a write that has taken `stuck_s`, or fails: it is away, or refused, or
    cannot be read. It is "" if there is none, or it is not known yet. A standby names the host of the
    process that serves in `served_on`; "": not known, or none.
    """

    status: Literal["ok", "starting", "standby", "draining", "failing"]
    role: Role
    name: str
    version: str
    detail: str = ""
    until: int = 0
    store: Literal["", "works", "hangs", "fails"] = ""
    stuck_s: float = 0.0
    served_on: str = ""

    @property
    def ready(self) -> bool:
        """Whether calls should be sent here; a draining server answers all but new bookings."""
        return self.status in ("ok", "draining")


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


class AskSitePass(Body, frozen=True, kw_only=True):
    """Ask for the address of `site`, and a token that is valid only there."""

    site: Annotated[str, Meta(pattern=ids.whole(ids.NAME_PATTERN))]


class SitePass(Answer, frozen=True, kw_only=True):
    """The pass of one user for `site`, at `url`.

    `token` names the user as the broker knows them, with the scope ``use``, and is valid only at that site,
    until `expires_at`; `now` is the time of the broker's clock (seconds UTC). `id` is in the audit logs of
    both servers. Without `token` the broker gives no pass, for the reason `why`.
    """

    site: str
    url: str
    token: str = ""
    id: str = ""
    expires_at: int = 0
    now: int = 0
    why: str = ""

    def __repr__(self) -> str:
        # The token stays out of logs and tracebacks.
        return f"SitePass(site={self.site!r}, url={self.url!r}, id={self.id!r})"

"""Passes: what a broker gives its users for a site, so that their own tokens stay with the broker."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.core import identifiers as ids


class AskSitePass(Body, frozen=True, kw_only=True):
    """What the caller needs to call `site`: its address, and a token that is good there alone."""

    site: Annotated[str, Meta(pattern=ids.whole(ids.NAME_PATTERN))]


class SitePass(Answer, frozen=True, kw_only=True):
    """The way of one user to `site`, at `url`.

    `token` names the user as the broker knows them, with the scope ``use``, and is good at that site only,
    until `expires_at`; it is `now` on the broker's clock (seconds UTC). `id` is what both servers' audit logs
    call it. Without `token` the broker gives none: `why` says for what reason.
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

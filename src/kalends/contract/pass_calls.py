"""Passes: a broker's tokens for its users at a site, so that their own tokens stay with the broker."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.core import identifiers as ids


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

"""Passes: short-lived tokens, each of one user for one site, so that no site gets a user's own token.

A site could send on what it is sent: to the broker, or to another site. A pass names the site alone as its
audience, and allows what users may do there. The broker signs it with the key that the site believes already;
what that key may not vouch for at the site is refused there. It is good no longer than the token for which it
was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kalends.broker.sites.reached_sites import ReachedSite
from kalends.contract.server_calls import AskSitePass, SitePass
from kalends.core.near_names import unknown_site
from kalends.serving.auth.callers import OPEN, Caller
from kalends.serving.auth.claims import SITE_PASS
from kalends.serving.auth.keys import load_private_key
from kalends.serving.auth.tokens import id_of, mint
from kalends.serving.clocks import Clock

SCOPE: Final = "use"
"""Operators and auditors call a site itself, by tokens that its owner has let somebody sign."""


class PassTerms(NamedTuple):
    """The signer of passes: its name `issuer`, its private `key` (None: no passes) and their longest life."""

    issuer: str
    key: Path | None
    life_s: int


class SitePasses:
    """The passes of a broker for its `sites`. Raises `InvalidInput` for a key that cannot be used."""

    def __init__(self, terms: PassTerms, sites: Mapping[str, ReachedSite], clock: Clock) -> None:
        self._terms = terms
        self._key = load_private_key(terms.key) if terms.key is not None else None
        self._sites = sites
        self._clock = clock

    def give(self, caller: Caller, body: AskSitePass) -> SitePass:
        """Return the way to a site, with a pass where one can be given; raises `NotFound`."""
        site = self._sites.get(body.site)
        if site is None:
            raise unknown_site(body.site, self._sites)
        if self._key is None or (why := self._why_not(caller, site)):
            why = "it has no key to sign passes with" if self._key is None else why
            return SitePass(site=site.name, url=site.url, why=why)
        now_s = self._clock.wall_s()
        life_s = max(1, min(self._terms.life_s, caller.expires_at - now_s))
        token = mint(
            self._key, user=caller.principal.user, groups=caller.principal.groups,
            audience=(site.name,), scopes=(SCOPE,), issuer=self._terms.issuer,
            lifetime_s=life_s, now_s=now_s, kind=SITE_PASS,
        )  # fmt: skip
        return SitePass(
            site=site.name, url=site.url, token=token, id=id_of(token),
            expires_at=now_s + life_s, now=now_s,
        )  # fmt: skip

    def _why_not(self, caller: Caller, site: ReachedSite) -> str:
        if caller.key == OPEN:
            return "it accepts calls without a token, so it knows no user for certain"
        return "" if site.takes_passes else f"by its configuration {site.name} accepts no passes"

"""Which token a site gets that the user has not named, but the broker: never one that it could use elsewhere.

Usually that is a pass of the broker (`kalends.contract.pass_calls`). What a site answers changes nothing in
that, so no site can talk a client into showing it more.
"""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote

from kalends.client.logins.token_life import audiences_of
from kalends.contract.pass_calls import SitePass
from kalends.core.errors import NotAuthenticated
from kalends.rim.web_addresses import is_guarded


def token_for(site: SitePass, own: str) -> str:
    """Return what a user whose own token is `own` ("": none) shows to `site`.

    Where the broker gives no pass, that is the own token if it names the site, and only over a connection
    that nobody overhears. Raises `NotAuthenticated` otherwise: nothing is sent then.
    """
    if site.token or not own:
        return site.token
    audiences = audiences_of(own)
    if site.site in audiences and is_guarded(site.url):
        return own
    raise no_pass(site, audiences)


def no_pass(site: SitePass, audiences: Iterable[str] = ()) -> NotAuthenticated:
    """Return the error of a call to `site` by who has no pass, only a token for `audiences`."""
    shown_to = ", ".join(audiences) or "nobody that it names"
    return NotAuthenticated(
        f"the broker gives no pass for {site.site}: {site.why or 'it does not say why'}; and your token, "
        f"which is for {shown_to}, is not shown there: who gets it could use it as you",
        where=site.url,
        remedy=f"log in there: kalends login --profile {quote(site.site)} --broker {quote(site.url)}",
    )

"""The token for a site that the broker, not the user, has named: never one that it could use elsewhere.

Usually that is a pass of the broker (`kalends.contract.pass_calls`). The site's answers have no influence on
the choice, so no site can make a client send more.
"""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote

from kalends.client.logins.token_life import audiences_of
from kalends.contract.pass_calls import SitePass
from kalends.core.errors import NotAuthenticated
from kalends.rim.web_addresses import is_guarded


def token_for(site: SitePass, own: str) -> str:
    """Return the token to send to `site` for a user whose own token is `own` ("": none).

    If the broker gives no pass, that is the own token if it names the site, and only over an encrypted or
    local connection. Raises `NotAuthenticated` otherwise: then nothing is sent.
    """
    if site.token or not own:
        return site.token
    audiences = audiences_of(own)
    if site.site in audiences and is_guarded(site.url):
        return own
    raise no_pass(site, audiences)


def no_pass(site: SitePass, audiences: Iterable[str] = ()) -> NotAuthenticated:
    """Return the error of a call to `site` without a pass, with only a token for `audiences`."""
    shown_to = ", ".join(audiences) or "no server by name"
    return NotAuthenticated(
        f"the broker gives no pass for {site.site}: {site.why or 'without a reason'}; and your token, "
        f"which is for {shown_to}, is not sent there: the site could use it as you",
        where=site.url,
        remedy=f"log in there: kalends login --profile {quote(site.site)} --broker {quote(site.url)}",
    )

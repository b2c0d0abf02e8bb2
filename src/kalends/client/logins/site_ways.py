"""The way to a site that the broker, not the user, has named: by a pass, which is renewed before it expires.

The user's own token is sent only if it is for this site. The site's answers have no influence on the
choice, so no site can make a client send more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, Final

from kalends.client.logins.token_lifetime import TokenLifetime, audiences_of
from kalends.client.transports.retry import Backoff
from kalends.contract.server_calls import AskSitePass, SitePass
from kalends.core.errors import KalendsError, NotAuthenticated
from kalends.rim.web_addresses import addresses_in, is_guarded

if TYPE_CHECKING:
    from kalends.client.calls import CallSender
    from kalends.client.client_settings import ClientSettings


def token_for(site: SitePass, own: str) -> str:
    """Return the token to send to `site` for a user whose own token is `own` ("": none).

    If the broker gives no pass, that is the own token if it names the site, and only over an encrypted or
    local connection. Raises `NotAuthenticated` otherwise: then nothing is sent.
    """
    if site.token or not own:
        return site.token
    audiences = audiences_of(own)
    if site.site in audiences and all(map(is_guarded, addresses_in(site.url))):
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


RENEW_S_MAX: Final = 5.0
"""Maximum wait of a call for a new pass while the old one is valid, in seconds."""

TRY_EVERY_S: Final = 30.0
"""Time after such a wait in vain before a call tries again, in seconds."""


async def settings_at(site: str, broker: ClientSettings, sender: CallSender) -> ClientSettings:
    """Return the way to `site` for the user of `broker`, to which `sender` makes calls.

    Raises `NotFound` for a site that the broker does not know, and `NotAuthenticated` if the only token is
    not for the site.
    """
    given = await sender.call(AskSitePass(site=site), "site_pass", SitePass)
    there = replace(broker.access, url=given.url, token="")
    if given.token:
        return replace(broker, access=there, token=RenewedPass(broker, given))
    own = await broker.token() if broker.token is not None else broker.access.token
    there = replace(there, token=token_for(given, own))
    return replace(broker, access=there, token=broker.token if own else None)


class RenewedPass:
    """A source of valid passes for the site of `first`; `broker` gives the next ones."""

    def __init__(self, broker: ClientSettings, first: SitePass) -> None:
        self._broker = broker
        self._clock = broker.surroundings.clock
        self._take(first)
        self._tried_s = float("-inf")

    async def __call__(self) -> str:
        """Return a valid pass; raises the broker's error once the last pass has expired."""
        now_s = self._clock()
        on_brokers_clock = int(self._pass.now + now_s - self._taken_s)
        life = TokenLifetime(self._pass.now, self._pass.expires_at)
        if life.is_ending(on_brokers_clock):
            good = life.left_s(on_brokers_clock) > 0
            if not good or now_s - self._tried_s >= TRY_EVERY_S:
                self._tried_s = now_s
                try:
                    self._take(await self._next(hurried=good))
                except KalendsError:
                    if not good:
                        raise
        return self._pass.token

    def _take(self, given: SitePass) -> None:
        self._pass, self._taken_s = given, self._clock()

    async def _next(self, *, hurried: bool) -> SitePass:
        settings = self._broker
        if hurried:
            settings = replace(settings, timeout_s=RENEW_S_MAX, backoff=Backoff(tries_max=1))
        transport = settings.open_transport()
        try:
            ask = AskSitePass(site=self._pass.site)
            given = await settings.sender(transport).call(ask, "site_pass", SitePass)
        finally:
            await transport.close()
        if not given.token:
            raise no_pass(given)
        return given

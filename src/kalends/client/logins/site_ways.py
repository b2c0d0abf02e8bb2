"""The way to a site by a pass of its broker, which is renewed before it expires."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kalends.client.logins.site_tokens import no_pass, token_for
from kalends.client.logins.token_life import TokenLife
from kalends.client.transports.retry import Backoff
from kalends.contract.pass_calls import AskSitePass, SitePass
from kalends.core.errors import KalendsError

if TYPE_CHECKING:
    from kalends.client.calls import CallSender
    from kalends.client.client_settings import ClientSettings

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
        life = TokenLife(self._pass.now, self._pass.expires_at)
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

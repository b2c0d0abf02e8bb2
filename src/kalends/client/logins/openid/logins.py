"""Login at an OpenID provider: getting, renewing and revoking tokens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from kalends.client.logins.kept_logins import KeptLogin
from kalends.client.logins.openid.device_grant import GRANT, DeviceCode, Polls, TokenAnswer, refusal
from kalends.client.logins.openid.endpoints import (
    Endpoints,
    decoded,
    endpoints_in,
    metadata_addresses,
)
from kalends.client.logins.openid.exchange import Exchange
from kalends.client.logins.token_lifetime import lifetime_of
from kalends.core import limits
from kalends.core.errors import InvalidInput, KalendsError, NotAuthenticated, NotFound, Unavailable

SCOPE: Final = "openid"


class Tokens(NamedTuple):
    """Tokens of a provider; `refresh` is "" if `access` cannot be renewed."""

    access: str
    refresh: str


async def discovered(issuer: str, exchange: Exchange) -> Endpoints:
    """Return the endpoints of the provider `issuer`; raises `InvalidInput`, `NotFound`, `Unavailable`."""
    first, second = metadata_addresses(issuer)
    try:
        return endpoints_in(await exchange.fetched(first), issuer)
    except NotFound:
        return endpoints_in(await exchange.fetched(second), issuer)


async def logged_in(
    endpoints: Endpoints,
    client: str,
    exchange: Exchange,
    show: Callable[[DeviceCode], None],
    *,
    scope: str = SCOPE,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Tokens:
    """Return tokens for the person who enters the code, passed to `show`, at the provider's page.

    Raises `NotAllowed` if they decline, `Expired` if they do not answer in time, and like `discovered`.
    """
    where = endpoints.device_authorization_endpoint
    content = await exchange.told(where, {"client_id": client, "scope": scope})
    refused = decoded(content, TokenAnswer, where)
    if refused.error:
        raise refusal(refused.error, refused.error_description, where)
    code = decoded(content, DeviceCode, where)
    code.check(where)
    show(code)
    polls = Polls(code, clock())
    form = {"grant_type": GRANT, "device_code": code.device_code, "client_id": client}
    error = "authorization_pending"
    while True:
        await sleep(polls.wait_s(error, clock(), endpoints.token_endpoint))
        try:
            answer = await _token_answer(endpoints, form, exchange)
        except Unavailable:
            error = ""
            continue
        if not answer.error:
            return _tokens(answer, "", endpoints.token_endpoint)
        error = answer.error


async def fresh_token(login: KeptLogin, wall_clock: Callable[[], float] = time.time) -> str:
    """Return the token of `login`, renewed first if it is about to run out.

    While the token is still valid, a failed renewal is ignored. After that, raises `NotAuthenticated` if the
    login has ended, and `Unavailable` if the provider does not answer.
    """
    now_s = int(wall_clock())
    token = login.token()
    life = lifetime_of(token)
    if life is None or not life.is_ending(now_s) or not login.can_renew():
        return token
    try:
        async with login.locked():
            # Another process may have renewed it in the meantime.
            if (other := login.token()) != token:
                return other
            renewed = await _renewed(login)
            login.keep(renewed.access, renewed.refresh)
            return renewed.access
    except KalendsError as error:
        if life.left_s(now_s):
            return token
        if isinstance(error, Unavailable):
            raise
        raise NotAuthenticated(
            f"your token has expired, and was not renewed: {error.detail}",
            where=login.issuer,
            remedy="log in again: kalends login",
        ) from error


async def give_back(login: KeptLogin) -> bool:
    """Revoke the refresh token of `login`; return whether the provider supports that."""
    refresh_token = login.refresh_token()
    exchange = Exchange(login.ca)
    endpoints = await discovered(login.issuer, exchange)
    if not (refresh_token and endpoints.revocation_endpoint):
        return False
    form = {
        "token": refresh_token,
        "token_type_hint": "refresh_token",
        "client_id": login.client,
    }
    await exchange.told(endpoints.revocation_endpoint, form)
    return True


async def _renewed(login: KeptLogin) -> Tokens:
    exchange = Exchange(login.ca)
    endpoints = await discovered(login.issuer, exchange)
    refresh_token = login.refresh_token()
    form = {
        "grant_type": "refresh_token",
        "refresh_token": refresh_token,
        "client_id": login.client,
    }
    answer = await _token_answer(endpoints, form, exchange)
    if answer.error:
        raise refusal(answer.error, answer.error_description, endpoints.token_endpoint)
    # Without a new refresh token, the old one stays valid (RFC 6749, section 6).
    return _tokens(answer, refresh_token, endpoints.token_endpoint)


async def _token_answer(
    endpoints: Endpoints, form: dict[str, str], exchange: Exchange
) -> TokenAnswer:
    content = await exchange.told(endpoints.token_endpoint, form)
    return decoded(content, TokenAnswer, endpoints.token_endpoint)


def _tokens(answer: TokenAnswer, refresh: str, where: str) -> Tokens:
    access, refresh = answer.access_token, answer.refresh_token or refresh
    fine = all(
        token.isascii() and token.isprintable() and len(token) <= limits.TOKEN_CHARACTERS_MAX
        for token in (access, refresh)
    )
    if not fine or lifetime_of(access) is None:
        raise InvalidInput(
            "the provider's access tokens do not name their user (they are not JWTs)",
            where=where,
            remedy="ask the operator of the provider for access tokens that are JWTs (RFC 9068)",
        )
    return Tokens(access, refresh)

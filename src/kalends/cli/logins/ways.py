"""The ways to log in: by a token, by an OpenID provider, or by name if the server asks for no token."""

from __future__ import annotations

import sys
from typing import NamedTuple

import click

from kalends.cli.console import output
from kalends.client.logins.caller_identity import token_in
from kalends.client.logins.openid.announcements import AnnouncedProvider, WaysIn, ways_into
from kalends.client.logins.openid.device_grant import DeviceCode
from kalends.client.logins.openid.exchange import Exchange
from kalends.client.logins.openid.logins import SCOPE, discovered, logged_in
from kalends.core import limits
from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput, KalendsError

CLIENT = "kalends"
"""Client id of this program at a provider, by default."""


class LoginWish(NamedTuple):
    """A wanted login; fields are "" if not given. Paths are absolute."""

    broker: str
    token: str = ""
    token_file: str = ""
    issuer: str = ""
    client: str = ""
    scope: str = SCOPE
    ca: str = ""


class LoginProof(NamedTuple):
    """The result of a login: a token, or the user's own file with one, or neither."""

    token: str = ""
    token_file: str = ""
    refresh: str = ""
    issuer: str = ""
    client: str = ""


async def proof_of(wanted: LoginWish) -> LoginProof:
    """Return the proof of the user's identity, by the wanted way or one that the server at `broker` offers.

    Raises the errors of the token, the provider or the server.
    """
    if wanted.token:
        return LoginProof(_checked(wanted.token))
    if wanted.token_file:
        _checked(token_in(wanted.token_file, "--token-file"))
        return LoginProof(token_file=wanted.token_file)
    exchange = Exchange(wanted.ca)
    if wanted.issuer:
        return await _at_provider(wanted, await _announced(wanted, exchange), exchange)
    ways = await ways_into(wanted.broker, exchange)
    if ways.is_open:
        return LoginProof()
    if len(ways.providers) == 1 and sys.stdin.isatty():
        return await _at_provider(wanted, ways.providers[0], exchange)
    return LoginProof(_pasted(ways))


async def _announced(wanted: LoginWish, exchange: Exchange) -> AnnouncedProvider:
    """Return the wanted provider, with the server's settings for it if there are any."""
    try:
        ways = await ways_into(wanted.broker, exchange)
    except KalendsError:
        ways = WaysIn(is_open=False)
    for each in ways.providers:
        if each.issuer.rstrip("/") == wanted.issuer.rstrip("/"):
            return each
    return AnnouncedProvider(wanted.issuer)


async def _at_provider(
    wanted: LoginWish, provider: AnnouncedProvider, exchange: Exchange
) -> LoginProof:
    client = wanted.client or provider.client or CLIENT
    endpoints = await discovered(provider.issuer, exchange)
    tokens = await logged_in(endpoints, client, exchange, _show, scope=wanted.scope)
    return LoginProof(tokens.access, "", tokens.refresh, endpoints.issuer, client)


def _show(code: DeviceCode) -> None:
    """Print the page to open, and the code to enter there."""
    lines = [f"open   {code.verification_uri}", f"enter  {code.user_code}"]
    if code.verification_uri_complete:
        lines.append(f"or     {code.verification_uri_complete}")
    for line in [*lines, f"waiting; the code is valid for {format_duration(code.expires_in)}"]:
        output.say(line, error=True)


def _pasted(ways: WaysIn) -> str:
    """Return the token that the user pastes, or that is on standard input."""
    if sys.stdin.isatty():
        others = ", ".join(each.issuer for each in ways.providers)
        if others:
            output.say(
                f"or use a provider: kalends login --issuer URL, one of {others}", error=True
            )
        return _checked(click.prompt("token (not shown)", hide_input=True, err=True))
    return _checked(sys.stdin.readline(limits.TOKEN_CHARACTERS_MAX + 2))


def _checked(token: str) -> str:
    """Return a token without the blanks around it; raises `InvalidInput` if it is not a token."""
    token = token.strip()
    if not (
        token.isascii() and token.isprintable() and 0 < len(token) <= limits.TOKEN_CHARACTERS_MAX
    ):
        raise InvalidInput(
            "the text is not a token",
            where="token",
            remedy="paste the whole token, in one line; or name its file: kalends login --token-file FILE",
        )
    return token

"""``kalends logout``: forget the token of a profile."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.logins import profile_edits
from kalends.client.logins.kept_logins import KeptLogin, kept_at
from kalends.client.logins.openid.logins import give_back
from kalends.client.logins.profiles import DEFAULT_PROFILE, config_path, profile_named
from kalends.core.errors import KalendsError


@click.command("logout", cls=ServerCommand, examples=("kalends logout", "kalends logout --json"))
@pass_settings
def command(settings: Settings) -> None:
    """Forget the token of a profile.

    Also revokes the login at the OpenID provider, if there is one. All else in the profile stays, so that
    `kalends login` finds the server again. A token in your own file (--token-file) is not removed.
    """
    name, path = settings.profile or DEFAULT_PROFILE, config_path(os.environ)
    profile = profile_named(name, path)
    kept = kept_at(path, name, profile.issuer, profile.client, profile.ca)
    told, own = [], ""
    if kept.can_renew():
        told.append(asyncio.run(_given_back(kept)))
    if profile.token_file and Path(profile.token_file) != kept.token_file:
        own = profile.token_file
        told.append(f"your token is still in {own}")
    kept.forget()
    profile_edits.keep(path, name, {"token_file": ""})
    data = {"profile": name, "config": str(path), "token_file": own}
    output.answer(
        settings, "logout", data, lambda: [f"logged out: profile {name} of {path} has no token"]
    )
    for line in filter(None, told):
        output.say(line, error=True)


async def _given_back(kept: KeptLogin) -> str:
    """Revoke the login at the provider; return why that failed, or "" if it did not."""
    try:
        await give_back(kept)
    except KalendsError as error:
        return f"the login at {kept.issuer} could not be revoked: {error.detail}"
    return ""

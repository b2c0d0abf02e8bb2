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

    What else is in the profile stays, so that `kalends login` finds the server again. If an OpenID provider
    renews the token, it is asked to do so no more. A token in a file of your own is not removed.
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
    """Tell the provider; return why it was not told, or "" if it was."""
    try:
        await give_back(kept)
    except KalendsError as error:
        return f"{kept.issuer} was not told, and may go on renewing: {error.detail}"
    return ""

"""``kalends login``: save a server's address and your login in a profile."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import click
from msgspec.structs import asdict, replace

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.logins import logins, profile_edits, whoami_lines
from kalends.client.connection import connect
from kalends.client.logins.destinations import VARIABLES
from kalends.client.logins.kept_logins import KeptLogin, kept_at
from kalends.client.logins.openid.logins import SCOPE
from kalends.client.logins.profiles import (
    DEFAULT_PROFILE,
    UserProfile,
    check_profile_name,
    config_path,
    read_profiles,
)
from kalends.contract.calls import CallerView
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import split_resource
from kalends.rim.web_addresses import is_guarded

NOBODY = UserProfile(broker="")


class LoginCommand(ServerCommand):
    """A command whose profile may not exist yet."""

    def invoke(self, ctx: click.Context) -> Any:
        return click.Command.invoke(self, ctx)


@click.command(
    "login",
    cls=LoginCommand,
    examples=(
        "kalends login --broker https://broker.npaci.example:7100",
        "kalends login --profile kit --broker https://kit.example --machine kit/sp2",
    ),
)
@click.option(
    "--issuer",
    default="",
    metavar="URL",
    help="OpenID provider to log in at.  [default: the one that the server trusts]",
)
@click.option(
    "--client",
    default="",
    metavar="ID",
    help="Client id of this program at the provider.  [default: the server's, or kalends]",
)
@click.option(
    "--scope",
    default=SCOPE,
    show_default=True,
    metavar="TEXT",
    help="Scopes to request from the provider, e.g. 'openid offline_access'.",
)
@click.option(
    "--machine",
    default="",
    metavar="MACHINE",
    help="Default machine of job commands, e.g. sdsc/sp2.",
)
@pass_settings
def command(settings: Settings, issuer: str, client: str, scope: str, machine: str) -> None:
    """Save a server's address and your login in a profile.

    Give the server's address by --broker URL; --zone, --ca and --machine are also saved. With --token-file
    FILE, commands read the token from that file. If the server uses OpenID, shows a code to enter in a
    browser; the token is then renewed automatically. Otherwise asks for a token, without showing it. Saves
    nothing if the server does not accept you.
    """
    name, path = settings.profile or DEFAULT_PROFILE, config_path(os.environ)
    check_profile_name(name)
    before = read_profiles(path).get(name, NOBODY)
    old = _still_meant(settings, before)
    settings.time_zone()
    if machine:
        _check_machine(machine)
    wanted = _wanted(settings, old, issuer, client, scope)
    proof = asyncio.run(logins.proof_of(wanted))
    view = asyncio.run(_checked(settings, wanted, proof))
    kept = kept_at(path, name)
    profile = UserProfile(
        broker=wanted.broker,
        # Relative to the configuration's folder, so that both can be moved together.
        token_file=proof.token_file
        or (str(kept.token_file.relative_to(path.parent)) if proof.token else ""),
        ca=wanted.ca,
        zone=settings.given.get("zone") or old.zone,
        machine=machine or old.machine,
        issuer=proof.issuer,
        client=proof.client,
    )
    if proof.token:
        kept.keep(proof.token, proof.refresh)
    else:
        kept.forget()
    # Unchanged fields stay in the file as they were written.
    changes = {
        field: value for field, value in asdict(profile).items() if value != getattr(before, field)
    }
    profile_edits.keep(path, name, changes)
    _answer(settings, view, name, path, renewed=bool(proof.refresh))


def _check_machine(machine: str) -> None:
    try:
        split_resource(machine)
    except InvalidInput as error:
        raise InvalidInput(
            f"{machine!r} is not a machine",
            where="--machine",
            remedy="write its site and its name, e.g. sdsc/sp2",
        ) from error


def _wanted(
    settings: Settings, old: UserProfile, issuer: str, client: str, scope: str
) -> logins.LoginWish:
    """Return the wanted login, from options and environment, with defaults from the `old` profile."""
    broker = _said(settings, "broker") or old.broker
    if not broker:
        raise InvalidInput(
            "the address of the server is missing",
            where="--broker",
            remedy="kalends login --broker https://HOST:PORT",
        )
    if not is_guarded(broker):
        raise InvalidInput(
            f"{broker} is not encrypted, so a token cannot be sent there",
            where="--broker",
            remedy="write an https:// address; http:// is only for this host",
        )
    return logins.LoginWish(
        broker=broker,
        token=settings.given.get("token", ""),
        token_file=_whole(settings.given.get("token_file", "")),
        issuer=issuer or old.issuer,
        client=client or (old.client if issuer in ("", old.issuer) else ""),
        scope=scope,
        ca=_whole(_said(settings, "ca")) or old.ca,
    )


def _still_meant(settings: Settings, before: UserProfile) -> UserProfile:
    """Return the profile if it is for the wanted server; otherwise only its zone."""
    broker = _said(settings, "broker") or before.broker
    same = broker.rstrip("/") == before.broker.rstrip("/")
    return before if same else replace(NOBODY, zone=before.zone)


def _said(settings: Settings, field: str) -> str:
    """Return the value of a field from its option, or else from the environment; "" for neither."""
    return settings.given.get(field) or os.environ.get(VARIABLES[field], "")


def _whole(path: str) -> str:
    return str(Path(path).expanduser().absolute()) if path else ""


async def _checked(
    settings: Settings, wanted: logins.LoginWish, proof: logins.LoginProof
) -> CallerView:
    """Return the user's identity at the server; raises the server's error if it refuses the token."""
    token = proof.token or (KeptLogin(Path(proof.token_file)).token() if proof.token_file else "")
    async with connect(
        wanted.broker, token=token, user=settings.user_name(), ca=wanted.ca, transport="http"
    ) as client:
        return await client.whoami()


def _answer(settings: Settings, view: CallerView, name: str, path: Path, *, renewed: bool) -> None:
    data = {"profile": name, "config": str(path), "renewed": renewed, "caller": view}
    zone = settings.time_zone()
    good = whoami_lines.life_words(view, zone, renewed=renewed)
    output.answer(
        settings, "login", data,
        lambda: [
            f"{whoami_lines.who(view)}{f', {good}' if good else ''}",
            f"saved in profile {name} of {path}",
        ],
    )  # fmt: skip
    for field in ("broker", "token", "token_file"):
        if os.environ.get(VARIABLES[field]):
            output.say(f"{VARIABLES[field]} is set, and overrides the profile", error=True)

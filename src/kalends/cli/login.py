"""``kalends login``: keep in a profile which server is called, and as whom."""

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
    """A command whose profile need not be there yet."""

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
    help="OpenID provider to log in at.  [default: the one that the server believes]",
)
@click.option(
    "--client",
    default="",
    metavar="ID",
    help="What this program is called there.  [default: as the server says, else kalends]",
)
@click.option(
    "--scope",
    default=SCOPE,
    show_default=True,
    metavar="TEXT",
    help="What to ask the provider for, e.g. 'openid offline_access'.",
)
@click.option(
    "--machine",
    default="",
    metavar="MACHINE",
    help="Machine that jobs are about where none is named, e.g. sdsc/sp2.",
)
@pass_settings
def command(settings: Settings, issuer: str, client: str, scope: str, machine: str) -> None:
    """Keep in a profile which server is called, and as whom.

    With --broker URL, and what else is said by --zone, --ca, --machine and --profile NAME. Takes the token in
    --token-file FILE, which stays where it is; or logs in at the server's OpenID provider, where you enter a
    code in any browser, and from then on renews the token quietly; or asks for a token, which is not shown.
    Nothing is written unless the server knows you.
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
        # From the folder of the file on, so that both may be moved together.
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
    # What stays as it was stays as it was written.
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
            remedy="write its site and its name, as sdsc/sp2",
        ) from error


def _wanted(
    settings: Settings, old: UserProfile, issuer: str, client: str, scope: str
) -> logins.LoginWish:
    """Return what is said of a login; what is left out is as in the `old` profile."""
    broker = _said(settings, "broker") or old.broker
    if not broker:
        raise InvalidInput(
            "no server is named",
            where="--broker",
            remedy="kalends login --broker https://HOST:PORT",
        )
    if not is_guarded(broker):
        raise InvalidInput(
            f"{broker} is not where a token can be sent: others on the way would read it",
            where="--broker",
            remedy="write an https:// address; http:// only for this host",
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
    """Return what of a profile holds for the server that is said; of another one, only the zone."""
    broker = _said(settings, "broker") or before.broker
    same = broker.rstrip("/") == before.broker.rstrip("/")
    return before if same else replace(NOBODY, zone=before.zone)


def _said(settings: Settings, field: str) -> str:
    """Return what an option, or else the environment, says of a field; "" for nothing."""
    return settings.given.get(field) or os.environ.get(VARIABLES[field], "")


def _whole(path: str) -> str:
    return str(Path(path).expanduser().absolute()) if path else ""


async def _checked(
    settings: Settings, wanted: logins.LoginWish, proof: logins.LoginProof
) -> CallerView:
    """Return whom the server takes the user for; raises what it has against the token."""
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
            f"kept in profile {name} of {path}",
        ],
    )  # fmt: skip
    for field in ("broker", "token", "token_file"):
        if os.environ.get(VARIABLES[field]):
            output.say(f"{VARIABLES[field]} is set, and wins over the profile", error=True)

"""``kalends login`` and ``logout``: a server and a login, kept in a profile."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import tomlkit
from msgspec.structs import asdict, replace
from tomlkit.exceptions import TOMLKitError

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand, server_command
from kalends.cli.console.settings import Settings
from kalends.cli.logins import caller, ways
from kalends.client.connection import connect
from kalends.client.logins.destinations import VARIABLES
from kalends.client.logins.kept_logins import KeptLogin, kept_at
from kalends.client.logins.openid.logins import SCOPE, give_back
from kalends.client.logins.profiles import (
    DEFAULT_PROFILE,
    UserProfile,
    check_profile_name,
    config_path,
    profile_named,
    read_profiles,
)
from kalends.contract.calls import CallerView
from kalends.core.errors import InvalidInput, KalendsError
from kalends.core.identifiers import split_resource
from kalends.rim import private_files
from kalends.rim.web_addresses import addresses_in, is_guarded

NOBODY = UserProfile(broker="")


class LoginCommand(ServerCommand):
    """A command whose profile may not exist yet."""

    def invoke(self, ctx: click.Context) -> Any:
        return click.Command.invoke(self, ctx)


@server_command(
    "login",
    "kalends login --broker https://broker.npaci.example:7100",
    "kalends login --profile kit --broker https://kit.example --machine kit/sp2",
    cls=LoginCommand,
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
def login(settings: Settings, issuer: str, client: str, scope: str, machine: str) -> None:
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
    proof = asyncio.run(ways.proof_of(wanted))
    view = asyncio.run(_accepted(settings, wanted, proof))
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
    _keep(path, name, changes)
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
) -> ways.LoginWish:
    """Return the wanted login, from options and environment, with defaults from the `old` profile."""
    broker = _said(settings, "broker") or old.broker
    if not broker:
        raise InvalidInput(
            "the address of the server is missing",
            where="--broker",
            remedy="kalends login --broker https://HOST:PORT",
        )
    for url in addresses_in(broker):
        if is_guarded(url):
            continue
        raise InvalidInput(
            f"{url} is not encrypted, so a token cannot be sent there",
            where="--broker",
            remedy="write an https:// address; http:// is only for this host",
        )
    return ways.LoginWish(
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


async def _accepted(
    settings: Settings, wanted: ways.LoginWish, proof: ways.LoginProof
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
    good = caller.lifetime_text(view, zone, renewed=renewed)
    output.answer(
        settings, "login", data,
        lambda: [
            f"{caller.who(view)}{f', {good}' if good else ''}",
            f"saved in profile {name} of {path}",
        ],
    )  # fmt: skip
    for field in ("broker", "token", "token_file"):
        if os.environ.get(VARIABLES[field]):
            output.say(f"{VARIABLES[field]} is set, and overrides the profile", error=True)


@server_command("logout", "kalends logout", "kalends logout --json")
def logout(settings: Settings) -> None:
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
    _keep(path, name, {"token_file": ""})
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


def _keep(path: Path, name: str, fields: Mapping[str, str]) -> None:
    """Set `fields` of a profile in the file at `path`, "" for none; raises `InvalidInput`."""
    try:
        text = path.read_text("utf-8") if path.exists() else ""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"the file cannot be written: {error.strerror}", where=str(path)
        ) from error
    private_files.replace(path.resolve(), edited(text, name, fields).encode())


def edited(text: str, name: str, fields: Mapping[str, str]) -> str:
    """Return `text`, a file of profiles, with `fields` set in one of them; raises `InvalidInput`."""
    try:
        document = tomlkit.parse(text)
        profiles = document.setdefault("profiles", tomlkit.table(is_super_table=True))
        table = profiles.setdefault(name, tomlkit.table())
        for field, value in fields.items():
            if value:
                table[field] = value
            else:
                table.pop(field, None)
        return tomlkit.dumps(document)
    except (TOMLKitError, TypeError, AttributeError) as error:
        raise InvalidInput(
            f"the file cannot be changed: {error}",
            where=f"profiles.{name}",
            remedy="change it by hand, as docs/login.md shows",
        ) from error

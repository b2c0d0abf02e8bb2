"""``kalends admin token``: sign a token for a user."""

from __future__ import annotations

import time
from pathlib import Path

import click

from kalends.cli.console import output
from kalends.cli.console.commands import LocalCommand
from kalends.cli.console.server_parts import server_parts
from kalends.cli.console.settings import Settings, pass_settings
from kalends.core.durations import parse_duration
from kalends.core.times import format_time


@click.command(
    "token",
    cls=LocalCommand,
    examples=(
        "kalends admin token --key people --user ada --audience npaci --to ada.token",
        "kalends admin token --key people --user eve --audience sdsc --scope audit",
    ),
)
@click.option(
    "--key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="Private key, from `kalends admin key`.",
)
@click.option("--user", metavar="NAME", required=True, help="User of the token, e.g. ada.")
@click.option(
    "--group",
    "groups",
    metavar="NAME",
    multiple=True,
    help="Group of the user; may be repeated.",
)
@click.option(
    "--audience",
    "audiences",
    metavar="NAME",
    multiple=True,
    required=True,
    help="Server that accepts the token, e.g. npaci; may be repeated.",
)
@click.option(
    "--scope",
    "scopes",
    metavar="SCOPE",
    multiple=True,
    default=("use",),
    show_default=True,
    help="Scope: use, audit, admin or broker; may be repeated.",
)
@click.option(
    "--issuer",
    metavar="NAME",
    default="kalends",
    show_default=True,
    help="Issuer of the token.",
)
@click.option(
    "--for",
    "lifetime",
    metavar="DURATION",
    default="8h",
    show_default=True,
    help="Lifetime of the token.",
)
@click.option(
    "--to",
    "destination",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="New file for the token, readable only by you.  [default: standard output]",
)
@pass_settings
def command(
    settings: Settings, key: Path, user: str, groups: tuple[str, ...], audiences: tuple[str, ...],
    scopes: tuple[str, ...], issuer: str, lifetime: str, destination: Path | None,
) -> None:  # fmt: skip
    """Sign a token for a user.

    `kalends --token-file FILE` refuses a file that other Unix users can read. Write it by --to, or under
    `umask 077`.
    """
    with server_parts():
        from kalends.rim.private_files import write_new
        from kalends.serving.auth.keys import load_private_key
        from kalends.serving.auth.tokens import mint
    now_s = int(time.time())
    lifetime_s = parse_duration(lifetime, where="--for")
    token = mint(
        load_private_key(key), user=user, groups=groups, audience=audiences, scopes=scopes,
        issuer=issuer, lifetime_s=lifetime_s, now_s=now_s,
    )  # fmt: skip
    expires_at = now_s + lifetime_s
    if destination is not None:
        write_new(destination, f"{token}\n".encode())
        made: dict[str, object] = {"file": str(destination), "expires_at": expires_at}
        output.answer(settings, "token", made, list)
    else:
        made = {"token": token, "expires_at": expires_at}
        output.answer(settings, "token", made, lambda: [token])
    output.say(f"valid until {format_time(expires_at, settings.time_zone())}", error=True)
    if len(audiences) > 1:
        each = (
            "each of these servers could use the token at the others; one token per server is safer"
        )
        output.say(f"{', '.join(audiences)}: {each}", error=True)

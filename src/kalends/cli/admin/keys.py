"""Keys and tokens: ``kalends admin key``, ``token`` and ``revoke``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kalends.cli.admin._store_arguments import CONFIGURATION, address_of
from kalends.cli.console import output
from kalends.cli.console.commands import local_command
from kalends.cli.console.server_parts import server_parts
from kalends.cli.console.settings import Settings
from kalends.core.durations import parse_duration
from kalends.core.errors import InvalidInput
from kalends.core.times import format_time

if TYPE_CHECKING:
    from kalends.serving.auth.revocations import Revocation


@local_command("key", "kalends admin key people", "kalends admin key keys/npaci --json")
@click.argument("name", type=click.Path(path_type=Path))
def key(settings: Settings, name: Path) -> None:
    """Make a key pair for signing tokens.

    Writes the private key to NAME and the public key to NAME.pub. Keep the private key secret, and list the
    public key in the configuration of every server that is to trust it. Never overwrites a key.
    """
    with server_parts():
        from kalends.serving.auth.keys import write_key_pair
    public = write_key_pair(name)
    made = {"private": str(name), "public": str(public)}
    output.answer(
        settings,
        "key",
        made,
        lambda: [
            f"private key  {name}  (keep it secret)",
            f"public key   {public}  (list it under `keys` in the configuration of your servers)",
        ],
    )


@local_command(
    "token",
    "kalends admin token --key people --user ada --audience npaci --to ada.token",
    "kalends admin token --key people --user eve --audience sdsc --scope audit",
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
def token(
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


@local_command(
    "revoke",
    "kalends admin revoke revoked.txt --token-of ada.token --note 'laptop lost'",
    "kalends admin revoke npaci.toml --key-of people.pub",
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--token", "tokens", metavar="ID", multiple=True, help="Id of a token, its claim jti."
)
@click.option(
    "--key", "keys", metavar="ID", multiple=True, help="Id of a key; revokes all its tokens."
)
@click.option(
    "--token-of",
    "token_files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    multiple=True,
    help="File with a token; may be repeated, like all these options.",
)
@click.option(
    "--key-of",
    "key_files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    multiple=True,
    help="File with public keys, a PEM or a JWKS.",
)
@click.option("--note", metavar="TEXT", default="", help="Reason, for readers of the file.")
def revoke(
    settings: Settings, file: Path, tokens: tuple[str, ...], keys: tuple[str, ...],
    token_files: tuple[Path, ...], key_files: tuple[Path, ...], note: str,
) -> None:  # fmt: skip
    """Revoke tokens or keys at the servers that read a list.

    Adds lines to FILE, or makes it. A server reads the file that its configuration names as `revoked`, and
    reads it again after each change. If FILE is a configuration (.toml), adds them to the list that its
    servers read: in their database if they have one, where all their processes look each second. Revoked
    tokens and their sessions end at once.
    """
    with server_parts():
        from kalends.serving.auth.public_keys import KeyTerms, key_id, load_trusted_keys
        from kalends.serving.auth.revocations import Revocation
        from kalends.serving.auth.tokens import id_of
    revoked = [Revocation("token", each) for each in tokens]
    revoked += [Revocation("token", id_of(each.read_text().strip())) for each in token_files]
    revoked += [Revocation("key", each) for each in keys]
    revoked += [
        Revocation("key", id)
        for each in key_files
        for key in load_trusted_keys(each, KeyTerms())
        # A key in a JWKS file has the id that the file gives it; a provider's key has its thumbprint.
        for id in dict.fromkeys((key.key_id, key_id(key.public_key)))
    ]
    if not revoked:
        raise click.UsageError("nothing to revoke: give --token, --token-of, --key or --key-of")
    for server in _lists(file):
        server(revoked, note)
    output.answer(
        settings,
        "revoked",
        {"file": str(file), "revoked": [each._asdict() for each in revoked]},
        lambda: [f"{each.kind} {each.id} is revoked in {file}" for each in revoked],
    )


def _lists(file: Path) -> list[Callable[[Sequence[Revocation], str], None]]:
    """Return what revokes in each of the lists that `file` is, or that it names as a configuration."""
    from kalends.cli.servers.server import read_configuration
    from kalends.serving.auth.revocations import revoke

    if file.suffix != CONFIGURATION:
        return [partial(revoke, file)]
    configuration = read_configuration(file)
    found: list[Callable[[Sequence[Revocation], str], None]] = []
    for server in (configuration.site, configuration.broker):
        if server is not None and server.store.url:
            address = address_of(server.store.url)
            # Imported here because of the driver, which other stores do not need.
            from kalends.serving.auth import stored_revocations

            found.append(partial(stored_revocations.revoke, address))
        elif server is not None:
            found.append(partial(revoke, _named(file, server.revoked)))
    if configuration.virtual is not None:
        found.append(partial(revoke, _named(file, configuration.virtual.revoked)))
    return found


def _named(configuration: Path, revoked: Path | None) -> Path:
    if revoked is None:
        raise InvalidInput(
            "a server of this configuration reads no list of revoked tokens",
            where=str(configuration),
            remedy='name a file: revoked = "revoked.txt"',
        )
    return revoked

"""``kalends admin revoke``: revoke tokens or keys at the servers that read a file."""

from __future__ import annotations

from pathlib import Path

import click

from kalends.cli.console import output
from kalends.cli.console.commands import LocalCommand
from kalends.cli.console.server_parts import server_parts
from kalends.cli.console.settings import Settings, pass_settings


@click.command(
    "revoke",
    cls=LocalCommand,
    examples=(
        "kalends admin revoke revoked.txt --token-of ada.token --note 'laptop lost'",
        "kalends admin revoke revoked.txt --key-of people.pub",
    ),
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
@pass_settings
def command(
    settings: Settings, file: Path, tokens: tuple[str, ...], keys: tuple[str, ...],
    token_files: tuple[Path, ...], key_files: tuple[Path, ...], note: str,
) -> None:  # fmt: skip
    """Revoke tokens or keys at the servers that read a file.

    Adds lines to FILE, or makes it. A server reads the file that its configuration names as `revoked`, and
    reads it again after each change. Revoked tokens and their sessions end at once.
    """
    with server_parts():
        from kalends.serving.auth.public_keys import KeyTerms, key_id, load_trusted_keys
        from kalends.serving.auth.revocations import Revocation, revoke
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
    revoke(file, revoked, note)
    output.answer(
        settings,
        "revoked",
        {"file": str(file), "revoked": [each._asdict() for each in revoked]},
        lambda: [f"{each.kind} {each.id} is revoked in {file}" for each in revoked],
    )

"""``kalends admin key``: make a key pair for signing tokens."""

from __future__ import annotations

from pathlib import Path

import click

from kalends.cli.console import output
from kalends.cli.console.commands import LocalCommand
from kalends.cli.console.server_parts import server_parts
from kalends.cli.console.settings import Settings, pass_settings


@click.command(
    "key",
    cls=LocalCommand,
    examples=("kalends admin key people", "kalends admin key keys/npaci --json"),
)
@click.argument("name", type=click.Path(path_type=Path))
@pass_settings
def command(settings: Settings, name: Path) -> None:
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

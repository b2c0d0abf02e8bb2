"""``kalends admin key``: a pair of keys."""

from __future__ import annotations

from pathlib import Path

import click

from kalends.cli import _output
from kalends.cli._server_parts import server_parts
from kalends.cli._settings import LocalCommand, Settings, pass_settings


@click.command("key", cls=LocalCommand)
@click.argument("name", type=click.Path(path_type=Path))
@pass_settings
def command(settings: Settings, name: Path) -> None:
    """Make a pair of keys for signing tokens.

    Writes the private key to NAME, which stays with you, and the public key to NAME.pub, which
    goes into the configuration of every server that shall trust it. Never overwrites a key.
    """
    with server_parts():
        from kalends.serving.auth.keys import write_key_pair
    public = write_key_pair(name)
    made = {"private": str(name), "public": str(public)}
    _output.answer(
        settings,
        "key",
        made,
        lambda: [
            f"private key  {name}  (keep it to yourself)",
            f"public key   {public}  (list it under `keys` in the configuration of your servers)",
        ],
    )

"""``kalends completion``: print the completion script for a shell."""

from __future__ import annotations

import click

from kalends.cli.console import output
from kalends.cli.console.commands import local_command
from kalends.cli.console.settings import Settings

SHELLS = ("bash", "zsh", "fish")


@local_command(
    "completion",
    "kalends completion bash > ~/.local/share/bash-completion/completions/kalends",
    "kalends completion fish > ~/.config/fish/completions/kalends.fish",
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(settings: Settings, shell: str) -> None:
    """Print the completion script for a shell.

    Completes commands, options and their values, and names that the server knows: resources, machines, your
    requests and your jobs. For zsh, write the script to a file _kalends in a folder of your fpath.
    """
    # Imported here because the program itself loads this module.
    from click.shell_completion import get_completion_class

    from kalends.cli import COMPLETE_VARIABLE, cli

    found = get_completion_class(shell)
    assert found is not None
    script = found(cli, {}, "kalends", COMPLETE_VARIABLE).source()
    if settings.json:
        output.print_json("completion", {"shell": shell, "script": script})
    else:
        click.echo(script)

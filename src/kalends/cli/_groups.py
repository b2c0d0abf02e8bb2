"""Command groups that load their commands when used, suggest near names, and end in words, not traces."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from kalends.cli._settings import Settings

if TYPE_CHECKING:
    from kalends.core.errors import KalendsError

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class LazyGroup(click.Group):
    """A group whose commands are the modules of `package` named in `summaries`."""

    def __init__(
        self, *args: Any, summaries: Mapping[str, str], package: str, **keywords: Any
    ) -> None:
        super().__init__(*args, **keywords)
        self._summaries = summaries
        self._package = package

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._summaries:
            return None
        module = importlib.import_module(f"{self._package}.{cmd_name.replace('-', '_')}")
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self._summaries and not args[0].startswith("-"):
            # Imported here, for most commands are spelt right.
            from difflib import get_close_matches

            near = get_close_matches(args[0], self._summaries, n=3)
            hint = f"Did you mean {' or '.join(near)}?" if near else f"See {ctx.command_path} -h."
            raise click.UsageError(f"There is no command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def main(self, args: Sequence[str] | None = None, *_: Any, **keywords: Any) -> Any:
        """As `click.Command.main`; always ends the program, with an exit code of DESIGN section 14."""
        sys.exit(self.run(keywords.pop("obj", None) or Settings(), args))

    def run(self, settings: Settings, args: Sequence[str] | None = None) -> int:
        """Run the command in `args` (default the program's own) and return its exit code.

        Whatever it fails with is told in words, or as a problem document where ``--json`` asks.
        """
        words = list(sys.argv[1:] if args is None else args)
        as_json = "--json" in words
        try:
            code = super().main(words, prog_name="kalends", standalone_mode=False, obj=settings)
        except click.ClickException as error:
            return _told_usage(error, as_json)
        except click.Abort:
            click.echo("kalends: interrupted; what was asked may still be done", err=True)
            return EXIT_INTERRUPTED
        except _kalends_error() as error:
            return _told(error, as_json)
        return code if isinstance(code, int) else 0


def _kalends_error() -> type[KalendsError]:
    """Looked up only while an error passes by, so that ``--help`` does not load the core."""
    from kalends.core.errors import KalendsError

    return KalendsError


def _told_usage(error: click.ClickException, as_json: bool) -> int:
    if not as_json:
        error.show()
        return error.exit_code
    from kalends.core.errors import InvalidInput

    return _told(
        InvalidInput(error.format_message(), where="command line", remedy="see kalends --help"),
        as_json,
    )


def _told(error: KalendsError, as_json: bool) -> int:
    from kalends.cli import _output, _problems

    if as_json:
        _output.print_json("problem", error.to_problem())
    else:
        for line in _problems.lines(error):
            _output.say(line, error=True)
    return error.exit_code

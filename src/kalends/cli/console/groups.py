"""Command groups that load commands on use, suggest near names, and print errors, not traces."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from kalends.cli.console.commands import is_pipe, refuse_empty, write_examples, write_options
from kalends.cli.console.settings import Settings

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from kalends.core.errors import KalendsError


MEANT: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("delete", "remove", "rm", "unbook", "scancel", "qdel"), ("cancel", "kill")),
    **dict.fromkeys(("reserve", "schedule", "create", "new", "add", "make"), ("book", "hold")),
    **dict.fromkeys(("status", "info", "get", "view", "describe"), ("show", "list", "job")),
    **dict.fromkeys(("ls", "mine", "history", "bookings", "reservations"), ("list",)),
    **dict.fromkeys(("search", "available", "free", "when"), ("find", "calendar")),
    **dict.fromkeys(("explain", "reason"), ("why",)),
    **dict.fromkeys(("follow", "events", "tail"), ("watch", "log")),
    **dict.fromkeys(("sbatch", "qsub", "start"), ("submit", "run")),
    **dict.fromkeys(("squeue", "qstat", "jobs", "ps"), ("queue",)),
    **dict.fromkeys(("srun", "exec"), ("run",)),
    **dict.fromkeys(("sinfo", "nodes", "hosts", "machines"), ("machine", "sites")),
    **dict.fromkeys(("output", "cat"), ("log",)),
    **dict.fromkeys(
        ("reschedule", "change", "modify", "edit", "update"), ("move", "extend", "shrink")
    ),
    **dict.fromkeys(("lengthen", "prolong", "renew"), ("extend",)),
    **dict.fromkeys(("shorten", "reduce"), ("shrink",)),
    **dict.fromkeys(("abort", "stop", "end", "terminate"), ("cancel", "release", "kill")),
    **dict.fromkeys(("signin", "auth", "authenticate"), ("login",)),
    **dict.fromkeys(("signout", "logoff"), ("logout",)),
    **dict.fromkeys(("identity", "account"), ("whoami",)),
    **dict.fromkeys(("accounting", "sacct", "report"), ("usage",)),
}
"""Words from other programs, with the commands that may be meant."""
EXIT_INTERRUPTED = 130


Listed = Mapping[str, Mapping[str, tuple[str, str]]]
"""Commands by title and name: where each is, as ``module:variable`` below `kalends.cli`, and its summary."""


class LazyGroup(click.Group):
    """A group that loads the commands in `listed` when they are used; its help needs none of them."""

    def __init__(
        self,
        *args: Any,
        listed: Listed,
        examples: Sequence[str],
        **keywords: Any,
    ) -> None:
        super().__init__(*args, **keywords)
        self.listed = listed
        self.examples = examples
        self._places = {name: at for rows in listed.values() for name, (at, _) in rows.items()}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        refuse_empty(self, ctx, args)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._places:
            return None
        module, _, variable = self._places[cmd_name].partition(":")
        command = getattr(importlib.import_module(f"kalends.cli.{module}"), variable)
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands without loading any command."""
        from click.shell_completion import CompletionItem

        named = [
            CompletionItem(name, help=summary)
            for rows in self.listed.values()
            for name, (_, summary) in rows.items()
            if name.startswith(incomplete)
        ]
        return named + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, self._places))
        for title, rows in self.listed.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(widest), summary) for name, (_, summary) in rows.items()]
                )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        write_options(self, ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        write_examples(self.examples, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self._places and not args[0].startswith("-"):
            # Imported here because most commands are spelt right.
            from difflib import get_close_matches

            meant = [name for name in MEANT.get(args[0], ()) if name in self._places]
            near = meant or get_close_matches(args[0], self._places, n=3)
            hint = f"Did you mean {' or '.join(near)}?" if near else f"See {ctx.command_path} -h."
            raise click.UsageError(f"There is no command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **keywords: Any) -> click.Context:
        with _reader_may_leave():
            return super().make_context(*args, **keywords)

    def invoke(self, ctx: click.Context) -> Any:
        with _reader_may_leave():
            return super().invoke(ctx)

    def main(self, args: Sequence[str] | None = None, *_: Any, **keywords: Any) -> Any:
        """Run the program as `click.Command.main` does, and exit with the code of its outcome."""
        sys.exit(self.run(keywords.pop("obj", None) or Settings(), args))

    def run(self, settings: Settings, args: Sequence[str] | None = None) -> int:
        """Run the command in `args` (default the program's own) and return its exit code.

        Errors are printed as text, or with ``--json`` as a problem document.
        """
        words = list(sys.argv[1:] if args is None else args)
        as_json = "--json" in words
        try:
            code = super().main(words, prog_name="kalends", standalone_mode=False, obj=settings)
        except click.ClickException as error:
            return _report_usage(error, as_json)
        except click.Abort:
            rest = "; the request may still be carried out" if settings.unanswered else ""
            click.echo(f"kalends: interrupted{rest}", err=True)
            return EXIT_INTERRUPTED
        except _kalends_error() as error:
            return _report(_with_remedies(settings, error), as_json)
        return code if isinstance(code, int) else 0


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    """If the reader of the answer has closed the pipe, as ``head`` does, end as usual, without the rest."""
    try:
        yield
    except BrokenPipeError as error:
        if not _reader_left():
            raise
        _drop_rest()
        raise click.exceptions.Exit(0) from error


def _reader_left() -> bool:
    if not is_pipe(sys.stdout):
        return False
    import select

    poll = select.poll()
    poll.register(sys.stdout, 0)
    return bool(poll.poll(0))


def _drop_rest() -> None:
    """Let the buffer go nowhere: it would fail again when the program ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _kalends_error() -> type[KalendsError]:
    """Import the class only when an error occurs, so that ``--help`` does not load the core."""
    from kalends.core.errors import KalendsError

    return KalendsError


def _with_remedies(settings: Settings, error: KalendsError) -> KalendsError:
    from kalends.cli.console.remedies import with_remedies

    return with_remedies(settings, error)


def _report_usage(error: click.ClickException, as_json: bool) -> int:
    if not as_json:
        error.show()
        return error.exit_code
    from kalends.core.errors import InvalidInput

    return _report(
        InvalidInput(error.format_message(), where="command line", remedy="see kalends --help"),
        as_json,
    )


def _report(error: KalendsError, as_json: bool) -> int:
    from kalends.cli.console import output, problems

    if not as_json:
        for line in problems.lines(error):
            output.say(line, error=True)
        return error.exit_code
    try:
        output.print_json("problem", error.to_problem())
    except BrokenPipeError:
        _drop_rest()
    return error.exit_code

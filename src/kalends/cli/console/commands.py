"""The form of every command: its help, the global options before or after its name, and no empty values.

An empty value comes from a shell variable that is not set. It is an error, because the option that it was for
(a reservation, for example) would otherwise be ignored silently.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click
from click.core import ParameterSource

from kalends.cli.console import screen
from kalends.cli.console.settings import Settings, pass_settings
from kalends.client.logins.destinations import DEFAULT_BROKER

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


F = TypeVar("F", bound=Callable[..., Any])

LAST = "Options"
"""The title of options without a section; they come last."""

_ALIKE = (
    frozenset({"--at", "--to", "--start"}),
    frozenset({"--for", "--duration", "--length", "--time", "--limit"}),
    frozenset({"--before", "--until", "--end", "--deadline"}),
    frozenset({"--after", "--from", "--begin"}),
)
"""Options with similar meanings in different commands, for suggestions."""


class SectionedOption(click.Option):
    """An option that help lists under the title `section`."""

    def __init__(self, *args: Any, section: str, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.section = section


def section(title: str) -> Callable[..., Callable[[F], F]]:
    """Return `click.option` for options that help lists under `title`."""
    return partial(click.option, cls=SectionedOption, section=title)


def all_of(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds `options`, which help lists in this order."""
    return lambda function: reduce(lambda made, option: option(made), reversed(options), function)


def write_options(
    command: click.Command, ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """Write the options of `command`, one list for each section."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for option in command.get_params(ctx):
        if isinstance(option, click.Option) and (row := option.get_help_record(ctx)) is not None:
            title = option.section if isinstance(option, SectionedOption) else LAST
            sections.setdefault(title, []).append(row)
    for title in sorted(sections, key=LAST.__eq__):
        with formatter.section(title):
            formatter.write_dl(sections[title])


def write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    """Write each example on a line of its own, unwrapped, so that it can be copied."""
    with formatter.section("Examples"):
        for example in examples:
            formatter.write(f"{'':{formatter.current_indent}}{example}\n")


def refuse_empty(command: click.Command, ctx: click.Context, args: Sequence[str]) -> None:
    """Raise `InvalidInput`, at the option or the argument, if a value in `args` is empty.

    The arguments of a program to run may be empty. Raises `click.UsageError`, like parsing.
    """
    if ctx.resilient_parsing or not any(_may_be_empty(word) for word in args):
        return
    given, _, _ = command.make_parser(ctx).parse_args(args=list(args))
    for parameter in command.get_params(ctx):
        if parameter.nargs != -1 and _has_empty(given, parameter):
            # Imported here because most commands are typed with all their values.
            from kalends.core.errors import InvalidInput

            option = isinstance(parameter, click.Option)
            raise InvalidInput(
                "the value is empty",
                where=max(parameter.opts, key=len)
                if option
                else parameter.human_readable_name.upper(),
                remedy="check that the variables in your command are set"
                + (", or leave the option out" if option else ""),
            )


def _may_be_empty(word: str) -> bool:
    name, equals, value = word.partition("=")
    return not value.strip() and (bool(equals) or not name.strip())


def _has_empty(given: Mapping[str, object], parameter: click.Parameter) -> bool:
    value = given.get(parameter.name or "")
    values = value if isinstance(value, list | tuple) else (value,)
    return any(isinstance(each, str) and not each.strip() for each in values)


def _remember(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    assert parameter.name is not None
    settings, source = ctx.ensure_object(Settings), ctx.get_parameter_source(parameter.name)
    if source is not ParameterSource.DEFAULT:
        setattr(settings, parameter.name, value)
    if source is ParameterSource.COMMANDLINE and isinstance(value, str):
        settings.given[parameter.name] = value


def _option(
    name: str,
    envvar: str | None,
    help: str,
    *,
    hidden: bool,
    section: str = "Connection",
    **keywords: Any,
) -> click.Option:
    return SectionedOption(
        [name],
        envvar=None if hidden else envvar,
        show_envvar=True,
        expose_value=False,
        callback=_remember,
        is_eager=True,
        hidden=hidden,
        section=section,
        help=help,
        **keywords,
    )


def _complete(parameter: click.Parameter) -> None:
    """Complete the values of `parameter` with names from the server and the user's profiles."""

    def complete(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from kalends.cli.console.completion import VALUES, completed

        if parameter.name in VALUES:
            return completed(ctx, parameter.name, incomplete)
        return type(parameter).shell_complete(parameter, ctx, incomplete)

    parameter.shell_complete = complete  # type: ignore[method-assign]  # many commands declare such


def _form_options(*, hidden: bool) -> list[click.Parameter]:
    """The options of every command; `hidden` ones are shown only in the help of the program."""
    colour = SectionedOption(
        ["--color"], type=click.Choice(["auto", "always", "never"]), expose_value=False,
        callback=screen.choose, is_eager=True, hidden=hidden, section=LAST,
        help="Colours of states.  [default: auto, on a terminal and without NO_COLOR]",
    )  # fmt: skip
    json = _option(
        "--json", None, "Print the answer as JSON.", hidden=False, section=LAST, is_flag=True
    )
    return [json, colour]


def _connection_options(*, hidden: bool) -> list[click.Parameter]:
    return [
        _option("--profile", "KALENDS_PROFILE", "Profile of your configuration file.  "
                "[default: the one called default, if there is one]", hidden=hidden, metavar="NAME"),
        _option("--broker", "KALENDS_BROKER", "Server address; several with commas, if they "
                f"stand for each other.  [default: {DEFAULT_BROKER}]",
                hidden=hidden, metavar="URL"),
        _option("--token", "KALENDS_TOKEN", "Your token; other users may see it, unlike with --token-file.",
                hidden=hidden, metavar="TEXT"),
        _option("--token-file", "KALENDS_TOKEN_FILE", "File that holds your token.",
                hidden=hidden, metavar="FILE"),
        _option("--user", "KALENDS_USER", "Your name, at servers that ask for no token.  "
                "[default: your login name]", hidden=hidden, metavar="NAME"),
        _option("--group", None, "Group you belong to, at servers that ask for no token; may be repeated.",
                hidden=hidden, metavar="NAME", multiple=True),
        _option("--zone", "KALENDS_ZONE", "Time zone, e.g. Europe/Berlin.  "
                "[default: this computer's]", hidden=hidden, metavar="NAME"),
        _option("--ca", "KALENDS_CA", "File of certificates to trust.  [default: the system's]",
                hidden=hidden, metavar="FILE"),
    ]  # fmt: skip


def group_options(function: F) -> F:
    """Add the global options, visibly, to the program itself."""
    for option in reversed([*_connection_options(hidden=False), *_form_options(hidden=False)]):
        _complete(option)
        _attach(function, option)
    return function


class LocalCommand(click.Command):
    """A command that calls no server; its global options are ``--json`` and ``--color``."""

    def __init__(self, *args: Any, examples: Sequence[str], **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.examples = examples
        self.params.extend(self._shared_options())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        refuse_empty(self, ctx, args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_options(self, ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(self.examples, formatter)

    def _shared_options(self) -> Sequence[click.Parameter]:
        return _form_options(hidden=True)


class ServerCommand(LocalCommand):
    """A command that calls a server; the global options may also follow its name."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        for parameter in self.params:
            _complete(parameter)

    def invoke(self, ctx: click.Context) -> Any:
        settings = ctx.ensure_object(Settings)
        settings.settle()
        if settings.token or settings.token_file:
            _warn(settings)
        return super().invoke(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise self._unquoted(error) from error

    def _unquoted(self, error: click.UsageError) -> click.UsageError:
        """Return `error`, or one that explains it if the shell has split a request without quotes."""
        if isinstance(error, click.NoSuchOption):
            own = {name for parameter in self.params for name in parameter.opts}
            alike = [each for names in _ALIKE if error.option_name in names for each in names & own]
            hint = f"{error.message} Did you mean {' or '.join(map(repr, alike))}?"
            return click.UsageError(hint, error.ctx) if alike else error
        if "request" not in {parameter.name for parameter in self.params}:
            return error
        if "unexpected extra argument" in error.message:
            rest = error.message.partition("(")[2].rstrip(")")
            return click.UsageError(
                f"A request is one argument. Put it in quotes: kalends {self.name} 'A + B' (not part of the "
                f"request: {rest})",
                error.ctx,
            )
        if isinstance(error, click.MissingParameter) and is_pipe(sys.stdout):
            return click.UsageError(
                f"{error.format_message()} Put a request with | in quotes: kalends {self.name} 'A | B'; "
                "otherwise the shell reads | as a pipe.",
                error.ctx,
            )
        return error

    def _shared_options(self) -> Sequence[click.Parameter]:
        return [*_connection_options(hidden=True), *_form_options(hidden=True)]


def _warn(settings: Settings) -> None:
    """Print a warning if the token is about to expire."""
    # Imported here because many servers ask for no token.
    from kalends.cli.console import output, remedies
    from kalends.core.errors import InvalidInput

    # The call that needs the file reports that it cannot be read; some commands make no call.
    with suppress(InvalidInput):
        if warning := remedies.life_warning(settings, int(time.time())):
            output.say(warning, error=True)


def is_pipe(stream: TextIO) -> bool:
    """Return whether `stream` is a pipe to another program."""
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def server_command(
    name: str, *examples: str, cls: type[click.Command] = ServerCommand
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a function, which gets the `Settings` first, a command that calls a server."""

    def command(function: Callable[..., Any]) -> click.Command:
        return click.command(name, cls=cls, examples=examples)(pass_settings(function))

    return command


def local_command(name: str, *examples: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a function, which gets the `Settings` first, a command that calls no server."""
    return server_command(name, *examples, cls=LocalCommand)


def _attach(function: Callable[..., Any], option: click.Parameter) -> None:
    """Add `option` as click's decorators do: commands read their parameters from this attribute."""
    parameters = getattr(function, "__click_params__", [])
    function.__click_params__ = [*parameters, option]  # type: ignore[attr-defined]  # click's own way

"""Refusal of empty values: one rule for all options and arguments of all commands.

An empty value comes from a shell variable that is not set. It is an error, because the option that it was for
(a reservation, for example) would otherwise be ignored silently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click


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

"""Values that are given and empty: one rule for all options and arguments of all commands.

They come from variables of the shell that are not set. What such an option would have chosen, a reservation
for example, is then not left out in silence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click


def refuse_empty(command: click.Command, ctx: click.Context, args: Sequence[str]) -> None:
    """Raise `InvalidInput`, at the option or the argument, if a value in `args` is empty.

    The words of a program that is run may be empty. Raises `click.UsageError` as parsing does.
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
                remedy="look whether a variable of your shell is not set"
                + (", or leave the option out" if option else ""),
            )


def _may_be_empty(word: str) -> bool:
    name, equals, value = word.partition("=")
    return not value.strip() and (bool(equals) or not name.strip())


def _has_empty(given: Mapping[str, object], parameter: click.Parameter) -> bool:
    value = given.get(parameter.name or "")
    values = value if isinstance(value, list | tuple) else (value,)
    return any(isinstance(each, str) and not each.strip() for each in values)

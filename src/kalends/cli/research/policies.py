"""``kalends policies``: list the scheduling policies."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import chain
from shutil import get_terminal_size
from typing import Any, Final

import click
import msgspec

from kalends.cli.console import output
from kalends.cli.console.commands import local_command
from kalends.cli.console.settings import Settings

TEXT_COLUMNS_MIN: Final = 30
"""Minimum width of wrapped text; on narrower terminals, unwrapped lines read better."""


@local_command("policies", "kalends policies", "kalends policies my_policy:OnePerUser")
@click.argument("own", nargs=-1, metavar="[module:Class]...")
def policies(settings: Settings, own: Sequence[str]) -> None:
    """List the scheduling policies.

    Parts in brackets are optional. Your own policy is named module:Class, with the module on PYTHONPATH or
    in the current directory, and parameters: module:Class:3 or module:Class:most=3. With module:Class, lists
    the parameters of that policy. docs/policies.md has a template.
    """
    if own:
        listed_own = [_own(text) for text in own]
        output.answer(
            settings,
            "own_policies",
            listed_own,
            lambda: chain.from_iterable(map(_block, listed_own)),
        )
        return
    from kalends.scheduling.registry import POLICIES

    listed = [
        {
            "name": policy.name,
            "shown": policy.shown,
            "number": policy.number,
            "optional": policy.optional,
            "summary": policy.summary,
            "paper": policy.paper,
        }
        for policy in POLICIES
    ]
    names = ["POLICY", *(policy.shown for policy in POLICIES)]
    texts = ["WHAT IT DOES (FROM)", *(f"{each.summary} ({each.paper})" for each in POLICIES)]
    output.answer(settings, "policies", listed, lambda: _listing(names, texts))


def _own(text: str) -> dict[str, Any]:
    """Return the summary and parameters of a user's own class; raises `InvalidInput` if there is none."""
    from kalends.cli.research import replays
    from kalends.core.errors import InvalidInput
    from kalends.scheduling.own_parameters import OwnParameters
    from kalends.scheduling.registry import is_own, own_class

    if not is_own(text):
        raise InvalidInput("is not module:Class", where=f"policy {text[:60]}",
                           remedy="name no policy to list all")  # fmt: skip
    replays.look_here()
    own = own_class(text)
    parameters = OwnParameters(own, text).listed()
    module, name, *_ = text.split(":")
    return {
        "name": f"{module}:{name}",
        "parameters": [msgspec.to_builtins(each) | {"shown": each.shown} for each in parameters],
        "summary": (own.__doc__ or "").strip().partition("\n")[0],
    }


def _block(own: dict[str, Any]) -> Iterator[str]:
    """Yield the name of a class, its summary, and its parameters."""
    yield own["name"]
    if own["summary"]:
        yield f"  {own['summary']}"
    for each in own["parameters"]:
        yield f"  {each['shown']}"
    if not own["parameters"]:
        yield "  takes no parameters"


def _listing(names: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return the names next to their texts, wrapped to the terminal or to 80 columns."""
    indent = max(map(len, names)) + 2
    width = max(get_terminal_size().columns, indent + TEXT_COLUMNS_MIN)
    return [
        line
        for name, text in zip(names, texts, strict=True)
        for line in textwrap.wrap(
            text,
            width,
            initial_indent=name.ljust(indent),
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]

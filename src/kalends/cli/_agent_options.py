"""How agents are named on the command line: a file, a name, or ``ready:NAME``; with their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from kalends.client.scripts import Agent
from kalends.core.errors import InvalidInput
from kalends.core.scripts import ArgumentValue

F = TypeVar("F", bound=Callable[..., Any])


def agent_options(function: F) -> F:
    """``--agent`` and ``--argument``."""
    agent = click.option(
        "--agent",
        metavar="AGENT",
        help="Who chooses at each site: a script's FILE, the NAME of one that you uploaded, or "
        "ready:NAME.",
    )
    return agent(argument_option(function))


argument_option = click.option(
    "--argument",
    multiple=True,
    metavar="NAME=VALUE",
    help="What the agent is given along; may be repeated.",
)


def agent_named(text: str | None) -> Agent:
    """What ``--agent`` means: a file that is there wins over a name.

    Raises `InvalidInput` for an empty text, which a shell makes of a variable that is not set, and for
    what can only be a file, and is not there.
    """
    if text is None:
        return ""
    if not text:
        raise InvalidInput(
            "there is no agent in it",
            where="--agent",
            remedy="name a script's file, a script that you uploaded, or ready:NAME; or leave it out",
        )
    path = Path(text)
    if path.is_file():
        return path
    if "/" in text or path.suffix == ".py":
        raise InvalidInput(
            f"there is no file {text}",
            where="--agent",
            remedy="name a script's file, a script that you uploaded, or ready:NAME",
        )
    return text


def argument_values(pairs: Iterable[str]) -> dict[str, ArgumentValue]:
    """``NAME=VALUE`` as a map: numbers, true, false and quoted texts as in JSON, all else as text.

    Raises `InvalidInput` for what has no name, and for a name that is given twice.
    """
    values: dict[str, ArgumentValue] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or not name:
            raise InvalidInput(
                f"{pair!r} is not NAME=VALUE", where="--argument", remedy="write at=09:30"
            )
        if name in values:
            raise InvalidInput(f"{name} is given twice", where="--argument", remedy="give one")
        values[name] = _value(text)
    return values


def argument_text(values: Mapping[str, ArgumentValue]) -> str:
    """`values` as they could be typed: what would be read as something else stands in quotes."""
    return " ".join(f"{name}={_typed(value)}" for name, value in values.items())


def _typed(value: ArgumentValue) -> str:
    if isinstance(value, str) and " " not in value and _value(value) == value:
        return value
    return msgspec.json.encode(value).decode()


def _value(text: str) -> ArgumentValue:
    try:
        return msgspec.json.decode(text.encode(), type=int | float | bool | str)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text


def plain_data(text: str, where: str) -> Any:
    """`text` as JSON; text that is none stands for itself where it cannot be meant as JSON.

    Raises `InvalidInput` for what begins as JSON and is not.
    """
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except msgspec.DecodeError as error:
        if text.lstrip()[:1] not in ("[", "{", '"'):
            return text
        raise InvalidInput(
            f"this is not JSON: {error}", where=where, remedy="""write '{"skip": 3}', or a word"""
        ) from error

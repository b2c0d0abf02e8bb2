"""The options that name an agent, by file, name or ``ready:NAME``, and its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from kalends.cli.console.commands import all_of, section
from kalends.core.errors import InvalidInput

if TYPE_CHECKING:
    from kalends.client.inputs.scripts import Agent
    from kalends.core.scripts import ArgumentValue


agent_option = section("Agent")


argument_option = agent_option(
    "--argument",
    multiple=True,
    metavar="NAME=VALUE",
    help="Agent argument, e.g. at=09:30; may be repeated.",
)

agent_options = all_of(
    agent_option(
        "--agent",
        metavar="AGENT",
        help="Script that chooses at each site: a FILE, the NAME of an uploaded script, or ready:NAME, "
        "e.g. ready:time-of-day.  [default: none]",
    ),
    argument_option,
    agent_option(
        "--agent-must-run",
        is_flag=True,
        help="Nothing is booked if the agent fails at a site.  [default: the site chooses there]",
    ),
)


def agent_named(text: str | None) -> Agent:
    """Return the agent that ``--agent`` names; an existing file wins over a name.

    Raises `InvalidInput` for an empty text, e.g. from an unset shell variable, and for a text that
    can only be a file if there is none.
    """
    if text is None:
        return ""
    if not text:
        raise InvalidInput(
            "the name of the agent is empty",
            where="--agent",
            remedy="give the file of a script, an uploaded script or ready:NAME; or leave --agent out",
        )
    path = Path(text)
    if path.is_file():
        return path
    if "/" in text or path.suffix == ".py":
        raise InvalidInput(
            f"there is no file {text}",
            where="--agent",
            remedy="give the file of a script, an uploaded script or ready:NAME",
        )
    return text


def argument_values(pairs: Iterable[str]) -> dict[str, ArgumentValue]:
    """Parse ``NAME=VALUE``: numbers, true, false and quoted texts as in JSON, all else as text.

    Raises `InvalidInput` for a missing name and for a name given twice.
    """
    values: dict[str, ArgumentValue] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or not name:
            raise InvalidInput(
                f"{pair!r} is not NAME=VALUE", where="--argument", remedy="write at=09:30"
            )
        if name in values:
            raise InvalidInput(f"{name} is given twice", where="--argument", remedy="give it once")
        values[name] = _value(text)
    return values


def argument_text(values: Mapping[str, ArgumentValue]) -> str:
    """Return `values` as they could be typed, with quotes around texts that look like other values."""
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
    """Parse `text` as JSON, or return it as it is if it does not look like JSON.

    Raises `InvalidInput` for text that begins like JSON and is not.
    """
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except msgspec.DecodeError as error:
        if text.lstrip()[:1] not in ("[", "{", '"'):
            return text
        raise InvalidInput(
            f"not JSON: {error}", where=where, remedy="""write '{"skip": 3}', or a word"""
        ) from error

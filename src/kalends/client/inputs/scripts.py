"""Scripts of agents as users name them: a name, a hash, ``ready:NAME``, or their own file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kalends.core.errors import InvalidInput
from kalends.core.scripts import script_hash
from kalends.rim.script_files import read_script

Agent = str | Path
"""An uploaded script by name or hash, ``ready:NAME``, or a `Path` to upload first."""

HASH_DIGITS = 16
"""Digits of a script's hash in the name that its file is uploaded under."""


class NamedScript(NamedTuple):
    """The agent of a request by name; `source` must be uploaded under that name first, if any."""

    name: str
    source: str | None = None


def named_script(agent: Agent) -> NamedScript:
    """Return `agent` as a request names it; a file is named after its hash, so the name is unique.

    Raises like `read_script`, and `InvalidInput` for a value that is neither a text nor a path.
    """
    if isinstance(agent, str):
        return NamedScript(agent)
    if not isinstance(agent, Path):
        raise InvalidInput(
            f"an agent is a text or a path, not {type(agent).__name__}",
            where="agent",
            remedy='give the name or hash of a script, ready:NAME, or the Path of a file; "" for none',
        )
    source = read_script(agent)
    return NamedScript(f"file-{script_hash(source)[:HASH_DIGITS]}", source)


def message_text(message: Any) -> str:
    """Return a message for an agent as it is sent; raises `InvalidInput` if it is not plain data."""
    try:
        return msgspec.json.encode(message).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"not plain data: {error}",
            where="message",
            remedy="use None, true and false, numbers, texts, and lists and maps of them",
        ) from error

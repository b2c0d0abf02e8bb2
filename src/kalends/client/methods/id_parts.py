"""Ids of requests as users give them: whole, or a part that is long enough to tell them apart."""

from __future__ import annotations

import re
from typing import Final

from kalends.core.errors import InvalidInput
from kalends.core.identifiers import REQUEST_ID_PATTERN, short_id

PART_MIN: Final = 4

_WHOLE: Final = re.compile(REQUEST_ID_PATTERN)
_PART: Final = re.compile(r"[0-9a-f-]+")


def id_or_part(given: object, listing: str) -> str:
    """Return the `given` id in lower case; raises `InvalidInput` if it is neither an id nor a valid part.

    `listing` is the command that shows the ids.
    """
    said = given.strip().lower() if isinstance(given, str) else ""
    if not _PART.fullmatch(said) or len(said) < PART_MIN:
        raise InvalidInput(
            f"{given!r} is not an id",
            where="id",
            remedy=f"give an id, or at least {PART_MIN} characters from the beginning or the end of one that "
            f"`{listing}` shows",
        )
    return said


def is_whole(said: str) -> bool:
    """Return whether `id` is a whole id."""
    return _WHOLE.fullmatch(said) is not None


def is_part(said: str, id: str) -> bool:
    """Return whether `id`, or its shown ending, begins or ends with `said`."""
    return id.startswith(said) or id.endswith(said) or short_id(id).startswith(said)

"""Request ids as typed: in full, or by a beginning or an ending that only one of the user's requests has."""

from __future__ import annotations

import re

from kalends.cli._near_names import near
from kalends.client.sync import SyncClient
from kalends.core.errors import InvalidInput, NotFound
from kalends.core.identifiers import REQUEST_ID_PATTERN, short_id

PART_MIN = 4
PAGE = 1_000
PAGES_MAX = 10
"""Parts of ids are looked up in the newest ten thousand requests."""

SHOWN_MAX = 5

_FULL = re.compile(REQUEST_ID_PATTERN)
_PART = re.compile(r"[0-9a-f-]+")


def full_id(client: SyncClient, text: str) -> str:
    """Return the id that is `text`, or begins or ends with it.

    Raises `InvalidInput` for a text that is no id, is too short, or is part of the ids of several
    requests of the caller; `NotFound` if no request has it.
    """
    wanted = text.strip().lower()
    if _FULL.fullmatch(wanted):
        return wanted
    if not _PART.fullmatch(wanted) or len(wanted) < PART_MIN:
        raise InvalidInput(
            f"{text!r} is not an id",
            where="ID",
            remedy=f"give an id, or its last {PART_MIN} or more characters, as `kalends list` shows",
        )
    every = _ids(client)
    found = [id for id in every if id.endswith(wanted) or id.startswith(wanted)]
    if not found:
        meant = near(wanted, (short_id(id) for id in every))
        raise NotFound(
            f"none of your requests has the id {wanted}",
            where="ID",
            remedy=meant or "see `kalends list`",
        )
    if len(found) > 1:
        some = ", ".join(found[:SHOWN_MAX])
        raise InvalidInput(
            f"{wanted} may be {len(found)} requests: {some}{', ...' if len(found) > SHOWN_MAX else ''}",
            where="ID",
            remedy="give more of its end, as `kalends list` shows it",
        )
    return found[0]


def _ids(client: SyncClient) -> list[str]:
    found: list[str] = []
    for _ in range(PAGES_MAX):
        page = client.list(count=PAGE, before=found[-1] if found else "")
        found += [view.id for view in page]
        if len(page) < PAGE:
            break
    return found

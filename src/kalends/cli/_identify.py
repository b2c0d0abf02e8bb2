"""Request ids as typed: in full, or by an ending that only one of the user's requests has."""

from __future__ import annotations

import re

from kalends.client.sync import SyncClient
from kalends.core.errors import InvalidInput, NotFound
from kalends.core.identifiers import REQUEST_ID_PATTERN

ENDING_MIN = 4
PAGE = 1_000
PAGES_MAX = 10
"""Endings are looked up in the newest ten thousand requests."""

SHOWN_MAX = 5

_FULL = re.compile(REQUEST_ID_PATTERN)
_ENDING = re.compile(r"[0-9a-f-]+")


def full_id(client: SyncClient, text: str) -> str:
    """Return the id that is `text` or ends in it.

    Raises `InvalidInput` for a text that is no id, is too short, or ends the ids of several requests
    of the caller; `NotFound` if no request has it.
    """
    wanted = text.strip().lower()
    if _FULL.fullmatch(wanted):
        return wanted
    if not _ENDING.fullmatch(wanted) or len(wanted) < ENDING_MIN:
        raise InvalidInput(
            f"{text!r} is not an id",
            where="ID",
            remedy=f"give an id, or its last {ENDING_MIN} or more characters, as `kalends list` shows",
        )
    found = _ending_in(client, wanted)
    if not found:
        raise NotFound(
            f"none of your requests ends in {wanted}", where="ID", remedy="see `kalends list`"
        )
    if len(found) > 1:
        some = ", ".join(found[:SHOWN_MAX])
        raise InvalidInput(
            f"{len(found)} requests end in {wanted}: {some}", where="ID", remedy="give more of it"
        )
    return found[0]


def _ending_in(client: SyncClient, ending: str) -> list[str]:
    found: list[str] = []
    before = ""
    for _ in range(PAGES_MAX):
        page = client.list(count=PAGE, before=before)
        found += [view.id for view in page if view.id.endswith(ending)]
        if len(page) < PAGE:
            break
        before = page[-1].id
    return found

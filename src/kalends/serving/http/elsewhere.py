"""Calls that another kind of server answers: whoever asks the wrong one is told which is the right one."""

from __future__ import annotations

import re
from typing import Final

from kalends.contract.calls import OPERATIONS, Role
from kalends.core.errors import NotFound

_FIELD: Final = re.compile(r"\{[^}]*\}")


def not_here(role: Role, name: str, path: str, document: str) -> NotFound:
    """Return the error for a `path` that this server lacks; `document` lists those it has."""
    for operation in OPERATIONS:
        form = _FIELD.sub("[^/]+", re.escape(operation.path))
        if role not in operation.roles and re.fullmatch(form, path):
            others = " or ".join(operation.roles)
            return NotFound(
                f"this server is the {_WORDS[role]} {name}, and no {others}: it cannot do this",
                remedy=f"give the address of a {others}: --broker URL, or KALENDS_BROKER",
            )
    return NotFound("no such path", remedy=f"the paths: {document}")


_WORDS: Final[dict[Role, str]] = {"site": "site", "broker": "broker", "virtual": "virtual site"}

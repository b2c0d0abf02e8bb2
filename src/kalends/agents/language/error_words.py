"""Texts of errors in a script: the same words on every Python.

Python's own errors about names, calls and divisions are worded anew from version to version. Scripts cannot
raise these themselves, so nothing that an author has written is changed here.
"""

from __future__ import annotations

import re
from typing import Final

_QUOTED: Final = re.compile(r"'(\w+)'")
_SUGGESTION: Final = re.compile(r"\. Did you mean .*", re.DOTALL)


def words_of(error: Exception) -> str:
    """Return the kind of `error`, and what it says, if that is text."""
    said = error.args[0] if error.args and type(error.args[0]) is str else ""
    if isinstance(error, NameError):
        name = _QUOTED.search(said)
        return f"NameError: {name[1]} has no value yet" if name else f"NameError: {said}"
    if isinstance(error, ZeroDivisionError):
        said = "zero to a negative power" if "power" in said else "division by zero"
    if isinstance(error, TypeError):
        said = _SUGGESTION.sub("", said)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__

"""Signs in the paths of a job's output, such as ``%j``: which there are, and what stands in their places."""

from __future__ import annotations

import re
from typing import Final

from kalends.core.errors import InvalidInput

SIGNS: Final = {
    "%j": "the number of the job",
    "%a": "its index in an array",
    "%u": "its user",
    "%%": "a % sign",
}
"""All signs in the paths of `output` and `error`. Other paths of a job have none."""

_SIGN: Final = re.compile(r"%\d*.?", re.DOTALL)
_VARIABLE: Final = re.compile(r"\$(?:\w+|\{\w+\}?)")
_MEANT: Final = re.compile(r"%\d*[A-Za-z]")


def named_path(path: str, number: int, index: int | None, user: str) -> str:
    """Return a path of `output` or `error` with each sign replaced by what it stands for."""
    texts = {"%j": str(number), "%a": "" if index is None else str(index), "%u": user, "%%": "%"}
    return _SIGN.sub(lambda found: texts.get(found[0], found[0]), path)


def check_output_path(path: str, where: str, *, is_array: bool) -> None:
    """Raise `InvalidInput` for a sign or a variable that a path of output cannot have."""
    listed = ", ".join(f"{sign} ({words})" for sign, words in SIGNS.items())
    for sign in _SIGN.findall(path):
        if sign not in SIGNS:
            raise InvalidInput(
                f"{sign} in {path!r} is not a known sign" if sign != "%" else f"a % ends {path!r}",
                where=where,
                remedy=f"write one of {listed}",
            )
        if sign == "%a" and not is_array:
            raise InvalidInput(
                f"%a in {path!r} is the index in an array, and this job is not an array",
                where=where,
                remedy="leave %a out, or submit an array, e.g. --array 1-10",
            )
    if found := _VARIABLE.search(path):
        raise InvalidInput(
            f"the variable {found[0]} in {path!r} is not replaced there",
            where=where,
            remedy=f"write one of {listed}",
        )


def check_other_path(path: str, where: str) -> None:
    """Raise `InvalidInput` for a sign in a path that has none: it would be taken literally."""
    if found := _MEANT.search(path):
        raise InvalidInput(
            f"{found[0]} in {path!r} is not replaced there: only paths of output have signs",
            where=where,
            remedy="name the path itself; or let the program build it, e.g. from KALENDS_JOB",
        )

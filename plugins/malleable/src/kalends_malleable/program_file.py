"""The file with a user's program."""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kalends.core.errors import InvalidInput
from kalends_malleable.program import Program

FUNCTION: Final = "program"


def program_in(path: Path, arguments: Sequence[str]) -> Program:
    """Return the result of the function `program` of the file at `path` for `arguments`.

    Raises `InvalidInput` if there is no such file or function, or it returns something else; and
    whatever the file itself raises.
    """
    if not path.is_file():
        raise InvalidInput("there is no such file", where=str(path))
    function = runpy.run_path(str(path), run_name="kalends_program").get(FUNCTION)
    if not callable(function):
        raise InvalidInput(
            f"it has no function {FUNCTION}",
            where=str(path),
            remedy=f"define {FUNCTION}(arguments), which returns a kalends_malleable.Program",
        )
    program = function(list(arguments))
    if not isinstance(program, Program):
        raise InvalidInput(
            f"its function {FUNCTION} returns a {type(program).__name__}, not a Program",
            where=str(path),
        )
    return program

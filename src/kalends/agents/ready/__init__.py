"""Ready-made scripts, to use as they are (``--agent ready:NAME``) and to learn from."""

from __future__ import annotations

import ast
from functools import cache
from importlib import resources

from kalends.core.errors import NotFound

_SUFFIX = ".agent.py"


@cache
def names() -> tuple[str, ...]:
    """Return the names of all ready-made scripts, in order."""
    return tuple(
        sorted(
            file.name.removesuffix(_SUFFIX)
            for file in resources.files(__name__).iterdir()
            if file.name.endswith(_SUFFIX)
        )
    )


@cache
def source(name: str) -> str:
    """Return the script `name`; raises `NotFound` for another name."""
    if name not in names():
        raise NotFound(
            f"unknown ready-made script {name[:64]!r}",
            where="agent",
            remedy=f"the ready-made ones are {', '.join(names())}",
        )
    return resources.files(__name__).joinpath(name + _SUFFIX).read_text(encoding="utf-8")


def summary(name: str) -> str:
    """Return a one-line summary of the script `name`; raises as `source`."""
    return (ast.get_docstring(ast.parse(source(name))) or "").partition("\n")[0]

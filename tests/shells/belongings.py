"""How much honest servers remember: the greatest of all containers that are reached from their machines."""

from __future__ import annotations

import gc
from collections import deque
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final

CONTAINERS: Final = (dict, list, set, deque, tuple)
NOT_THEIRS: Final = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
"""What belongs to the program, and leads everywhere; bound methods lead to other parts."""


def greatest(of: Any, left_out: tuple[type, ...]) -> tuple[int, str]:
    """Return the length of the longest container that is reached from `of`, and how it is reached.

    Not by way of instances of `left_out`.
    """
    seen = {id(of)}
    to_see = deque([(of, type(of).__name__)])
    found = (0, "")
    while to_see:
        each, way = to_see.popleft()
        if isinstance(each, CONTAINERS):
            found = max(found, (len(each), way))
        names = {id(value): name for name, value in getattr(each, "__dict__", {}).items()}
        for inner in gc.get_referents(each):
            if id(inner) in seen or isinstance(
                inner, (*NOT_THEIRS, *left_out, str, bytes, int, float)
            ):
                continue
            seen.add(id(inner))
            to_see.append((inner, f"{way}.{names.get(id(inner), type(inner).__name__)}"[-200:]))
    return found

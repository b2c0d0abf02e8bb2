"""Whether a mutation still puts itself in the place of something: what it breaks may have moved away."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any


def mutated(module: ModuleType) -> Iterator[type]:
    """The classes of `module` that are derived from others."""
    for each in vars(module).values():
        if isinstance(each, type) and each.__module__ == module.__name__:
            yield each


def idle(broken: type) -> list[str]:
    """What of `broken` replaces nothing, and is not used by itself; or cannot be called as before."""
    base = broken.__bases__[0]
    source = inspect.getsource(broken)
    found = [
        f"{name} replaces nothing of {base.__name__}"
        for name in _own(broken)
        if not hasattr(base, name) and not re.search(rf"self\.{name}\b", source)
    ]
    for name in _own(broken):
        before, after = getattr(base, name, None), getattr(broken, name)
        if inspect.isfunction(before) and _called(before) != _called(after):
            found.append(f"{name} is called with {_called(before)}, not {_called(after)}")
    return found


def _own(broken: type) -> list[str]:
    return [name for name in vars(broken) if not name.startswith("__")]


def _called(function: Callable[..., Any]) -> list[tuple[str, str]]:
    parameters = inspect.signature(function).parameters.values()
    return [(each.name, each.kind.description) for each in parameters]

"""The language of agents: a small, deterministic part of Python, checked, rewritten and counted.

A script is read (`checker`), rewritten by RestrictedPython under our own policy (`policy`), and run with
guards in place of every operation that could take long (`job`). This layer gives good errors and the same
answer everywhere. It is not the wall: that is the sandbox.
"""

from __future__ import annotations

import sys
from typing import Final

POLICY: Final = 3
"""Number of this language: raise it with every change that can change an answer or the bytecode."""

ENGINE: str
"""Version of a script's engine: bytecode is good for this engine only, and so is the promise of replay."""


def __getattr__(name: str) -> str:
    """Return `ENGINE` when it is first used, because a worker never uses it."""
    if name != "ENGINE":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    python = f"Python-{sys.version_info.major}.{sys.version_info.minor}"
    engine = f"agents-{POLICY} RestrictedPython-{version('RestrictedPython')} {python}"
    globals()[name] = engine
    return engine

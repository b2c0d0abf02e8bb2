"""The language of agents: a small, deterministic part of Python, checked, rewritten and counted.

A script is read (`checker`), rewritten by RestrictedPython under our own policy (`policy`,
`compiler`), and run with guards in place of every operation that could take long (`job`). This
layer gives good errors and the same answer everywhere. It is not the wall: that is the sandbox.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kalends.agents.language.version import ENGINE as ENGINE


def __getattr__(name: str) -> str:
    """Look up `ENGINE` when it is first asked for, because a worker never does."""
    if name == "ENGINE":
        from kalends.agents.language.version import ENGINE

        return ENGINE
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

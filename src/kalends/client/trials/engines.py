"""The engine of this computer: the sandbox if possible, otherwise only the language."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from kalends.agents.runs import Engine
from kalends.agents.sandbox import Sandbox, SandboxLimits, SandboxUnavailable
from kalends.agents.sandbox.language_only import LanguageOnly

LIMITS: Final = SandboxLimits(cpu_s_per_minute=60.0, running_max=1, spares=1)
"""The limits of sites, for one user who runs one script after another."""

SANDBOX: Final = "the sandbox"


class Here(NamedTuple):
    """An engine, and `words` for the place where it runs scripts."""

    engine: Engine
    words: str


@asynccontextmanager
async def engine_here() -> AsyncIterator[Here]:
    """Yield the best engine of this computer; the context ends it and leaves no process."""
    here = await _best()
    try:
        yield here
    finally:
        await here.engine.close()


async def _best() -> Here:
    try:
        return Here(await Sandbox.start(LIMITS), SANDBOX)
    except SandboxUnavailable as error:
        alone = f"this process, restricted only by the language: {error.detail}"
        return Here(LanguageOnly(steps_max=LIMITS.steps_max), alone)

"""Choosing the engine that a server runs scripts with, by its configuration and what the host can do."""

from __future__ import annotations

from typing import Protocol

from kalends.agents.runs import Engine, RunOutcome, ScriptCheck, ScriptRun
from kalends.agents.sandbox.sandbox import Alerted, Sandbox, SandboxLimits
from kalends.agents.sandbox.zygote_process import SandboxUnavailable


class EngineSettings(Protocol):
    """The settings of `kalends.serving.configuration.AgentsConfiguration` for running scripts."""

    @property
    def enabled(self) -> bool: ...
    @property
    def language_only(self) -> bool: ...
    @property
    def steps_max(self) -> int: ...
    @property
    def cpu_s_max(self) -> float: ...
    @property
    def wall_s_max(self) -> float: ...
    @property
    def memory_mb_max(self) -> int: ...
    @property
    def cpu_s_per_minute(self) -> float: ...


class NoEngine:
    """An `Engine` that runs nothing, and says in every answer why not: `detail`."""

    def __init__(self, detail: str) -> None:
        self.detail = detail

    async def check(self, source: str, user: str) -> ScriptCheck:
        return ScriptCheck("sandbox-unavailable", detail=self.detail)

    async def run(self, job: ScriptRun) -> RunOutcome:
        return RunOutcome("sandbox-unavailable", detail=self.detail)

    async def close(self) -> None:
        pass


async def engine_for(
    settings: EngineSettings, *, alerted: Alerted = lambda user, detail: None
) -> Engine:
    """Return the sandbox; the language alone when `settings` say so; else one that answers why not.

    The caller should report to the operator if this is not a `Sandbox`. `alerted` is
    called with a user and what their script did, when one attacks the host.
    """
    if not settings.enabled:
        return NoEngine("agents are switched off in this server's configuration")
    if settings.language_only:
        # Only here: the sandbox's own host must not need what only workers load.
        from kalends.agents.sandbox.language_only import LanguageOnly

        return LanguageOnly(steps_max=settings.steps_max)
    limits = SandboxLimits(
        steps_max=settings.steps_max,
        cpu_s_max=settings.cpu_s_max,
        wall_s_max=settings.wall_s_max,
        memory_mb_max=settings.memory_mb_max,
        cpu_s_per_minute=settings.cpu_s_per_minute,
    )
    try:
        return await Sandbox.start(limits, alerted=alerted)
    except SandboxUnavailable as error:
        return NoEngine(str(error)[:300])

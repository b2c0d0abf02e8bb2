"""Checking scripts at upload: the engine that does it, from the start of the broker to its stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kalends.agents.runs import Engine, RunOutcome, ScriptCheck, ScriptRun
from kalends.agents.sandbox import NoEngine, engine_for
from kalends.core.errors import InvalidInput, NotAllowed, Refusal, Unavailable
from kalends.core.scripts import BLAME, Violation
from kalends.serving.configuration import AgentsConfiguration
from kalends.serving.logs import Logger

UNCHECKED: Final = "scripts of users cannot be checked"
LANGUAGE_ONLY: Final = "scripts of users are checked without the sandbox, for development"


class ScriptChecks:
    """`detail` says what its users should know of how scripts are checked here; "" when all is well."""

    def __init__(
        self, settings: AgentsConfiguration, logger: Logger, alarm: Callable[[str], None]
    ) -> None:
        self.detail = f"{UNCHECKED}: the broker is starting"
        self._settings = settings
        self._logger = logger
        self._alarm = alarm
        self._engine: Engine = NoEngine(self.detail)

    async def start(self) -> None:
        self._engine = await engine_for(self._settings, alerted=self._alerted)
        if isinstance(self._engine, NoEngine):
            self.detail = f"{UNCHECKED}: {self._engine.detail}"
            self._logger.warning("scripts_unchecked", reason=self._engine.detail)
        else:
            self.detail = LANGUAGE_ONLY if self._settings.language_only else ""

    async def stop(self) -> None:
        """Checks that are under way end as killed."""
        await self._engine.close()

    async def check(self, source: str, user: str) -> ScriptCheck:
        return await self._engine.check(source, user)

    async def run(self, job: ScriptRun) -> RunOutcome:
        """Run a script that orders bids; whatever it does, that is an outcome."""
        return await self._engine.run(job)

    def _alerted(self, user: str, detail: str) -> None:
        self._alarm(f"a script of {user} broke out of its language: {detail}")


def accepted(checked: ScriptCheck) -> ScriptCheck:
    """`checked`, if it is of a script that may run.

    Raises `InvalidInput` with a refusal for every rule that is broken, `NotAllowed` for a user whose
    scripts are suspended, and `Unavailable` when it could not be checked now.
    """
    if checked.code == "ok":
        return checked
    if checked.violations:
        count = len(checked.violations)
        raise InvalidInput(
            f"the script breaks {'a rule' if count == 1 else f'{count} rules'} of the language",
            where="source",
            remedy="fix the listed violations; `kalends agent check FILE` lists it too",
            refusals=tuple(_refusal(each) for each in checked.violations),
        )
    if checked.code == "policy-violation":
        raise NotAllowed(
            checked.detail or "this user's scripts are suspended: one has attacked the host",
            where="source",
            remedy="wait ten minutes, or ask the operator",
        )
    if BLAME[checked.code] == "host":
        raise Unavailable(
            checked.detail or f"the script could not be checked ({checked.code})",
            where="source",
            remedy="try again later; the health of the broker shows the cause",
            retry_after_s=5.0,
        )
    said = f": {checked.detail}" if checked.detail else ""
    raise InvalidInput(
        f"the script cannot be checked ({checked.code}){said}",
        where="source",
        remedy="make the script smaller and simpler",
    )


def _refusal(violation: Violation) -> Refusal:
    return Refusal(
        where=f"line {violation.line}, column {violation.column}",
        code=violation.rule,
        detail=violation.detail,
    )

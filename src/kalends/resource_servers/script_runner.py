"""Running agents at a site: the engine, the records of runs, and what the operator should know of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kalends.agents.runs import Engine, RunOutcome
from kalends.agents.sandbox import NoEngine, Sandbox, engine_for
from kalends.agents.world.answers import judged
from kalends.core.intervals import Moment
from kalends.core.scripts import BLAME, script_hash
from kalends.resource_servers.journal.contract import RunsKept, SiteStorage
from kalends.resource_servers.metrics import RunMeasures
from kalends.resource_servers.participation.effects import RunTask
from kalends.serving.configuration import SiteConfiguration
from kalends.serving.logs import Logger

NOT_RUN: Final = "scripts of users are not run"
LANGUAGE_ONLY: Final = (
    "scripts of users run inside this server, without the sandbox: for development"
)


class ScriptRunner:
    """`detail` says what users should know of how their scripts are run here; "" when all is well.

    `alarm` hears of scripts that attack the host.
    """

    def __init__(
        self,
        configuration: SiteConfiguration,
        storage: SiteStorage,
        moment: Callable[[], Moment],
        measures: RunMeasures,
        logger: Logger,
        alarm: Callable[[str], None],
    ) -> None:
        settings = configuration.agents
        self.detail = ""
        kept = RunsKept(
            settings.runs_kept_max,
            settings.runs_kept_per_user_max,
            int(settings.runs_kept_mb * 1_048_576),
        )
        self.records = storage.runs(kept, logger)
        self._settings = settings
        self._decides = any(
            each.decide is not None for each in (*configuration.resources, configuration.defaults)
        )
        self._moment = moment
        self._measures = measures
        self._logger = logger
        self._alarm = alarm
        self._engine: Engine = NoEngine("the site is starting")

    async def start(self) -> None:
        """Start the engine for scripts; without one, every run is refused with the reason."""
        if not (self._settings.enabled or self._decides):
            return
        self._engine = await engine_for(self._settings, alerted=self._alerted)
        if isinstance(self._engine, NoEngine):
            self.detail = f"{NOT_RUN}: {self._engine.detail}"
            self._logger.warning("scripts_not_run", reason=self._engine.detail)
        elif self._settings.language_only:
            self.detail = LANGUAGE_ONLY
            self._logger.warning("scripts_run_without_sandbox")
        elif isinstance(self._engine, Sandbox):
            self._logger.info("scripts_run_behind", walls=self._engine.walls)
        await self.records.open()

    async def stop(self) -> None:
        """Runs under way end as killed; no further ones begin. A second call does nothing."""
        engine, self._engine = self._engine, NoEngine("the site is stopping")
        await engine.close()

    async def run(self, errand: RunTask) -> RunOutcome:
        """Run it to its end, count it, and write it down."""
        outcome = judged(errand.job, await self._engine.run(errand.job))
        self._measures.ended(errand.job.function, outcome)
        self.records.keep(errand.number, self._moment().wall_ms, errand.rid, errand.job, outcome)
        if outcome.code != "ok":
            self._logger.info(
                "run_failed",
                run=errand.number,
                rid=errand.rid,
                user=errand.job.user,
                script=script_hash(errand.job.source),
                function=errand.job.function,
                code=outcome.code,
                blame=BLAME[outcome.code],
                line=outcome.line,
                steps=outcome.cost.steps,
                wall_us=outcome.cost.wall_us,
            )
        return outcome

    def _alerted(self, user: str, detail: str) -> None:
        self._alarm(f"a script of {user} broke out of its language: {detail}")

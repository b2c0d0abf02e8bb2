"""An owner's script, tried on bookings that a site has recorded."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kalends.agents import records
from kalends.agents.runs import Engine, RunOutcome, ScriptRun
from kalends.agents.world.answers import decided, judged
from kalends.client.trials.engines import engine_here
from kalends.core.scripts import RunCode


class RuleTrial(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded question, with the decision `then`, and that of the script `now` (see `words_of`).

    `code` is not "ok" if the script fails now; `detail` says why.
    """

    run: int
    at_ms: int
    id: str
    user: str
    resource: str
    slots: tuple[tuple[int, int, int], ...]
    """``(start, end, units)``, seconds UTC."""
    then: str
    now: str
    code: RunCode
    detail: str

    @property
    def same(self) -> bool:
        return self.then == self.now


async def try_rules(source: str, recorded: Sequence[bytes]) -> list[RuleTrial]:
    """Ask the script `source` each recorded question again; raises `InvalidInput` for an invalid record."""
    async with engine_here() as here:
        return [await _tried(here.engine, source, each) for each in recorded]


async def _tried(engine: Engine, source: str, record: bytes) -> RuleTrial:
    before = records.decode(record)
    then = RunOutcome(before.code, before.answer, detail=before.detail)
    job = before.job()._replace(source=source)
    now = judged(job, await engine.run(job))
    request, calendar, _ = job.arguments
    return RuleTrial(
        run=before.number,
        at_ms=before.at_ms,
        id=before.rid,
        user=request["user"],
        resource=calendar["resource"],
        slots=tuple((each["start"], each["end"], each["units"]) for each in request["slots"]),
        then=words_of(job, then),
        now=words_of(job, now),
        code=now.code,
        detail=now.detail,
    )


def words_of(job: ScriptRun, outcome: RunOutcome) -> str:
    """Return a decision in words: ``yes``, ``ask``, ``no: at most 4 units`` or ``failed: limit-steps``."""
    if outcome.code != "ok":
        return f"failed: {outcome.code}"
    decision = decided(outcome.answer)
    most = max(each["units"] for each in job.arguments[0]["slots"])
    if decision.units_max and most > decision.units_max:
        return f"no: at most {decision.units_max} units"
    return f"no: {decision.word}" if decision.answer == "no" else decision.answer

"""A run of a site, repeated here."""

from __future__ import annotations

import msgspec

from kalends.agents import records
from kalends.agents.runs import Function
from kalends.client.trials.engines import engine_here
from kalends.core.scripts import RunCode


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded run, and whether its result was the `same` in `place`; `detail` is the difference."""

    same: bool
    detail: str
    place: str
    number: int
    site: str
    rid: str
    script: str
    function: Function
    code: RunCode
    steps: int
    engine: str


async def replay(record: bytes) -> Replay:
    """Repeat the run in `record`; raises `InvalidInput` for an invalid or changed record."""
    run = records.decode(record)
    async with engine_here() as here:
        replayed = await records.replay(run, here.engine)
    return Replay(
        same=replayed.same,
        detail=replayed.detail,
        place=here.words,
        number=run.number,
        site=run.site,
        rid=run.rid,
        script=run.script,
        function=run.function,
        code=run.code,
        steps=run.steps,
        engine=run.engine,
    )

"""A run of a site, run again here."""

from __future__ import annotations

import msgspec

from kalends.agents import records
from kalends.agents.runs import Function
from kalends.client.trials.engines import engine_here
from kalends.core.scripts import RunCode


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded run, and whether it came out the `same` in `place`; `detail` says what differs."""

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
    """Run what is in `record` again; raises `InvalidInput` for what is no record, or was changed."""
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

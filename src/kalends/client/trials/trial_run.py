"""A trial of a script on calendars from files, as each site would run it; and a site's run, repeated here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kalends.agents import local, records
from kalends.agents.runs import Engine, Function
from kalends.agents.world.answers import chosen, judged
from kalends.agents.world.offers import Offer, default_choice
from kalends.agents.world.views import Asker
from kalends.agents.world.visible_calendar import Shown
from kalends.client.trials.engines import engine_here
from kalends.core.requests import Request
from kalends.core.scripts import RunCode, Violation


class TrialChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A slot in the order of preference; `recall` is "" if there was no recall."""

    id: int
    term: int
    resource: str
    start: int
    end: int
    units: int
    free: int
    recall: str = ""


class SiteRun(msgspec.Struct, frozen=True, kw_only=True):
    """The run at one site: the slots `chosen` of `slots` by the script, or by the default (see `code`).

    A site would hold the first `held_max` of `chosen` that its owner allows.
    """

    site: str
    code: RunCode
    detail: str
    line: int
    violations: tuple[Violation, ...]
    slots: int
    held_max: int
    chosen: tuple[TrialChoice, ...]
    sent: tuple[Any, ...]
    steps: int
    cpu_us: int
    wall_us: int


class LocalRun(msgspec.Struct, frozen=True, kw_only=True):
    """The runs at all sites, by name; `place` is where this computer ran them."""

    place: str
    sites: tuple[SiteRun, ...]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A trial: `source` runs for `user` with the messages `inbox`; also its ``recall``, with `recall`."""

    source: str
    request: Request
    user: str
    inbox: tuple[Any, ...]
    wall_s: int
    recall: bool


async def run(trial: Trial, shown: Mapping[str, Shown]) -> LocalRun:
    """Run the script once for each site of the request; raises `InvalidInput` if it has none."""
    asked = {ask.resource for ask in local.asks_of(trial.request, shown)}
    sites = local.by_site({name: shown[name] for name in asked})
    async with engine_here() as here:
        runs = [await _at_site(here.engine, site, sites[site], trial) for site in sites]
    return LocalRun(place=here.words, sites=tuple(runs))


async def _at_site(engine: Engine, site: str, shown: Mapping[str, Shown], trial: Trial) -> SiteRun:
    job, offers = local.job_of(
        trial.source, shown, trial.request, trial.user, 1, trial.inbox, trial.wall_s
    )
    outcome = judged(job, await engine.run(job))
    ours = outcome.code == "ok"
    preferred = chosen(outcome.answer, offers) if ours else default_choice(offers)
    held = preferred[: local.HELD_MAX] if ours and trial.recall else []
    recalls = {offer.id: await _recalled(engine, shown, trial, held, offer) for offer in held}
    return SiteRun(
        site=site,
        code=outcome.code,
        detail=outcome.detail,
        line=outcome.line,
        violations=outcome.violations,
        slots=len(offers),
        held_max=local.HELD_MAX,
        chosen=tuple(_choice(offer, recalls.get(offer.id, "")) for offer in preferred),
        sent=outcome.sent if ours else (),
        steps=outcome.cost.steps,
        cpu_us=outcome.cost.cpu_us,
        wall_us=outcome.cost.wall_us,
    )


async def _recalled(
    engine: Engine, shown: Mapping[str, Shown], trial: Trial, held: Sequence[Offer], offer: Offer
) -> str:
    """Return the script's answer when an older request wants the time and units of `offer`."""
    asker = Asker(offer.start, offer.end, offer.units)
    job = local.recall_job_of(
        trial.source, shown, trial.request, trial.user, held, offer.id, asker, (), trial.wall_s
    )
    outcome = judged(job, await engine.run(job))
    if outcome.code != "ok":
        return f"{outcome.code}: {outcome.detail}"
    return "given back" if outcome.answer else "kept"


def _choice(offer: Offer, recall: str) -> TrialChoice:
    return TrialChoice(
        id=offer.id,
        term=offer.term,
        resource=offer.resource,
        start=offer.start,
        end=offer.end,
        units=offer.units,
        free=offer.free,
        recall=recall,
    )


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

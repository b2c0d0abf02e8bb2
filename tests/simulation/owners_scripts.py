"""Owners whose scripts decide on bookings, and a judge who has read every answer of a script."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kalends.agents.runs import RunOutcome, ScriptRun
from kalends.calendars import OwnerRules, ResourceCalendar, RuleScript
from kalends.resource_servers.participation.claims.claim_sets import (
    Claim,
    Stake,
    StakeStored,
    decode_stake,
)
from kalends.resource_servers.participation.effects import ParticipantEffects, SiteFact
from tests.simulation.auditor import Taken, units_at
from tests.simulation.kernel import Violation
from tests.simulation.nodes import SiteNode
from tests.simulation.owners import look_again

if TYPE_CHECKING:
    from tests.simulation.world import World

SCRIPT: Final = "def decide(request, calendar, usage):\n    return True\n"
"""Its answers are drawn, whatever it says."""


class ScriptsObeyed:
    """Notes what each run was asked and has answered, and compares it with what sites store.

    A site may promise only what a script has allowed for this request, in this life of the site or an earlier
    one; what the owner has approved; and what lies within the reservation that it replaces.
    """

    def __init__(self, on_failure: dict[str, str]) -> None:
        self.promised = self.refused = 0
        """How many slots that a script had allowed were promised; how many answers were no."""
        self._on_failure = on_failure
        self._asked: dict[tuple[str, int], tuple[str, ScriptRun]] = {}
        self._answers: defaultdict[tuple[str, str], dict[Taken, set[str]]] = defaultdict(
            lambda: defaultdict(set)
        )
        self._stakes: dict[tuple[str, str], Stake] = {}

    def attach(self, world: World) -> None:
        """Look over the shoulder of the sites of `world` and of its auditor."""
        stored = world.auditor.site_stored

        def storing(site: str, facts: Sequence[SiteFact]) -> None:
            stored(site, facts)
            for fact in facts:
                if isinstance(fact, StakeStored):
                    self._stored(site, decode_stake(fact.body))

        world.auditor.site_stored = storing  # type: ignore[method-assign]
        for site in world.sites:
            self._listen(site)
        world.judges.append(self)

    def _listen(self, site: SiteNode) -> None:
        set_out, done = site._set_out, site._errand_done

        def setting_out(effects: ParticipantEffects) -> None:
            for errand in effects.errands:
                if errand.job.function == "decide":
                    self._asked[site.name, errand.number] = errand.rid, errand.job
            set_out(effects)

        def ending(number: int, outcome: RunOutcome) -> None:
            asked = self._asked.pop((site.name, number), None)
            if asked is not None:
                self._answered(site.name, *asked, outcome)
            done(number, outcome)

        site._set_out, site._errand_done = setting_out, ending  # type: ignore[method-assign]

    def _answered(self, site: str, rid: str, job: ScriptRun, outcome: RunOutcome) -> None:
        request, calendar, _ = job.arguments
        for each in request["slots"]:
            slot = (calendar["resource"], each["start"], each["end"], each["units"])
            answer = self._meant(site, outcome, each["units"])
            self.refused += answer == "no"
            self._answers[site, rid][slot].add(answer)

    def _meant(self, site: str, outcome: RunOutcome, units: int) -> str:
        answer: Any = outcome.answer
        if outcome.code == "ok":
            if answer is True:
                return "yes"
            if answer and isinstance(answer, str):
                return "no"
            if isinstance(answer, dict) and answer.get("ask") is True:
                return "ask"
            if isinstance(answer, dict) and answer.get("units_max"):
                return "yes" if units <= answer["units_max"] else "no"
        return {"rules": "yes", "ask": "ask", "no": "no"}[self._on_failure[site]]

    def _stored(self, site: str, stake: Stake) -> None:
        before, self._stakes[site, stake.rid] = self._stakes.get((site, stake.rid)), stake
        if before is not None and (before.has("prepared") or before.has("locked")):
            return
        old = self._stakes.get((site, stake.replaces))
        kept = _taken(old.claims_in("locked")) if old is not None else []
        approved = stake.petition is not None and stake.petition.state == "approved"
        if site not in self._on_failure or approved:
            return
        promised = stake.claims_in("prepared")
        times = {time for _, *window, _ in (*_taken(promised), *kept) for time in window}
        for slot in _taken(promised):
            resource, start, end, _ = slot
            # Within what the request replaces no script is asked.
            more = any(
                units_at(_taken(promised), resource, time) > units_at(kept, resource, time)
                for time in times
                if start <= time < end
            )
            answers = self._answers[site, stake.rid][slot]
            if more and "yes" not in answers:
                raise Violation(
                    f"{site} promises {slot} to {stake.rid}, and its script said {sorted(answers)}"
                )
            self.promised += more

    def finish(self) -> Iterable[str]:
        """Nothing more is wrong than was found at once."""
        return ()


def _taken(claims: Sequence[Claim]) -> list[Taken]:
    return [(each.resource, each.start, each.end, each.units) for each in claims]


def owners_scripts_decide(world: World) -> ScriptsObeyed:
    """Most owners have a script, which says yes, no, or that the owner is to be asked, or fails."""
    random = world.kernel.random
    ruled = [site for site in world.sites if random.random() < 0.7] or world.sites[:1]
    on_failure = {site.name: random.choice(("rules", "ask", "no")) for site in ruled}
    for site in ruled:
        script = RuleScript(SCRIPT, "as drawn", on_failure[site.name])  # type: ignore[arg-type]
        site._calendars = _with_script(site._calendars, script)
        world.auditor.asked |= {f"{site.name}/x", f"{site.name}/n"}
        look_again(world, site)
    judge = ScriptsObeyed(on_failure)
    judge.attach(world)
    return judge


def _with_script(
    make: Callable[[], dict[str, ResourceCalendar]], script: RuleScript
) -> Callable[[], dict[str, ResourceCalendar]]:
    def scripted() -> dict[str, ResourceCalendar]:
        return {
            name: ResourceCalendar(each.info, each.access, (), OwnerRules(script=script))
            for name, each in make().items()
        }

    return scripted

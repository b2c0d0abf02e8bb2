"""Owners' scripts decide on bookings (Ramamoorthi and others 1997, section 1: managers set policies).

A script only narrows: access and limits hold whatever it says, and what is free is looked at afterwards. It
runs before a slot is held, outside of the machine, so its answer comes in as an event. By then the calendar
may have changed: what it was shown is compared with what it would be shown now. A promise is given only for
slots on which the script that holds has decided; no message of a broker can stand for that.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, NamedTuple

from kalends.agents.runs import RunOutcome, ScriptRun
from kalends.agents.world.answers import BadResult, Decision, decided
from kalends.agents.world.zones import clocks_of
from kalends.calendars import RuleScript
from kalends.contract import messages as m
from kalends.contract.fields import Want
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.intervals import Moment
from kalends.core.principals import Principal
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake, claims_of
from kalends.resource_servers.participation.claims.occupancy import pieces_beyond, wants_beyond
from kalends.resource_servers.participation.consequences import Consequences
from kalends.resource_servers.participation.kernel import Base
from kalends.resource_servers.participation.parts import Plug, Tier
from kalends.resource_servers.participation.rulings.ruling_inputs import ruling_arguments

RULING_MS_MAX: Final = 12_000
"""An engine ends every run long before; a visit does not depend on that."""

RUNS_MAX: Final = 3
"""Runs for the same slots, if what the script was shown has changed each time; then the last one counts."""

GROUPS_MAX: Final = 8
"""Sets of slots that are ruled on for one visit; an agent's further choices are not held."""

REQUESTS_MAX: Final = 4_096
"""Requests whose rulings are remembered. One that is forgotten is ruled on again."""

FAILURES_MAX: Final = 5
"""Failures in a row after which a script is not run any more, until its owner changes it."""

OWNER: Final = "(owner)"
"""In place of a user: owners' scripts have their own turn in the sandbox. No user can have this name."""


class Group(NamedTuple):
    """Slots on `resource` that go together: they are ruled on at once."""

    resource: str
    wants: tuple[Want, ...]


class Ruling(NamedTuple):
    """The decision of `script` (its source) about a slot of `user`; `word` is the reason of a no."""

    user: str
    script: str
    answer: Literal["yes", "no", "ask"]
    word: str = ""


@dataclass(eq=False, slots=True)
class _Visit:
    """A visit that waits for its rulings; then `resume` is called."""

    att: int
    secret: str
    principal: Principal
    replaces: str
    resume: Callable[[Moment], None]
    runs: int = 0
    """Runs under way."""


class OwnersScripts:
    """All rulings of a site, and those that are under way; see `sockets.Rulings`."""

    def __init__(self, base: Base) -> None:
        self.book, self.outbox, self.runs = base.book, base.outbox, base.runs
        self.decides = False
        self._made: OrderedDict[str, dict[Want, Ruling]] = OrderedDict()
        self._waiting: dict[str, _Visit] = {}
        self._failures: dict[str, tuple[str, int]] = {}
        """For each resource its script, and how often that has failed in a row."""
        self.look()

    def look(self) -> None:
        self.decides = any(each.rules.script for each in self.book.calendars.values())

    @property
    def plugs(self) -> tuple[Plug, ...]:
        return (
            Plug(Tier.ENDS, listen=self._listen, att_of=self._att_of, secret_of=self._secret_of),
        )

    def _listen(self, then: Consequences) -> None:
        then.attempt_over.add(self._over)

    def _att_of(self, rid: str) -> int:
        visit = self._waiting.get(rid)
        return visit.att if visit is not None else 0

    def _secret_of(self, rid: str) -> str | None:
        visit = self._waiting.get(rid)
        return visit.secret if visit is not None else None

    def _over(self, rid: str, att: int) -> None:
        visit = self._waiting.get(rid)
        if visit is not None and visit.att <= att:
            del self._waiting[rid]

    # Before anything is held

    def awaits(
        self, visit: m.Visit | m.Dispatch, wants: Sequence[tuple[Want, int]], now: Moment,
        resume: Callable[[Moment], None],
    ) -> bool:  # fmt: skip
        rid, user = visit.rid, visit.principal.user
        before = self._waiting.get(rid)
        if before is not None and before.att >= visit.att:
            return True
        replaces = visit.replaces if isinstance(visit, m.Visit) else ""
        beyond = wants_beyond([want for want, _ in wants], self._standing(replaces, user))
        left = [
            group
            for group in _grouped(each for each in wants if each[0] in beyond)
            if (script := self._script(group.resource)) is not None
            and not all(self._is_ruled(rid, user, want, script) for want in group.wants)
        ]
        if not left:
            return False
        waits = self._waiting[rid] = _Visit(
            visit.att, visit.secret, visit.principal, replaces, resume
        )
        for group in left[:GROUPS_MAX]:
            self._ask(rid, waits, group, 1, now)
        if not waits.runs:
            del self._waiting[rid]
        return bool(waits.runs)

    def _ask(self, rid: str, visit: _Visit, group: Group, times: int, now: Moment) -> None:
        """Run the script for `group`; if it is put aside, decide as its owner has configured."""
        script = self._script(group.resource)
        if script is None:
            return
        source, failures = self._failures.get(group.resource, ("", 0))
        if source == script.source and failures >= FAILURES_MAX:
            self._rule(rid, visit, group, _fallen_back(script))
            return
        job = self._job(rid, visit, group, script, now)
        visit.runs += 1
        self.runs.set_out(
            rid, job, now, RULING_MS_MAX, partial(self._ran, rid, visit, group, job, now, times)
        )

    def _job(
        self, rid: str, visit: _Visit, group: Group, script: RuleScript, now: Moment
    ) -> ScriptRun:
        calendar = self.book.calendars[group.resource]
        arguments = ruling_arguments(
            calendar,
            visit.principal,
            group.wants,
            self._standing(visit.replaces, visit.principal.user),
            rid,
            now.wall_s,
        )
        first = min(each.start for each in group.wants)
        last = max(each.end for each in group.wants)
        zones = clocks_of({calendar.info.zone}, first, last)
        return ScriptRun(OWNER, script.source, "decide", arguments, (), zones)

    def _ran(
        self, rid: str, visit: _Visit, group: Group, job: ScriptRun, asked: Moment, times: int, number: int,
        outcome: RunOutcome, now: Moment,
    ) -> None:  # fmt: skip
        if self._waiting.get(rid) is not visit:
            return
        visit.runs -= 1
        script = self._script(group.resource)
        if script is not None:
            changed = self._job(rid, visit, group, script, asked) != job
            if changed and outcome.code == "ok" and times < RUNS_MAX:
                self._ask(rid, visit, group, times + 1, now)
            else:
                self._rule(rid, visit, group, self._decision(group, script, outcome))
        if not visit.runs:
            del self._waiting[rid]
            visit.resume(now)

    def _decision(self, group: Group, script: RuleScript, outcome: RunOutcome) -> Decision:
        code, detail = outcome.code, outcome.detail
        if code == "ok":
            try:
                decision = decided(outcome.answer)
            except BadResult as error:
                code, detail = "bad-result", error.detail
            else:
                if self._failures.pop(group.resource, None):
                    self.outbox.report(_about(group.resource), "")
                return decision
        source, failures = self._failures.get(group.resource, ("", 0))
        failures = failures + 1 if source == script.source else 1
        self._failures[group.resource] = (script.source, failures)
        at = f" in line {outcome.line}" if outcome.line else ""
        told = f"it fails{at}: {code}: {detail}"
        if failures >= FAILURES_MAX:
            told += "; it is not run again until it changes"
        self.outbox.report(_about(group.resource), told)
        return _fallen_back(script)

    def _rule(self, rid: str, visit: _Visit, group: Group, decision: Decision) -> None:
        script = self._script(group.resource)
        assert script is not None, group
        made = self._made.setdefault(rid, {})
        self._made.move_to_end(rid)
        while len(self._made) > REQUESTS_MAX:
            self._made.popitem(last=False)
        answer, word = decision.answer, decision.word
        together = max(units for *_, units in pieces_beyond(claims_of(group.wants), ()))
        if decision.units_max and together > decision.units_max:
            answer, word = "no", f"at most {decision.units_max} units"
        for want in group.wants:
            made[want] = Ruling(visit.principal.user, script.source, answer, word)

    # What has been decided

    def refusals(
        self, rid: str, principal: Principal, wants: Sequence[Want]
    ) -> tuple[Refusal, ...]:
        return tuple(
            _refusal(want.resource, ruling.word)
            for want in wants
            if (ruling := self._ruling(rid, principal.user, want)) is not None
            and ruling.answer == "no"
        )

    def why_not_slot(self, rid: str, principal: Principal, want: Want) -> Refusal | None:
        if self._script(want.resource) is None:
            return None
        ruling = self._ruling(rid, principal.user, want)
        if ruling is None:
            return _refusal(want.resource, "the script has not decided on this slot")
        return _refusal(want.resource, ruling.word) if ruling.answer == "no" else None

    def asks_owner(self, rid: str, principal: Principal, want: Want) -> bool:
        ruling = self._ruling(rid, principal.user, want)
        return ruling is not None and ruling.answer == "ask"

    def why_not_promise(self, stake: Stake, named: Container[int]) -> tuple[Refusal, ...]:
        """The broker may ask for them again. Slots that the owner has approved need no script."""
        wants = [claim.want for claim in stake.claims if claim.hold_id in named]
        beyond = wants_beyond(wants, self._standing(stake.replaces, stake.principal.user))
        if stake.petition is not None and stake.petition.state == "approved":
            beyond = wants_beyond(beyond, claims_of(stake.petition.wants))
        return tuple(
            Refusal(
                where=want.resource,
                code=RefusalCode.HELD,
                detail="its owner's script has to decide again",
            )
            for want in beyond
            if (script := self._script(want.resource)) is not None
            and not self._is_ruled(stake.rid, stake.principal.user, want, script)
        )

    def _is_ruled(self, rid: str, user: str, want: Want, script: RuleScript) -> bool:
        ruling = self._ruling(rid, user, want)
        return ruling is not None and ruling.script == script.source

    def _ruling(self, rid: str, user: str, want: Want) -> Ruling | None:
        ruling = self._made.get(rid, {}).get(want)
        return ruling if ruling is not None and ruling.user == user else None

    def _script(self, resource: str) -> RuleScript | None:
        calendar = self.book.calendars.get(resource)
        return calendar.rules.script if calendar is not None else None

    def _standing(self, replaces: str, user: str) -> list[Claim]:
        old = self.book.stakes.get(replaces) if replaces else None
        mine = old is not None and old.principal.user == user
        return old.claims_in("locked") if old is not None and mine else []


def _grouped(wants: Iterable[tuple[Want, int]]) -> Iterator[Group]:
    """Yield slots by resource and common start, in their order."""
    groups: dict[tuple[str, int], list[Want]] = {}
    for want, common in wants:
        groups.setdefault((want.resource, common), []).append(want)
    for (resource, _), together in groups.items():
        yield Group(resource, tuple(together))


def _about(resource: str) -> str:
    return f"owner's script of {resource}"


def _fallen_back(script: RuleScript) -> Decision:
    if script.on_failure == "no":
        return Decision("no", "the owner's script cannot be run")
    return Decision("ask" if script.on_failure == "ask" else "yes")


def _refusal(resource: str, word: str) -> Refusal:
    return Refusal(
        where=resource, code=RefusalCode.RULED_OUT, detail=word or "its owner's script says no"
    )

"""A site against a model of dicts, written from the protocol's table and not from the code.

Every message is delivered twice: the second time it must be answered as the first, and store nothing.
Capacity is counted second by second. Agents run for as long as the machine likes, while everything
else goes on; near sites answer when it likes, too.
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import zip_longest
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.protocol_support import (
    ANN,
    BOB,
    COORDS,
    DAY,
    HERE,
    LONG_MS,
    PARTS,
    T0,
    Site,
    abort,
    chosen,
    commit,
    peer_ask,
    peer_says,
    prepare,
    rid,
    secret_of,
    visit,
)
from tests.protocol_support import want as slot

from kalends.agents.runs import RunOutcome
from kalends.calendars import AccessRule
from kalends.contract import messages as m
from kalends.core.principals import Principal
from kalends.core.scripts import BLAME, Ask, Starts, Stop
from kalends.resource_servers.participation.admission import ParticipantLimits
from kalends.resource_servers.participation.effects import ParticipantEffects, Relay, RunTask
from kalends.resource_servers.participation.visits.agent_visits import AgentLimits
from kalends.resource_servers.participation.visits.visit_handler import RELAY_MS_MAX

LIMITS = ParticipantLimits(
    held_per_principal_max=3, promised_per_principal_max=3, hold_ms_max=60_000
)
RULES: dict[str, tuple[AccessRule, ...]] = {
    "two": (
        AccessRule("all", "user:ann", ("see", "hold", "lock")),
        AccessRule("look", "user:bob", ("see", "hold")),
    )
}
CAPACITY = {"one": 1, "two": 1, "pool": 3}
USERS = (ANN, ANN, BOB, ANN)
ERA_S = LONG_MS // 1_000
"""Slots lie a day after the beginning of an era; in the next one they are long past."""

Row = tuple[str, int, int, int]
"""Resource without its site, start, end, units."""

numbers = st.integers(0, len(USERS) - 1)
attempts = st.sampled_from([1, 1, 1, 2, 2, 3])
modes = st.sampled_from(["hold", "vote"])
FAILURES = [code for code in BLAME if code != "ok"]
WRONG: list[Any] = [None, True, [99], [0, 0], [True], "0", {"ids": [0]}]
SOURCE = "def choose(view, request):\n    return []\n"
NEAR = "there"

picks = st.sampled_from(["all", "all", "all", "first", "none", "strange"])


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    """Few places, so that requests meet."""
    made = []
    for _ in range(draw(st.sampled_from([1, 1, 2]))):
        name = draw(st.sampled_from(["one", "two", "pool", "pool"]))
        start = draw(st.integers(0, 4))
        units = draw(st.integers(1, 2)) if name == "pool" else 1
        made.append((name, start, start + draw(st.integers(1, 4)), units))
    return made


@dataclass
class Known:
    """What the site knows of a request: the table's state, and `fin` of refusals."""

    att: int
    state: str = "none"
    rows: list[Row] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    fin: int = 0
    replaces: int | None = None
    decided: bool = False
    expires_ms: int = 0
    ends: int = 0
    brokers: bool = True
    """Whether the site knows whom to ask for leave to forget."""
    commons: dict[int, int] = field(default_factory=dict)
    """The common start of each id that an agent chose; those of a visit have none."""

    @property
    def alive(self) -> bool:
        return self.state in ("held", "prepared", "locked")


@dataclass
class Run:
    """An agent's visit that is under way, or that waits for a near site only (`held` is known then)."""

    att: int
    message: m.Dispatch
    began_ms: int
    errand: RunTask | None
    relay: Relay | None
    again: bool = False
    held: list[int] | None = None


class Model:
    def __init__(self) -> None:
        self.running: dict[int, Run] = {}
        self.known: dict[int, Known] = {}
        self.durable: dict[int, Known] = {}
        self.forgettable: set[int] = set()
        self.horizon_s = 0
        self.draining = False

    def write(self, number: int) -> None:
        kept = copy.deepcopy(self.known[number])
        if kept.state in ("held", "none"):
            kept.state, kept.rows, kept.ids = "none", [], []
        self.durable[number] = kept

    def restart(self) -> None:
        self.known = copy.deepcopy(self.durable)
        self.running = {}
        self.forgettable &= self.known.keys()
        self.draining = False

    def end_run(self, number: int, att: int) -> None:
        """Attempts up to `att` are over: what their agents say counts no more."""
        if number in self.running and self.running[number].att <= att:
            del self.running[number]

    def end(self, number: int) -> None:
        """Nothing is claimed; only a refusal is a reason to remember."""
        known = self.known[number]
        known.state, known.rows, known.ids = "none", [], []
        if not known.fin:
            del self.known[number]

    def used(self, name: str, at: int, without: int | None = None) -> int:
        """Units that are taken at one second: of a change and what it changes, the larger."""
        total = 0
        changed: dict[int, int] = {}
        for number, known in self.known.items():
            if not known.alive or number == without:
                continue
            units = larger_at(known, name, at)
            old = self.standing(known)
            if old is None:
                total += units
            else:
                changed[old] = units
        for old, units in changed.items():
            total += max(0, units - units_at(self.known[old].rows, name, at))
        return total

    def standing(self, known: Known) -> int | None:
        """The locked reservation that `known` is about to replace."""
        if known.replaces is None or known.decided:
            return None
        old = self.known.get(known.replaces)
        return known.replaces if old is not None and old.state == "locked" else None

    def fits(self, number: int, wanted: Known) -> bool:
        before = self.known.get(number)
        self.known[number] = wanted
        try:
            return all(
                self.used(name, at) <= CAPACITY[name]
                for name, start, end, _ in wanted.rows
                for at in range(start, end)
            )
        finally:
            if before is None:
                del self.known[number]
            else:
                self.known[number] = before

    def count(self, user: Principal, state: str) -> int:
        return sum(
            len(known.rows)
            for number, known in self.known.items()
            if known.state == state and USERS[number] == user
        )


def units_at(rows: list[Row], name: str, at: int) -> int:
    return sum(units for where, start, end, units in rows if where == name and start <= at < end)


def larger_at(known: Known, name: str, at: int) -> int:
    """Of alternatives the one that needs most."""
    rows: dict[int, list[Row]] = {0: []}
    for row, each in zip_longest(known.rows, known.ids, fillvalue=0):
        assert isinstance(row, tuple)
        rows.setdefault(known.commons.get(each, 0), []).append(row)
    return max(units_at(alternative, name, at) for alternative in rows.values())


class AgentSite(Site):
    agents = AgentLimits(held_max=2, near=(NEAR,))

    def __init__(self) -> None:
        super().__init__(rules=RULES, limits=LIMITS)

    def run_ends(self, number: int, outcome: RunOutcome) -> ParticipantEffects:
        self.visiting.runs.errand_done(number, outcome, self.now)
        return self.settle()

    def near_answers(self, number: int, report: m.SiteReport | None) -> ParticipantEffects:
        self.visiting.runs.relayed(number, report, self.now)
        return self.settle()


def tells_forgotten(message: m.Message) -> bool:
    return isinstance(message, m.Known) and message.forgotten


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.site = AgentSite()
        self.model = Model()
        self.era = 0
        self.last_id = 0

    # Deliveries

    def deliver(self, message: m.Message, source: str = "") -> ParticipantEffects:
        first = self.site.receive(message, source)
        again = self.site.receive(message, source)
        # What a site has forgotten it says once a session; all else is said again.
        assert again.sends == [send for send in first.sends if not tells_forgotten(send.message)]
        assert not again.facts
        assert again.alarms == first.alarms
        return first

    def answer(self, message: m.Message) -> m.Message | None:
        """The only answer, if there is one; and no alarm."""
        effects = self.deliver(message)
        assert not effects.alarms
        assert len(effects.sends) <= 1
        return effects.sends[0].message if effects.sends else None

    # Visits

    @rule(
        number=numbers, att=attempts, mode=modes, wanted=rows(), hold_s=st.sampled_from([5, 30, 90])
    )
    def visit(self, number: int, att: int, mode: str, wanted: list[Row], hold_s: int) -> None:
        self.check_visit(number, att, mode, wanted, hold_s, None)

    @rule(number=numbers, att=attempts, mode=modes, wanted=rows(), of=numbers)
    def visit_to_change(self, number: int, att: int, mode: str, wanted: list[Row], of: int) -> None:
        self.check_visit(number, att, mode, wanted, 30, of)

    @precondition(lambda self: any(k.state == "locked" for k in self.model.known.values()))
    @rule(data=st.data(), mode=modes, wanted=rows())
    def change_what_is_locked(self, data: st.DataObject, mode: str, wanted: list[Row]) -> None:
        locked = [n for n, known in self.model.known.items() if known.state == "locked"]
        of = data.draw(st.sampled_from(sorted(locked)))
        number = data.draw(numbers)
        known = self.model.known.get(number)
        att = known.att if known is not None else 1
        self.check_visit(number, max(att, known.fin + 1 if known else 1), mode, wanted, 30, of)

    def check_visit(
        self, number: int, att: int, mode: str, wanted: list[Row], hold_s: int, of: int | None
    ) -> None:
        model, principal = self.model, USERS[number]
        shift = self.era * ERA_S
        wanted = [(name, start + shift, end + shift, units) for name, start, end, units in wanted]
        answer = self.answer(
            visit(
                number, *(slot(*row) for row in wanted), att=att, mode=mode, principal=principal, replaces=of,
                hold_ms=hold_s * 1_000,
            )
        )  # fmt: skip
        known = model.known.get(number)
        if self.check_stale(number, att, answer):
            return
        assert isinstance(answer, m.Visited)
        if known is not None and known.att == att and known.alive:
            self.visit_again(number, known, mode, answer)
            return
        model.end_run(number, att)
        kept: list[tuple[Row, int]] = []
        if known is not None and known.att < att:
            was, known.state = known.state, "none"
            known.fin, known.att = max(known.fin, known.att), att
            if was == "prepared":
                model.write(number)
            if mode == "hold":
                pairs = zip(known.rows, known.ids, strict=True)
                kept = [pair for pair in pairs if pair[1] not in known.commons]
        fin = known.fin if known is not None else 0
        new = Known(
            att, "prepared" if mode == "vote" else "held", list(wanted), [], fin, of,
            expires_ms=self.site.ms + min(hold_s * 1_000, LIMITS.hold_ms_max),
            ends=max(row_end(row) for row in wanted),
        )  # fmt: skip
        if known is not None:
            new.ends = max(new.ends, known.ends)
        by_rule = self.refused(number, new, mode)
        if by_rule or not model.fits(number, new):
            assert answer.vote == ("no" if mode == "vote" else "none")
            assert answer.refusals
            assert not answer.held
            if known is not None:
                known.ends = known.ends if by_rule else new.ends
                model.end(number)
            return
        assert answer.vote == ("yes" if mode == "vote" else "none")
        assert not answer.refusals
        new.ids = [slot.hold_id for slot in answer.held]
        assert [slot.index for slot in answer.held] == list(range(len(wanted)))
        self.check_ids(new, kept)
        model.known[number] = new
        if mode == "vote":
            model.write(number)

    def check_stale(self, number: int, att: int, answer: m.Message | None) -> bool:
        """Whether a visit of this attempt is too late; then it must have been told so."""
        known, run = self.model.known.get(number), self.model.running.get(number)
        over = known is not None and (att <= known.fin or att < known.att or known.decided)
        if not over and (run is None or att >= run.att):
            return False
        assert isinstance(answer, m.Stale)
        assert answer.att == att
        seen = max(known.att, known.fin) if known is not None else 0
        assert answer.seen == max(seen, run.att if run is not None else 0)
        return True

    def visit_again(self, number: int, known: Known, mode: str, answer: m.Visited) -> None:
        if known.state == "held" and known.commons:
            assert answer.vote == ("no" if mode == "vote" else "none")
            assert answer.refusals
            assert not answer.held
            return
        if mode == "vote" and known.state == "held":
            if self.may_not_promise(number, known.rows):
                assert answer.vote == "no"
                assert answer.refusals
                return
            known.state = "prepared"
            self.model.write(number)
        assert answer.vote == ("yes" if known.state == "prepared" else "none")
        assert [slot.hold_id for slot in answer.held] == known.ids

    def refused(self, number: int, new: Known, mode: str) -> bool:
        """By rules and limits, whatever is booked."""
        model, user = self.model, USERS[number]
        count_max = 3
        if model.draining or model.count(user, new.state) + len(new.rows) > count_max:
            return True
        if any(row_end(row) <= model.horizon_s for row in new.rows):
            return True
        if new.replaces is not None:
            old = model.known.get(new.replaces)
            if old is None or old.state != "locked" or USERS[new.replaces] != user:
                return True
            for other, known in model.known.items():
                if other != number and known.alive and model.standing(known) == new.replaces:
                    return True
        return mode == "vote" and user == BOB and any(row[0] == "two" for row in new.rows)

    def may_not_promise(self, number: int, wanted: list[Row]) -> bool:
        user = USERS[number]
        if self.model.count(user, "prepared") + len(wanted) > 3:
            return True
        return user == BOB and any(row[0] == "two" for row in wanted)

    def check_ids(self, new: Known, kept: list[tuple[Row, int]]) -> None:
        """Fence numbers are new, but for a slot that was held before."""
        assert len(set(new.ids)) == len(new.ids)
        for row, number in zip(new.rows, new.ids, strict=True):
            if number <= self.last_id:
                assert (row, number) in kept
            else:
                assert not [1 for old, _ in kept if old == row] or new.rows.count(row) > 1
        self.last_id = max(self.last_id, *new.ids)

    # Agents

    @rule(
        number=numbers, att=attempts, name=st.sampled_from(["one", "two", "pool"]),
        length=st.integers(1, 4), units=st.integers(1, 3), last=st.integers(0, 3),
        hold_s=st.sampled_from([5, 30]), near=st.booleans(),
    )  # fmt: skip
    def dispatch(
        self, number: int, att: int, name: str, length: int, units: int, last: int, hold_s: int,
        near: bool,
    ) -> None:  # fmt: skip
        begin = T0 + DAY + self.era * ERA_S
        asks = (Ask(0, f"{HERE}/{name}", length, units),)
        message = m.Dispatch(
            rid=rid(number), att=att, stamp=number, principal=USERS[number],
            script=sha256(SOURCE.encode()).hexdigest(), source=SOURCE,
            starts=Starts(begin, begin + last, 1), asks=asks,
            near=(Stop(NEAR, asks),) if near else (), parts=PARTS, need=len(PARTS), coords=COORDS,
            secret=secret_of(rid(number)), hold_ms=hold_s * 1_000,
        )  # fmt: skip
        model, known, run = self.model, self.model.known.get(number), self.model.running.get(number)
        effects = self.site.receive(message)
        again = self.site.receive(message)
        assert not effects.alarms
        assert not again.facts
        assert not again.errands or (effects.sends and not effects.errands)
        answer = effects.sends[0].message if effects.sends else None
        if self.check_stale(number, att, answer):
            assert again.sends == effects.sends
            return
        if run is not None and run.att == att:
            self.asked_again(number, message, effects, again)
            return
        if known is not None and known.att == att and known.alive:
            assert isinstance(answer, m.Report)
            assert {slot.hold_id for slot in answer.sites[0].held} <= set(known.ids)
            assert again.sends == effects.sends
            return
        model.end_run(number, att)
        if known is not None and known.att < att:
            was, known.state = known.state, "none"
            known.fin, known.att = max(known.fin, known.att), att
            if was == "prepared":
                model.write(number)
            model.end(number)
        assert not self.begun(number, message, effects) or not again

    def begun(self, number: int, message: m.Dispatch, effects: ParticipantEffects) -> bool:
        """A visit that the site does not know; whether its agent has set out."""
        model = self.model
        if model.draining or model.count(USERS[number], "held") >= 3:
            (send,) = effects.sends
            assert isinstance(send.message, m.Report)
            assert send.message.sites[0].refusals
            assert not effects.errands
            assert not effects.relays
            return False
        relay = effects.relays[0] if message.near else None
        assert len(effects.relays) == len(message.near)
        model.running[number] = Run(message.att, message, self.site.ms, None, relay)
        if not self.offers(number, message):
            assert not effects.errands
            self.concluded(number, [], effects)
            return False
        assert not effects.sends
        self.set_out(number, effects)
        return True

    def asked_again(
        self, number: int, message: m.Dispatch, effects: ParticipantEffects,
        again: ParticipantEffects,
    ) -> None:  # fmt: skip
        """A visit that is under way; near sites that are not named any more are not waited for."""
        run = self.model.running[number]
        if not message.near:
            waited, run.relay = run.relay is not None and run.held is not None, None
            run.message = msgspec.structs.replace(run.message, near=())
            if waited:
                self.answered(number, effects)
                if effects.sends == again.sends:
                    return
                self.begun(number, message, again)  # Nothing was held: the visit is forgotten.
                return
        assert not effects
        assert not again

    def offers(self, number: int, message: m.Dispatch) -> list[Row]:
        """What could be held now, second by second."""
        (ask,), starts = message.asks, message.starts
        name = ask.resource.removeprefix(f"{HERE}/")
        found = []
        for common in range(starts.first - T0 - DAY, starts.last - T0 - DAY + 1):
            row = (name, common, common + ask.length_s, ask.units)
            if ask.units <= CAPACITY[name] and self.model.fits(number, Known(0, "held", [row])):
                found.append(row)
        return found

    def set_out(self, number: int, effects: ParticipantEffects) -> None:
        run = self.model.running[number]
        (run.errand,) = effects.errands
        assert shown(run.errand) == self.offers(number, run.message)

    @precondition(lambda self: any(run.errand for run in self.model.running.values()))
    @rule(data=st.data(), fate=st.sampled_from(["chosen", "chosen", "chosen", "failed", "wrong"]))
    def run_ends(self, data: st.DataObject, fate: str) -> None:
        running = [n for n, run in self.model.running.items() if run.errand is not None]
        number = data.draw(st.sampled_from(sorted(running)))
        errand = self.model.running[number].errand
        assert errand is not None
        ids = data.draw(st.lists(st.integers(0, len(shown(errand)) - 1), unique=True, max_size=4))
        answer: Any = ids if fate == "chosen" else data.draw(st.sampled_from(WRONG))
        code = data.draw(st.sampled_from(FAILURES)) if fate == "failed" else "ok"
        self.finish(number, RunOutcome(code, answer), ids if fate == "chosen" else None)

    def finish(self, number: int, outcome: RunOutcome, chosen: list[int] | None) -> None:
        """A run ends; `chosen` are the ids of a right answer."""
        run, model = self.model.running[number], self.model
        assert run.errand is not None
        effects = self.site.run_ends(run.errand.number, outcome)
        assert not effects.facts
        assert not self.site.run_ends(run.errand.number, outcome)
        offers = shown(run.errand)
        rows = [offers[each] for each in chosen] if chosen is not None else offers
        run.errand = None
        if model.draining:
            self.concluded(number, [], effects)
            return
        expected, taken = self.holdable(number, rows)
        if taken and not expected and chosen is not None and not run.again:
            run.again = True
            if self.offers(number, run.message):
                self.set_out(number, effects)
            else:
                self.concluded(number, [], effects)
            return
        if taken and not expected:
            expected, _ = self.holdable(number, self.offers(number, run.message))
        self.concluded(number, expected, effects)

    def holdable(self, number: int, rows: list[Row]) -> tuple[list[Row], bool]:
        """Those of `rows` that are held, and whether one had no room."""
        model = self.model
        room = min(2, 3 - model.count(USERS[number], "held"))
        wanted = Known(0, "held")
        taken = False
        for row in rows:
            if len(wanted.rows) >= room:
                break
            tried = copy.deepcopy(wanted)
            tried.rows.append(row)
            tried.ids.append(-len(tried.rows))
            tried.commons[tried.ids[-1]] = T0 + DAY + row[1]
            if row_end(row) > model.horizon_s:
                if model.fits(number, tried):
                    wanted = tried
                else:
                    taken = True
        return wanted.rows, taken

    def concluded(self, number: int, expected: list[Row], effects: ParticipantEffects) -> None:
        """The site's own part is known; it answers unless a near site has not."""
        run, model = self.model.running[number], self.model
        before = model.known.get(number)
        run.held = []
        if expected:
            claims = self.site.participant.book.stakes[rid(number)].claims
            run.held = [claim.hold_id for claim in claims]
            new = Known(
                run.att, "held", expected, run.held, before.fin if before else 0,
                expires_ms=self.site.ms + run.message.hold_ms,
                ends=max(*map(row_end, expected), before.ends if before else 0),
                commons={claim.hold_id: claim.common for claim in claims},
            )  # fmt: skip
            assert [T0 + DAY + row[1] for row in expected] == [claim.common for claim in claims]
            assert self.last_id < min(run.held)
            self.last_id = max(run.held)
            model.known[number] = new
        if run.relay is None:
            self.answered(number, effects)
        else:
            assert not effects.sends

    def answered(self, number: int, effects: ParticipantEffects) -> None:
        run = self.model.running.pop(number)
        (send,) = effects.sends
        assert isinstance(send.message, m.Report)
        known = self.model.known.get(number)
        alive = known.ids if known is not None and known.state in ("held", "prepared") else []
        own, *near = send.message.sites
        assert [slot.hold_id for slot in own.held] == [
            each for each in run.held or [] if each in alive
        ]
        assert own.held or own.refusals or run.held
        assert [each.site for each in near] == [stop.site for stop in run.message.near]

    @precondition(lambda self: any(run.relay for run in self.model.running.values()))
    @rule(data=st.data(), silent=st.booleans())
    def near_site_answers(self, data: st.DataObject, silent: bool) -> None:
        waiting = [n for n, run in self.model.running.items() if run.relay is not None]
        self.near_ends(data.draw(st.sampled_from(sorted(waiting))), silent)

    def near_ends(self, number: int, silent: bool) -> None:
        run = self.model.running[number]
        assert run.relay is not None
        report = None if silent else m.SiteReport(NEAR, epoch=3)
        effects = self.site.near_answers(run.relay.number, report)
        assert not self.site.near_answers(run.relay.number, report)
        run.relay = None
        if run.held is None:
            assert not effects
        else:
            self.answered(number, effects)

    def give_up(self, number: int) -> None:
        """Before the site does it by itself."""
        while (run := self.model.running.get(number)) is not None:
            if run.errand is not None:
                self.finish(number, RunOutcome("killed"), None)
            else:
                self.near_ends(number, silent=True)

    @rule(number=st.integers(1, 1 << 42))
    def strange_ends_change_nothing(self, number: int) -> None:
        running = self.model.running.values()
        if number not in {run.errand.number for run in running if run.errand is not None}:
            assert not self.site.run_ends(number, RunOutcome("ok", [0]))
        if number not in {run.relay.number for run in running if run.relay is not None}:
            assert not self.site.near_answers(number, None)

    # Phase one and two

    def pick(self, number: int, how: str) -> list[int]:
        known = self.model.known.get(number)
        ids = known.ids if known is not None else []
        if how == "strange":
            return [*ids, 5]
        return ids if how == "all" else ids[:1] if how == "first" else []

    def att_of(self, number: int, att: int) -> int:
        """Mostly the right attempt: others are tried by `att` 3."""
        known = self.model.known.get(number)
        return known.att if known is not None and att < 3 else att

    @rule(number=numbers, att=attempts, how=picks)
    def prepare(self, number: int, att: int, how: str) -> None:
        att = self.att_of(number, att)
        named = self.pick(number, how) or [5]
        known = self.model.known.get(number)
        voted = self.answer(prepare(number, *named, att=att))
        assert isinstance(voted, m.Voted)
        if known is None:
            assert voted.vote == "no"
        elif att <= known.fin or att < known.att:
            assert voted.vote == "stale"
        elif att > known.att or not set(named) <= set(known.ids):
            assert voted.vote == "no"
        elif known.state != "held":
            assert voted.vote == ("yes" if known.alive else "stale")
        elif len({known.commons.get(each, 0) for each in named}) > 1:
            assert voted.vote == "no"
        else:
            pairs = [p for p in zip(known.rows, known.ids, strict=True) if p[1] in named]
            if self.may_not_promise(number, [row for row, _ in pairs]):
                assert voted.vote == "no"
                return
            assert voted.vote == "yes"
            known.rows, known.ids = [row for row, _ in pairs], [each for _, each in pairs]
            known.state = "prepared"
            self.model.write(number)

    @rule(
        number=numbers, att=attempts, how=picks, by=st.sampled_from(["decide", "outcome", "peer"])
    )
    def commit(self, number: int, att: int, how: str, by: str) -> None:
        att = self.att_of(number, att)
        mine = self.pick(number, how)
        message: m.Message = commit(number, *mine, att=att)
        if by == "outcome":
            message = m.Outcome(rid=rid(number), att=att, outcome="commit", chosen=chosen(*mine))
        elif by == "peer":
            message = peer_says(number, "locked", *mine, att=att)
        effects = self.deliver(message)
        done = [m.Done(rid=rid(number), att=att, of="commit")] if by == "decide" else []
        known = self.model.known.get(number)
        applied = known is not None and known.att == att and known.state == "prepared"
        if known is None or (by == "peer" and (known.att != att or known.state != "prepared")):
            refused = known is None and by == "decide" and bool(mine)
        elif known.att != att:
            refused = bool(mine) and not known.decided
        elif known.decided:
            refused = False
        else:
            refused = not set(mine) <= set(known.ids if known.state == "prepared" else [])
            if not refused:
                self.apply_commit(number, known, mine)
        if not refused and (by == "decide" or (known is not None and (by == "outcome" or applied))):
            self.model.end_run(number, att)
        assert bool(effects.alarms) == refused
        said = [send.message for send in effects.sends if not tells_forgotten(send.message)]
        assert said == ([] if refused else done)

    def apply_commit(self, number: int, known: Known, mine: list[int]) -> None:
        old = self.model.standing(known)
        if old is not None:
            self.model.known[old].state = "replaced"
            self.model.write(old)
        pairs = [p for p in zip(known.rows, known.ids, strict=True) if p[1] in mine]
        known.rows, known.ids = [row for row, _ in pairs], [each for _, each in pairs]
        known.state = "locked" if pairs else "none"
        known.decided = True
        self.model.write(number)

    @rule(number=numbers, att=attempts, told=st.booleans())
    def abort(self, number: int, att: int, told: bool) -> None:
        att = self.att_of(number, att)
        known = self.model.known.get(number)
        if told:
            effects = self.deliver(abort(number, att=att))
        else:
            effects = self.deliver(m.Outcome(rid=rid(number), att=att, outcome="abort"))
        wrong = known is not None and known.decided and att >= known.att
        assert bool(effects.alarms) == (wrong and told)
        done = [m.Done(rid=rid(number), att=att, of="abort")] if told and not wrong else []
        assert [send.message for send in effects.sends] == done
        if told:
            self.model.end_run(number, att)
        if known is not None and not known.decided and att >= known.att:
            self.refuse(number, att)

    def refuse(self, number: int, att: int) -> None:
        self.model.end_run(number, att)
        known = self.model.known[number]
        known.fin = max(known.fin, att)
        known.state, known.rows, known.ids = "none", [], []
        self.model.write(number)

    @rule(number=numbers)
    def hear_that_it_is_pending(self, number: int) -> None:
        assert self.answer(m.Outcome(rid=rid(number), att=1, outcome="pending")) is None

    @rule(number=numbers, att=attempts)
    def cancel(self, number: int, att: int) -> None:
        known = self.model.known.get(number)
        effects = self.deliver(m.Cancel(rid=rid(number), att=att))
        if known is not None and known.state == "prepared":
            assert effects.alarms
            assert not effects.sends
            return
        (send,) = effects.sends
        assert send.message == m.Done(rid=rid(number), att=att, of="cancel")
        if known is not None and known.state == "locked":
            known.state = "cancelled"
            self.model.write(number)

    # Holds

    @rule(number=numbers, att=attempts, how=picks, given=st.booleans())
    def release(self, number: int, att: int, how: str, given: bool) -> None:
        known = self.model.known.get(number)
        named = tuple(self.pick(number, how))
        kind = m.Give if given else m.Release
        assert self.answer(kind(rid=rid(number), att=att, hold_ids=named)) is None
        if not given and not named:
            self.model.end_run(number, att)
        if known is None or known.state != "held" or att < known.att:
            return
        if given and (not named or att != known.att):
            return
        left = [
            pair
            for pair in zip(known.rows, known.ids, strict=True)
            if named and pair[1] not in named
        ]
        if left:
            known.rows, known.ids = [row for row, _ in left], [each for _, each in left]
        else:
            self.model.end(number)

    @rule(number=numbers, att=attempts, hold_s=st.sampled_from([5, 30, 90]))
    def renew(self, number: int, att: int, hold_s: int) -> None:
        att = self.att_of(number, att)
        known = self.model.known.get(number)
        ids = known.ids if known is not None else []
        message = m.Renew(rid=rid(number), att=att, hold_ids=(*ids, 5), hold_ms=hold_s * 1_000)
        answer = self.answer(message)
        if known is not None and att < max(known.att, known.fin):
            assert isinstance(answer, m.Stale)
            return
        assert isinstance(answer, m.Renewed)
        assert answer.kept == tuple(ids)
        assert answer.lost == (5,)
        if known is not None and known.state == "held":
            known.expires_ms = self.site.ms + min(hold_s * 1_000, LIMITS.hold_ms_max)

    # Peers

    @rule(number=numbers, att=attempts, knows_the_secret=st.booleans())
    def peer_asks(self, number: int, att: int, knows_the_secret: bool) -> None:
        known = self.model.known.get(number)
        if known is None and not knows_the_secret:
            return
        answer = self.answer(peer_ask(number, att, "" if knows_the_secret else "not the secret"))
        prepared = known is not None and known.state == "prepared"
        if not knows_the_secret or (prepared and known is not None and known.att < att):
            assert answer is None
            return
        assert isinstance(answer, m.PeerSays)
        if known is None:
            self.model.known[number] = Known(att, ends=T0 + DAY + 100, brokers=False)
            self.refuse(number, att)
            assert answer.says == "never"
        elif known.att == att and known.decided:
            assert answer.says == "locked"
            assert answer.chosen["there"] == (7,)
        elif known.att == att and known.state == "prepared":
            assert answer.says == "prepared"
        else:
            assert answer.says == "never"
            if att > known.fin and att >= known.att and not known.decided:
                self.refuse(number, att)

    @rule(number=numbers, att=attempts, says=st.sampled_from(["prepared", "never"]),
          site=st.sampled_from(["there", "there", "elsewhere"]))  # fmt: skip
    def peer_says(self, number: int, att: int, says: str, site: str) -> None:
        att = self.att_of(number, att)
        known = self.model.known.get(number)
        right = known is not None and known.att == att and known.state == "prepared"
        effects = self.deliver(peer_says(number, says, att=att, site=site))
        assert effects.sends == []
        assert bool(effects.alarms) == (right and site == "elsewhere")
        if right and says == "never" and site == "there":
            self.refuse(number, att)

    # Records, time, restarts

    @rule(number=numbers)
    def forget(self, number: int) -> None:
        assert self.answer(m.Forget(rid=rid(number), att=1)) is None
        known = self.model.known.get(number)
        if known is not None and known.decided:
            self.model.forgettable.add(number)

    @rule(on=st.booleans())
    def drain(self, on: bool) -> None:
        self.site.participant.admission.draining = self.model.draining = on

    @rule(seconds=st.sampled_from([1, 4, 6, 29, 31, 61]))
    def time_passes(self, seconds: int) -> None:
        self.pass_time(seconds * 1_000)

    @rule()
    def slots_pass(self) -> None:
        self.era += 1
        self.pass_time(ERA_S * 1_000)

    def pass_time(self, ms: int) -> None:
        for number, run in list(self.model.running.items()):
            if run.began_ms + RELAY_MS_MAX <= self.site.ms + ms:
                self.give_up(number)
        collected = self.site.ms // 60_000 != (self.site.ms + ms) // 60_000
        effects = self.site.advance(ms)
        model, now_ms = self.model, self.site.ms
        for number, known in list(model.known.items()):
            if known.state == "held" and known.expires_ms <= now_ms:
                model.end(number)
        limit_s = self.site.now.wall_s - DAY
        over = []
        for number, known in model.known.items():
            changed = any(k.alive and model.standing(k) == number for k in model.known.values())
            waits = known.decided and known.brokers and number not in model.forgettable
            busy = known.state in ("held", "prepared") or changed or waits
            if known.ends <= limit_s and not busy:
                over.append(number)
        gone = [n for n in over if rid(n) not in self.site.participant.book.stakes]
        assert gone in ([], over)
        assert ms < ERA_S or collected
        if gone:
            model.horizon_s = max(model.horizon_s, *(model.known[n].ends for n in gone))
        assert self.site.participant.retention.horizon_s == model.horizon_s
        for number in gone:
            del model.known[number]
            model.durable.pop(number, None)
            model.forgettable.discard(number)
        for send in effects.sends:
            assert isinstance(send.message, m.Inquire | m.PeerAsk)
            assert send.to in (*COORDS, PARTS[1].url)
            (about,) = [n for n in model.known if rid(n) == send.message.rid]
            assert model.known[about].state == "prepared" or model.known[about].decided

    @rule()
    def restart(self) -> None:
        self.site.restart()
        self.model.restart()

    # What must always hold

    @invariant()
    def claims_are_as_the_table_says(self) -> None:
        stakes = self.site.participant.book.stakes
        seen = {
            number: [(claim.hold_id, claim.state) for claim in stakes[rid(number)].claims]
            for number in range(len(USERS))
            if rid(number) in stakes
        }
        expected = {
            number: [(each, known.state) for each in known.ids]
            for number, known in self.model.known.items()
        }
        assert seen == expected

    @invariant()
    def limits_count_claims(self) -> None:
        counted: Counter[tuple[str, str]] = Counter()
        for number, known in self.model.known.items():
            if known.state in ("held", "prepared"):
                counted[USERS[number].user, known.state] += len(known.rows)
        for user in (ANN.user, BOB.user):
            assert self.site.participant.book.count(user, "held") == counted[user, "held"]
            assert self.site.participant.book.count(user, "prepared") == counted[user, "prepared"]

    @invariant()
    def no_second_is_promised_twice(self) -> None:
        for name, capacity in CAPACITY.items():
            calendar = self.site.participant.book.calendars[f"{HERE}/{name}"]
            for at in range(self.era * ERA_S, self.era * ERA_S + 10):
                used = self.model.used(name, at)
                assert used <= capacity
                assert calendar.free(T0 + DAY + at, T0 + DAY + at + 1) == capacity - used


def shown(errand: RunTask) -> list[Row]:
    """What the script sees, in order of its ids."""
    return [
        (
            slot["resource"].removeprefix(f"{HERE}/"),
            slot["start"] - T0 - DAY,
            slot["end"] - T0 - DAY,
            slot["units"],
        )
        for slot in errand.job.arguments[0]["slots"]
    ]


def row_end(row: Row) -> int:
    return T0 + DAY + row[2]


TestParticipant = Machine.TestCase
TestParticipant.settings = settings(max_examples=100, stateful_step_count=40)

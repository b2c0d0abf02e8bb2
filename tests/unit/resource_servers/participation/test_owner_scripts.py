"""Owners' scripts at a site: nothing is held or promised before they have decided, and they only narrow."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol_support import (
    BOB,
    DAY,
    T0,
    commit,
    prepare,
    release,
    rid,
    visit,
    vote,
    want,
)
from tests.support.site_agent_support import AgentSite, dispatch, times

from kalends.agents.runs import RunOutcome
from kalends.calendars import RuleScript
from kalends.contract import messages as m
from kalends.contract.owner_calls import DecideApproval
from kalends.core.errors import RefusalCode
from kalends.core.principals import Principal
from kalends.resource_servers.participation.effects import ParticipantEffects, RunTask
from kalends.resource_servers.participation.rulings.rulings import FAILURES_MAX

HOUR_MS = 3_600_000
OnFailure = Literal["rules", "ask", "no"]


class ScriptedSite(AgentSite):
    """A site whose instrument "one", and whose pool, have an owner's script; a test decides by hand."""

    on_failure: OnFailure = "rules"
    source = "def decide(request, calendar, usage):\n    return True\n"

    def restart(self, *, come_back: bool = True) -> None:
        super().restart(come_back=come_back)
        self.take_script(self.source)

    def take_script(self, source: str) -> None:
        for local in ("one", "pool"):
            rules = self.participant.book.calendars[f"{self.name}/{local}"].rules
            rules.script = RuleScript(source, "as the owner says", self.on_failure)
        self.participant.rulings.look()

    def decide(self, message: m.Message, answer: Any) -> ParticipantEffects:
        """Deliver `message`, and let the script that it starts decide."""
        return self.end(self.send(message), RunOutcome("ok", answer))


@pytest.fixture
def site() -> ScriptedSite:
    return ScriptedSite()


def sent(effects: ParticipantEffects) -> Any:
    (send,) = effects.sends
    return send.message


def refused(effects: ParticipantEffects) -> list[tuple[str, str]]:
    return [(each.code, each.detail) for each in sent(effects).refusals]


@pytest.mark.parametrize(("mode", "state"), [("hold", "held"), ("vote", "prepared")])
def test_nothing_is_held_or_promised_before_the_script_has_decided(
    site: ScriptedSite, mode: str, state: str
) -> None:
    asked = visit(1, want("one", 0, 60), mode=mode)
    run = site.send(asked)
    assert site.states(1) == []
    assert (run.job.function, run.rid) == ("decide", rid(1))
    visited = sent(site.end(run, RunOutcome("ok", True)))
    assert len(visited.held) == 1
    assert site.states(1) == [state]


def test_a_resource_without_a_script_is_held_at_once(site: ScriptedSite) -> None:
    assert site.receive(visit(1, want("two", 0, 60))).errands == []
    assert site.states(1) == ["held"]


def test_the_user_reads_why_the_script_says_no(site: ScriptedSite) -> None:
    effects = site.decide(visit(1, want("one", 0, 60)), "beginners book by day")
    assert refused(effects) == [(RefusalCode.RULED_OUT, "beginners book by day")]
    assert site.states(1) == []


def test_units_are_limited_by_the_script(site: ScriptedSite) -> None:
    effects = site.decide(visit(1, want("pool", 0, 60, 3)), {"units_max": 2})
    assert refused(effects) == [(RefusalCode.RULED_OUT, "at most 2 units")]
    site.decide(visit(2, want("pool", 0, 60, 2)), {"units_max": 2})
    assert site.states(2) == ["held"]


def test_each_resource_of_a_visit_is_decided_on_by_its_own_script(site: ScriptedSite) -> None:
    asked = visit(1, want("one", 0, 60), want("pool", 0, 60, 2), want("two", 0, 60))
    one, pool = site.receive(asked).errands
    assert not site.end(pool, RunOutcome("ok", True)).sends
    effects = site.end(one, RunOutcome("ok", "not today"))
    assert refused(effects) == [(RefusalCode.RULED_OUT, "not today")]


def test_a_repeated_visit_starts_no_second_run(site: ScriptedSite) -> None:
    run = site.send(visit(1, want("one", 0, 60)))
    again = site.receive(visit(1, want("one", 0, 60)))
    assert (again.errands, again.sends) == ([], [])
    site.end(run, RunOutcome("ok", True))
    # The answer was lost: it follows from what is held.
    assert site.answer(visit(1, want("one", 0, 60))).held
    assert site.states(1) == ["held"]


def test_a_run_of_a_visit_that_was_released_changes_nothing(site: ScriptedSite) -> None:
    run = site.send(visit(1, want("one", 0, 60)))
    site.receive(release(1))
    assert not site.end(run, RunOutcome("ok", True)).sends
    assert site.states(1) == []


def test_a_newer_attempt_is_decided_on_by_itself(site: ScriptedSite) -> None:
    old = site.send(visit(1, want("one", 0, 60)))
    new = site.send(visit(1, want("one", 100, 160), att=2))
    assert not site.end(old, RunOutcome("ok", True)).sends
    visited = sent(site.end(new, RunOutcome("ok", True)))
    assert (visited.att, len(visited.held)) == (2, 1)


def test_the_owner_is_asked_where_the_script_says_so(site: ScriptedSite) -> None:
    visited = sent(site.decide(vote(1, want("one", 0, 60)), {"ask": True}))
    assert (visited.vote, visited.approval, site.states(1)) == ("none", True, ["held"])
    ids = site.ids(1)
    voted = site.answer(prepare(1, *ids))
    assert (voted.vote, [each.code for each in voted.refusals]) == ("no", [RefusalCode.HELD])
    site.receive(m.OwnerAsk(rid=rid(1), att=1, hold_ids=ids))
    body = DecideApproval(id=rid(1), approve=True, word="", revision=1)
    site.call(lambda participant, now: site.approval.decide(body, "olga", now))
    assert site.answer(prepare(1, *ids)).vote == "yes"


def test_a_restart_forgets_decisions_and_promises_nothing_without_them(site: ScriptedSite) -> None:
    site.decide(visit(1, want("one", 0, 60), hold_ms=HOUR_MS), {"ask": True})
    ids = site.ids(1)
    site.receive(m.OwnerAsk(rid=rid(1), att=1, hold_ids=ids))
    site.restart()
    assert site.states(1) == ["held"]
    assert site.answer(prepare(1, *ids)).vote == "no"


def test_a_change_of_the_calendar_while_it_runs_lets_it_decide_anew(site: ScriptedSite) -> None:
    first = site.send(visit(1, want("pool", 0, 60, 1)))
    second = site.send(visit(2, want("pool", 0, 60, 1), principal=BOB))
    site.end(first, RunOutcome("ok", True))
    effects = site.end(second, RunOutcome("ok", True))
    assert effects.sends == []
    (again,) = effects.errands
    _, calendar, usage = again.job.arguments
    assert [each["units"] for each in calendar["taken"]] == [1]
    assert usage["all"]["week_hours"] > usage["user"]["week_hours"] == 0
    assert refused(site.end(again, RunOutcome("ok", "one at a time")))
    assert (site.states(1), site.states(2)) == (["held"], [])


def test_what_an_older_script_allowed_is_decided_on_anew_before_the_promise(
    site: ScriptedSite,
) -> None:
    site.decide(visit(1, want("one", 0, 60)), True)
    site.take_script(site.source + "# stricter\n")
    voted = site.answer(prepare(1, *site.ids(1)))
    assert (voted.vote, [each.code for each in voted.refusals]) == ("no", [RefusalCode.HELD])
    visited = sent(site.decide(visit(1, want("one", 0, 60), att=2), True))
    assert site.answer(prepare(1, visited.held[0].hold_id, att=2)).vote == "yes"


def test_what_is_promised_stays_whatever_the_script_becomes(site: ScriptedSite) -> None:
    site.decide(vote(1, want("one", 0, 60)), True)
    site.take_script(site.source + "# stricter\n")
    site.receive(commit(1, *site.ids(1)))
    assert site.states(1) == ["locked"]


def test_less_of_what_one_has_needs_no_decision(site: ScriptedSite) -> None:
    site.decide(vote(1, want("one", 0, 60)), True)
    site.receive(commit(1, *site.ids(1)))
    assert not site.receive(vote(2, want("one", 0, 30), replaces=1)).errands
    assert site.states(2) == ["prepared"]


def test_parts_that_each_lie_within_what_one_has_are_decided_on_together(
    site: ScriptedSite,
) -> None:
    site.decide(vote(1, want("pool", 0, 60, 1)), True)
    site.receive(commit(1, *site.ids(1)))
    twice = vote(2, want("pool", 0, 60, 1), want("pool", 10, 50, 1), replaces=1)
    assert refused(site.decide(twice, "one is enough")) == [
        (RefusalCode.RULED_OUT, "one is enough"), (RefusalCode.RULED_OUT, "one is enough"),
    ]  # fmt: skip


def test_units_are_limited_together(site: ScriptedSite) -> None:
    twice = visit(1, want("pool", 0, 60, 1), want("pool", 10, 50, 2))
    assert (RefusalCode.RULED_OUT, "at most 2 units") in refused(
        site.decide(twice, {"units_max": 2})
    )
    after = visit(2, want("pool", 100, 160, 1), want("pool", 160, 220, 2))
    site.decide(after, {"units_max": 2})
    assert site.states(2) == ["held", "held"]


def test_more_than_one_has_is_decided_on_and_the_old_slots_are_told_apart(
    site: ScriptedSite,
) -> None:
    site.decide(vote(1, want("one", 0, 60)), True)
    site.receive(commit(1, *site.ids(1)))
    run = site.send(vote(2, want("one", 0, 90), replaces=1))
    request, calendar, usage = run.job.arguments
    assert [each["end"] - each["start"] for each in request["replaces"]] == [60]
    assert (calendar["taken"], usage["user"]["near"]) == ([], 0)


@pytest.mark.parametrize(
    ("on_failure", "states", "approval"),
    [("rules", ["held"], False), ("ask", ["held"], True), ("no", [], False)],
)
def test_where_the_script_fails_its_owners_configuration_decides(
    on_failure: OnFailure, states: list[str], approval: bool
) -> None:
    site = ScriptedSite()
    site.on_failure = on_failure
    site.take_script(site.source)
    run = site.send(visit(1, want("one", 0, 60)))
    effects = site.end(run, RunOutcome("limit-steps", detail="too long", line=2))
    assert site.states(1) == states
    assert sent(effects).approval is approval
    told = ("owner's script of here/one", "it fails in line 2: limit-steps: too long")
    assert effects.reports == [told]
    better = site.decide(visit(2, want("one", 100, 160)), True)
    assert better.reports == [(told[0], "")]


@pytest.mark.parametrize(
    "answer", [None, False, 1, "", "two\nlines", {"ask": 1}, {"units_max": 0}, []]
)
def test_an_answer_that_is_none_counts_as_a_failure(site: ScriptedSite, answer: object) -> None:
    effects = site.decide(visit(1, want("one", 0, 60)), answer)
    assert effects.reports
    assert site.states(1) == ["held"]


def test_a_script_that_goes_on_failing_is_put_aside_until_it_changes(site: ScriptedSite) -> None:
    for number in range(FAILURES_MAX):
        run = site.send(visit(number, want("one", 100 * number, 100 * number + 60)))
        site.end(run, RunOutcome("agent-error"))
    assert not site.receive(visit(50, want("one", 5_000, 5_060))).errands
    assert site.states(50) == ["held"]
    site.take_script(site.source + "# mended\n")
    assert site.receive(visit(51, want("one", 6_000, 6_060))).errands


def test_of_the_slots_that_an_agent_chose_only_those_are_held_that_the_script_allows(
    site: ScriptedSite,
) -> None:
    chosen = site.send(dispatch(1))
    effects = site.end(chosen, RunOutcome("ok", [0, 1, 2]))
    assert effects.sends == []
    answers = [True, "not then", True]
    for run, answer in zip(effects.errands, answers, strict=True):
        ended = site.end(run, RunOutcome("ok", answer))
    report = sent(ended).sites[0]
    assert times(report.held) == [0, 20]


def test_a_run_without_an_end_is_over_in_time_and_counts_as_a_failure(site: ScriptedSite) -> None:
    site.send(visit(1, want("one", 0, 60)))
    site.ms += 60_000
    site.participant.advance(site.now)
    effects = site.settle()
    assert effects.reports
    assert sent(effects).held


def test_the_input_names_users_groups_and_slots_and_not_what_the_request_holds_itself(
    site: ScriptedSite,
) -> None:
    ann = Principal("ann", ("beginners", "archaeology"))
    site.decide(visit(1, want("one", 0, 60), principal=ann), True)
    run = site.send(visit(1, want("one", 30, 90), principal=ann, att=2))
    request, calendar, _ = run.job.arguments
    assert (request["user"], request["groups"]) == ("ann", ["archaeology", "beginners"])
    slot = {"start": T0 + DAY + 30, "end": T0 + DAY + 90, "units": 1}
    assert (request["slots"], calendar["taken"]) == ([slot], [])
    assert request["now"] % 60 == 0


# The law: whatever comes in which order, nothing is promised that no script allowed

answers = st.sampled_from([True, "no", {"ask": True}, {"units_max": 1}, None])
steps = st.lists(
    st.tuples(
        st.sampled_from(["visit", "vote", "prepare", "end", "script", "restart", "release"]),
        st.integers(1, 3),
        st.integers(1, 3),
        answers,
    ),
    max_size=40,
)


@given(steps)
def test_nothing_is_promised_that_the_script_that_holds_has_not_allowed(
    given_steps: list[tuple[str, int, int, Any]],
) -> None:
    site = ScriptedSite()
    site.on_failure = "no"
    site.take_script(site.source)
    under_way: list[RunTask] = []
    allowed: set[tuple[str, str, int]] = set()
    """Script, request and units of each yes."""
    attempts: dict[int, int] = {}
    for step, number, units, answer in given_steps:
        if step in ("visit", "vote"):
            attempts[number] = att = attempts.get(number, 0) + 1
            asked = visit(
                number,
                want("pool", 0, 60, units),
                att=att,
                mode="vote" if step == "vote" else "hold",
            )
            under_way += site.receive(asked).errands
        elif step == "prepare":
            site.receive(prepare(number, *site.ids(number), att=attempts.get(number, 1)))
        elif step == "end" and under_way:
            run = under_way.pop(0)
            took = run.job.arguments[0]["slots"][0]["units"]
            if answer is True or (answer == {"units_max": 1} and took == 1):
                allowed.add((run.job.source, run.rid, took))
            under_way += site.end(run, RunOutcome("ok", answer)).errands
        elif step == "script":
            site.source += "#\n"
            site.take_script(site.source)
        elif step == "restart":
            under_way.clear()
            site.restart()
        elif step == "release":
            site.receive(release(number, att=attempts.get(number, 1)))
        for each in (1, 2, 3):
            stake = site.participant.book.stakes.get(rid(each))
            for claim in stake.claims_in("prepared") if stake is not None else ():
                assert any(
                    (source, rid(each), claim.units) in allowed for source in _all(site.source)
                )


def _all(source: str) -> list[str]:
    """Return the sources so far: what was promised stays."""
    plain = ScriptedSite.source
    return [plain + "#\n" * count for count in range(source.count("#") + 1)]

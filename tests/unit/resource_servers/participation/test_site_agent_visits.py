"""An agent's visit at a site: only what was on offer, is allowed and is free still, is held."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from site_agent_support import (
    KIND,
    NEAR,
    SOURCE,
    AgentSite,
    ask,
    dispatch,
    hash_of,
    own,
    report_in,
    starts,
    times,
)
from tests.protocol_support import (
    ANN,
    BOB,
    DAY,
    HERE,
    T0,
    abort,
    commit,
    lock,
    peer_ask,
    prepare,
    rid,
    visit,
    vote,
    want,
)

from kalends.agents.runs import RunOutcome, ScriptRun
from kalends.calendars import AccessRule
from kalends.contract import messages as m
from kalends.contract.messages import SiteReport
from kalends.core import limits
from kalends.core.errors import RefusalCode
from kalends.core.intervals import Moment
from kalends.core.scripts import RunCode, Starts, Stop
from kalends.resource_servers.participation.admission import ParticipantLimits
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.runs import RUNS_MAX, RunTable
from kalends.resource_servers.participation.this_site import FenceNumbers
from kalends.resource_servers.participation.visits.agent_visits import SCRIPTS_KEPT_MAX, AgentLimits
from kalends.resource_servers.participation.visits.visit_handler import RELAY_MS_MAX, RUN_MS_MAX


@pytest.fixture
def site() -> AgentSite:
    return AgentSite()


def test_the_script_is_shown_what_is_free_and_its_choice_is_held_in_its_order() -> None:
    site = AgentSite()
    lock(site, 1, want("one", 10, 20))
    errand = site.send(dispatch(2, ask("one", 10)))
    assert errand.job.function == "choose"
    assert errand.job.source == SOURCE
    view, request = errand.job.arguments
    assert [slot["start"] - T0 - DAY for slot in view["slots"]] == [0, 20, 30]
    assert request["user"] == "ann"
    report = site.choose(errand, [2, 0])
    assert report.code == "ok"
    assert times(report.held) == [30, 0]
    assert report.wished == (T0 + DAY + 30, T0 + DAY)
    assert report.run == str(errand.number)
    assert site.states(2) == ["held", "held"]
    assert site.free("one", 0, 10) == site.free("one", 30, 40) == 0
    assert site.free("one", 20, 30) == 1


FAILURES = [code for code in get_args(RunCode) if code != "ok"]


@pytest.mark.parametrize("code", FAILURES)
def test_whatever_a_run_fails_with_the_default_choice_is_held_and_the_code_told(
    site: AgentSite,
    code: RunCode,
) -> None:
    report = site.fail(site.send(dispatch(1)), code)
    assert (report.code, report.detail, report.line) == (code, "as it is", 3)
    assert times(report.held) == [0, 10, 20, 30]


@pytest.mark.parametrize(
    "answer",
    [
        None, True, "0", 0, [True], [0.0], ["0"], [4], [-1], [0, 0], [0, 1, 2, 3, 0], [[0]], (0,),
        {0: 0}, {"ids": [0]}, [2**70], [None],
    ],
)  # fmt: skip
def test_an_answer_that_is_not_a_list_of_ids_on_offer_counts_for_nothing(answer: Any) -> None:
    site = AgentSite()
    report = own(site.end(site.send(dispatch(1)), RunOutcome("ok", answer, sent=("secret",))))
    assert report.code == "bad-result"
    assert report.sent == ()
    assert times(report.held) == [0, 10, 20, 30]


@pytest.mark.parametrize("sent", [("x",) * 17, ("x" * 5_000,), (object(),)])
def test_messages_that_are_too_many_too_long_or_not_plain_are_a_bad_result(sent: Any) -> None:
    site = AgentSite()
    report = own(site.end(site.send(dispatch(1)), RunOutcome("ok", [0], sent=sent)))
    assert (report.code, report.sent) == ("bad-result", ())


def test_messages_go_both_ways_and_malformed_ones_are_left_out(site: AgentSite) -> None:
    inbox = ('{"prefer":"morning"}', "{", "[" * 4_000, "[[[[[[[[[[1]]]]]]]]]]", "7")
    errand = site.send(dispatch(1, inbox=inbox))
    assert errand.job.inbox == ({"prefer": "morning"}, 7)
    report = site.choose(errand, [0], sent=({"left": [1, None]}, "bye"))
    assert report.sent == ('{"left":[1,null]}', '"bye"')


def test_a_script_that_chooses_nothing_holds_nothing_and_may_be_asked_again() -> None:
    site = AgentSite()
    report = site.hold_by_agent(dispatch(1), [])
    assert (report.code, report.held, report.wished) == ("ok", (), ())
    assert "none of 4 slots" in report.refusals[0].detail
    assert report.offered[0].runs == ((T0 + DAY, T0 + DAY + 30),)
    assert site.stake(1) is None
    assert times(site.hold_by_agent(dispatch(1), [1]).held) == [10]


def test_only_as_many_are_held_as_the_owner_lets_one_visit_hold() -> None:
    site = AgentSite(agents=AgentLimits(held_max=2))
    errand = site.send(dispatch(1))
    assert errand.job.arguments[0]["held_max"] == 2
    assert times(site.choose(errand, [3, 1, 0]).held) == [30, 10]


def test_the_limit_on_holds_of_one_user_is_kept_over_all_their_visits() -> None:
    site = AgentSite(limits=ParticipantLimits(held_per_principal_max=3))
    site.answer(visit(1, want("pool", 0, 5), want("pool", 5, 10)))
    errand = site.send(dispatch(2))
    assert errand.job.arguments[0]["held_max"] == 1
    site.answer(visit(3, want("pool", 20, 30)))
    report = site.choose(errand, [1, 2])
    assert report.held == ()
    assert [refusal.code for refusal in report.refusals] == [RefusalCode.LIMIT]
    turned_away = own(site.receive(dispatch(4)))
    assert [refusal.code for refusal in turned_away.refusals] == [RefusalCode.LIMIT]
    assert site.send(dispatch(5, principal=BOB))


def test_a_site_that_is_drained_turns_agents_away_before_and_after_the_run(site: AgentSite) -> None:
    errand = site.send(dispatch(1))
    site.participant.admission.draining = True
    report = site.choose(errand, [0])
    assert [refusal.code for refusal in report.refusals] == [RefusalCode.DRAINED]
    assert site.stake(1) is None
    effects = site.receive(dispatch(2, near=(Stop(NEAR, (ask("one"),)),)))
    assert not effects.errands
    assert not effects.relays
    assert [each.site for each in report_in(effects).sites] == [HERE, NEAR]
    assert own(effects).refusals[0].code == RefusalCode.DRAINED


def test_a_site_whose_owner_runs_no_agents_chooses_by_default() -> None:
    site = AgentSite(agents=AgentLimits(enabled=False))
    effects = site.receive(dispatch(1))
    assert not effects.errands
    assert own(effects).code == "sandbox-unavailable"
    assert len(own(effects).held) == 4


# The script


def test_a_hash_whose_source_was_never_seen_is_asked_for_and_holds_nothing(site: AgentSite) -> None:
    effects = site.receive(dispatch(1, source=None, near=(Stop(NEAR, (ask("one"),)),)))
    assert [each.code for each in report_in(effects).sites] == ["unknown-script"] * 2
    assert not effects.errands
    assert not effects.relays
    assert site.stake(1) is None
    site.choose(site.send(dispatch(1)), [0])
    assert site.send(dispatch(2, source=None)).job.source == SOURCE


def test_a_source_that_has_another_hash_is_rejected_and_not_remembered(site: AgentSite) -> None:
    report = own(site.receive(dispatch(1, script=hash_of("something else"))))
    assert (report.code, report.held) == ("rejected", ())
    again = own(site.receive(dispatch(1, source=None, script=hash_of("something else"))))
    assert again.code == "unknown-script"


def test_sources_that_were_not_used_for_longest_are_forgotten(site: AgentSite) -> None:
    sources = [f"# {number}" for number in range(SCRIPTS_KEPT_MAX + 1)]
    for source in sources:
        site.end(site.send(dispatch(1, source=source)), RunOutcome("ok", []))
    first = own(site.receive(dispatch(1, source=None, script=hash_of(sources[0]))))
    assert first.code == "unknown-script"
    assert site.send(dispatch(1, source=None, script=hash_of(sources[1])))


# Why there is nothing on offer


def test_rules_are_told_before_want_of_room() -> None:
    rules = {"two": (AccessRule("all", "user:bob", ("see", "hold", "lock")),)}
    site = AgentSite(rules=rules)
    lock(site, 1, want("one", 0, 40))
    asks = (ask("one"), ask("two", term=1), ask("gone", term=2), ask("pool", units=9, term=3))
    report = own(site.receive(dispatch(2, *asks)))
    assert report.code == "ok"
    assert [refusal.code for refusal in report.refusals] == [
        RefusalCode.BUSY,
        RefusalCode.UNKNOWN_RESOURCE,
        RefusalCode.UNKNOWN_RESOURCE,
        RefusalCode.TOO_MUCH,
    ]
    assert "there is room from" in report.refusals[0].detail


def test_a_hidden_resource_is_refused_in_the_words_for_one_that_does_not_exist() -> None:
    rules = {"two": (AccessRule("all", "user:bob", ("see", "hold", "lock")),)}
    site = AgentSite(rules=rules)
    hidden = own(site.receive(dispatch(1, ask("two")))).refusals[0]
    missing = own(site.receive(dispatch(1, ask("gone")))).refusals[0]
    assert hidden.detail.replace("two", "gone") == missing.detail


def test_a_slot_whose_time_has_come_while_the_script_ran_is_not_held(site: AgentSite) -> None:
    over = starts(10 - DAY, 30 - DAY)
    errand = site.send(dispatch(1, over=over))
    site.ms += 20_000
    report = site.choose(errand, [0, 2])
    assert times(report.held) == [30 - DAY]
    assert [refusal.code for refusal in report.refusals] == [RefusalCode.PAST]


# The calendar has changed while the script ran


def test_a_choice_whose_slot_is_gone_meanwhile_is_left_out(site: AgentSite) -> None:
    errand = site.send(dispatch(1))
    lock(site, 2, want("one", 5, 15))
    report = site.choose(errand, [0, 1, 2])
    assert times(report.held) == [20]
    assert report.wished == (T0 + DAY, T0 + DAY + 10, T0 + DAY + 20)


def test_when_all_is_gone_the_script_is_asked_once_more_and_then_the_default_chooses() -> None:
    site = AgentSite()
    errand = site.send(dispatch(1))
    lock(site, 2, want("one", 0, 10))
    effects = site.end(errand, RunOutcome("ok", [0]))
    assert not effects.sends
    (second,) = effects.errands
    starts_shown = [slot["start"] - T0 - DAY for slot in second.job.arguments[0]["slots"]]
    assert starts_shown == [10, 20, 30]
    lock(site, 3, want("one", 10, 20))
    report = site.choose(second, [0])
    assert report.code == "busy"
    assert "twice" in report.detail
    assert times(report.held) == [20, 30]
    assert report.run == str(second.number)


def test_when_nothing_at_all_is_left_the_report_says_so(site: AgentSite) -> None:
    errand = site.send(dispatch(1))
    lock(site, 2, want("one", 0, 40))
    report = site.fail(errand, "agent-error")
    assert (report.code, report.held) == ("agent-error", ())
    assert [refusal.code for refusal in report.refusals] == [RefusalCode.BUSY]
    assert site.stake(1) is None


# Repeats, newer attempts, ends


def test_while_the_script_runs_a_repeat_is_not_answered_and_afterwards_as_before() -> None:
    site = AgentSite()
    errand = site.send(dispatch(1))
    effects = site.receive(dispatch(1), "another session")
    assert not effects
    done = site.end(errand, RunOutcome("ok", [1]))
    assert done.sends[0].to == "another session"
    again = site.receive(dispatch(1))
    assert report_in(again) == report_in(done)
    assert not site.end(errand, RunOutcome("ok", [0]))
    assert times(own(site.receive(dispatch(1, source=None))).held) == [10]


def test_a_newer_attempt_ends_the_run_of_the_older_and_takes_its_holds_away() -> None:
    site = AgentSite()
    first = site.hold_by_agent(dispatch(1), [0])
    second = site.send(dispatch(1, att=2))
    assert site.free("one", 0, 10) == 1
    third = site.send(dispatch(1, att=3))
    assert not site.end(second, RunOutcome("ok", [0]))
    report = site.choose(third, [1])
    assert times(report.held) == [10]
    assert report.held[0].hold_id > first.held[0].hold_id
    stale = site.answer(dispatch(1, att=2))
    assert isinstance(stale, m.Stale)
    assert stale.seen == 3


def test_while_a_newer_attempt_runs_an_older_one_is_stale(site: AgentSite) -> None:
    site.send(dispatch(1, att=2))
    for message in (dispatch(1), visit(1, want("one", 0, 10))):
        stale = site.answer(message)
        assert isinstance(stale, m.Stale)
        assert (stale.att, stale.seen) == (1, 2)


@pytest.mark.parametrize(
    "message",
    [
        m.Release(rid=rid(1), att=1),
        abort(1),
        peer_ask(1),
        vote(1, want("pool", 0, 10), att=2),
        visit(1, want("pool", 0, 10)),
    ],
)
def test_a_run_of_an_attempt_that_is_over_changes_nothing(message: m.Message) -> None:
    site = AgentSite()
    errand = site.send(dispatch(1))
    site.receive(message)
    before = site.states(1)
    assert not site.end(errand, RunOutcome("ok", [0]))
    assert site.states(1) == before
    assert site.free("one", 0, 40) == 1


def test_a_release_of_an_older_attempt_does_not_end_the_run(site: AgentSite) -> None:
    errand = site.send(dispatch(1, att=2))
    site.receive(m.Release(rid=rid(1), att=1))
    assert times(site.choose(errand, [0]).held) == [0]


def test_after_a_promise_a_repeat_tells_what_of_the_choice_is_still_held(site: AgentSite) -> None:
    report = site.hold_by_agent(dispatch(1), [0, 1])
    site.receive(prepare(1, report.held[1].hold_id))
    assert own(site.receive(dispatch(1))).held == (report.held[1],)
    site.restart()
    assert own(site.receive(dispatch(1))).held == (report.held[1],)
    site.receive(commit(1, report.held[1].hold_id))
    assert isinstance(site.answer(dispatch(1)), m.Stale)
    assert not site.visiting.visits


def test_a_restart_forgets_runs_and_holds_and_a_repeat_runs_anew(site: AgentSite) -> None:
    errand = site.send(dispatch(1))
    site.hold_by_agent(dispatch(2, ask("two")), [0])
    site.restart()
    assert not site.end(errand, RunOutcome("ok", [0]))
    assert site.stake(2) is None
    assert site.send(dispatch(1)).number != errand.number


def test_holds_of_a_choice_expire_and_a_repeat_runs_anew(site: AgentSite) -> None:
    site.hold_by_agent(dispatch(1, hold_ms=1_000), [0, 1])
    site.advance(1_001)
    assert site.stake(1) is None
    assert site.free("one", 0, 40) == 1
    assert site.send(dispatch(1))


def test_a_run_that_never_ends_counts_as_killed_after_a_while(site: AgentSite) -> None:
    errand = site.send(dispatch(1))
    assert site.participant.next_deadline_ms() <= site.ms + RUN_MS_MAX
    effects = site.advance(RUN_MS_MAX)
    assert own(effects).code == "killed"
    assert len(own(effects).held) == 4
    assert not site.end(errand, RunOutcome("ok", [0]))


def test_a_visit_of_an_attempt_that_an_agent_made_is_refused(site: AgentSite) -> None:
    site.hold_by_agent(dispatch(1), [0])
    answer = site.answer(vote(1, want("one", 0, 10)))
    assert isinstance(answer, m.Visited)
    assert (answer.vote, answer.held) == ("no", ())
    assert site.states(1) == ["held"]


def test_a_dispatch_of_an_attempt_that_was_visited_otherwise_is_refused(site: AgentSite) -> None:
    site.answer(visit(1, want("one", 3, 9)))
    report = own(site.receive(dispatch(1)))
    assert report.held == ()
    assert report.refusals
    assert site.states(1) == ["held"]


# Alternatives


def test_one_common_start_can_be_promised_and_the_others_go(site: AgentSite) -> None:
    asks = (ask("pool", 20, 2), ask("one", 10, term=1))
    report = site.hold_by_agent(dispatch(1, *asks, over=starts(0, 10)), [0, 1, 2, 3])
    first, second = report.held[:2], report.held[2:]
    assert {slot.common for slot in first} == {T0 + DAY}
    assert site.free("pool", 0, 30) == 1
    voted = site.answer(prepare(1, first[0].hold_id, second[0].hold_id))
    assert isinstance(voted, m.Voted)
    assert voted.vote == "no"
    voted = site.answer(prepare(1, *(slot.hold_id for slot in second)))
    assert isinstance(voted, m.Voted)
    assert voted.vote == "yes"
    assert site.states(1) == ["prepared", "prepared"]
    assert site.free("pool", 0, 10) == 3
    site.restart()
    assert site.free("pool", 10, 30) == 1
    site.receive(commit(1, *(slot.hold_id for slot in second)))
    assert site.states(1) == ["locked", "locked"]


def test_overlapping_alternatives_take_the_larger_of_both_and_not_the_sum(site: AgentSite) -> None:
    report = site.hold_by_agent(dispatch(1, ask("pool", 20, 2)), [0, 1, 2])
    assert len(report.held) == 3
    assert site.free("pool", 0, 40) == 1
    other = site.hold_by_agent(dispatch(2, ask("pool", 40, 1), over=starts(0, 0)), [0])
    assert len(other.held) == 1


def test_releasing_and_renewing_single_alternatives_works(site: AgentSite) -> None:
    report = site.hold_by_agent(dispatch(1, ask("one", 20)), [0, 1, 2])
    ids = [slot.hold_id for slot in report.held]
    site.receive(m.Release(rid=rid(1), att=1, hold_ids=(ids[0],)))
    assert site.free("one", 0, 10) == 1
    assert site.free("one", 10, 40) == 0
    renewed = site.answer(
        m.Renew(rid=rid(1), att=1, hold_ids=tuple(ids), hold_ms=60_000), "another"
    )
    assert isinstance(renewed, m.Renewed)
    assert (renewed.kept, renewed.lost) == (tuple(ids[1:]), (ids[0],))
    site.advance(40_000)
    assert site.states(1) == ["held", "held"]
    site.advance(20_001)
    assert site.stake(1) is None


# Sites near


def near_report(held: int = 1) -> SiteReport:
    return SiteReport(NEAR, epoch=4, sent=("1",) * held)


def test_a_visit_is_passed_on_to_a_near_site_and_both_reports_come_together() -> None:
    site = AgentSite()
    stop = Stop(NEAR, (ask("there-one"),))
    site.receive(dispatch(9))
    effects = site.receive(dispatch(1, source=None, near=(stop,)))
    (relay,) = effects.relays
    assert (relay.site, relay.dispatch.asks, relay.dispatch.near) == (NEAR, stop.asks, ())
    assert relay.dispatch.source == SOURCE
    assert not site.end(effects.errands[0], RunOutcome("ok", [0])).sends
    assert site.states(1) == ["held"]
    answered = report_in(site.relayed(relay.number, near_report()))
    assert [each.site for each in answered.sites] == [HERE, NEAR]
    assert answered.sites[1] == near_report()
    assert report_in(site.receive(dispatch(1, near=(stop,)))) == answered
    assert not site.relayed(relay.number, near_report())


def test_the_near_site_may_answer_first(site: AgentSite) -> None:
    effects = site.receive(dispatch(1, near=(Stop(NEAR, (ask("one"),)),)))
    assert not site.relayed(effects.relays[0].number, near_report())
    answered = report_in(site.end(effects.errands[0], RunOutcome("ok", [0])))
    assert answered.sites[1] == near_report()


@pytest.mark.parametrize("report", [None, SiteReport("elsewhere"), SiteReport(HERE)])
def test_a_near_site_that_is_silent_or_answers_for_another_counts_as_down(
    site: AgentSite,
    report: SiteReport | None,
) -> None:
    effects = site.receive(dispatch(1, near=(Stop(NEAR, (ask("one"),)),)))
    site.end(effects.errands[0], RunOutcome("ok", [0]))
    near = report_in(site.relayed(effects.relays[0].number, report)).sites[1]
    assert (near.site, near.refusals[0].code) == (NEAR, RefusalCode.SITE_DOWN)


def test_a_near_site_that_never_answers_is_waited_for_only_so_long(site: AgentSite) -> None:
    effects = site.receive(dispatch(1, hold_ms=5_000, near=(Stop(NEAR, (ask("one"),)),)))
    site.end(effects.errands[0], RunOutcome("ok", [0]))
    ended = report_in(site.advance(RELAY_MS_MAX))
    assert ended.sites[1].refusals[0].code == RefusalCode.SITE_DOWN
    assert ended.sites[0].held == (), "its own hold has expired while it waited"
    assert not site.visiting.visits


def test_sites_that_the_owner_does_not_list_are_not_visited(site: AgentSite) -> None:
    stops = (Stop("stranger", (ask("one"),)), Stop(NEAR, (ask("one"),)), Stop(NEAR, (ask("one"),)))
    effects = site.receive(dispatch(1, near=stops))
    assert [relay.site for relay in effects.relays] == [NEAR]
    site.end(effects.errands[0], RunOutcome("ok", [0]))
    answered = report_in(site.relayed(effects.relays[0].number, near_report()))
    assert [each.site for each in answered.sites] == [HERE, "stranger", NEAR]
    assert site.participant.hello().near == (NEAR,)


def test_near_sites_are_visited_even_when_nothing_is_free_here(site: AgentSite) -> None:
    lock(site, 2, want("one", 0, 40))
    effects = site.receive(dispatch(1, near=(Stop(NEAR, (ask("one"),)),)))
    assert not effects.sends
    answered = report_in(site.relayed(effects.relays[0].number, near_report()))
    assert answered.sites[0].refusals
    assert answered.sites[1].sent


def test_reports_of_near_sites_that_are_too_long_are_not_passed_on(site: AgentSite) -> None:
    effects = site.receive(dispatch(1, near=(Stop(NEAR, (ask("one"),)),)))
    site.end(effects.errands[0], RunOutcome("ok", [0]))
    long = SiteReport(NEAR, sent=("x" * 4_000,) * 100)
    instead = report_in(site.relayed(effects.relays[0].number, long)).sites[1]
    assert (instead.sent, instead.refusals[0].code) == ((), RefusalCode.SITE_DOWN)


def test_a_newer_attempt_waits_for_no_relay_of_the_older(site: AgentSite) -> None:
    effects = site.receive(dispatch(1, near=(Stop(NEAR, (ask("one"),)),)))
    errand = site.send(dispatch(1, att=2))
    assert not site.relayed(effects.relays[0].number, near_report())
    assert not site.end(effects.errands[0], RunOutcome("ok", [0]))
    assert times(site.choose(errand, [0]).held) == [0]


def test_nothing_is_kept_of_visits_that_are_over(site: AgentSite) -> None:
    for number in range(1, 6):
        errand = site.send(dispatch(number, source=KIND, principal=ANN if number % 2 else BOB))
        site.end(errand, RunOutcome("ok", []))
    site.advance(RUN_MS_MAX)
    assert not site.visiting.visits
    assert not site.visiting.runs._errands
    assert not site.visiting.runs._relays
    assert not site.visiting.runs._deadlines
    assert site.participant.next_deadline_ms() > site.ms


def test_what_was_on_offer_is_forgotten_once_it_is_told(site: AgentSite) -> None:
    report = site.hold_by_agent(dispatch(1), [0])
    assert report.held
    assert report.offered
    visit = site.visiting.visits.get(rid(1))
    assert visit is not None
    assert not visit.offers


def test_a_visit_after_an_agents_attempt_claims_its_slots_together_and_not_as_alternatives(
    site: AgentSite,
) -> None:
    site.hold_by_agent(dispatch(1, ask("pool", 10, 1), over=starts(0, 0)), [0])
    site.answer(visit(1, want("pool", 0, 10, 1), want("pool", 5, 15, 1), att=2))
    assert site.free("pool", 5, 10) == 1


def test_a_slot_in_a_time_whose_records_are_closed_is_not_held_whatever_the_clock_says() -> None:
    site = AgentSite()
    errand = site.send(dispatch(1))
    site.participant.retention.horizon_s = T0 + DAY + 15
    report = site.choose(errand, [0, 2])
    assert times(report.held) == [20]
    assert [refusal.code for refusal in report.refusals] == [RefusalCode.PAST]


def test_a_visit_is_forgotten_when_its_outcome_is_known() -> None:
    for outcome in ("commit", "abort"):
        site = AgentSite()
        (slot,) = site.hold_by_agent(dispatch(1), [0]).held
        site.receive(prepare(1, slot.hold_id))
        site.receive(commit(1, slot.hold_id) if outcome == "commit" else abort(1))
        assert not site.visiting.visits


def test_a_zone_that_the_arguments_name_is_known_to_the_script() -> None:
    message = msgspec.structs.replace(dispatch(1), arguments={"zone": "Asia/Tokyo"})
    assert "Asia/Tokyo" in AgentSite().send(message).job.zones


def test_a_window_to_the_year_3000_costs_no_more_than_what_can_be_booked() -> None:
    over = Starts(first=T0 + DAY, last=limits.TIME_S_MAX, step_s=60)
    job = AgentSite().send(dispatch(1, over=over)).job
    assert 0 < len(job.arguments[0]["slots"]) <= limits.OFFERS_MAX
    changes = [from_s for table in job.zones.values() for from_s, _ in table]
    assert max(changes) < T0 + 3 * 366 * DAY


def test_one_run_of_each_user_finds_room_beside_a_crowd_of_others_and_a_second_does_not() -> None:
    runs = RunTable(ParticipantOutbox(), FenceNumbers(1), lambda now: None)

    def set_out(user: str) -> int:
        job = ScriptRun(user, "", "choose", ({}, {}))
        return runs.set_out("r", job, Moment(0, 0), 1_000, lambda number, outcome, now: None)

    numbers = [set_out("crowd") for _ in range(RUNS_MAX)]
    assert not runs.has_room("crowd")
    assert runs.has_room("ada")
    mine = set_out("ada")
    assert not runs.has_room("ada")
    runs.errand_done(mine, RunOutcome("ok"), Moment(0, 0))
    assert runs.has_room("ada")
    runs.drop(numbers[0])
    assert runs.has_room("crowd")

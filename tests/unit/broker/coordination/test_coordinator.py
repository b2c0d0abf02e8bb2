"""What a broker does for a request in each of its phases, with a real register and sites by hand."""

from __future__ import annotations

from sqlite3 import Connection

import pytest
from msgspec import structs
from tests.protocol_broker import SITES, START, WANTS, Broker, hello, new_register
from tests.protocol_support import BOB, COORDS, T0, secret_of

from kalends.broker.coordination.transaction_table import REQUEST_MS_MAX
from kalends.broker.coordination.user_calls import DRAINED
from kalends.broker.coordination.voting.negotiation import ROUNDS_MAX
from kalends.broker.coordination.voting.prepare_phase import ON_THE_WAY_MS, VOTE_MS_MAX
from kalends.calendars import unknown_resource
from kalends.contract import messages as m
from kalends.core.errors import (
    Conflict,
    KeyReused,
    LimitExceeded,
    Refusal,
    RefusalCode,
    Unavailable,
)

BUSY = Refusal(where="there/one", code=RefusalCode.BUSY, detail="taken")


def no(rid: str, *refusals: Refusal, att: int = 1) -> m.Visited:
    return m.Visited(rid=rid, att=att, epoch=1, vote="no", refusals=refusals or (BUSY,))


def yes(rid: str, hold_id: int) -> m.Visited:
    return m.Visited(rid=rid, att=1, epoch=1, vote="yes", held=(m.HeldSlot(0, hold_id),))


# One round trip


def test_fixed_slots_are_voted_on_at_once_and_reserved_after_one_round_trip(broker: Broker) -> None:
    rid = broker.submit()
    assert broker.kinds() == [("here", "Visit"), ("there", "Visit")]
    broker.visited(rid)
    assert broker.answers[1].state == "reserved"
    assert broker.row(rid).state == "commit"
    assert broker.row(rid).chosen == {"here": (11,), "there": (21,)}
    assert broker.kinds() == [("here", "Decide"), ("there", "Decide")]
    broker.done(rid)
    assert broker.kinds() == [("here", "Forget"), ("there", "Forget")]
    assert broker.row(rid).done
    assert not broker.coordinator.cases
    assert broker.events == ["reserved"]


def test_nothing_is_told_before_the_register_has_it() -> None:
    broker = Broker(at_once=False)
    rid = broker.submit()
    broker.write()
    broker.visited(rid)
    assert not broker.answers
    assert not broker.events
    assert {kind for _, kind in broker.kinds()} == {"Visit"}
    broker.write()
    assert broker.answers[1].state == "reserved"
    assert broker.events == ["reserved"]


def test_a_site_that_says_no_to_the_only_slots_fails_the_request(broker: Broker) -> None:
    rid = broker.submit()
    broker.receive("there", no(rid))
    view = broker.answers[1]
    assert view.state == "failed"
    assert view.problem is not None
    assert view.problem.refusals == (BUSY,)
    assert broker.kinds()[-2:] == [("here", "Decide"), ("there", "Decide")]
    broker.visited(rid)
    assert broker.row(rid).state == "closed"
    assert broker.events == ["failed"]


def test_what_a_site_has_promised_and_forgotten_counts_for_nothing(broker: Broker) -> None:
    rid = broker.submit(patience="none")
    broker.receive("here", yes(rid, 11))
    broker.coordinator.site_forgot("here", broker.now)
    broker.settle()
    broker.receive("there", yes(rid, 21))
    assert broker.row(rid).state == "closed"
    assert broker.answers[1].state == "failed"


def test_a_site_that_has_not_promised_yet_has_nothing_to_forget(broker: Broker) -> None:
    rid = broker.submit()
    broker.receive("here", yes(rid, 11))
    broker.coordinator.site_forgot("there", broker.now)
    broker.settle()
    broker.receive("there", yes(rid, 21))
    assert broker.answers[1].state == "reserved"


def test_an_answer_of_another_attempt_or_site_is_nothing(broker: Broker) -> None:
    rid = broker.submit()
    broker.visited(rid, att=2)
    broker.receive("silent", no(rid))
    broker.receive("here", m.Voted(rid=rid, att=1, epoch=1, vote="yes"))
    broker.receive("here", m.Done(rid=rid, att=1, of="commit"))
    assert broker.case(rid).phase == "voting"
    broker.visited(rid)
    broker.receive("silent", m.Done(rid=rid, att=1, of="commit"))
    broker.receive("here", m.Done(rid=rid, att=1, of="abort"))
    broker.receive("here", m.Done(rid=rid, att=1, of="cancel"))
    assert not broker.row(rid).done
    broker.receive("here", m.Done(rid=rid, att=1, of="commit"))
    broker.receive("here", m.Done(rid=rid, att=1, of="commit"))
    assert broker.coordinator.table.view(broker.case(rid)).claims[0].confirmed
    assert not broker.coordinator.table.view(broker.case(rid)).claims[1].confirmed


def test_a_site_that_is_silent_is_asked_again_and_given_up(broker: Broker) -> None:
    rid = broker.submit(patience="none")
    held = (m.HeldSlot(0, 11),)
    broker.receive("here", m.Visited(rid=rid, att=1, epoch=1, vote="yes", held=held))
    broker.sent()
    broker.advance(VOTE_MS_MAX - 1)
    assert broker.kinds() == [("there", "Visit")] * 3
    broker.advance(1)
    view = broker.answers[1]
    assert view.problem is not None
    assert view.problem.code == "unavailable"
    assert [refusal.where for refusal in view.problem.refusals] == ["there"]


def test_a_site_whose_votes_take_long_is_given_the_time_it_asks_for(broker: Broker) -> None:
    broker.receive("there", structs.replace(hello("there", epoch=2), vote_ms=30_000))
    rid = broker.submit(patience="none")
    held = (m.HeldSlot(0, 11),)
    broker.receive("here", m.Visited(rid=rid, att=1, epoch=1, vote="yes", held=held))
    broker.advance(30_000 + ON_THE_WAY_MS - 1)
    assert broker.case(rid).phase == "voting"
    broker.advance(1)
    assert broker.answers[1].problem is not None


def test_a_decision_is_told_until_every_site_has_said_done(broker: Broker) -> None:
    rid = broker.submit()
    broker.visited(rid)
    broker.receive("here", m.Done(rid=rid, att=1, of="commit"))
    broker.sent()
    broker.advance(20_000)
    assert broker.kinds() == [("there", "Decide")] * 4
    broker.receive("there", hello("there", 2))
    assert broker.kinds() == [("there", "Decide")]
    broker.receive("there", m.Done(rid=rid, att=1, of="commit"))
    broker.sent()
    broker.advance(60_000)
    assert broker.sent() == []


def test_without_patience_a_site_that_is_not_connected_fails_it_before_anything_is_sent() -> None:
    broker = Broker()
    broker.coordinator.site_lost("there", "cut")
    broker.submit(1, patience="none")
    strange = (m.Want("nowhere/one", START, START + 60, 1),)
    broker.submit(2, key="another-key", wants=strange)
    assert broker.sent() == []
    for ticket, word in ((1, "cut"), (2, "does not know")):
        problem = broker.answers[ticket].problem
        assert problem is not None
        assert word in problem.refusals[0].detail


# Two round trips


def test_what_must_be_looked_for_is_planned_from_views_and_then_voted_on(broker: Broker) -> None:
    rid = broker.ask("here/one + there/one")
    assert broker.case(rid).phase == "looking"
    broker.shows((30, 200))
    assert {want.start for want in broker.case(rid).record.wants} == {START + 30}
    broker.visited(rid)
    assert broker.answers[1].start == START + 30


def test_a_lost_race_is_run_again_with_holds_at_the_next_attempt(broker: Broker) -> None:
    rid = broker.ask("here/one + there/one")
    broker.shows((0, 600))
    broker.receive("there", no(rid))
    assert broker.row(rid).att == 2
    assert broker.events == ["retrying"]
    broker.shows((0, 600))
    case = broker.case(rid)
    assert case.phase == "holding"
    assert {want.start for want in case.record.wants} != {START}
    broker.visited(rid, att=2, vote=False)
    assert broker.case(rid).phase == "preparing"
    broker.voted(rid, att=2)
    assert broker.answers[1].state == "reserved"
    assert broker.answers[1].attempts == 2


def test_it_gives_up_after_so_many_lost_races(broker: Broker) -> None:
    rid = broker.ask("here/one + there/one", patience="none")
    for att in range(1, ROUNDS_MAX + 1):
        broker.shows((0, 600))
        broker.receive("there", no(rid, att=att))
    problem = broker.answers[1].problem
    assert problem is not None
    assert problem.code == "lost-race"


def test_where_an_owners_rule_refused_every_start_the_rule_is_told_and_no_race() -> None:
    broker = Broker()
    rid = broker.ask("here/one + there/one", patience="none")
    share = Refusal(where="there/one", code=RefusalCode.SHARE, detail="half of the week is used")
    for att in range(1, ROUNDS_MAX + 1):
        broker.shows((0, 600))
        broker.receive("there", no(rid, share, att=att))
    problem = broker.answers[1].problem
    assert problem is not None
    assert problem.code == "limit-exceeded"
    assert problem.refusals == (share,)


def test_what_an_owner_refuses_for_good_is_not_asked_again(broker: Broker) -> None:
    rid = broker.ask("here/one + there/one")
    broker.shows((0, 600))
    refusal = Refusal(where="there/one", code=RefusalCode.NOT_ALLOWED, detail="no")
    broker.receive("there", no(rid, refusal))
    assert broker.case(rid).tries.shunned.keys() == {"there/one"}
    assert not broker.case(rid).tries.excluded


def test_what_an_owner_refuses_for_good_is_the_only_reason_that_is_told(broker: Broker) -> None:
    rid = broker.ask("there/one")
    broker.shows((0, 600))
    refusal = Refusal(where="there/one", code=RefusalCode.LIMIT, detail="at most 8h at a time")
    broker.receive("there", no(rid, refusal))
    broker.shows((0, 600))
    problem = broker.answers[1].problem
    assert problem is not None
    assert problem.refusals == (refusal,), "not that others were faster: nobody else was there"


def test_sites_that_show_nothing_in_time_are_left_out_of_the_plan(broker: Broker) -> None:
    rid = broker.ask("here/one + there/one", patience="none")
    broker.sent()
    broker.advance(5_000)
    view = broker.answers[1]
    assert view.problem is not None
    assert {refusal.where for refusal in view.problem.refusals} >= {"here", "there"}
    assert broker.row(rid).state == "closed"
    broker.receive("here", m.View(query_id=1, epoch=1, views=()))


def test_a_view_that_refuses_is_the_reason_that_the_user_hears(broker: Broker) -> None:
    broker.ask("here/one + there/one")
    refusal = Refusal(where="here/one", code=RefusalCode.NOT_ALLOWED, detail="no")
    for site, query in broker.sent():
        assert isinstance(query, m.Query)
        steps = m.FreeSteps(resource=f"{site}/one", until=START, refusal=refusal)
        broker.receive(site, m.View(query_id=query.query_id, epoch=1, views=(steps,)))
    problem = broker.answers[1].problem
    assert problem is not None
    assert problem.code == "not-allowed"


def test_a_named_resource_that_is_not_there_is_asked_for_like_a_hidden_one(broker: Broker) -> None:
    broker.ask("here/nothing")
    ((site, query),) = broker.sent()
    assert (site, type(query)) == ("here", m.Query)
    assert isinstance(query, m.Query)
    hidden = m.FreeSteps(
        resource="here/nothing", until=query.wants[0].end, refusal=unknown_resource("here/nothing")
    )
    broker.receive(site, m.View(query_id=query.query_id, epoch=1, views=(hidden,)))
    problem = broker.answers[1].problem
    assert problem is not None
    assert problem.code == "not-found"
    broker.ask("silent/one", 2, key="another-key", patience="none")
    problem = broker.answers[2].problem
    assert problem is not None
    assert problem.code == "unavailable"


# Holds


def hold(broker: Broker, hold_s: int = 600) -> str:
    rid = broker.submit(hold_s=hold_s)
    broker.visited(rid, vote=False)
    return rid


def test_a_hold_is_renewed_until_its_user_locks_it(broker: Broker) -> None:
    rid = hold(broker)
    assert broker.answers[1].state == "held"
    assert broker.answers[1].expires_at == T0 + 601
    broker.sent()
    broker.advance(20_000)
    assert broker.kinds() == [("here", "Renew"), ("there", "Renew")] * 2
    broker.lock(rid, 2)
    assert broker.kinds() == [("here", "Prepare"), ("there", "Prepare")]
    broker.voted(rid)
    assert broker.answers[2].state == "reserved"
    assert broker.events == ["held", "reserved"]


def test_a_hold_that_is_released_is_cancelled_and_its_sites_are_told(broker: Broker) -> None:
    rid = hold(broker)
    broker.sent()
    broker.release(rid, 2)
    assert broker.answers[2].state == "cancelled"
    assert broker.kinds() == [("here", "Decide"), ("there", "Decide")]
    broker.release(rid, 3)
    assert broker.answers[3].state == "cancelled"


def test_a_hold_runs_out(broker: Broker) -> None:
    rid = hold(broker, 15)
    broker.advance(15_000)
    assert broker.row(rid).problem is not None
    assert broker.events == ["held", "expired"]
    broker.lock(rid, 2)
    assert broker.answers[2].state == "failed"


def test_a_hold_that_a_site_lost_is_asked_for_again_for_as_long_as_it_lasts(broker: Broker) -> None:
    rid = hold(broker)
    broker.advance(2 * REQUEST_MS_MAX)
    broker.receive("there", m.Renewed(rid=rid, att=1, epoch=2, lost=(21,)))
    assert broker.case(rid).phase == "holding"
    broker.advance(5_000)
    assert broker.case(rid).phase == "holding", "there is time for the site to answer"
    broker.visited(rid, att=2, vote=False)
    assert broker.case(rid).phase == "held"
    assert broker.row(rid).held_until_ms == (T0 + 601) * 1_000
    assert broker.events == ["held", "retrying"]


def test_a_hold_that_ran_out_while_it_was_asked_for_again_has_expired() -> None:
    broker = Broker(at_once=False)
    rid = hold(broker, 15)
    broker.write()
    broker.receive("there", m.Renewed(rid=rid, att=1, epoch=2, lost=(21,)))
    broker.ms += 15_000
    broker.write()
    broker.write()
    assert broker.events[-1] == "expired"
    assert broker.row(rid).state == "closed"


def test_a_hold_that_is_asked_for_again_lasts_no_longer_because_a_clock_was_set_back() -> None:
    broker = Broker()
    rid = hold(broker, 15)
    broker.set_back_ms = 3_600_000
    broker.receive("there", m.Renewed(rid=rid, att=1, epoch=2, lost=(21,)))
    broker.visited(rid, att=2, vote=False)
    broker.advance(15_000)
    assert broker.events == ["held", "retrying", "expired"]


def test_a_site_that_comes_back_is_asked_whether_it_still_holds(broker: Broker) -> None:
    hold(broker)
    broker.sent()
    broker.receive("there", hello("there", 2))
    assert broker.kinds() == [("there", "Renew")]


def test_a_renewal_that_lost_nothing_changes_nothing(broker: Broker) -> None:
    rid = hold(broker)
    broker.receive("there", m.Renewed(rid=rid, att=1, epoch=1, kept=(21,)))
    assert broker.case(rid).phase == "held"


def test_who_locks_before_the_hold_is_written_hears_of_the_lock_and_not_of_the_hold() -> None:
    broker = Broker(at_once=False)
    rid = broker.submit(hold_s=600)
    broker.write()
    broker.visited(rid, vote=False)
    broker.lock(rid, 2)
    broker.write()
    assert 2 not in broker.answers
    broker.voted(rid)
    broker.write()
    assert broker.answers[2].state == "reserved"
    assert broker.answers[1].state == "reserved"


def test_who_releases_before_the_hold_is_written_hears_that_it_is_cancelled() -> None:
    broker = Broker(at_once=False)
    rid = broker.submit(hold_s=600)
    broker.write()
    broker.visited(rid, vote=False)
    broker.release(rid, 2)
    broker.write(1)
    assert 2 not in broker.answers
    broker.write()
    assert broker.answers[2].state == "cancelled"


def test_a_release_while_sites_are_looked_at_or_asked_ends_the_request(broker: Broker) -> None:
    rid = broker.ask("here/one")
    broker.release(rid, 2)
    assert broker.answers[2].state == "cancelled"
    rid = broker.submit(3, hold_s=60, key="another-key")
    broker.release(rid, 4)
    assert broker.answers[4].state == "cancelled"
    assert broker.answers[3].state == "cancelled"


def test_a_release_while_the_attempt_is_raised_ends_it_with_the_next() -> None:
    broker = Broker(at_once=False)
    rid = broker.submit(hold_s=600)
    broker.visited(rid, vote=False)
    broker.write()
    broker.receive("there", m.Renewed(rid=rid, att=1, epoch=2, lost=(21,)))
    broker.release(rid, 2)
    broker.write()
    broker.write()
    assert broker.answers[2].state == "cancelled"


def test_a_no_to_prepare_of_a_hold_fails_it(broker: Broker) -> None:
    rid = hold(broker)
    broker.lock(rid, 2)
    broker.receive("silent", m.Voted(rid=rid, att=1, epoch=1, vote="no"))
    broker.receive("there", m.Voted(rid=rid, att=1, epoch=1, vote="no", refusals=(BUSY,)))
    assert broker.answers[2].state == "failed"


def test_a_request_that_waited_survives_a_site_that_lost_its_hold_just_before_the_promise() -> None:
    broker = Broker()
    rid = broker.submit()
    held = Refusal(where="there/one", code=RefusalCode.HELD, detail="held")
    broker.receive("there", no(rid, held))
    broker.visited(rid, att=2, vote=False)
    assert broker.case(rid).phase == "preparing"
    ended = Refusal(where="there", code=RefusalCode.HELD, detail="the hold has ended")
    broker.receive("here", m.Voted(rid=rid, att=2, epoch=1, vote="yes"))
    broker.receive("there", m.Voted(rid=rid, att=2, epoch=2, vote="no", refusals=(ended,)))
    assert broker.row(rid).att == 3
    broker.sent()
    broker.visited(rid, att=3, vote=False)
    broker.voted(rid, att=3)
    assert broker.answers[1].state == "reserved"


def test_what_waits_on_lists_is_given_up_at_the_last_start_and_not_when_it_would_end() -> None:
    broker = Broker()
    rid = broker.submit(patience="taken")
    now = broker.now
    left_ms = broker.case(rid).deadline_ms - now.monotonic_ms
    assert now.wall_ms + left_ms == START * 1_000


def test_prepare_is_said_again_until_it_is_answered(broker: Broker) -> None:
    rid = hold(broker)
    broker.lock(rid, 2)
    broker.receive("here", m.Voted(rid=rid, att=1, epoch=1, vote="yes"))
    broker.sent()
    broker.advance(4_000)
    assert broker.kinds() == [("there", "Prepare")] * 2
    broker.receive("there", hello("there"))
    assert broker.kinds() == [("there", "Renew"), ("there", "Prepare")]


# Calls that are repeated


def test_the_same_key_joins_and_another_body_under_it_is_refused(broker: Broker) -> None:
    rid = broker.submit(1)
    assert broker.submit(2) == rid
    with pytest.raises(KeyReused):
        broker.submit(3, digest="another")
    broker.visited(rid)
    assert broker.answers[1] == broker.answers[2]
    assert broker.coordinator.calls.join(rid, 4)
    broker.settle()
    assert broker.answers[4].state == "reserved"
    broker.done(rid)
    assert not broker.coordinator.calls.join(rid, 5)


def test_open_requests_of_a_user_are_limited_and_a_draining_broker_takes_none() -> None:
    broker = Broker(open_per_user_max=1)
    rid = broker.submit()
    with pytest.raises(LimitExceeded):
        broker.submit(2, key="another-key")
    broker.submit(3, key="another-key", user=BOB)
    broker.visited(rid)
    broker.done(rid)
    broker.submit(4, key="a-third-key")
    calls = broker.coordinator.calls
    for until_s in (DRAINED, broker.now.wall_s + 60):
        calls.drained_until_s = until_s
        with pytest.raises(Unavailable, match="accepts no new requests"):
            broker.submit(5, key="a-fourth-key")
    calls.drained_until_s = broker.now.wall_s
    with pytest.raises(LimitExceeded):
        broker.submit(5, key="a-fourth-key")


def test_the_open_requests_of_a_user_at_other_replicas_count_too() -> None:
    broker = Broker(open_per_user_max=2)
    broker.coordinator.calls.open_elsewhere = {"ann": 2}
    with pytest.raises(LimitExceeded):
        broker.submit()
    broker.submit(2, user=BOB)
    broker.coordinator.calls.open_elsewhere = {"ann": 1}
    broker.submit(3)
    with pytest.raises(LimitExceeded):
        broker.submit(4, key="another-key")


def test_two_replicas_with_one_key_make_one_request(register: Connection) -> None:
    one = Broker(register)
    two = Broker(register, name="b", at_once=False, open_per_user_max=1)
    rid = one.submit()
    other = two.submit(7)
    two.write()
    assert two.answers[7].id == rid
    assert not two.coordinator.cases
    assert two.kinds()[-2:] == [("here", "Decide"), ("there", "Decide")]
    two.receive("here", m.Visited(rid=other, att=1, epoch=1, vote="yes", held=()))
    assert two.submit(8, key="another-key")


def test_another_body_under_the_key_of_another_replica_is_refused(register: Connection) -> None:
    Broker(register).submit()
    two = Broker(register, name="b")
    two.submit(7, digest="another")
    problem = two.answers[7].problem
    assert problem is not None
    assert problem.code == "key-reused"
    assert not two.coordinator.cases


def test_a_request_that_a_site_asked_about_before_it_was_written_is_given_up() -> None:
    broker = Broker(at_once=False)
    rid = broker.submit()
    other = Broker(broker.register, name="b")
    other.receive("http://here", m.Inquire(rid=rid, att=1, site="here", secret=secret_of(rid)))
    assert other.sent()[-1][1] == m.Outcome(rid=rid, att=1, outcome="abort")
    broker.visited(rid)
    broker.write()
    view = broker.answers[1]
    assert view.state == "failed"
    assert view.problem is not None
    assert view.problem.code == "lost-race"


# Take-over


def test_a_replica_that_takes_over_ends_the_attempt_of_the_one_before(register: Connection) -> None:
    gone, heir = Broker(register), Broker(register, name="b")
    rid = gone.submit()
    heir.adopt(rid)
    assert heir.kinds() == [("here", "Visit"), ("there", "Visit")]
    gone.visited(rid)
    assert gone.answers[1].state == "open"
    assert not gone.coordinator.cases
    heir.visited(rid, att=2, vote=False)
    heir.voted(rid, att=2)
    assert heir.row(rid).state == "commit"
    assert heir.row(rid).att == 2
    assert heir.row(rid).owner == "b:1"


def test_a_replica_that_was_taken_over_finds_out_before_it_asks_again(register: Connection) -> None:
    gone, heir = Broker(register), Broker(register, name="b")
    rid = gone.submit()
    heir.adopt(rid)
    gone.advance(1_000)
    assert not gone.coordinator.cases


def test_a_row_that_was_read_before_a_take_over_does_not_end_it(register: Connection) -> None:
    gone, heir = Broker(register), Broker(register, name="b")
    rid = gone.submit()
    read_before = gone.row(rid)
    heir.adopt(rid)
    heir.coordinator.table.notice(read_before)
    assert heir.case(rid).record.att == 2


def test_only_one_of_two_heirs_takes_over(register: Connection) -> None:
    gone = Broker(register)
    rid = gone.submit()
    heirs = [Broker(register, name=name, at_once=False) for name in "bc"]
    for heir in heirs:
        heir.adopt(rid)
    for heir in heirs:
        heir.write()
    assert [len(heir.coordinator.cases) for heir in heirs] == [1, 0]


def test_a_commit_that_was_not_told_is_told_by_the_heir(register: Connection) -> None:
    gone = Broker(register)
    rid = gone.submit()
    gone.visited(rid)
    heir = Broker(register, name="b")
    heir.adopt(rid)
    heir.adopt(rid)
    chosen = {"here": (11,), "there": (21,)}
    decide = m.Decide(rid=rid, att=1, outcome="commit", chosen=chosen)
    assert heir.sent() == [(site, decide) for site in SITES]
    heir.done(rid)
    assert heir.row(rid).done
    heir.adopt(rid)
    assert not heir.coordinator.cases


def test_an_heir_that_comes_too_late_leaves_it(register: Connection) -> None:
    gone = Broker(register)
    rid = gone.submit()
    gone.visited(rid)
    heir = Broker(register, name="b", at_once=False)
    heir.adopt(rid)
    gone.done(rid)
    heir.write()
    assert not heir.coordinator.cases


def test_a_hold_is_kept_by_the_heir(register: Connection) -> None:
    gone, heir = Broker(register), Broker(register, name="b")
    rid = hold(gone)
    heir.lock(rid, 2)
    heir.visited(rid, att=2, vote=False)
    heir.voted(rid, att=2)
    assert heir.answers[2].state == "reserved"


@pytest.mark.parametrize("ran_out", [False, True])
def test_a_hold_that_ends_at_an_heir_is_given_back_at_once(ran_out: bool) -> None:
    register = new_register()
    gone, heir = Broker(register), Broker(register, name="b")
    rid = hold(gone)
    if ran_out:
        heir.advance(602_000)
        heir.adopt(rid)
    else:
        heir.release(rid, 2)
    abort = m.Decide(rid=rid, att=2, outcome="abort")
    assert heir.sent() == [(site, abort) for site in SITES]
    assert rid not in heir.coordinator.cases


def test_a_request_that_was_looked_for_is_looked_for_again_by_the_heir() -> None:
    register = new_register()
    gone, heir = Broker(register), Broker(register, name="b")
    rid = gone.ask("here/one")
    heir.adopt(rid)
    assert heir.case(rid).phase == "looking"


# In doubt


@pytest.mark.parametrize("alive", [True, False])
def test_a_site_in_doubt_hears_pending_while_the_owner_lives_else_the_asked_takes_over(
    register: Connection,
    alive: bool,
) -> None:
    owner = Broker(register)
    rid = owner.submit()
    asked = Broker(register, name="b", alive=frozenset({"a:1"}) if alive else frozenset())
    asked.receive("http://here", m.Inquire(rid=rid, att=1, site="here", secret=secret_of(rid)))
    assert ("http://here", m.Outcome(rid=rid, att=1, outcome="pending")) in asked.sent()
    assert bool(asked.coordinator.cases) == (not alive)
    assert asked.row(rid).att == (1 if alive else 2)


def inquire(broker: Broker, rid: str, att: int = 1, secret: str = "") -> list[m.Message]:
    broker.sent()
    broker.receive(
        "http://here", m.Inquire(rid=rid, att=att, site="here", secret=secret or secret_of(rid))
    )
    return [message for to, message in broker.sent() if to == "http://here"]


def test_the_answer_to_an_inquiry_is_the_registers(broker: Broker) -> None:
    rid = broker.submit()
    assert inquire(broker, rid) == [m.Outcome(rid=rid, att=1, outcome="pending")]
    assert inquire(broker, rid, secret="a guess of a secret") == []
    broker.visited(rid)
    chosen = {"here": (11,), "there": (21,)}
    commit = m.Outcome(rid=rid, att=1, outcome="commit", chosen=chosen)
    assert inquire(broker, rid) == [commit]
    assert inquire(broker, rid, att=2) == [m.Outcome(rid=rid, att=2, outcome="abort")]
    broker.done(rid)
    assert inquire(broker, rid) == [structs.replace(commit, done=True)]


def test_a_site_without_a_part_in_what_is_committed_is_told_nothing_of_it(broker: Broker) -> None:
    rid = broker.reserve()
    broker.sent()
    elsewhere = m.Inquire(rid=rid, att=1, site="elsewhere", secret=secret_of(rid, "elsewhere"))
    broker.receive("http://elsewhere", elsewhere)
    assert broker.sent() == []


def test_a_lower_attempt_is_answered_abort_while_the_higher_is_open(broker: Broker) -> None:
    rid = broker.ask("here/one + there/one")
    broker.shows((0, 600))
    broker.receive("there", no(rid))
    assert inquire(broker, rid) == [m.Outcome(rid=rid, att=1, outcome="abort")]
    assert inquire(broker, rid, att=2) == [m.Outcome(rid=rid, att=2, outcome="pending")]


def test_a_request_of_an_earlier_start_of_ours_is_taken_up_when_a_site_asks() -> None:
    register = new_register()
    rid = Broker(register).submit()
    again = Broker(register)
    assert inquire(again, rid)[0] == m.Outcome(rid=rid, att=1, outcome="pending")
    assert again.row(rid).att == 2


# Stale


def test_a_stale_attempt_is_looked_up_and_given_up_where_the_register_has_another() -> None:
    register = new_register()
    gone, heir = Broker(register), Broker(register, name="b")
    rid = gone.submit()
    heir.adopt(rid)
    gone.receive("there", m.Stale(rid=rid, att=1, seen=2))
    assert not gone.coordinator.cases


def test_a_stale_attempt_that_is_ours_is_tried_again(broker: Broker) -> None:
    rid = broker.ask("here/one + there/one")
    broker.shows((0, 600))
    broker.receive("there", m.Stale(rid=rid, att=1, seen=1))
    assert broker.row(rid).att == 2
    assert broker.case(rid).phase == "looking"
    broker.receive("there", m.Stale(rid=rid, att=1, seen=1))
    broker.receive("there", m.Stale(rid=rid, att=2, seen=1))
    assert broker.case(rid).phase == "looking"


def test_what_was_stale_in_one_attempt_does_not_end_the_next() -> None:
    broker = Broker(at_once=False)
    rid = broker.submit(hold_s=600)
    broker.visited(rid, vote=False)
    broker.write()
    broker.receive("there", m.Stale(rid=rid, att=1, seen=1))
    broker.receive("there", m.Renewed(rid=rid, att=1, epoch=2, lost=(21,)))
    broker.write()
    assert broker.case(rid).record.att == 2
    broker.advance(1_500)
    broker.write()
    assert broker.case(rid).phase == "holding"


def test_a_stale_answer_to_what_is_decided_is_nothing(broker: Broker) -> None:
    rid = broker.submit()
    broker.visited(rid)
    broker.receive("there", m.Stale(rid=rid, att=1, seen=1))
    assert broker.case(rid).phase == "telling"


# Cancel


def test_a_cancel_is_answered_once_every_site_has_freed_its_slots(broker: Broker) -> None:
    rid = broker.reserve()
    broker.cancel(rid, 2)
    assert broker.kinds() == [("here", "Cancel"), ("there", "Cancel")]
    assert 2 not in broker.answers
    broker.done(rid, "cancel")
    assert broker.answers[2].state == "cancelled"
    assert broker.row(rid).done
    broker.cancel(rid, 3)
    assert broker.answers[3].state == "cancelled"


def test_a_cancel_is_told_to_each_site_once_it_has_locked_whatever_others_say() -> None:
    broker = Broker()
    rid = broker.submit()
    broker.visited(rid)
    broker.receive("here", m.Done(rid=rid, att=1, of="commit"))
    broker.sent()
    broker.cancel(rid, 2)
    broker.cancel(rid, 3)
    assert broker.kinds() == [("here", "Cancel"), ("there", "Decide")]
    broker.receive("there", m.Done(rid=rid, att=1, of="commit"))
    assert broker.kinds() == [("there", "Cancel")]
    broker.receive("here", m.Done(rid=rid, att=1, of="cancel"))
    broker.sent()
    broker.advance(1_000)
    assert broker.kinds() == [("there", "Cancel")]
    broker.done(rid, "cancel")
    assert broker.answers[2] == broker.answers[3]


def test_a_cancel_while_the_end_of_telling_is_written_is_carried_out() -> None:
    broker = Broker(at_once=False)
    rid = broker.submit()
    broker.visited(rid)
    broker.write()
    broker.done(rid)
    broker.coordinator.calls.cancel(broker.row(rid), 2, broker.now)
    broker.settle()
    broker.sent()
    broker.write()
    assert broker.kinds() == [
        ("here", "Forget"),
        ("there", "Forget"),
        ("here", "Cancel"),
        ("there", "Cancel"),
    ]
    broker.done(rid, "cancel")
    broker.write()
    assert broker.answers[2].state == "cancelled"


def test_who_cancels_or_asks_again_while_the_end_of_the_cancel_is_written_is_answered() -> None:
    broker = Broker()
    rid = broker.reserve()
    broker.cancel(rid, 2)
    broker.at_once = False
    broker.done(rid, "cancel")
    broker.coordinator.calls.cancel(broker.row(rid), 3, broker.now)
    assert broker.coordinator.calls.join(rid, 4)
    broker.settle()
    broker.write()
    assert {broker.answers[ticket].state for ticket in (2, 3, 4)} == {"cancelled"}
    assert rid not in broker.coordinator.cases


def test_what_is_not_reserved_cannot_be_cancelled(broker: Broker) -> None:
    rid = broker.submit()
    with pytest.raises(Conflict):
        broker.cancel(rid, 2)


def test_a_cancel_of_what_another_replica_has_cancelled_goes_along(register: Connection) -> None:
    one, two = Broker(register), Broker(register, name="b")
    rid = one.reserve()
    record = two.row(rid)
    one.cancel(rid, 2)
    two.coordinator.calls.cancel(record, 3, two.now)
    two.settle()
    two.done(rid, "cancel")
    assert two.answers[3].state == "cancelled"


def test_a_cancel_that_an_heir_takes_over_is_carried_out_and_joined(register: Connection) -> None:
    gone = Broker(register)
    rid = gone.reserve()
    gone.cancel(rid, 2)
    heir = Broker(register, name="b", at_once=False)
    heir.adopt(rid)
    heir.cancel(rid, 3)
    heir.write()
    heir.write()
    heir.done(rid)
    heir.done(rid, "cancel")
    heir.write()
    assert heir.answers[3].state == "cancelled"
    assert heir.row(rid).done


# Changes


def test_a_change_is_committed_together_with_the_end_of_the_old(broker: Broker) -> None:
    old = broker.reserve()
    new = broker.submit(2, key="another-key", replaces=broker.row(old))
    visits = [message for _, message in broker.sent()]
    assert [visit.replaces for visit in visits if isinstance(visit, m.Visit)] == [old, old]
    broker.visited(new)
    assert broker.answers[2].id == old
    assert broker.row(old).state == "replaced"
    assert broker.events[-1] == "changed"
    with pytest.raises(Conflict):
        broker.cancel(old, 3)


def test_a_change_of_what_was_cancelled_meanwhile_fails_and_was_never_told(broker: Broker) -> None:
    old = broker.reserve()
    new = broker.submit(2, key="another-key", replaces=broker.row(old))
    broker.cancel(old, 3)
    broker.visited(new)
    view = broker.answers[2]
    assert view.problem is not None
    assert view.problem.code == "conflict"
    assert broker.row(new).state == "closed"
    assert "changed" not in broker.events
    assert [event.kind for event in broker.row(new).trail] == ["failed"]


def test_a_cancel_of_what_was_changed_meanwhile_says_so(register: Connection) -> None:
    one, two = Broker(register), Broker(register, name="b")
    old = one.reserve()
    record = two.row(old)
    new = one.submit(2, key="another-key", replaces=one.row(old))
    one.visited(new)
    two.coordinator.calls.cancel(record, 3, two.now)
    two.settle()
    assert two.answers[3].state == "replaced"
    assert not two.coordinator.cases


# At the edge


def test_what_waiting_lists_send_is_ignored_and_what_no_broker_takes_alarms(broker: Broker) -> None:
    rid = broker.submit()
    broker.receive("here", m.Recall(rid=rid, att=1, left_ms=1))
    broker.receive("here", m.Locked(rid=rid, att=1))
    assert not broker.alarms
    broker.receive("here", m.Forget(rid=rid, att=1))
    assert broker.alarms == ["Forget from here: not for a broker"]


def test_messages_about_requests_that_are_over_are_nothing(broker: Broker) -> None:
    rid = broker.reserve()
    broker.visited(rid)
    broker.voted(rid)
    broker.done(rid)
    broker.receive("here", m.Renewed(rid=rid, att=1, epoch=1, lost=(1,)))
    broker.receive("here", m.Stale(rid=rid, att=1, seen=1))
    broker.advance(60_000)
    assert broker.sent() == []
    assert broker.row(rid).state == "commit"


def test_a_request_without_an_answer_in_its_time_fails(broker: Broker) -> None:
    rid = broker.ask("here/one + there/one")
    for _ in range(20):
        broker.shows((0, 600))
        broker.advance(VOTE_MS_MAX)
        if rid not in broker.coordinator.cases:
            break
    assert broker.answers[1].state == "failed"
    assert broker.ms <= 1_000 + REQUEST_MS_MAX + VOTE_MS_MAX


def test_brokers_are_named_in_every_visit(broker: Broker) -> None:
    broker.submit()
    _, visit = broker.sent()[0]
    assert isinstance(visit, m.Visit)
    assert visit.coords == COORDS
    assert visit.wants == WANTS[:1]
    assert visit.need == 2


# What another replica does meanwhile


def test_a_cancel_while_a_take_over_is_refused_is_carried_out(register: Connection) -> None:
    gone = Broker(register)
    rid = gone.submit()
    gone.visited(rid)
    heir = Broker(register, name="b", at_once=False)
    heir.adopt(rid)
    gone.done(rid)
    heir.cancel(rid, 3)
    heir.write()
    assert heir.kinds() == [("here", "Cancel"), ("there", "Cancel")]
    heir.done(rid, "cancel")
    heir.write()
    assert heir.answers[3].state == "cancelled"
    assert heir.row(rid).done


def test_a_cancel_here_of_what_another_replica_took_over_and_committed() -> None:
    register = new_register()
    gone, heir = Broker(register), Broker(register, name="b")
    rid = gone.submit()
    heir.adopt(rid)
    heir.visited(rid, att=2, vote=False)
    heir.voted(rid, att=2)
    gone.cancel(rid, 2)
    assert gone.answers[1].state == "reserved"
    gone.done(rid, att=2)
    gone.done(rid, "cancel", att=2)
    assert gone.answers[2].state == "cancelled"


def test_a_cancel_before_the_answer_to_the_commit_is_asked_to_come_again() -> None:
    broker = Broker(at_once=False)
    rid = broker.submit()
    broker.write()
    broker.visited(rid)
    record = broker.row(rid)
    record.state = "commit"
    with pytest.raises(Unavailable):
        broker.coordinator.calls.cancel(record, 2, broker.now)
    broker.write()
    assert broker.answers[1].state == "reserved"


def test_a_hold_and_its_end_that_the_register_refuses_are_left_to_the_heir() -> None:
    register = new_register()
    gone, heir = Broker(register, at_once=False), Broker(register, name="b")
    rid = gone.submit(hold_s=600)
    gone.write()
    heir.adopt(rid)
    gone.visited(rid, vote=False)
    gone.write()
    assert not gone.coordinator.cases
    other = gone.submit(2, hold_s=600, key="another-key")
    gone.write()
    gone.release(other, 3)
    heir.adopt(other)
    gone.write()
    assert gone.answers[3].state == "open"
    assert not gone.coordinator.cases


def test_sites_that_are_no_part_are_left_alone(broker: Broker) -> None:
    broker.submit(wants=WANTS[:1], hold_s=600)
    broker.sent()
    broker.receive("there", hello("there", 2))
    assert broker.sent() == []


def test_a_site_is_believed_about_its_own_resources_and_queries_only(broker: Broker) -> None:
    rid = broker.ask("here/one")
    ((site, query),) = broker.sent()
    assert isinstance(query, m.Query)
    steps = ((START, START + 600, 1),)
    for_other = m.FreeSteps(resource="there/one", until=START + 600, steps=steps)
    view = m.View(query_id=query.query_id, epoch=1, views=(for_other,))
    broker.receive("there", view)
    assert broker.case(rid).phase == "looking"
    broker.receive(site, view)
    assert broker.answers[1].state == "failed"


def test_a_request_that_no_resource_fits_fails_without_asking(broker: Broker) -> None:
    broker.ask("1 of {kind=sgi}")
    assert broker.sent() == []
    assert broker.answers[1].state == "failed"


def test_a_hold_that_is_lost_before_all_is_held_starts_the_next_attempt(broker: Broker) -> None:
    rid = broker.submit(hold_s=600, patience="none")
    held = (m.HeldSlot(0, 11),)
    broker.receive("here", m.Visited(rid=rid, att=1, epoch=1, vote="none", held=held))
    broker.sent()
    broker.advance(9_999)
    assert ("here", "Renew") not in broker.kinds()
    broker.receive("here", m.Renewed(rid=rid, att=1, epoch=2, lost=(11,)))
    assert broker.row(rid).att == 2

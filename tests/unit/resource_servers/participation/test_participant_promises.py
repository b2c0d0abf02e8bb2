"""What a site promises, one row of the protocol's table at a time.

The laws over all sequences are in tests/property/resource_servers/participation/test_participant_machine.py.
"""

from __future__ import annotations

import pytest
from tests.protocol_support import (
    ANN,
    BOB,
    COORDS,
    DAY,
    HERE,
    LONG_MS,
    PARTS,
    REGISTER,
    Site,
    abort,
    chosen,
    commit,
    lock,
    peer_ask,
    peer_says,
    prepare,
    rid,
    secret_of,
    told,
    visit,
    vote,
    want,
)

from kalends.calendars import AccessRule
from kalends.contract import messages as m
from kalends.core.errors import RefusalCode
from kalends.resource_servers.participation.admission import ParticipantLimits
from kalends.resource_servers.participation.claims.claim_sets import decode_stake
from kalends.resource_servers.participation.memory.in_doubt import (
    INQUIRE_AFTER_MS,
    INQUIRE_EVERY_MS_MAX,
    PEERS_AFTER_INQUIRIES,
)
from kalends.resource_servers.participation.memory.retention import COLLECT_EVERY_MS

ONE = want("one", 0, 60)
TWO = want("two", 0, 60)
POOL = want("pool", 0, 60, 2)


# Visits


def test_a_visit_holds_all_of_its_slots_or_none(site: Site) -> None:
    assert site.answer(visit(1, ONE, POOL)) == m.Visited(
        rid=rid(1), att=1, epoch=1, vote="none",
        held=(m.HeldSlot(0, site.ids(1)[0]), m.HeldSlot(1, site.ids(1)[1])),
    )  # fmt: skip
    refused = site.answer(visit(2, TWO, POOL))
    assert isinstance(refused, m.Visited)
    assert [(r.where, r.code) for r in refused.refusals] == [("here/pool", RefusalCode.HELD)]
    assert site.free("two", 0, 60) == 1
    assert site.stake(2) is None


def test_a_vote_in_the_visit_is_durable_before_it_is_answered(site: Site) -> None:
    effects = site.receive(vote(1, ONE))
    (fact,) = effects.facts
    assert fact.rid == rid(1)
    site.restart()
    assert site.states(1) == ["prepared"]
    assert site.free("one", 0, 60) == 0


def test_a_vote_that_is_refused_leaves_nothing(site: Site) -> None:
    lock(site, 1, ONE)
    effects = site.receive(vote(2, ONE, TWO))
    assert not effects.facts
    (send,) = effects.sends
    assert isinstance(send.message, m.Visited)
    assert send.message.vote == "no"
    assert not send.message.held
    assert site.stake(2) is None


def test_slots_that_touch_do_not_meet(site: Site) -> None:
    lock(site, 1, want("one", 0, 60))
    lock(site, 2, want("one", 60, 120))


def test_a_repeated_visit_is_answered_from_what_is_held(site: Site) -> None:
    first = site.answer(visit(1, ONE))
    assert site.answer(visit(1, ONE)) == first
    promised = site.answer(vote(1, ONE))
    assert isinstance(promised, m.Visited)
    assert promised.vote == "yes"
    assert site.answer(visit(1, ONE)) == promised
    assert site.answer(vote(1, ONE)) == promised


HOLDERS_ONLY = (
    AccessRule("look", "everyone", ("see", "hold")),
    AccessRule("own", "user:ann", ("lock",)),
)


def test_who_may_hold_but_not_lock_gets_no_promise_by_a_second_visit() -> None:
    site = Site(rules={"one": HOLDERS_ONLY})
    site.receive(visit(1, ONE, principal=BOB))
    answer = site.answer(visit(1, ONE, principal=BOB, mode="vote"))
    assert isinstance(answer, m.Visited)
    assert answer.vote == "no"
    assert [r.code for r in answer.refusals] == [RefusalCode.NOT_ALLOWED]
    assert site.states(1) == ["held"]


def test_who_may_hold_but_not_lock_gets_no_promise_by_prepare() -> None:
    site = Site(rules={"one": HOLDERS_ONLY})
    site.receive(visit(1, ONE, principal=BOB))
    voted = site.answer(prepare(1, *site.ids(1)))
    assert isinstance(voted, m.Voted)
    assert voted.vote == "no"
    assert site.states(1) == ["held"]


def test_the_refusal_names_an_unknown_resource(site: Site) -> None:
    answer = site.answer(visit(1, ONE, want("nothing", 0, 60)))
    assert isinstance(answer, m.Visited)
    assert [(r.where, r.code) for r in answer.refusals] == [
        ("here/nothing", RefusalCode.UNKNOWN_RESOURCE)
    ]


def test_a_draining_site_keeps_its_promises_and_makes_no_new_claims(site: Site) -> None:
    site.receive(visit(1, ONE))
    site.participant.admission.draining = True
    refused = site.answer(visit(2, TWO))
    assert isinstance(refused, m.Visited)
    assert [r.code for r in refused.refusals] == [RefusalCode.DRAINED]
    voted = site.answer(prepare(1, *site.ids(1)))
    assert isinstance(voted, m.Voted)
    assert voted.vote == "yes"


# Attempts


def test_a_higher_attempt_keeps_the_hold_and_its_number(site: Site) -> None:
    site.receive(visit(1, ONE, POOL))
    one, pool = site.ids(1)
    site.receive(visit(1, POOL, TWO, att=2))
    kept, new = site.ids(1)
    assert kept == pool
    assert new > pool > one
    assert site.free("one", 0, 60) == 1


def test_a_higher_attempt_makes_a_promise_a_hold_of_the_same_number(site: Site) -> None:
    site.receive(vote(1, ONE))
    before = site.ids(1)
    effects = site.receive(visit(1, ONE, att=2))
    assert site.ids(1) == before
    assert site.states(1) == ["held"]
    assert [fact.event for fact in effects.facts if hasattr(fact, "event")] == ["visit-newer"]
    site.restart()
    assert site.states(1) == []
    assert site.answer(vote(1, ONE)) == m.Stale(rid=rid(1), att=1, seen=2)


def test_a_higher_attempt_that_votes_gets_new_numbers(site: Site) -> None:
    site.receive(vote(1, ONE))
    before = site.ids(1)
    site.receive(vote(1, ONE, att=2))
    assert site.states(1) == ["prepared"]
    assert site.ids(1) > before
    assert not site.receive(commit(1, *before, att=1)).sends


def test_the_same_slot_twice_in_a_visit_has_two_numbers_in_every_attempt(site: Site) -> None:
    part = want("pool", 0, 60)
    site.receive(visit(1, part, part))
    first = site.ids(1)
    site.receive(visit(1, part, part, att=2))
    second = site.ids(1)
    assert len({*second}) == 2
    assert first[1] in second
    assert first[0] not in second


def test_a_higher_attempt_without_room_ends_the_lower_one(site: Site) -> None:
    lock(site, 9, TWO)
    site.receive(vote(1, ONE))
    assert isinstance(site.answer(vote(1, TWO, att=2)), m.Visited)
    assert site.states(1) == []
    assert site.free("one", 0, 60) == 1
    assert site.answer(vote(1, ONE)) == m.Stale(rid=rid(1), att=1, seen=2)
    again = site.answer(visit(1, ONE, att=2))
    assert isinstance(again, m.Visited)
    assert again.held


def test_a_higher_attempt_that_the_owner_refuses_ends_the_lower_one(site: Site) -> None:
    site.receive(vote(1, ONE))
    site.participant.admission.draining = True
    site.receive(vote(1, ONE, att=2))
    assert site.free("one", 0, 60) == 1
    site.restart()
    assert isinstance(site.answer(visit(1, ONE)), m.Stale)


def test_what_a_lower_attempt_says_late_changes_nothing(site: Site) -> None:
    site.receive(vote(1, ONE, att=2))
    ids = site.ids(1)
    assert site.answer(visit(1, TWO)) == m.Stale(rid=rid(1), att=1, seen=2)
    assert site.answer(prepare(1, *ids)) == m.Voted(rid=rid(1), att=1, epoch=1, vote="stale")
    assert isinstance(site.answer(m.Renew(rid=rid(1), att=1, hold_ids=ids, hold_ms=1)), m.Stale)
    assert site.answer(abort(1)) == m.Done(rid=rid(1), att=1, of="abort")
    site.receive(m.Release(rid=rid(1), att=1))
    assert site.states(1) == ["prepared"]


# Limits


def test_holds_and_promises_of_one_user_are_limited() -> None:
    site = Site(limits=ParticipantLimits(held_per_principal_max=2, promised_per_principal_max=1))
    site.receive(visit(1, ONE, TWO))
    refused = site.answer(visit(2, POOL))
    assert isinstance(refused, m.Visited)
    assert [r.code for r in refused.refusals] == [RefusalCode.LIMIT]
    other = site.answer(visit(3, POOL, principal=BOB))
    assert isinstance(other, m.Visited)
    assert other.held
    voted = site.answer(prepare(1, *site.ids(1)))
    assert isinstance(voted, m.Voted)
    assert voted.vote == "no"
    assert [r.code for r in voted.refusals] == [RefusalCode.LIMIT]
    voted = site.answer(prepare(1, site.ids(1)[0]))
    assert isinstance(voted, m.Voted)
    assert voted.vote == "yes"
    lacking = site.answer(vote(4, POOL))
    assert isinstance(lacking, m.Visited)
    assert [r.code for r in lacking.refusals] == [RefusalCode.LIMIT]


def test_a_change_counts_its_claims_whatever_it_needs_beyond_the_old() -> None:
    site = Site(limits=ParticipantLimits(held_per_principal_max=1))
    lock(site, 1, want("one", 60, 120))
    assert isinstance(site.answer(visit(2, want("one", 0, 180), replaces=1)), m.Visited)
    assert site.states(2) == ["held"]
    assert site.participant.book.count("ann", "held") == 1
    site.receive(m.Release(rid=rid(2), att=1))
    site.receive(visit(3, want("one", 60, 90), replaces=1))
    assert site.participant.book.count("ann", "held") == 1


def test_a_hold_lives_no_longer_than_the_owner_allows() -> None:
    site = Site(limits=ParticipantLimits(hold_ms_max=1_000))
    site.receive(visit(1, ONE, hold_ms=50_000))
    site.advance(999)
    assert site.states(1) == ["held"]
    site.receive(m.Renew(rid=rid(1), att=1, hold_ids=site.ids(1), hold_ms=50_000))
    site.advance(999)
    assert site.states(1) == ["held"]
    assert site.participant.next_deadline_ms() <= site.ms + 1
    site.advance(1)
    assert site.stake(1) is None


# Prepare


def test_prepare_gives_up_what_it_does_not_name(site: Site) -> None:
    site.receive(visit(1, ONE, TWO))
    kept = site.ids(1)[1]
    site.receive(prepare(1, kept))
    assert site.ids(1) == (kept,)
    assert site.free("one", 0, 60) == 1
    assert site.free("two", 0, 60) == 0


@pytest.mark.parametrize("att", [1, 2])
def test_prepare_of_what_is_not_held_is_refused(site: Site, att: int) -> None:
    unknown = site.answer(prepare(2, 5))
    assert isinstance(unknown, m.Voted)
    assert unknown.vote == "no"
    assert [r.code for r in unknown.refusals] == [RefusalCode.HELD]
    site.receive(visit(1, ONE))
    wrong = (5,) if att == 1 else site.ids(1)
    voted = site.answer(prepare(1, *wrong, att=att))
    assert isinstance(voted, m.Voted)
    assert voted.vote == "no"
    assert [r.code for r in voted.refusals] == [RefusalCode.HELD]
    assert site.states(1) == ["held"]


def test_prepare_after_the_end_is_told_so(site: Site) -> None:
    lock(site, 1, ONE)
    ids = site.ids(1)
    locked = site.answer(prepare(1, *ids))
    assert isinstance(locked, m.Voted)
    assert locked.vote == "yes"
    site.receive(m.Cancel(rid=rid(1), att=1))
    cancelled = site.answer(prepare(1, *ids))
    assert isinstance(cancelled, m.Voted)
    assert cancelled.vote == "stale"


# Decide


def test_a_commit_locks_what_it_chose_and_ends_the_rest(site: Site) -> None:
    site.receive(vote(1, ONE, TWO))
    one, _ = site.ids(1)
    assert site.answer(commit(1, one)) == m.Done(rid=rid(1), att=1, of="commit")
    assert site.ids(1) == (one,)
    assert site.states(1) == ["locked"]
    assert site.free("two", 0, 60) == 1
    site.restart()
    assert site.states(1) == ["locked"]


@pytest.mark.parametrize("mode", ["hold", "vote"])
def test_a_commit_that_chose_others_ends_the_claims_here(site: Site, mode: str) -> None:
    site.receive(visit(1, ONE, mode=mode))
    assert site.answer(commit(1)) == m.Done(rid=rid(1), att=1, of="commit")
    assert site.states(1) == []
    assert site.free("one", 0, 60) == 1
    site.restart()
    says = site.answer(peer_ask(1))
    assert isinstance(says, m.PeerSays)
    assert says.says == "locked"
    assert says.chosen == {"there": (7,)}


def test_a_commit_that_chose_others_is_done_where_nothing_was_promised(site: Site) -> None:
    assert site.answer(commit(1)) == m.Done(rid=rid(1), att=1, of="commit")
    site.receive(peer_ask(2))
    assert site.answer(commit(2)) == m.Done(rid=rid(2), att=1, of="commit")
    site.receive(visit(3, ONE, att=2))
    assert site.answer(commit(3)) == m.Done(rid=rid(3), att=1, of="commit")
    assert site.states(3) == ["held"]


def test_a_commit_of_what_is_not_promised_here_is_forgotten_and_the_register_is_told() -> None:
    site = Site()
    for number in (1, 2):
        effects = site.receive(commit(number, 5))
        assert effects.alarms
        assert told(effects, m.Known) == [m.Known(behind=True, forgotten=True)]
        assert not told(effects, m.Done)
        assert not effects.facts
        assert not told(site.receive(commit(number, 5)), m.Known)
        site.receive(visit(2, ONE))
    assert site.states(2) == ["held"]
    assert site.receive(commit(2, 5, att=2)).alarms


def test_an_abort_after_a_commit_alarms_and_changes_nothing(site: Site) -> None:
    lock(site, 1, ONE)
    effects = site.receive(abort(1))
    assert effects.alarms
    assert not effects.sends
    assert site.states(1) == ["locked"]


def test_an_abort_is_remembered_and_stored_once(site: Site) -> None:
    assert site.answer(abort(9)) == m.Done(rid=rid(9), att=1, of="abort")
    assert site.stake(9) is None
    site.receive(vote(1, ONE))
    assert len(site.receive(abort(1)).facts) == 1
    again = site.receive(abort(1))
    assert not again.facts
    assert [send.message for send in again.sends] == [m.Done(rid=rid(1), att=1, of="abort")]
    site.restart()
    assert site.answer(vote(1, ONE)) == m.Stale(rid=rid(1), att=1, seen=1)


def test_an_outcome_that_is_late_unknown_or_pending_changes_nothing(site: Site) -> None:
    lock(site, 1, ONE)
    site.receive(vote(2, TWO))
    for number, outcome in ((1, "abort"), (2, "pending"), (3, "commit"), (3, "abort")):
        assert outcome in ("commit", "abort", "pending")
        message = m.Outcome(
            rid=rid(number),
            att=1,
            outcome="abort"
            if outcome == "abort"
            else ("pending" if outcome == "pending" else "commit"),
        )
        assert not site.receive(message)
    assert site.states(1) == ["locked"]
    assert site.states(2) == ["prepared"]


# Cancel


def test_a_cancel_frees_a_lock_and_is_remembered_for_late_repeats(site: Site) -> None:
    lock(site, 1, ONE)
    ids = site.ids(1)
    done = m.Done(rid=rid(1), att=1, of="cancel")
    assert site.answer(m.Cancel(rid=rid(1), att=1)) == done
    assert site.free("one", 0, 60) == 1
    site.restart()
    assert site.answer(m.Cancel(rid=rid(1), att=1)) == done
    assert site.answer(commit(1, *ids)) == m.Done(rid=rid(1), att=1, of="commit")
    assert site.states(1) == ["cancelled"]
    assert site.answer(m.Cancel(rid=rid(5), att=1)) == m.Done(rid=rid(5), att=1, of="cancel")


def test_a_promise_is_not_cancelled(site: Site) -> None:
    site.receive(vote(1, ONE))
    effects = site.receive(m.Cancel(rid=rid(1), att=1))
    assert effects.alarms
    assert not effects.sends
    assert site.states(1) == ["prepared"]


# Holds


def test_a_release_gives_up_the_holds_it_names_and_the_others_run_on(site: Site) -> None:
    site.receive(visit(1, ONE, TWO))
    one, two = site.ids(1)
    site.receive(m.Release(rid=rid(1), att=1, hold_ids=(5,)))
    assert site.ids(1) == (one, two)
    site.receive(m.Release(rid=rid(1), att=1, hold_ids=(one,)))
    assert site.ids(1) == (two,)
    assert site.free("one", 0, 60) == 1
    site.advance(30_000)
    assert site.stake(1) is None


@pytest.mark.parametrize("kind", [m.Release, m.Give])
def test_giving_up_every_hold_leaves_nothing(kind: type[m.Release] | type[m.Give]) -> None:
    site = Site()
    site.receive(visit(1, ONE))
    site.receive(kind(rid=rid(1), att=1, hold_ids=site.ids(1)))
    assert site.stake(1) is None


def test_a_give_of_nothing_gives_nothing(site: Site) -> None:
    site.receive(visit(1, ONE))
    site.receive(m.Give(rid=rid(1), att=1, hold_ids=()))
    assert site.states(1) == ["held"]


def test_a_promise_is_neither_released_nor_does_it_end_with_time(site: Site) -> None:
    site.receive(vote(1, ONE))
    site.receive(m.Release(rid=rid(1), att=1))
    site.advance(10 * DAY * 1_000)
    assert site.states(1) == ["prepared"]


def test_a_renewed_hold_is_told_what_is_left_after_a_restart(site: Site) -> None:
    site.receive(visit(1, ONE))
    ids = site.ids(1)
    renew = m.Renew(rid=rid(1), att=1, hold_ids=ids, hold_ms=30_000)
    assert site.answer(renew) == m.Renewed(rid=rid(1), att=1, epoch=1, kept=ids)
    site.restart()
    assert site.answer(renew) == m.Renewed(rid=rid(1), att=1, epoch=2, lost=ids)


# In doubt


def inquiries(site: Site, ms: int) -> list[tuple[int, str, str]]:
    """What the site asks whom by itself within `ms`: after so many seconds, whom, kind."""
    start_ms, asked = site.ms, []
    while site.participant.next_deadline_ms() <= start_ms + ms:
        effects = site.advance(max(site.participant.next_deadline_ms() - site.ms, 0))
        asked += [
            ((site.ms - start_ms) // 1_000, send.to, type(send.message).__name__)
            for send in effects.sends
        ]
    return asked


def test_a_promise_asks_every_broker_in_turn_and_then_its_peers(site: Site) -> None:
    site.receive(vote(1, ONE))
    assert PEERS_AFTER_INQUIRIES == 3
    assert inquiries(site, 160_000) == [
        (5, COORDS[0], "Inquire"),
        (15, COORDS[1], "Inquire"),
        (35, COORDS[0], "Inquire"),
        (75, COORDS[1], "Inquire"),
        (75, "http://there", "PeerAsk"),
        (135, COORDS[0], "Inquire"),
        (135, "http://there", "PeerAsk"),
    ]
    assert INQUIRE_AFTER_MS == 5_000
    assert INQUIRE_EVERY_MS_MAX == 60_000


def test_a_promise_asks_at_once_after_a_restart(site: Site) -> None:
    site.receive(vote(1, ONE))
    site.restart()
    (send,) = site.advance(0).sends
    assert send.message == m.Inquire(rid=rid(1), att=1, site=HERE, secret=secret_of(rid(1)))


def test_without_brokers_the_peers_are_asked_at_once(site: Site) -> None:
    site.receive(visit(1, ONE, mode="vote", coords=()))
    (send,) = site.advance(5_000).sends
    assert send.to == "http://there"
    assert send.message == m.PeerAsk(
        rid=rid(1), att=1, site=HERE, register=REGISTER, secret=PARTS[1].secret, until=ONE.end
    )


def test_what_is_decided_asks_no_more(site: Site) -> None:
    site.receive(vote(1, ONE))
    site.receive(vote(2, TWO))
    site.receive(commit(1, *site.ids(1)))
    site.receive(visit(2, TWO, att=2, hold_ms=200_000))
    assert inquiries(site, 100_000) == []


def test_the_registers_outcome_ends_doubt(site: Site) -> None:
    site.receive(vote(1, ONE))
    site.receive(vote(2, TWO))
    outcome = m.Outcome(rid=rid(1), att=1, outcome="commit", chosen=chosen(*site.ids(1)))
    assert not site.receive(outcome).sends
    site.receive(m.Outcome(rid=rid(2), att=1, outcome="abort"))
    assert site.states(1) == ["locked"]
    assert site.states(2) == []


# Peers


def test_a_peer_that_asks_first_is_refused_for_ever(site: Site) -> None:
    effects = site.receive(peer_ask(1))
    assert len(effects.facts) == 1
    (send,) = effects.sends
    assert isinstance(send.message, m.PeerSays)
    assert send.message.says == "never"
    site.restart()
    assert site.answer(vote(1, ONE)) == m.Stale(rid=rid(1), att=1, seen=1)


def test_a_peer_hears_of_a_promise_and_of_a_lock(site: Site) -> None:
    site.receive(vote(1, ONE))
    prepared = site.answer(peer_ask(1))
    assert isinstance(prepared, m.PeerSays)
    assert prepared.says == "prepared"
    site.receive(commit(1, *site.ids(1)))
    locked = site.answer(peer_ask(1))
    assert isinstance(locked, m.PeerSays)
    assert locked.says == "locked"
    assert locked.chosen[HERE] == site.ids(1)


def test_a_hold_gives_way_to_a_peer_that_asks(site: Site) -> None:
    site.receive(visit(1, ONE))
    says = site.answer(peer_ask(1))
    assert isinstance(says, m.PeerSays)
    assert says.says == "never"
    assert site.free("one", 0, 60) == 1
    voted = site.answer(prepare(1, 5))
    assert isinstance(voted, m.Voted)
    assert voted.vote == "stale"


def test_a_lock_outlives_any_question_about_another_attempt(site: Site) -> None:
    site.receive(visit(1, ONE, att=2, mode="vote"))
    site.receive(commit(1, *site.ids(1), att=2))
    for att in (1, 3):
        effects = site.receive(peer_ask(1, att))
        assert not effects.facts
        (send,) = effects.sends
        assert isinstance(send.message, m.PeerSays)
        assert send.message.says == "never"
    assert site.states(1) == ["locked"]


def test_a_peer_that_asks_of_a_higher_attempt_ends_no_promise_of_a_lower_one(site: Site) -> None:
    """Only the register can raise an attempt: a peer's word would let it break what is reserved."""
    site.receive(vote(1, ONE))
    assert not site.receive(peer_ask(1, 2))
    assert site.states(1) == ["prepared"]
    site.receive(commit(1, *site.ids(1)))
    assert site.states(1) == ["locked"]


def test_a_stranger_without_the_secret_gets_no_answer(site: Site) -> None:
    site.receive(visit(1, ONE))
    assert not site.receive(peer_ask(1, secret="a guess of a secret"))
    assert site.states(1) == ["held"]


def test_a_locked_peer_proves_the_commit(site: Site) -> None:
    site.receive(vote(1, ONE))
    site.receive(peer_says(1, "locked", *site.ids(1)))
    assert site.states(1) == ["locked"]


def test_a_prepared_peer_proves_nothing(site: Site) -> None:
    site.receive(vote(1, ONE))
    assert not site.receive(peer_says(1, "prepared"))
    assert not site.receive(peer_says(1, "never", att=2))
    assert not site.receive(peer_says(2, "never"))
    assert site.states(1) == ["prepared"]


def test_a_peer_speaks_only_for_the_site_that_lives_at_its_address(site: Site) -> None:
    site.receive(vote(1, ONE))
    for says in (peer_says(1, "never"), peer_says(1, "locked", *site.ids(1))):
        [alarm] = site.receive(says, "http://elsewhere").alarms
        assert "http://elsewhere speaks for there" in alarm
        assert site.states(1) == ["prepared"]


THREE = (*PARTS, m.Part("yonder", "http://yonder"))


def test_as_many_refusals_as_make_a_commit_impossible_end_a_promise(site: Site) -> None:
    site.receive(visit(1, ONE, mode="vote", parts=THREE, need=2))
    site.receive(peer_says(1, "never"))
    site.receive(peer_says(1, "never"))
    assert site.states(1) == ["prepared"]
    site.receive(peer_says(1, "never", site="yonder"))
    assert site.states(1) == []


def test_refusals_of_one_attempt_say_nothing_about_the_next(site: Site) -> None:
    site.receive(visit(1, ONE, mode="vote", parts=THREE, need=2))
    site.receive(peer_says(1, "never"))
    site.receive(visit(1, ONE, mode="vote", parts=THREE, need=2, att=2))
    site.receive(peer_says(1, "never", site="yonder", att=2))
    assert site.states(1) == ["prepared"]


# Records


def test_records_are_dropped_a_day_after_their_slots_and_their_time_is_closed(site: Site) -> None:
    site.receive(vote(1, ONE))
    site.receive(abort(1))
    site.advance(LONG_MS)
    assert site.stake(1) is None
    assert site.stored == {}
    assert site.horizon_s == ONE.end
    site.restart()
    late = site.answer(vote(1, ONE))
    assert isinstance(late, m.Visited)
    assert late.vote == "no"
    assert [r.code for r in late.refusals] == [RefusalCode.PAST]


def test_a_closed_time_stays_closed_when_the_clock_goes_back(site: Site) -> None:
    site.receive(vote(1, ONE))
    site.receive(abort(1))
    site.advance(LONG_MS)
    site.ms = 1_000
    late = site.answer(vote(1, ONE))
    assert isinstance(late, m.Visited)
    assert late.vote == "no"
    assert [r.detail for r in late.refusals] == [
        "too late: the site has closed its records of that time"
    ]


def test_a_commit_is_kept_until_its_broker_says_forget(site: Site) -> None:
    lock(site, 1, ONE)
    effects = site.advance(LONG_MS)
    assert [(s.to, type(s.message)) for s in effects.sends] == [(COORDS[0], m.Inquire)]
    assert site.states(1) == ["locked"]
    site.receive(m.Forget(rid=rid(1), att=1))
    site.receive(m.Forget(rid=rid(2), att=1))
    site.advance(COLLECT_EVERY_MS)
    assert site.stake(1) is None
    assert site.free("one", 0, 60) == 1


def test_a_lock_without_brokers_is_dropped_by_itself(site: Site) -> None:
    site.receive(visit(1, ONE, mode="vote", coords=()))
    site.receive(commit(1, *site.ids(1)))
    site.advance(LONG_MS)
    assert site.stake(1) is None


def test_a_reservation_is_kept_while_a_change_of_it_is_open(site: Site) -> None:
    lock(site, 1, ONE)
    site.receive(m.Forget(rid=rid(1), att=1))
    site.receive(vote(2, want("one", 0, 90), replaces=1))
    site.advance(LONG_MS)
    assert site.states(1) == ["locked"]
    assert site.states(2) == ["prepared"]


# At the edge


def test_a_message_that_is_not_for_a_site_alarms(site: Site) -> None:
    effects = site.receive(m.Done(rid=rid(1), att=1, of="abort"))
    assert effects.alarms == ["Done from broker is not for a site"]
    assert effects
    assert not site.receive(m.Outcome(rid=rid(1), att=1, outcome="pending"))


def test_a_site_introduces_itself() -> None:
    hello = Site().participant.hello()
    assert (hello.site, hello.epoch) == (HERE, 1)
    assert {info.name for info in hello.resources} == {"here/one", "here/two", "here/pool"}


def test_a_stored_stake_leaves_out_what_is_only_held(site: Site) -> None:
    site.receive(vote(1, ONE))
    assert [claim.state for claim in decode_stake(site.stored[rid(1)]).claims] == ["prepared"]
    site.receive(visit(1, ONE, att=2))
    kept = decode_stake(site.stored[rid(1)])
    assert (kept.claims, kept.refused, kept.att) == ([], 1, 2)
    assert kept.principal == ANN

"""The line at a site: who waits, who is asked to give back, and who gets what comes free."""

from __future__ import annotations

from tests.protocol_support import (
    ANN,
    BOB,
    DAY,
    T0,
    Site,
    abort,
    about,
    commit,
    give,
    line_up,
    list_up,
    lock,
    peer_ask,
    prepare,
    release,
    renew,
    rid,
    told,
    visit,
    vote,
    want,
)

from kalends.contract import messages as m
from kalends.core.errors import RefusalCode
from kalends.resource_servers.participation.admission import ParticipantLimits
from kalends.resource_servers.participation.contention.wound_wait import (
    LEASE_MS,
    RECALL_CONSIDERED_MS,
    RECALL_MS,
)
from kalends.resource_servers.participation.effects import ParticipantEffects

HOUR = want("one", 0, 60)
"""One unit of an instrument."""


def visited(effects: ParticipantEffects) -> m.Visited:
    (answer,) = told(effects, m.Visited)
    return answer


def waiting(site: Site) -> list[str]:
    return site.participant.waiting_here()


def slots(name: str, start: int, end: int, units: int) -> m.Want:
    return want(name, start, end, units)


# Who waits, and how far back


def test_who_finds_a_hold_of_an_older_request_waits_in_line(site: Site) -> None:
    site.receive(visit(1, HOUR))
    answer = visited(site.receive(line_up(2, HOUR)))
    assert (answer.vote, answer.held, answer.ahead) == ("none", (), 0)
    assert {refusal.code for refusal in answer.refusals} == {RefusalCode.HELD}
    assert site.states(1) == ["held"]
    assert waiting(site) == [rid(2)]


def test_who_does_not_ask_to_wait_does_not_wait(site: Site) -> None:
    site.receive(visit(1, HOUR))
    answer = visited(site.receive(visit(2, HOUR)))
    assert answer.ahead == -1
    assert {refusal.code for refusal in answer.refusals} == {RefusalCode.HELD}
    assert not waiting(site)


def test_a_vote_never_waits(site: Site) -> None:
    site.receive(visit(1, HOUR))
    answer = visited(site.receive(visit(2, HOUR, mode="vote")))
    assert (answer.vote, answer.ahead) == ("no", -1)
    assert {refusal.code for refusal in answer.refusals} == {RefusalCode.HELD}
    assert not waiting(site)


def test_nobody_waits_for_what_is_locked(site: Site) -> None:
    lock(site, 1, HOUR)
    answer = visited(site.receive(line_up(2, HOUR)))
    assert answer.ahead == -1
    assert {refusal.code for refusal in answer.refusals} == {RefusalCode.BUSY}
    assert not waiting(site)


def test_a_promise_is_waited_for(site: Site) -> None:
    site.receive(vote(2, HOUR))
    effects = site.receive(line_up(1, HOUR))
    assert visited(effects).ahead == 0
    assert not told(effects, m.Recall)
    assert site.states(2) == ["prepared"]


def test_the_line_is_in_the_order_of_stamps_and_not_of_coming(site: Site) -> None:
    site.receive(visit(1, HOUR))
    aheads = [visited(site.receive(line_up(number, HOUR))).ahead for number in (4, 2, 3)]
    assert aheads == [0, 0, 1]
    assert visited(site.receive(line_up(4, HOUR))).ahead == 2
    assert about(site.receive(release(1)), m.Grant) == [2]
    assert about(site.receive(release(2)), m.Grant) == [3]
    assert about(site.receive(release(3)), m.Grant) == [4]


def test_only_those_who_want_the_same_room_are_ahead(site: Site) -> None:
    site.receive(visit(1, want("one", 0, 60), want("two", 0, 60)))
    site.receive(line_up(2, want("one", 0, 30)))
    site.receive(line_up(3, want("two", 0, 30)))
    assert visited(site.receive(line_up(4, want("one", 30, 60)))).ahead == 0
    assert visited(site.receive(line_up(5, want("one", 20, 40)))).ahead == 2


def test_all_wants_are_granted_at_once_or_none_is_held(site: Site) -> None:
    site.receive(visit(1, want("one", 0, 60)))
    site.receive(visit(2, want("two", 0, 60)))
    site.receive(line_up(3, want("one", 0, 60), want("two", 0, 60)))
    assert not about(site.receive(release(1)), m.Grant)
    assert site.free("one", 0, 60) == 1
    effects = site.receive(release(2))
    (grant,) = told(effects, m.Grant)
    assert [slot.index for slot in grant.held] == [0, 1]
    assert tuple(slot.hold_id for slot in grant.held) == site.ids(3)
    assert site.states(3) == ["held", "held"]
    assert not waiting(site)


# Recalls


def test_an_older_request_has_the_hold_of_a_younger_one_asked_back(site: Site) -> None:
    site.receive(line_up(2, HOUR), "broker-b")
    effects = site.receive(line_up(1, HOUR), "broker-a")
    (send,) = [send for send in effects.sends if isinstance(send.message, m.Recall)]
    assert (send.to, send.message) == ("broker-b", m.Recall(rid=rid(2), att=1, left_ms=RECALL_MS))
    assert visited(effects).ahead == 0
    assert site.states(2) == ["held"]


def test_what_is_given_back_is_granted_and_its_giver_waits_by_its_own_stamp(site: Site) -> None:
    site.receive(line_up(2, HOUR), "broker-b")
    site.receive(line_up(3, HOUR))
    site.receive(line_up(1, HOUR), "broker-a")
    effects = site.receive(give(2, *site.ids(2)), "broker-b")
    assert about(effects, m.Grant) == [1]
    assert [send.to for send in effects.sends] == ["broker-a"]
    assert waiting(site) == [rid(2), rid(3)]
    assert about(site.receive(release(1)), m.Grant) == [2]


def test_a_recall_that_nobody_answers_ends_the_hold_and_its_holder_waits(site: Site) -> None:
    site.receive(line_up(2, HOUR))
    site.receive(line_up(1, HOUR))
    ids = site.ids(2)
    assert not site.advance(RECALL_MS - 1).sends
    effects = site.advance(1)
    (renewed,) = told(effects, m.Renewed)
    assert (renewed.rid, renewed.lost, renewed.kept) == (rid(2), ids, ())
    assert about(effects, m.Grant) == [1]
    assert waiting(site) == [rid(2)]
    (refusal,) = visited(site.receive(line_up(2, HOUR))).refusals
    assert "an older request has the slot; this one keeps its place in the queue" in refusal.detail


def test_the_recall_of_an_older_attempt_ends_no_hold_of_a_newer_one(site: Site) -> None:
    site.receive(line_up(2, HOUR))
    site.receive(line_up(1, HOUR))
    site.receive(line_up(2, want("one", 100, 160), att=2))
    assert not told(site.advance(RECALL_MS), m.Renewed)
    assert site.states(2) == ["held"]


def test_a_holder_that_never_waits_is_not_put_in_line_by_a_recall(site: Site) -> None:
    site.receive(visit(2, HOUR))
    site.receive(line_up(1, HOUR))
    site.advance(RECALL_MS)
    assert site.states(1) == ["held"]
    assert not waiting(site)


def test_a_promise_beats_the_recall(site: Site) -> None:
    site.receive(line_up(2, HOUR))
    site.receive(line_up(1, HOUR))
    voted = site.answer(prepare(2, *site.ids(2)))
    assert isinstance(voted, m.Voted)
    assert voted.vote == "yes"
    site.advance(RECALL_MS * 2)
    assert site.states(2) == ["prepared"]
    effects = site.receive(commit(2, *site.ids(2)))
    (locked,) = told(effects, m.Locked)
    assert locked.rid == rid(1)
    assert {refusal.code for refusal in locked.refusals} == {RefusalCode.BUSY}
    assert not waiting(site)


def test_a_promise_that_comes_after_the_deadline_is_refused(site: Site) -> None:
    site.receive(line_up(2, HOUR))
    site.receive(line_up(1, HOUR))
    ids = site.ids(2)
    site.advance(RECALL_MS)
    voted = site.answer(prepare(2, *ids))
    assert isinstance(voted, m.Voted)
    assert voted.vote == "no"
    assert site.states(1) == ["held"]


def test_a_gift_that_comes_after_the_deadline_changes_nothing(site: Site) -> None:
    site.receive(line_up(2, HOUR))
    site.receive(line_up(1, HOUR))
    ids = site.ids(2)
    site.advance(RECALL_MS)
    assert not site.receive(give(2, *ids)).sends
    assert waiting(site) == [rid(2)]


def test_a_gift_of_an_earlier_attempt_changes_nothing(site: Site) -> None:
    site.receive(line_up(2, HOUR))
    ids = site.ids(2)
    site.receive(line_up(2, HOUR, att=2))
    assert site.ids(2) == ids
    site.receive(line_up(1, HOUR))
    site.receive(give(2, *ids))
    assert site.states(2) == ["held"]


def test_a_part_of_a_hold_is_not_given_back(site: Site) -> None:
    site.receive(line_up(2, want("one", 0, 60), want("two", 0, 60)))
    site.receive(line_up(1, want("one", 0, 60)))
    site.receive(give(2, site.ids(2)[0]))
    assert site.states(2) == ["held", "held"]


def test_a_hold_has_one_deadline_that_nothing_extends(site: Site) -> None:
    site.receive(line_up(3, HOUR))
    site.receive(line_up(2, HOUR))
    site.advance(RECALL_MS - 10)
    assert not told(site.receive(line_up(1, HOUR)), m.Recall)
    site.receive(line_up(3, HOUR))
    site.receive(line_up(2, HOUR))
    effects = site.advance(10)
    assert about(effects, m.Grant) == [1]


def test_a_higher_attempt_of_the_holder_does_not_extend_the_deadline(site: Site) -> None:
    site.receive(line_up(2, HOUR))
    site.receive(line_up(1, HOUR))
    site.receive(line_up(2, HOUR, att=2))
    assert site.states(1) == ["held"]
    assert waiting(site) == [rid(2)]


def test_a_renewal_tells_of_a_recall_that_was_lost(site: Site) -> None:
    site.receive(line_up(2, HOUR))
    renewed = site.answer(renew(2, *site.ids(2)))
    assert isinstance(renewed, m.Renewed)
    assert renewed.recall_ms == 0
    site.receive(line_up(1, HOUR))
    site.advance(1_000)
    renewed = site.answer(renew(2, *site.ids(2)))
    assert isinstance(renewed, m.Renewed)
    assert renewed.kept == site.ids(2)
    assert renewed.recall_ms == RECALL_MS - 1_000


def test_what_a_person_considers_is_recalled_with_a_minute(site: Site) -> None:
    site.receive(line_up(2, HOUR, considered=True, hold_ms=3_600_000))
    (recall,) = told(site.receive(line_up(1, HOUR)), m.Recall)
    assert recall.left_ms == RECALL_CONSIDERED_MS
    site.receive(line_up(1, HOUR))
    site.advance(RECALL_CONSIDERED_MS - 1)
    assert site.states(2) == ["held"]


def test_what_a_person_has_begun_to_consider_is_recalled_with_a_minute(site: Site) -> None:
    site.receive(line_up(2, HOUR))
    site.receive(renew(2, *site.ids(2), considered=True))
    (recall,) = told(site.receive(line_up(1, HOUR)), m.Recall)
    assert recall.left_ms == RECALL_CONSIDERED_MS


def test_the_youngest_is_asked_and_nobody_else(site: Site) -> None:
    for number in (4, 5, 6):
        site.receive(line_up(number, slots("pool", 0, 60, 1)))
    assert about(site.receive(line_up(2, slots("pool", 0, 60, 1))), m.Recall) == [6]


def test_of_the_youngest_who_does_not_help_is_not_asked(site: Site) -> None:
    site.receive(line_up(2, slots("pool", 0, 60, 2)))
    site.receive(line_up(4, slots("pool", 30, 60, 1)))
    site.receive(line_up(5, slots("pool", 0, 20, 1)))
    site.receive(release(2))
    site.receive(line_up(1, slots("pool", 0, 60, 2), principal=BOB))
    assert site.states(1) == ["held"]
    assert about(site.receive(line_up(3, slots("pool", 20, 60, 1))), m.Recall) == [4]


def test_of_two_young_holders_only_the_one_in_the_way_is_asked(site: Site) -> None:
    """The youngest takes room that is there twice; to give it back would help nobody."""
    site.receive(line_up(1, slots("pool", 30, 60, 2)))
    site.receive(line_up(3, slots("pool", 30, 60, 1)))
    site.receive(line_up(4, slots("pool", 0, 30, 1)))
    assert about(site.receive(line_up(2, slots("pool", 0, 60, 1))), m.Recall) == [3]


def test_who_was_asked_already_is_counted_first(site: Site) -> None:
    for number in (4, 5, 6):
        site.receive(line_up(number, slots("pool", 0, 60, 1)))
    assert about(site.receive(line_up(3, slots("pool", 0, 60, 1))), m.Recall) == [6]
    assert not about(site.receive(line_up(2, slots("pool", 0, 60, 1))), m.Recall)
    effects = site.receive(give(6, *site.ids(6)))
    assert about(effects, m.Grant) == [2]
    assert about(effects, m.Recall) == [5]


def test_what_an_older_one_in_line_will_get_is_not_counted_on(site: Site) -> None:
    site.receive(line_up(5, slots("pool", 0, 60, 1)))
    site.receive(line_up(6, slots("pool", 0, 60, 2)))
    assert about(site.receive(line_up(2, slots("pool", 0, 60, 2))), m.Recall) == [6]
    assert about(site.receive(line_up(3, slots("pool", 0, 60, 1))), m.Recall) == [5]


def test_nobody_is_asked_when_what_they_hold_would_not_be_enough(site: Site) -> None:
    site.receive(line_up(1, slots("pool", 0, 60, 2)))
    site.receive(line_up(3, slots("pool", 0, 60, 1)))
    effects = site.receive(line_up(2, slots("pool", 0, 60, 2)))
    assert visited(effects).ahead == 0
    assert not told(effects, m.Recall)


def test_who_is_younger_asks_nobody(site: Site) -> None:
    site.receive(line_up(1, HOUR))
    assert not told(site.receive(line_up(2, HOUR)), m.Recall)
    assert site.advance(RECALL_MS).sends == []


def test_a_promise_that_becomes_a_hold_is_recalled_at_once(site: Site) -> None:
    site.receive(vote(2, HOUR))
    site.receive(line_up(1, HOUR))
    effects = site.receive(line_up(2, HOUR, att=2))
    assert about(effects, m.Grant) == [1]
    assert visited(effects).ahead == 1
    assert waiting(site) == [rid(2)]


def test_a_promise_that_ends_lets_the_rest_be_recalled(site: Site) -> None:
    site.receive(vote(3, slots("pool", 0, 60, 2)))
    site.receive(line_up(4, slots("pool", 0, 60, 1)))
    assert not told(site.receive(line_up(2, slots("pool", 0, 60, 3))), m.Recall)
    assert about(site.receive(abort(3)), m.Recall) == [4]


def test_those_who_are_older_and_wait_elsewhere_do_not_keep_others_from_recalling() -> None:
    """What stands in the way of one part of a calendar says nothing about another."""
    site = Site()
    site.receive(line_up(1, want("one", 0, 60)))
    site.receive(line_up(2, want("one", 0, 60)))
    site.receive(line_up(4, want("one", 100, 160)))
    assert about(site.receive(line_up(3, want("one", 100, 160))), m.Recall) == [4]


def test_of_those_who_are_older_only_what_they_want_at_the_same_time_counts(site: Site) -> None:
    site.receive(line_up(1, slots("pool", 0, 60, 3)))
    site.receive(line_up(2, slots("pool", 0, 110, 1)))
    site.receive(line_up(4, slots("pool", 110, 160, 3)))
    assert about(site.receive(line_up(3, slots("pool", 100, 160, 2))), m.Recall) == [4]


# No bypass


def test_a_small_request_does_not_take_the_room_that_a_big_older_one_waits_for(site: Site) -> None:
    site.receive(line_up(1, slots("pool", 0, 60, 1)))
    site.receive(line_up(2, slots("pool", 0, 60, 3)))
    assert visited(site.receive(line_up(3, slots("pool", 0, 60, 1)))).ahead == 1
    assert visited(site.receive(vote(4, slots("pool", 30, 40, 1)))).vote == "no"
    assert about(site.receive(release(1)), m.Grant) == [2]


def test_room_that_nobody_older_needs_is_held_at_once(site: Site) -> None:
    site.receive(line_up(1, slots("pool", 0, 60, 2)))
    site.receive(line_up(2, slots("pool", 0, 60, 2)))
    assert visited(site.receive(line_up(3, slots("pool", 0, 60, 1)))).ahead == 1
    assert len(visited(site.receive(line_up(4, slots("pool", 60, 90, 3)))).held) == 1


def test_a_younger_request_takes_what_is_over_beside_an_older_one_that_waits(site: Site) -> None:
    lock(site, 9, slots("pool", 50, 60, 1))
    site.receive(line_up(1, slots("pool", 0, 30, 3)))
    site.receive(line_up(2, slots("pool", 0, 60, 1)))
    assert len(visited(site.receive(vote(3, slots("pool", 50, 60, 1)))).held) == 1
    assert visited(site.receive(vote(4, slots("pool", 50, 60, 1)))).vote == "no"


def test_what_is_kept_and_what_is_taken_at_other_times_are_not_added_up(site: Site) -> None:
    lock(site, 9, slots("pool", 30, 60, 2))
    site.receive(line_up(1, want("two", 0, 30)))
    site.receive(line_up(2, want("two", 0, 30), slots("pool", 0, 30, 2)))
    assert len(visited(site.receive(line_up(3, slots("pool", 0, 60, 1)))).held) == 1
    assert visited(site.receive(line_up(4, slots("pool", 0, 30, 1)))).ahead == 1


def test_an_older_request_takes_room_that_younger_ones_wait_for(site: Site) -> None:
    site.receive(line_up(2, slots("pool", 0, 60, 1)))
    site.receive(line_up(3, slots("pool", 0, 60, 3)))
    assert len(visited(site.receive(vote(1, slots("pool", 0, 60, 2)))).held) == 1


def test_what_is_kept_is_free_again_when_who_waits_is_gone(site: Site) -> None:
    site.receive(line_up(1, slots("pool", 0, 60, 1)))
    site.receive(line_up(2, slots("pool", 0, 60, 3)))
    site.receive(line_up(3, slots("pool", 0, 60, 1)))
    assert about(site.receive(release(2)), m.Grant) == [3]


# Places: kept, lost, left


def test_a_repeated_visit_keeps_the_place_and_changes_nothing(site: Site) -> None:
    site.receive(visit(1, HOUR))
    first = site.receive(line_up(3, HOUR))
    assert site.receive(line_up(3, HOUR)).sends == first.sends
    site.receive(line_up(2, HOUR))
    assert visited(site.receive(line_up(3, HOUR))).ahead == 1


def test_a_place_lives_as_long_as_it_is_asked_for(site: Site) -> None:
    site.receive(visit(1, HOUR, hold_ms=600_000))
    site.receive(line_up(2, HOUR))
    site.receive(line_up(3, HOUR))
    site.advance(LEASE_MS - 1)
    site.receive(line_up(3, HOUR))
    site.advance(1)
    assert waiting(site) == [rid(3)]
    assert about(site.receive(release(1)), m.Grant) == [3]


def test_a_place_that_ends_lets_those_behind_have_what_was_kept(site: Site) -> None:
    site.receive(visit(1, slots("pool", 0, 60, 1), hold_ms=600_000))
    site.receive(line_up(2, slots("pool", 0, 60, 3)))
    site.advance(1_000)
    site.receive(line_up(3, slots("pool", 0, 60, 2)))
    assert about(site.advance(LEASE_MS - 1_000), m.Grant) == [3]


def test_the_grant_goes_to_who_asked_last(site: Site) -> None:
    site.receive(visit(1, HOUR))
    site.receive(line_up(2, HOUR), "broker-a")
    site.receive(line_up(2, HOUR), "broker-b")
    sends = site.receive(release(1)).sends
    assert [(send.to, type(send.message)) for send in sends] == [("broker-b", m.Grant)]


def test_a_lost_grant_is_told_again_to_who_repeats_the_visit(site: Site) -> None:
    site.receive(visit(1, HOUR))
    site.receive(line_up(2, HOUR))
    site.receive(release(1))
    answer = visited(site.receive(line_up(2, HOUR)))
    assert tuple(slot.hold_id for slot in answer.held) == site.ids(2)


def test_a_release_leaves_the_line(site: Site) -> None:
    site.receive(visit(1, HOUR))
    site.receive(line_up(2, HOUR, att=2))
    site.receive(release(2, att=1))
    assert waiting(site) == [rid(2)]
    site.receive(release(2, att=2))
    assert not waiting(site)
    assert not told(site.receive(release(1)), m.Grant)


def test_the_end_of_an_attempt_leaves_the_line(site: Site) -> None:
    site.receive(visit(1, HOUR))
    site.receive(line_up(2, HOUR, att=2))
    site.receive(abort(2, att=1))
    assert waiting(site) == [rid(2)]
    site.receive(abort(2, att=2))
    assert not waiting(site)


def test_a_refusal_to_a_peer_leaves_the_line(site: Site) -> None:
    site.receive(visit(1, HOUR))
    site.receive(line_up(2, HOUR))
    site.receive(peer_ask(2))
    assert not waiting(site)
    (stale,) = site.answers(line_up(2, HOUR))
    assert isinstance(stale, m.Stale)


def test_a_higher_attempt_takes_the_place_of_the_lower(site: Site) -> None:
    site.receive(visit(1, HOUR))
    site.receive(line_up(2, HOUR))
    assert visited(site.receive(line_up(2, want("one", 30, 90), att=2))).ahead == 0
    (stale,) = site.answers(line_up(2, HOUR, att=1))
    assert isinstance(stale, m.Stale)
    assert stale.seen == 2
    (grant,) = told(site.receive(release(1)), m.Grant)
    assert grant.att == 2
    assert site.free("one", 0, 30) == 1


def test_a_hold_that_ends_is_granted_to_the_next(site: Site) -> None:
    site.receive(line_up(1, HOUR, hold_ms=1_000))
    site.receive(line_up(2, HOUR))
    assert about(site.advance(1_000), m.Grant) == [2]
    assert not waiting(site)


def test_a_restart_forgets_the_line_and_repeated_visits_build_it_anew(site: Site) -> None:
    site.receive(vote(1, HOUR))
    site.receive(line_up(3, HOUR))
    site.receive(line_up(2, HOUR))
    site.restart()
    assert not waiting(site)
    site.receive(line_up(3, HOUR))
    site.receive(line_up(2, HOUR))
    assert about(site.receive(abort(1)), m.Grant) == [2]


def test_a_lock_elsewhere_on_the_calendar_sends_nobody_away(site: Site) -> None:
    site.receive(visit(1, HOUR))
    site.receive(line_up(2, HOUR))
    lock(site, 3, want("one", 60, 90))
    assert waiting(site) == [rid(2)]


def test_a_cancelled_reservation_is_granted_to_who_waits_for_another_part(site: Site) -> None:
    lock(site, 1, want("one", 0, 30))
    site.receive(visit(2, want("one", 30, 60)))
    site.receive(line_up(3, want("one", 30, 60)))
    site.receive(m.Cancel(rid=rid(1), att=1))
    assert about(site.receive(release(2)), m.Grant) == [3]


def test_who_waits_while_the_site_is_drained_is_told_so_when_it_could_be_granted() -> None:
    site = Site()
    site.receive(visit(1, HOUR))
    site.receive(line_up(2, HOUR))
    site.participant.admission.draining = True
    (locked,) = told(site.receive(release(1)), m.Locked)
    assert {refusal.code for refusal in locked.refusals} == {RefusalCode.DRAINED}
    assert not waiting(site)


# Changes


def test_a_change_waits_for_the_room_that_the_old_one_lacks(site: Site) -> None:
    lock(site, 1, want("one", 0, 60))
    site.receive(visit(2, want("one", 60, 90)))
    assert visited(site.receive(line_up(3, want("one", 0, 90), replaces=1))).ahead == 0
    assert about(site.receive(release(2)), m.Grant) == [3]
    site.receive(prepare(3, *site.ids(3)))
    site.receive(commit(3, *site.ids(3)))
    assert site.states(1) == ["replaced"]


def test_a_change_recalls_only_what_the_old_one_lacks(site: Site) -> None:
    lock(site, 1, slots("pool", 0, 60, 2))
    site.receive(line_up(5, slots("pool", 0, 60, 1)))
    site.receive(line_up(6, slots("pool", 60, 90, 3)))
    effects = site.receive(line_up(3, slots("pool", 0, 90, 2), replaces=1))
    assert about(effects, m.Recall) == [6]


def test_a_change_that_waits_ends_with_what_it_was_to_change(site: Site) -> None:
    lock(site, 1, want("one", 0, 60))
    site.receive(visit(2, want("one", 60, 90)))
    site.receive(line_up(3, want("one", 0, 90), replaces=1))
    (locked,) = told(site.receive(m.Cancel(rid=rid(1), att=1)), m.Locked)
    assert {refusal.code for refusal in locked.refusals} == {RefusalCode.BEING_CHANGED}


def test_of_two_changes_that_wait_the_second_ends_with_the_first(site: Site) -> None:
    lock(site, 1, want("one", 0, 60))
    site.receive(visit(2, want("one", 60, 90)))
    site.receive(visit(3, want("one", 100, 130)))
    site.receive(line_up(4, want("one", 0, 90), replaces=1))
    site.receive(line_up(5, want("one", 0, 60), want("one", 100, 130), replaces=1))
    assert about(site.receive(release(2)), m.Grant) == [4]
    site.receive(prepare(4, *site.ids(4)))
    assert about(site.receive(commit(4, *site.ids(4))), m.Locked) == [5]


# Limits


def test_a_user_who_waits_for_too_much_is_told_of_the_limit() -> None:
    site = Site(limits=ParticipantLimits(held_per_principal_max=2))
    site.receive(visit(1, HOUR, principal=BOB))
    site.receive(line_up(2, HOUR))
    site.receive(line_up(3, HOUR))
    answer = visited(site.receive(line_up(4, HOUR)))
    assert answer.ahead == -1
    assert {refusal.code for refusal in answer.refusals} == {RefusalCode.LIMIT}
    assert visited(site.receive(line_up(3, HOUR, att=2))).ahead == 1
    assert visited(site.receive(line_up(5, HOUR, principal=BOB))).ahead == 2


def test_claims_count_and_not_visits() -> None:
    site = Site(limits=ParticipantLimits(held_per_principal_max=2))
    site.receive(visit(1, HOUR, principal=BOB))
    site.receive(line_up(2, HOUR, want("two", 0, 60)))
    assert visited(site.receive(line_up(3, HOUR))).ahead == -1


# What others see of it


def query(number: int, *wants: m.Want, counting: str = "all", replaces: str = "") -> m.Query:
    assert counting in ("all", "locked", "none")
    return m.Query(
        query_id=1, stamp=number, principal=ANN, wants=wants, replaces=replaces,
        counting="all" if counting == "all" else "locked" if counting == "locked" else "none",
    )  # fmt: skip


def seen(site: Site, asked: m.Query) -> tuple[list[tuple[int, int, int]], bool]:
    (view,) = site.answers(asked)
    assert isinstance(view, m.View)
    (of_one,) = view.views
    first = T0 + DAY
    return [(start - first, end - first, units) for start, end, units in of_one.steps], of_one.held


POOL = slots("pool", 0, 100, 1)


def test_room_that_is_kept_for_older_requests_is_not_shown_as_free(site: Site) -> None:
    site.receive(line_up(1, slots("pool", 0, 60, 2)))
    site.receive(line_up(3, slots("pool", 0, 60, 2)))
    assert seen(site, query(4, POOL)) == ([(60, 100, 3)], True)
    assert seen(site, query(0, POOL)) == ([(60, 100, 3)], True)
    assert seen(site, query(2, POOL)) == ([(0, 60, 1), (60, 100, 3)], True)
    assert seen(site, query(3, POOL)) == ([(0, 60, 1), (60, 100, 3)], True)


def test_what_is_held_counts_as_free_for_who_would_wait_for_it(site: Site) -> None:
    lock(site, 1, slots("pool", 0, 30, 1))
    site.receive(line_up(2, slots("pool", 0, 60, 2)))
    site.receive(vote(3, slots("pool", 60, 70, 3)))
    shown, held = seen(site, query(9, POOL, counting="locked"))
    assert (shown, held) == ([(0, 30, 2), (30, 100, 3)], False)
    assert seen(site, query(9, POOL, counting="none")) == ([(0, 100, 3)], False)


def test_nothing_is_said_to_be_held_where_nothing_is(site: Site) -> None:
    lock(site, 1, slots("pool", 0, 30, 3))
    assert seen(site, query(2, POOL)) == ([(30, 100, 3)], False)


def test_a_look_touches_nothing(site: Site) -> None:
    lock(site, 1, slots("pool", 0, 30, 3))
    site.receive(line_up(2, slots("pool", 30, 60, 2)))
    site.receive(line_up(3, slots("pool", 0, 60, 3)))
    site.receive(list_up(4, POOL, principal=BOB, length_s=10))
    assert len(site.receive(query(5, POOL, replaces=rid(1))).sends) == 1

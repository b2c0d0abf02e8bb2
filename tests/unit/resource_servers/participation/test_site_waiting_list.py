"""Waiting lists: what comes free is offered to one after the other, and to nobody behind meanwhile."""

from __future__ import annotations

import msgspec
import pytest
from tests.protocol_support import (
    BOB,
    DAY,
    T0,
    Site,
    abort,
    about,
    commit,
    line_up,
    list_up,
    lock,
    prepare,
    release,
    rid,
    told,
    visit,
    vote,
    want,
)

from kalends.calendars import AccessRule
from kalends.contract import messages as m
from kalends.core.errors import RefusalCode
from kalends.resource_servers.participation.contention import waiting_list_offers
from kalends.resource_servers.participation.contention.waiting_list_offers import (
    LISTED_MS,
    OFFER_MS,
)
from kalends.resource_servers.participation.effects import ParticipantEffects

DAYTIME = want("one", 0, 600)
HOUR = want("one", 0, 60)
WHOLE_POOL = want("pool", 0, 600, 3)


def awaited(effects: ParticipantEffects) -> m.Awaited:
    """The answer to an Await."""
    (answer,) = [each for each in told(effects, m.Awaited) if not each.offered]
    return answer


def offered(effects: ParticipantEffects) -> list[int]:
    """Who is told that something has come free, in order."""
    each_about = zip(told(effects, m.Awaited), about(effects, m.Awaited), strict=True)
    return [number for each, number in each_about if each.offered]


def wait_on(site: Site, number: int, wanted: m.Want = DAYTIME) -> ParticipantEffects:
    """The request of this number has looked into all that it was told, and waits on."""
    listed = site.participant.lists.listed.get(rid(number))
    assert listed is not None
    return site.receive(list_up(number, wanted, seen=listed.news))


def cancel(number: int) -> m.Cancel:
    return m.Cancel(rid=rid(number), att=1)


def full_site(*numbers: int) -> Site:
    """All of the instrument is locked by request 90; `numbers` are on its list."""
    site = Site()
    lock(site, 90, DAYTIME)
    for number in numbers:
        site.receive(list_up(number, DAYTIME))
    return site


def views(site: Site, number: int, wanted: m.Want = DAYTIME) -> list[tuple[int, int, int]]:
    """What is free for the request of this number."""
    query = m.Query(query_id=1, stamp=number, principal=BOB, wants=(wanted,))
    (view,) = site.answers(query)
    assert isinstance(view, m.View)
    first = T0 + DAY
    return [(start - first, end - first, units) for start, end, units in view.views[0].steps]


# The list


def test_who_is_new_on_the_list_is_told_so_and_looks_once_more() -> None:
    site = full_site()
    first = awaited(site.receive(list_up(2, DAYTIME)))
    assert (first.fresh, first.ahead, first.offered) == (True, 0, ())
    again = awaited(site.receive(list_up(2, DAYTIME, seen=first.news)))
    assert (again.fresh, again.news) == (False, first.news)


def test_who_waits_for_more_than_before_looks_once_more() -> None:
    """What is new in the list may have come free before."""
    site = full_site(2)
    wait_on(site, 2)
    more = awaited(site.receive(list_up(2, DAYTIME, want("two", 0, 60), seen=1)))
    assert more.fresh
    assert not awaited(site.receive(list_up(2, want("two", 0, 60), seen=more.news))).fresh
    assert awaited(site.receive(list_up(2, want("two", 0, 90), seen=more.news))).fresh


def test_older_requests_with_the_same_windows_are_ahead() -> None:
    site = full_site(1, 5)
    site.receive(list_up(2, want("one", 300, 600)))
    site.receive(list_up(3, want("two", 0, 600)))
    assert awaited(site.receive(list_up(4, want("one", 0, 300)))).ahead == 1
    assert awaited(site.receive(list_up(6, DAYTIME, want("two", 0, 60)))).ahead == 5


def test_a_site_that_starts_again_has_forgotten_its_list_and_says_so() -> None:
    site = full_site(1)
    news = awaited(wait_on(site, 1)).news
    site.restart()
    assert awaited(site.receive(list_up(1, DAYTIME, seen=news))).fresh


def test_a_place_on_the_list_lives_as_long_as_it_is_asked_for() -> None:
    site = full_site(1, 2)
    site.advance(LISTED_MS - 1)
    site.receive(list_up(2, DAYTIME))
    site.advance(1)
    assert site.participant.waiting_here() == [rid(2)]
    assert offered(site.receive(cancel(90))) == [2]


def test_a_stale_attempt_is_not_listed() -> None:
    site = full_site()
    site.receive(vote(1, want("two", 0, 60), att=2))
    (stale,) = site.answers(list_up(1, DAYTIME))
    assert isinstance(stale, m.Stale)
    assert not site.participant.waiting_here()


@pytest.mark.parametrize("ended_by", ["release", "commit"])
def test_the_end_of_a_request_leaves_the_list(ended_by: str) -> None:
    """A reservation waits for nothing: on its list it would only keep others waiting."""
    site = full_site(1, 2)
    if ended_by == "release":
        site.receive(release(1))
    else:
        lock(site, 1, want("two", 0, 60))
    assert site.participant.waiting_here() == [rid(2)]
    assert offered(site.receive(cancel(90))) == [2]


def test_a_commit_that_chose_nothing_here_leaves_the_list() -> None:
    site = full_site(1)
    site.receive(commit(1))
    assert not site.participant.waiting_here()


def test_the_end_of_an_attempt_does_not_leave_the_list() -> None:
    site = full_site(1)
    site.receive(abort(1))
    assert site.participant.waiting_here() == [rid(1)]


def test_the_release_of_an_older_attempt_does_not_leave_the_list() -> None:
    site = full_site()
    site.receive(list_up(1, DAYTIME, att=2))
    site.receive(release(1, att=1))
    assert site.participant.waiting_here() == [rid(1)]


def test_a_user_has_so_many_places_and_is_told_when_they_are_used_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting_list_offers, "LISTED_PER_PRINCIPAL_MAX", 2)
    site = full_site(1, 2)
    (locked,) = site.answers(list_up(3, DAYTIME))
    assert isinstance(locked, m.Locked)
    assert {refusal.code for refusal in locked.refusals} == {RefusalCode.LIMIT}
    assert not awaited(wait_on(site, 2)).fresh
    assert awaited(site.receive(list_up(4, DAYTIME, principal=BOB))).fresh


# What is not to be seen


def hidden_site() -> Site:
    """Bob may not see the instrument that ann uses."""
    site = Site(rules={"one": (AccessRule("own", "user:ann", ("see", "hold", "lock")),)})
    lock(site, 90, HOUR)
    return site


@pytest.mark.parametrize("name", ["one", "nothing"])
def test_of_what_a_user_may_not_see_nothing_is_told(name: str) -> None:
    site = hidden_site()
    site.receive(list_up(1, DAYTIME))
    answer = awaited(site.receive(list_up(2, want(name, 0, 600), principal=BOB)))
    assert (answer.ahead, answer.fresh) == (0, True)
    assert about(site.receive(cancel(90)), m.Awaited) == [1]
    assert not site.advance(OFFER_MS).sends


def test_what_a_user_may_see_is_offered_beside_what_they_may_not() -> None:
    site = hidden_site()
    site.receive(visit(91, want("two", 0, 600)))
    site.receive(list_up(2, DAYTIME, want("two", 0, 600), principal=BOB))
    assert not site.receive(cancel(90)).sends[1:]
    assert offered(site.receive(release(91))) == [2]


# Offers


def test_what_comes_free_is_offered_to_the_oldest_alone() -> None:
    site = full_site(3, 1, 2)
    assert offered(site.receive(cancel(90))) == [1]
    assert not site.receive(list_up(4, want("two", 0, 60))).sends[1:]


@pytest.mark.parametrize(
    "wanted",
    [want("one", 600, 900), want("two", 0, 600), want("pool", 0, 600)],
    ids=["later", "another", "a pool"],
)
def test_who_waits_for_something_else_is_not_told(wanted: m.Want) -> None:
    site = full_site()
    site.receive(list_up(1, wanted))
    assert not offered(site.receive(cancel(90)))


def test_too_little_is_not_offered(site: Site) -> None:
    lock(site, 90, want("pool", 0, 600, 2))
    lock(site, 91, want("pool", 0, 600, 1))
    site.receive(list_up(1, WHOLE_POOL))
    site.receive(list_up(2, want("pool", 0, 600, 2)))
    assert offered(site.receive(cancel(90))) == [2]


def test_too_short_a_time_is_not_offered(site: Site) -> None:
    lock(site, 90, want("one", 0, 30))
    lock(site, 91, want("one", 30, 600))
    site.receive(list_up(1, DAYTIME, length_s=60))
    site.receive(list_up(2, DAYTIME, length_s=30))
    assert offered(site.receive(cancel(90))) == [2]


def test_what_comes_free_beside_what_is_free_already_is_long_enough(site: Site) -> None:
    lock(site, 90, want("one", 30, 60))
    lock(site, 91, want("one", 60, 600))
    site.receive(list_up(1, DAYTIME, length_s=60))
    assert offered(site.receive(cancel(90))) == [1]


def test_a_hold_that_ends_is_offered_as_well_as_a_lock(site: Site) -> None:
    site.receive(visit(90, DAYTIME, hold_ms=1_000))
    site.receive(list_up(1, DAYTIME))
    assert offered(site.advance(1_000)) == [1]


def test_a_promise_that_ends_is_offered(site: Site) -> None:
    site.receive(vote(90, DAYTIME))
    site.receive(list_up(1, DAYTIME))
    assert offered(site.receive(abort(90))) == [1]


# Keeping what is offered


def test_while_it_is_offered_nobody_behind_gets_it() -> None:
    site = full_site(2)
    site.receive(cancel(90))
    answer = site.answer(vote(3, HOUR))
    assert isinstance(answer, m.Visited)
    assert (answer.vote, {each.code for each in answer.refusals}) == ("no", {RefusalCode.HELD})
    (answer,) = told(site.receive(line_up(4, HOUR)), m.Visited)
    assert answer.ahead == 0
    assert views(site, 5) == []
    assert views(site, 0) == []


def test_who_is_older_may_take_what_is_offered_to_another() -> None:
    site = full_site(2)
    site.receive(cancel(90))
    assert views(site, 1) == [(0, 600, 1)]
    assert views(site, 2) == [(0, 600, 1)]
    answer = site.answer(vote(1, HOUR))
    assert isinstance(answer, m.Visited)
    assert answer.vote == "yes"


def test_only_as_much_is_kept_as_was_asked_for(site: Site) -> None:
    lock(site, 90, WHOLE_POOL)
    site.receive(list_up(2, want("pool", 100, 200, 2)))
    site.receive(cancel(90))
    assert views(site, 3, want("pool", 0, 600)) == [(0, 100, 3), (100, 200, 1), (200, 600, 3)]


def test_who_waits_in_line_behind_an_offer_is_granted_what_is_left_of_it() -> None:
    site = full_site(2)
    site.receive(cancel(90))
    site.receive(line_up(3, HOUR))
    assert about(site.advance(OFFER_MS), m.Grant) == [3]


def test_the_line_in_front_is_served_before_the_list(site: Site) -> None:
    site.receive(visit(90, DAYTIME))
    site.receive(line_up(1, DAYTIME))
    site.receive(list_up(2, DAYTIME))
    assert about(site.receive(release(90)), m.Grant) == [1]


# The end of an offer


def test_who_declines_by_waiting_on_lets_the_next_have_it() -> None:
    site = full_site(1, 2, 3)
    site.receive(cancel(90))
    assert offered(wait_on(site, 1)) == [2]
    assert offered(wait_on(site, 2)) == [3]
    assert not offered(wait_on(site, 3))
    assert views(site, 9) == [(0, 600, 1)]


def test_who_is_silent_lets_the_next_have_it() -> None:
    site = full_site(1, 2)
    site.receive(cancel(90))
    assert not site.advance(OFFER_MS - 1).sends
    assert offered(site.advance(1)) == [2]
    assert not offered(site.advance(OFFER_MS))


def test_who_is_gone_lets_the_next_have_it() -> None:
    site = full_site(1, 2)
    site.receive(cancel(90))
    assert offered(site.receive(release(1))) == [2]


def test_who_takes_a_part_of_it_lets_the_next_have_the_rest() -> None:
    site = full_site(1, 2)
    site.receive(cancel(90))
    assert offered(site.receive(vote(1, HOUR))) == [2]
    assert views(site, 9) == []
    assert views(site, 2) == [(60, 600, 1)]


def test_who_takes_all_of_it_lets_the_next_wait_on() -> None:
    site = full_site(1, 2)
    site.receive(cancel(90))
    assert not offered(site.receive(vote(1, DAYTIME)))
    assert offered(site.receive(abort(1))) == [1]


def test_who_asks_for_what_is_taken_lets_the_next_have_it() -> None:
    site = full_site(1, 2)
    lock(site, 91, want("two", 0, 60))
    site.receive(cancel(90))
    assert offered(site.receive(vote(1, want("two", 0, 60)))) == [2]


def test_who_takes_it_in_line_is_not_asked_first_any_more() -> None:
    site = full_site(1)
    site.receive(cancel(90))
    site.receive(line_up(1, HOUR))
    site.receive(prepare(1, *site.ids(1)))
    assert site.states(1) == ["prepared"]
    assert views(site, 9) == [(60, 600, 1)]


# What is told, and lost on its way


def test_who_has_not_heard_of_an_offer_does_not_decline_it_by_waiting_on_and_is_told_to_look() -> (
    None
):
    site = full_site(1, 2)
    news = awaited(wait_on(site, 1)).news
    assert offered(site.receive(cancel(90))) == [1]
    for _ in range(2):
        effects = site.receive(list_up(1, DAYTIME, seen=news), "after the session broke")
        assert (awaited(effects).fresh, offered(effects)) == (True, [])
    assert views(site, 2) == []
    assert offered(wait_on(site, 1)) == [2]


def test_an_offer_that_ran_out_unheard_is_still_to_be_looked_into() -> None:
    site = full_site(1)
    news = awaited(wait_on(site, 1)).news
    site.receive(cancel(90))
    site.advance(OFFER_MS)
    assert views(site, 9) == [(0, 600, 1)]
    assert awaited(site.receive(list_up(1, DAYTIME, seen=news))).fresh
    assert not awaited(wait_on(site, 1)).fresh


def test_the_next_offer_tells_that_one_before_was_not_heard() -> None:
    site = full_site()
    lock(site, 91, want("one", 600, 900))
    site.receive(list_up(1, want("one", 0, 900)))
    wait_on(site, 1, want("one", 0, 900))
    (first,) = told(site.receive(cancel(90)), m.Awaited)
    site.advance(OFFER_MS)
    (second,) = told(site.receive(m.Cancel(rid=rid(91), att=1)), m.Awaited)
    assert [(each.fresh, len(each.offered)) for each in (first, second)] == [(False, 1), (True, 1)]
    assert second.news != first.news


def test_whoever_takes_a_request_over_is_told_to_look_whatever_was_looked_into_before() -> None:
    site = full_site(1)
    wait_on(site, 1)
    assert awaited(site.receive(list_up(1, DAYTIME, att=2))).fresh


@pytest.mark.parametrize("wrong_ms", [400 * 1_000, -50 * DAY * 1_000])
def test_all_look_again_once_a_clock_is_set(wrong_ms: int) -> None:
    """What they saw as past, or as too far ahead, may be neither."""
    site = full_site()
    news = {number: awaited(site.receive(list_up(number, DAYTIME))).news for number in (1, 2)}
    site.wrong_ms = wrong_ms
    assert awaited(site.receive(list_up(1, DAYTIME, seen=news[1]))).fresh
    assert awaited(site.receive(list_up(2, DAYTIME, seen=news[2]))).fresh
    assert not awaited(wait_on(site, 1)).fresh


# What comes free late: after the one who is asked had been told, and may have looked


def site_with_a_late_piece() -> Site:
    """The first half is offered to 1; then the second comes free."""
    site = Site()
    lock(site, 90, want("one", 0, 300))
    lock(site, 91, want("one", 300, 600))
    site.receive(list_up(1, DAYTIME))
    site.receive(list_up(2, DAYTIME))
    assert offered(site.receive(cancel(90))) == [1]
    assert not offered(site.receive(cancel(91)))
    return site


def test_a_late_piece_is_kept_for_the_one_who_was_asked() -> None:
    assert views(site_with_a_late_piece(), 2) == []


def test_a_late_piece_is_offered_once_more_to_one_who_declines() -> None:
    site = site_with_a_late_piece()
    effects = wait_on(site, 1)
    offers = [each for each in told(effects, m.Awaited) if each.offered]
    assert [(each.rid, each.offered[0].start) for each in offers] == [
        (rid(1), T0 + DAY + 300),
        (rid(2), T0 + DAY),
    ]
    assert views(site, 2) == [(0, 300, 1)]
    assert not offered(wait_on(site, 2))
    assert offered(wait_on(site, 1)) == [2]


def test_a_late_piece_is_offered_once_more_to_one_who_is_silent() -> None:
    site = site_with_a_late_piece()
    assert offered(site.advance(OFFER_MS)) == [1, 2]


def test_a_late_piece_goes_to_the_next_when_the_first_is_gone() -> None:
    site = site_with_a_late_piece()
    assert offered(site.receive(release(1))) == [2]
    assert views(site, 2) == [(0, 600, 1)]
    assert views(site, 3) == []


def test_a_late_piece_goes_to_the_next_when_the_first_takes_another() -> None:
    """Nobody is forgotten: the late piece had not been offered to those behind."""
    site = site_with_a_late_piece()
    assert offered(site.receive(vote(1, want("one", 0, 300)))) == [2]
    assert views(site, 2) == [(300, 600, 1)]
    assert views(site, 3) == []


def test_a_late_piece_alone_is_offered_when_it_is_all_that_suits_the_next(site: Site) -> None:
    lock(site, 90, want("one", 0, 300))
    lock(site, 91, want("one", 300, 600))
    site.receive(list_up(1, DAYTIME))
    site.receive(list_up(2, want("one", 300, 600)))
    site.receive(cancel(90))
    assert not offered(site.receive(cancel(91)))
    assert offered(site.receive(vote(1, want("one", 0, 300)))) == [2]


# Many resources


def test_all_of_many_resources_are_waited_for() -> None:
    site = full_site()
    names = [f"none{number}" for number in range(600)]
    wish = list_up(1, *(want(name, 0, 60) for name in names), DAYTIME)
    site.receive(msgspec.msgpack.decode(msgspec.msgpack.encode(wish), type=m.Await))
    assert offered(site.receive(cancel(90))) == [1]

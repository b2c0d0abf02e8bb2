"""Sites that bid and lie: a request that others can serve is served, whatever they say."""

from __future__ import annotations

import pytest
from msgspec import structs
from tests.unit.broker.jobs.test_solicitation import (
    T0,
    Rig,
    bid,
    bidding,
    of_kind,
    offer,
    voted,
)

from kalends.broker.coordination.trust.credentials import SITE_KEYS_MAX, Credentials
from kalends.broker.coordination.voting.prepare_phase import PLACE_VOTE_MS_MAX
from kalends.broker.jobs.parts.solicitation import BID_MS_MAX, DECISION_MS
from kalends.broker.planning.directory import MACHINES_MAX
from kalends.contract import messages as m
from kalends.core.limits import SOLICITED_MACHINES_MAX, STEP_PARTS_MAX, TIME_S_MAX
from kalends.core.resources import ResourceInfo
from kalends.federation.offered_places import decided_within_s

ROUNDS_MAX = 20


def _voted(rid: str, vote: str, att: int) -> m.Voted:
    return m.Voted(rid=rid, att=att, epoch=1, vote=vote)  # type: ignore[arg-type]  # a literal


def _serve(rig: Rig, rid: str, sent: list[tuple[str, m.Message]], vote: str) -> list[str]:
    """Let `a` and `b` outbid everybody, and then vote so ("": not at all); return who was prepared."""
    prepared = []
    for _ in range(ROUNDS_MAX):
        answers = []
        for site, message in sent:
            if isinstance(message, m.Solicit):
                in_s = 400 if site == "c" else 10
                answers += rig.hear(site, bid(rid, offer(site, in_s), att=message.att))
            if isinstance(message, m.Prepare):
                prepared.append(site)
                said = "yes" if site == "c" else vote
                if said:
                    answers += rig.hear(site, _voted(rid, said, message.att))
        if rig.row(rid).state != "open":
            break
        sent = answers or rig.pass_time(PLACE_VOTE_MS_MAX)
    return prepared


@pytest.mark.parametrize("vote", ["no", ""], ids=["refuse", "are silent"])
def test_sites_that_outbid_all_and_then_do_not_promise_keep_no_job_from_others(vote: str) -> None:
    rig = Rig()
    rid = rig.submit()
    prepared = _serve(rig, rid, rig.sent, vote)
    assert sorted(prepared[:2]) == ["a", "b"]
    assert prepared[2:] == ["c"]
    assert rig.row(rid).state == "commit"


def test_where_nobody_else_fits_a_site_that_did_not_promise_is_asked_again() -> None:
    rig = Rig({"a": 8})
    rid = rig.submit()
    rig.hear("a", bid(rid, offer("a", 10)))
    sent = rig.hear("a", _voted(rid, "no", 1))
    assert [site for site, _ in of_kind(sent, m.Solicit)] == ["a"]


@pytest.mark.parametrize("end_by", [0, T0 + 2_000])
def test_a_bid_beyond_the_end_of_all_times_is_none(rig: Rig, end_by: int) -> None:
    rid = rig.submit(end_by=end_by)
    beyond = structs.replace(offer("a", 10, firm=False), late_start=TIME_S_MAX)
    rig.hear("a", bid(rid, beyond))
    rig.hear("b", bid(rid, offer("b", 300)))
    sent = rig.hear("c", bid(rid, offer("c", 400)))
    assert [site for site, _ in of_kind(sent, m.Prepare)] == ["b"]


@pytest.mark.parametrize("firm", [True, False])
def test_no_site_wins_by_a_start_before_its_place_may_be_taken(*, firm: bool) -> None:
    """As one whose clock is behind tells it."""
    winners = set()
    for number in range(20):
        rig = Rig()
        rig.ms += 1_000 * number
        soonest = rig.now.wall_s + decided_within_s(DECISION_MS + BID_MS_MAX)
        rid = rig.submit()
        rig.ms += 200
        early = structs.replace(offer("a", -30, firm=firm), late_start=T0 - 30)
        rig.hear("a", bid(rid, early))
        rig.hear("b", bid(rid, offer("b", soonest - T0, firm=firm)))
        sent = rig.hear("c", bid(rid, offer("c", 300)))
        ((winner, _),) = of_kind(sent, m.Prepare)
        rig.hear(winner, voted(rid))
        placed = rig.row(rid).job.placed
        assert placed is not None
        assert (placed.start_by if firm else placed.late_start) == soonest
        winners.add(winner)
    assert winners == {"a", "b"}


def test_a_site_that_tells_of_thousands_of_machines_has_some_looked_at_for_each_job() -> None:
    rig = Rig()
    told = [
        ResourceInfo(name=f"b/m{number:05}", capacity=8, queue=number % 2 == 0)
        for number in range(4 * MACHINES_MAX)
    ]
    rig.coordinator.site_up("b", m.Hello(site="b", epoch=2, resources=tuple(told)), rig.now)
    rig.settle()
    looked_at = rig.directory.machines["b"]
    assert [each.name for each in looked_at] == [each.name for each in told if each.queue][
        :MACHINES_MAX
    ]
    rig.submit()
    asked = dict(of_kind(rig.sent, m.Solicit))
    assert asked["b"].machines == tuple(each.name for each in looked_at[:SOLICITED_MACHINES_MAX])  # type: ignore[attr-defined]
    rig.coordinator.site_up("b", m.Hello(site="b", epoch=3, resources=()), rig.now)
    assert rig.directory.machines["b"] == ()


def test_the_first_bid_of_a_site_stands(rig: Rig) -> None:
    rid = rig.submit()
    rig.hear("a", bid(rid, offer("a", 500)))
    rig.hear("a", bid(rid, offer("a", 0)))
    rig.hear("b", bid(rid, offer("b", 300)))
    sent = rig.hear("c", bid(rid, offer("c", 400)))
    assert [site for site, _ in of_kind(sent, m.Prepare)] == ["b"]
    assert rig.jobs.bids.tally.of("a").bid == 1


def test_a_bidder_that_calls_the_attempt_stale_is_left_out_and_the_others_go_on(rig: Rig) -> None:
    rid = rig.submit()
    rig.hear("a", m.Stale(rid=rid, att=1, seen=9))
    rig.hear("b", bid(rid, offer("b", 300)))
    sent = rig.hear("c", bid(rid, offer("c", 400)))
    assert [site for site, _ in of_kind(sent, m.Prepare)] == ["b"]
    assert rig.row(rid).att == 1


def test_who_has_no_part_in_an_attempt_cannot_call_it_stale() -> None:
    rig, rid = bidding()
    assert rig.hear("a", m.Stale(rid=rid, att=1, seen=9)) == []
    rig.hear("b", voted(rid))
    assert rig.row(rid).state == "commit"
    assert rig.row(rid).att == 1


def test_names_that_strangers_ask_in_leave_little_behind() -> None:
    credentials = Credentials("s" * 64)
    for number in range(SITE_KEYS_MAX + 10):
        assert not credentials.proves("s" * 32, f"site{number}", "a-request")
    assert len(credentials._site_keys) <= SITE_KEYS_MAX


def test_a_site_that_names_parts_without_end_leaves_as_many_as_a_job_may_have(rig: Rig) -> None:
    rid = rig.submit()
    for number in range(3 * STEP_PARTS_MAX):
        rig.hear("a", m.PartNews(rid=rid, att=1, machine=f"a/m{number}", job=1))
    rig.hear("b", m.PartNews(rid=rid, att=1, machine="b/m", job=7))
    heard = rig.jobs.steps._heard[rid]
    assert len(heard) == STEP_PARTS_MAX + 1
    assert heard["b/m"].job == 7

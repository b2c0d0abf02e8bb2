"""Places in queues at a site: asked for, held, promised, locked, and given up."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs
from tests.protocol_support import (
    ANN,
    COORDS,
    HERE,
    PARTS,
    T0,
    Site,
    SiteWithoutJobs,
    TakesParts,
    rid,
    secret_of,
    visit,
    want,
)

from kalends.contract import messages as m
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.identifiers import queue_of
from kalends.core.jobs import JobRequest
from kalends.federation.lost_bids import FAR_S, IN_A_ROW
from kalends.resource_servers.participation.claims.claim_sets import Stake
from kalends.resource_servers.participation.effects import PlaceAsk, StartWord
from kalends.resource_servers.participation.outbox import REGISTER
from kalends.resource_servers.participation.placed_jobs.place_returns import (
    ASK_AGAIN_MS as RETURN_AGAIN_MS,
)
from kalends.resource_servers.participation.placed_jobs.places import HELD_MS_MAX
from kalends.resource_servers.participation.placed_jobs.start_questions import (
    ASK_AGAIN_MS,
    ASK_AGAIN_MS_MAX,
)

POOL = f"{HERE}/pool"
JOB = JobRequest(machine="", limit_s=60, nodes=2, command=("true",))
HOLD_MS = 10_000


def solicit(number: int, att: int = 1, machines: Sequence[str] = (POOL,)) -> m.Solicit:
    return m.Solicit(
        rid=rid(number), att=att, stamp=number, principal=ANN, job=JOB, machines=tuple(machines),
        coords=COORDS, secret=secret_of(rid(number)), hold_ms=HOLD_MS,
    )  # fmt: skip


def asked(site: Site, number: int, att: int = 1) -> PlaceAsk:
    """Ask for a place; return what the queues are asked."""
    effects = site.receive(solicit(number, att))
    assert not effects.sends
    (ask,) = effects.asks
    return ask


def offers_of(ask: PlaceAsk, start: int = T0 + 100) -> list[m.PlaceOffer]:
    return [
        m.PlaceOffer(
            machine=machine, hold_id=hold_id, job=7, nodes=2, start=start, end=start + 60,
            start_by=start, late_start=start,
        )
        for machine, hold_id in ask.places
    ]  # fmt: skip


def answered(
    site: Site, ask: PlaceAsk, offers: Sequence[m.PlaceOffer], refusals: Sequence[Refusal] = ()
) -> tuple[bool, list[m.Message]]:
    """The queues answer; return whether somebody waited for that, and what is sent."""
    taken = site.call(
        lambda participant, now: site.jobs.offered(ask.number, ask.rid, offers, refusals, now)
    )
    sent = [send.message for send in site.unsent]
    site.unsent.clear()
    return taken, sent


def bid(site: Site, number: int, att: int = 1) -> m.Bid:
    ask = asked(site, number, att)
    taken, (sent,) = answered(site, ask, offers_of(ask))
    assert taken
    assert isinstance(sent, m.Bid)
    return sent


def prepare(number: int, hold_ids: tuple[int, ...], att: int = 1) -> m.Prepare:
    return m.Prepare(
        rid=rid(number), att=att, secret=secret_of(rid(number)), hold_ids=hold_ids,
        parts=PARTS[:1], need=1,
    )  # fmt: skip


def test_a_bid_holds_its_place_until_the_hold_ends(site: Site) -> None:
    sent = bid(site, 1)
    assert [offer.machine for offer in sent.offers] == [POOL]
    assert site.states(1) == ["held"]
    site.advance(HOLD_MS - 1)
    assert site.states(1) == ["held"]
    site.advance(1)
    assert site.states(1) == []


def test_a_place_is_promised_and_locked_by_the_messages_that_book_slots_and_takes_no_room() -> None:
    site = Site()
    sent = bid(site, 1)
    hold_ids = tuple(offer.hold_id for offer in sent.offers)
    voted = site.answer(prepare(1, hold_ids))
    assert isinstance(voted, m.Voted)
    assert voted.vote == "yes"
    decide = m.Decide(rid=rid(1), att=1, outcome="commit", chosen={HERE: hold_ids})
    assert site.answer(decide) == m.Done(rid=rid(1), att=1, of="commit")
    assert site.states(1) == ["locked"]
    assert site.free("pool", -86_400, 86_400) == 3
    site.restart()
    assert site.states(1) == ["locked"]


def test_a_question_that_is_repeated_is_asked_once_and_its_bid_is_said_again(site: Site) -> None:
    ask = asked(site, 1)
    assert site.receive(solicit(1)).asks == []
    _, (sent,) = answered(site, ask, offers_of(ask))
    assert site.answers(solicit(1)) == [sent]


def test_a_higher_attempt_keeps_the_place_and_is_told_its_start_anew(site: Site) -> None:
    first = bid(site, 1)
    ask = asked(site, 1, att=2)
    assert [hold_id for _, hold_id in ask.places] == [offer.hold_id for offer in first.offers]
    assert site.states(1) == ["held"]
    _, (sent,) = answered(site, ask, offers_of(ask, T0 + 50))
    assert isinstance(sent, m.Bid)
    assert (sent.att, sent.offers[0].start_by) == (2, T0 + 50)
    stake = site.stake(1)
    assert stake is not None
    assert stake.claims[0].start == T0 + 50


def test_a_promise_becomes_a_hold_of_the_higher_attempt(site: Site) -> None:
    hold_ids = tuple(offer.hold_id for offer in bid(site, 1).offers)
    site.receive(prepare(1, hold_ids))
    assert site.states(1) == ["prepared"]
    ask = asked(site, 1, att=2)
    assert tuple(hold_id for _, hold_id in ask.places) == hold_ids
    answered(site, ask, offers_of(ask))
    assert site.states(1) == ["held"]
    voted = site.answer(prepare(1, hold_ids))
    assert isinstance(voted, m.Voted)
    assert voted.vote == "stale"


def test_what_was_released_meanwhile_holds_nothing_when_the_queues_answer(site: Site) -> None:
    ask = asked(site, 1)
    site.receive(m.Release(rid=rid(1), att=1))
    assert answered(site, ask, offers_of(ask)) == (False, [])
    assert site.states(1) == []


def test_a_release_gives_the_place_up(site: Site) -> None:
    bid(site, 1)
    site.receive(m.Release(rid=rid(1), att=1))
    assert site.states(1) == []


def test_where_the_queues_give_no_place_the_bid_says_why_and_nothing_is_held(site: Site) -> None:
    ask = asked(site, 1)
    refusal = Refusal(where=POOL, code=RefusalCode.NO_PLACE, detail="9 nodes can never be had")
    taken, (sent,) = answered(site, ask, [], [refusal])
    assert not taken
    assert isinstance(sent, m.Bid)
    assert (sent.offers, sent.refusals) == ((), (refusal,))
    assert site.states(1) == []


def test_a_site_that_has_lost_many_bids_by_far_spares_the_next_but_never_a_second_attempt() -> None:
    site = Site()
    won = m.Won(site="ctc", start=T0 + 10, runs_s=3_600, behind_s=FAR_S)
    for number in range(IN_A_ROW):
        bid(site, number)
        site.receive(m.Release(rid=rid(number), att=1, won=won))
        site.receive(m.Release(rid=rid(number), att=1, won=won))
    answer = site.answer(solicit(100))
    assert isinstance(answer, m.Bid)
    assert [refusal.code for refusal in answer.refusals] == [RefusalCode.HELD]
    assert asked(site, 100, att=2).rid == rid(100)
    taken = bid(site, 101, att=2)
    site.answer(prepare(101, tuple(each.hold_id for each in taken.offers), att=2))
    assert asked(site, 102).rid == rid(102), "a bid that has won ends it"


def test_what_has_won_is_believed_only_by_a_site_whose_bid_it_was() -> None:
    site = Site()
    won = m.Won(site="ctc", start=T0 + 10, runs_s=3_600, behind_s=FAR_S)
    for number in range(2 * IN_A_ROW):
        site.receive(m.Release(rid=rid(number), att=1, won=won))
    assert asked(site, 100).rid == rid(100)


def test_a_drained_site_bids_for_nothing(site: Site) -> None:
    site.participant.admission.draining = True
    answer = site.answer(solicit(1))
    assert isinstance(answer, m.Bid)
    assert [refusal.code for refusal in answer.refusals] == [RefusalCode.DRAINED]


def test_a_site_that_is_drained_until_a_time_says_so_and_opens_by_itself(site: Site) -> None:
    until_s = site.now.wall_s + 600
    site.participant.admission.drain(on=True, until_s=until_s)
    site.advance(0)
    answer = site.answer(solicit(1))
    assert isinstance(answer, m.Bid)
    assert answer.closed_until == until_s
    assert [refusal.code for refusal in answer.refusals] == [RefusalCode.DRAINED]
    assert answer.refusals[0].detail.startswith("the owner accepts no new claims until ")
    site.advance(599_000)
    assert site.participant.admission.draining
    site.advance(1_000)
    assert not site.participant.admission.draining
    assert site.participant.admission.closed() is None


def test_a_place_can_be_had_by_no_visit_and_is_shown_to_nobody(site: Site) -> None:
    slot = m.Want(queue_of(POOL), T0 + 100, T0 + 200, 1)
    visit = m.Visit(
        rid=rid(1), att=1, stamp=1, mode="vote", principal=ANN, wants=(slot,), parts=PARTS, need=2,
        secret=secret_of(rid(1)), hold_ms=1_000,
    )  # fmt: skip
    answer = site.answer(visit)
    assert isinstance(answer, m.Visited)
    assert answer.vote == "no"
    assert [refusal.code for refusal in answer.refusals] == [RefusalCode.UNKNOWN_RESOURCE]
    assert queue_of(POOL) not in [info.name for info in site.participant.hello().resources]


def test_a_place_that_was_forgotten_is_not_locked_again_but_named(site: Site) -> None:
    relock = m.Relock(
        rid=rid(1), att=1, stamp=1, principal=ANN, secret=secret_of(rid(1)),
        wants=(m.Want(queue_of(POOL), T0 + 100, T0 + 200, 1),), chosen={HERE: (5,)}, parts=PARTS[:1],
        need=1,
    )  # fmt: skip
    answer = site.answer(relock)
    assert isinstance(answer, m.Relocked)
    assert "submit the job again" in answer.blockers[0]


def test_only_the_owner_of_a_question_may_go_on_with_it(site: Site) -> None:
    asked(site, 1)
    stranger = m.Release(rid=rid(1), att=1, secret="another secret than that one")
    assert site.receive(stranger, "a").alarms


def test_a_question_that_the_queues_never_answer_is_answered_for_them_and_forgotten() -> None:
    site = Site()
    site.receive(structs.replace(solicit(2), hold_ms=2 * HOLD_MS))
    ask = asked(site, 1)
    assert site.participant.next_deadline_ms() == site.ms + HOLD_MS
    (send,) = site.advance(HOLD_MS).sends
    assert isinstance(send.message, m.Bid)
    assert send.message.rid == rid(1)
    assert [each.code for each in send.message.refusals] == [RefusalCode.NO_PLACE]
    assert answered(site, ask, offers_of(ask)) == (False, [])


def test_questions_count_against_the_holds_of_a_user(site: Site) -> None:
    room = site.limits.held_per_principal_max
    for number in range(1, room + 1):
        asked(site, number)
    answer = site.answer(solicit(room + 1))
    assert isinstance(answer, m.Bid)
    assert [each.code for each in answer.refusals] == [RefusalCode.HELD]


def test_nobody_keeps_a_place_for_long_by_asking_again_or_by_renewing_it(site: Site) -> None:
    hold_ids = tuple(each.hold_id for each in bid(site, 1).offers)
    renew = m.Renew(
        rid=rid(1), att=1, secret=secret_of(rid(1)), hold_ids=hold_ids, hold_ms=3_600_000
    )
    site.receive(renew)
    site.advance(HOLD_MS)
    assert site.states(1) == []
    bid(site, 2)
    for att in range(2, 60):
        site.advance(HOLD_MS - 1)
        effects = site.receive(solicit(2, att))
        if not effects.asks:
            break
        answered(site, effects.asks[0], offers_of(effects.asks[0]))
    assert att * HOLD_MS <= HELD_MS_MAX + 2 * HOLD_MS
    assert site.states(2) == []


# Jobs that start at most once


def locked(site: Site, number: int) -> None:
    hold_ids = tuple(offer.hold_id for offer in bid(site, number).offers)
    site.answer(prepare(number, hold_ids))
    site.answer(m.Decide(rid=rid(number), att=1, outcome="commit", chosen={HERE: hold_ids}))


def stake_of(site: Site, number: int) -> Stake:
    stake = site.stake(number)
    assert stake is not None
    return stake


def ask_to_start(site: Site, number: int) -> list[tuple[str, m.Message]]:
    site.call(lambda participant, now: site.jobs.starts.ask(rid(number), now))
    return asked_brokers(site)


def asked_brokers(site: Site) -> list[tuple[str, m.Message]]:
    sent = [(send.to, send.message) for send in site.unsent]
    site.unsent.clear()
    return sent


def says(number: int, verdict: m.StartVerdict, at: str = "") -> m.StartSays:
    return m.StartSays(rid=rid(number), att=1, secret=secret_of(rid(number)), says=verdict, at=at)


def test_brokers_are_asked_one_after_the_other_until_one_says_whether_a_job_may_start() -> None:
    site = Site()
    locked(site, 1)
    ask = m.StartAsk(rid=rid(1), att=1, site=HERE, secret=secret_of(rid(1)))
    everybody = f"{REGISTER}{stake_of(site, 1).register}"
    assert ask_to_start(site, 1) == [(everybody, ask)]
    assert ask_to_start(site, 1) == []
    effects = site.advance(ASK_AGAIN_MS)
    sent = [(send.to, send.message) for send in effects.sends]
    assert sent == [(everybody, ask), (COORDS[1], ask)]
    assert site.receive(says(1, "start")).starts == [StartWord(rid(1), "start", "")]
    assert site.receive(says(1, "start")).starts == []
    assert site.advance(10 * ASK_AGAIN_MS_MAX).sends == []


def test_that_a_job_has_started_elsewhere_is_heard_without_having_asked(site: Site) -> None:
    locked(site, 1)
    assert site.receive(says(1, "elsewhere", "there")).starts == [
        StartWord(rid(1), "elsewhere", "there")
    ]


def test_only_the_broker_of_a_job_says_whether_it_may_start(site: Site) -> None:
    locked(site, 1)
    ask_to_start(site, 1)
    forged = structs.replace(says(1, "start"), secret="s" * 32)
    effects = site.receive(forged, "stranger")
    assert effects.starts == []
    assert effects.alarms


def test_what_is_not_locked_here_does_not_start(site: Site) -> None:
    bid(site, 1)
    site.jobs.starts.ask(rid(1), site.now)
    effects = site.participant.take_effects()
    assert (effects.sends, effects.starts) == ([], [StartWord(rid(1), "over", "")])


def test_while_a_site_is_drained_brokers_are_asked_to_place_elsewhere_what_waits_there() -> None:
    site = Site()
    locked(site, 1)
    bid(site, 2)
    site.participant.admission.draining = True
    (send,) = site.advance(0).sends
    assert send.to == f"{REGISTER}{stake_of(site, 1).register}"
    assert isinstance(send.message, m.Reclaim)
    assert (send.message.rid, send.message.resources) == (rid(1), (queue_of(POOL),))
    assert [each.to for each in site.advance(RETURN_AGAIN_MS).sends] == [send.to]
    assert site.advance(RETURN_AGAIN_MS).sends == [], "less and less often"
    assert [each.to for each in site.advance(RETURN_AGAIN_MS).sends] == [send.to]
    site.participant.admission.draining = False
    assert site.advance(4 * RETURN_AGAIN_MS).sends == []


def test_a_broker_is_asked_to_place_elsewhere_a_job_that_has_lost_its_nodes_until_it_has_others(
    site: Site,
) -> None:
    locked(site, 1)
    locked(site, 2)
    returns = site.jobs.returns
    returns.note(rid(1), waits_again=True)
    (send,) = site.advance(0).sends
    assert isinstance(send.message, m.Reclaim)
    assert (send.message.rid, send.message.resources) == (rid(1), (queue_of(POOL),))
    assert [each.to for each in site.advance(RETURN_AGAIN_MS).sends] == [send.to]
    assert site.advance(RETURN_AGAIN_MS).sends == [], "less and less often"
    returns.note(rid(1), waits_again=True)
    assert site.advance(0).sends == [], "it is known"
    assert [each.to for each in site.advance(RETURN_AGAIN_MS).sends] == [send.to]
    returns.note(rid(1), waits_again=False)
    assert site.advance(8 * RETURN_AGAIN_MS).sends == []


def test_nobody_asks_for_another_place_for_a_job_that_has_none_here(site: Site) -> None:
    site.jobs.returns.note(rid(1), waits_again=True)
    assert site.advance(0).sends == []


def test_a_broker_that_has_not_decided_hears_that_its_place_has_fallen_back_and_again_when_it_comes(
    site: Site,
) -> None:
    (offer,) = bid(site, 1).offers
    site.answer(prepare(1, (offer.hold_id,)))
    register = f"{REGISTER}{stake_of(site, 1).register}"
    told = [(register, m.Renewed(rid=rid(1), att=1, epoch=1, lost=(offer.hold_id,)))]
    site.call(lambda participant, now: site.jobs.places.fell_back(rid(1)))
    assert asked_brokers(site) == told
    site.call(lambda participant, now: site.jobs.places.met())
    assert asked_brokers(site) == told
    assert stake_of(site, 1).has("prepared"), "only its broker may end what it was promised"
    site.answer(m.Decide(rid=rid(1), att=1, outcome="commit", chosen={HERE: (offer.hold_id,)}))
    assert stake_of(site, 1).has("locked")
    site.call(lambda participant, now: site.jobs.places.met())
    assert asked_brokers(site) == []


def test_what_was_promised_to_a_job_is_kept_as_long_as_it_waits_here() -> None:
    for waits in (True, False):
        site = Site(queues=TakesParts(jobs=waits))
        locked(site, 1)
        site.receive(m.Forget(rid=rid(1), att=1))
        for _ in range(24 * 8):
            site.advance(3_600_000)
        assert (site.stake(1) is not None) == waits


# A site whose machines have left its configuration


def test_a_site_without_machines_bids_without_offers() -> None:
    site = SiteWithoutJobs()
    (bid,) = site.answers(solicit(1))
    assert isinstance(bid, m.Bid)
    assert (bid.offers, [each.detail for each in bid.refusals]) == ((), ["no jobs run there"])


def test_what_brokers_say_late_of_jobs_is_no_alarm_where_none_run() -> None:
    site = SiteWithoutJobs()
    for late in (
        m.EndNoted(rid=rid(1), att=1),
        m.StartSays(rid=rid(1), att=1, says="start"),
        m.ReadyAsk(rid=rid(1), att=1, question=1),
    ):
        assert not site.receive(late)


def test_of_another_brokers_request_nothing_is_said_where_no_jobs_run_either() -> None:
    site = SiteWithoutJobs()
    site.receive(visit(1, want("one", 0, 60)))
    effects = site.receive(structs.replace(solicit(1), secret="a guess of a secret"))
    assert (effects.sends, len(effects.alarms)) == ([], 1)

"""What a broker does when others have what a request wants: lines, recalls, and waiting lists."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
import pytest
from tests.protocol_broker import SITES, START, WANTS, Broker, hello
from tests.protocol_support import T0

from kalends.broker.coordination.effects import Send
from kalends.broker.coordination.record.decision_record import Spec
from kalends.broker.coordination.search.site_waits import CLOCK_BELIEVED_MS
from kalends.broker.coordination.search.slot_search import LOOK_MS_MAX
from kalends.broker.coordination.timeouts import RESEND_EVERY_MS_MAX
from kalends.broker.coordination.transaction_table import REQUEST_MS_MAX
from kalends.broker.coordination.voting.prepare_phase import VOTE_MS_MAX
from kalends.contract import messages as m
from kalends.contract.calls import Patience
from kalends.contract.costs import Pays
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.language import parse_request
from kalends.core.principals import Principal
from kalends.core.resources import ResourceInfo

HELD = Refusal(where="there/one", code=RefusalCode.HELD, detail="held by another")
TAKEN = Refusal(where="there/one", code=RefusalCode.BUSY, detail="locked by another")
LIMIT = Refusal(where="there", code=RefusalCode.LIMIT, detail="too many")
BOTH = "here/one + there/one"
ALL_DAY = ((0, 600),)

FREED = tuple(m.Freed(f"{site}/one", START, START + 600) for site in SITES)

Spans = tuple[tuple[int, int], ...]


def no(rid: str, refusal: Refusal = HELD, *, att: int = 1, ahead: int = -1) -> m.Visited:
    vote = "no" if ahead < 0 and att == 1 else "none"
    return m.Visited(
        rid=rid, att=att, epoch=1, vote="no" if vote == "no" else "none", refusals=(refusal,),
        ahead=ahead,
    )  # fmt: skip


def yes(rid: str, hold_id: int, *, att: int = 1) -> m.Visited:
    return m.Visited(rid=rid, att=att, epoch=1, vote="none", held=(m.HeldSlot(0, hold_id),))


def grant(rid: str, hold_id: int, *, att: int = 2) -> m.Grant:
    return m.Grant(rid=rid, att=att, epoch=1, held=(m.HeldSlot(0, hold_id),))


def locked(rid: str, refusal: Refusal = TAKEN, *, att: int = 2) -> m.Locked:
    return m.Locked(rid=rid, att=att, refusals=(refusal,))


NEWS = itertools.count(1)


def awaited(rid: str, site: str, *, att: int = 1, ahead: int = 0, how: str = "") -> m.Awaited:
    return m.Awaited(
        rid=rid,
        att=att,
        ahead=ahead,
        offered=tuple(freed for freed in FREED if freed.resource == f"{site}/one")
        if "offered" in how
        else (),
        fresh="fresh" in how,
        news=next(NEWS) if how else 0,
    )


def show(broker: Broker, free: Mapping[str, Spans], *, held: bool = False) -> list[m.Query]:
    """The sites that are in `free` answer what they were asked; nothing of the others."""
    queries = []
    for site, message in broker.sent():
        if not isinstance(message, m.Query):
            continue
        queries.append(message)
        if site not in free:
            continue
        views = tuple(
            m.FreeSteps(
                resource=want.resource, until=want.end, steps=within(want, free[site]), held=held
            )
            for want in message.wants
        )
        broker.receive(site, m.View(query_id=message.query_id, epoch=1, views=views))
    return queries


def within(want: m.Want, free: Spans) -> tuple[tuple[int, int, int], ...]:
    """What is free of what was asked for."""
    return tuple(
        (max(START + start, want.start), min(START + end, want.end), 1)
        for start, end in free
        if START + start < want.end and want.start < START + end
    )


def of_kind(broker: Broker, kind: type[m.Message]) -> list[tuple[str, m.Message]]:
    return [(to, message) for to, message in broker.sent() if isinstance(message, kind)]


def visits(broker: Broker) -> list[m.Visit]:
    return [message for _, message in broker.sent() if isinstance(message, m.Visit)]


def codes(broker: Broker, ticket: int = 1) -> set[str]:
    problem = broker.answers[ticket].problem
    assert problem is not None
    return {refusal.code for refusal in problem.refusals}


def in_line(broker: Broker, **asked: Patience) -> str:
    """A request for exactly these slots that holds one here, and waits in line there."""
    rid = broker.submit(**asked)
    broker.receive("there", no(rid))
    broker.sent()
    broker.receive("here", yes(rid, 12, att=2))
    broker.receive("there", no(rid, att=2, ahead=3))
    broker.sent()
    assert broker.case(rid).phase == "holding"
    return rid


def listed(broker: Broker) -> str:
    """A request that stands on the lists of both sites, which have told it that it is new there."""
    rid = broker.ask(BOTH, patience="taken")
    show(broker, {"here": ALL_DAY, "there": ()})
    for site in SITES:
        broker.receive(site, awaited(rid, site, how="fresh"))
    show(broker, {"here": ALL_DAY, "there": ()})
    for site in SITES:
        broker.receive(site, awaited(rid, site))
    broker.sent()
    assert broker.case(rid).phase == "waiting"
    return rid


# A lost vote


def test_after_a_lost_vote_it_waits_in_line_for_the_same_slots(broker: Broker) -> None:
    rid = broker.submit()
    assert {(visit.mode, visit.queue) for visit in visits(broker)} == {("vote", False)}
    broker.receive("there", no(rid))
    sent = visits(broker)
    assert {(visit.att, visit.mode, visit.queue) for visit in sent} == {(2, "hold", True)}
    assert {visit.stamp for visit in sent} == {broker.row(rid).stamp}
    assert {want for visit in sent for want in visit.wants} == set(WANTS)


def test_without_patience_a_lost_vote_is_the_end(broker: Broker) -> None:
    rid = broker.submit(patience="none")
    broker.receive("there", no(rid))
    assert broker.answers[1].state == "failed"
    assert codes(broker) == {RefusalCode.HELD}
    assert not visits(broker)[2:]


def test_who_waits_for_holds_only_does_not_wait_for_what_is_locked(broker: Broker) -> None:
    rid = broker.submit()
    broker.receive("there", no(rid, TAKEN))
    assert broker.answers[1].state == "failed"
    assert codes(broker) == {RefusalCode.BUSY}


def test_a_line_that_is_full_is_the_end(broker: Broker) -> None:
    rid = broker.submit()
    broker.receive("there", no(rid))
    broker.receive("there", no(rid, LIMIT, att=2))
    assert broker.answers[1].state == "failed"
    assert codes(broker) == {RefusalCode.LIMIT}


# In line


def test_what_it_waits_for_is_shown_and_written_down(broker: Broker) -> None:
    rid = in_line(broker)
    waiting = broker.coordinator.negotiation.waiting_of(rid, broker.now)
    assert waiting is not None
    assert (waiting.ahead, waiting.awaited, waiting.earliest) == (3, ("there/one",), START)
    assert (waiting.since, waiting.until) == (T0 + 1, T0 + 1 + REQUEST_MS_MAX // 1_000)
    assert not waiting.listed
    written = broker.row(rid).waiting
    assert written is not None
    assert written.awaited == ("there/one",)


def test_who_does_not_wait_shows_nothing_of_the_kind(broker: Broker) -> None:
    rid = broker.submit()
    assert broker.coordinator.negotiation.waiting_of(rid, broker.now) is None
    assert broker.coordinator.negotiation.waiting_of("unknown", broker.now) is None


def test_a_grant_completes_what_is_held(broker: Broker) -> None:
    rid = in_line(broker)
    broker.receive("there", grant(rid, 22))
    (to_here, to_there) = of_kind(broker, m.Prepare)
    assert to_here[0] == "here"
    assert isinstance(to_there[1], m.Prepare)
    assert to_there[1].hold_ids == (22,)
    broker.voted(rid, att=2)
    assert broker.answers[1].state == "reserved"
    assert broker.row(rid).chosen == {"here": (12,), "there": (22,)}
    assert broker.row(rid).waiting is None


def test_the_visit_is_repeated_where_it_waits_and_the_hold_renewed_where_it_holds() -> None:
    broker = Broker()
    rid = in_line(broker)
    broker.advance(RESEND_EVERY_MS_MAX * 2)
    kinds = set(broker.kinds())
    assert kinds == {("there", "Visit"), ("here", "Renew")}
    assert broker.case(rid).record.att == 2


def test_who_waits_in_line_is_not_taken_for_a_silent_site(broker: Broker) -> None:
    rid = in_line(broker)
    broker.advance(VOTE_MS_MAX * 3)
    assert broker.case(rid).phase == "holding"
    assert broker.case(rid).record.att == 2


def test_who_has_waited_for_too_long_is_told_what_it_waited_for(broker: Broker) -> None:
    in_line(broker)
    broker.advance(REQUEST_MS_MAX)
    assert broker.answers[1].state == "failed"
    problem = broker.answers[1].problem
    assert problem is not None
    assert problem.code == "no-common-time"
    assert problem.refusals == (HELD,)


def test_a_site_that_has_started_again_is_asked_for_the_place_anew(broker: Broker) -> None:
    rid = in_line(broker)
    broker.receive("there", hello("there", epoch=2))
    assert [visit.rid for visit in visits(broker)] == [rid]


def test_what_is_locked_by_another_ends_the_wait(broker: Broker) -> None:
    rid = in_line(broker)
    broker.receive("there", locked(rid))
    assert broker.answers[1].state == "failed"
    assert codes(broker) == {RefusalCode.BUSY}
    assert ("here", "Decide") in broker.kinds()


def test_who_may_start_at_other_times_looks_again_when_it_is_locked(broker: Broker) -> None:
    rid = broker.ask(BOTH)
    show(broker, {"here": ((0, 60),), "there": ((0, 60),)})
    broker.receive("there", no(rid))
    show(broker, {"here": (), "there": ()}, held=True)
    show(broker, {"here": ((0, 60),), "there": ((0, 60),)})
    broker.receive("there", no(rid, att=2, ahead=0))
    broker.receive("there", locked(rid))
    show(broker, {"here": ((100, 200),), "there": ((100, 200),)})
    assert {want.start for visit in visits(broker) for want in visit.wants} == {START + 100}
    assert broker.case(rid).record.att == 3


def test_a_cancelled_wait_leaves_the_line(broker: Broker) -> None:
    rid = in_line(broker)
    broker.release(rid, 2)
    assert broker.answers[2].state == "cancelled"
    assert {("here", "Decide"), ("there", "Decide")} == set(broker.kinds())


def test_a_take_over_goes_on_waiting_with_the_same_stamp() -> None:
    first = Broker()
    rid = in_line(first)
    second = Broker(first.register, name="b", ms=5_000)
    second.adopt(rid)
    sent = visits(second)
    assert {(visit.att, visit.mode, visit.queue) for visit in sent} == {(3, "hold", True)}
    assert {visit.stamp for visit in sent} == {first.row(rid).stamp}


# The second look


def test_where_nothing_is_free_it_waits_in_line_where_it_may_come_free(broker: Broker) -> None:
    rid = broker.ask(BOTH)
    (query, _) = show(broker, {"here": ALL_DAY, "there": ()}, held=True)
    assert (query.counting, query.stamp) == ("all", broker.row(rid).stamp)
    queries = show(broker, {"here": ALL_DAY, "there": ((30, 90),)})
    assert {query.counting for query in queries} == {"locked"}
    sent = visits(broker)
    assert {(visit.att, visit.mode, visit.queue) for visit in sent} == {(1, "hold", True)}
    assert {want.start for visit in sent for want in visit.wants} == {START + 30}


def test_where_nobody_holds_anything_there_is_no_second_look(broker: Broker) -> None:
    broker.ask(BOTH)
    show(broker, {"here": ALL_DAY, "there": ()})
    assert broker.answers[1].state == "failed"


def test_without_patience_there_is_no_second_look(broker: Broker) -> None:
    broker.ask(BOTH, patience="none")
    show(broker, {"here": ALL_DAY, "there": ()}, held=True)
    assert broker.answers[1].state == "failed"


def test_who_has_no_patience_asks_without_waiting(broker: Broker) -> None:
    rid = broker.ask(BOTH, patience="none")
    show(broker, {"here": ALL_DAY, "there": ALL_DAY})
    broker.receive("there", no(rid))
    show(broker, {"here": ALL_DAY, "there": ALL_DAY})
    assert {visit.queue for visit in visits(broker)} == {False}


# Recalls


def test_a_recall_is_answered_by_giving_back_while_not_all_is_held(broker: Broker) -> None:
    rid = in_line(broker)
    broker.receive("here", m.Recall(rid=rid, att=2, left_ms=3_000))
    assert of_kind(broker, m.Give) == [("here", m.Give(rid=rid, att=2, hold_ids=(12,)))]
    assert "keeps its place in the queue" in broker.case(rid).record.trail[-1].detail
    broker.receive("there", grant(rid, 22))
    assert broker.case(rid).phase == "holding"
    broker.receive("here", grant(rid, 13))
    assert broker.case(rid).phase == "preparing"


def test_a_recall_that_was_lost_is_heard_with_the_renewal(broker: Broker) -> None:
    rid = in_line(broker)
    renewed = m.Renewed(rid=rid, att=2, epoch=1, kept=(12,), recall_ms=2_000)
    broker.receive("here", renewed)
    assert of_kind(broker, m.Give) == [("here", m.Give(rid=rid, att=2, hold_ids=(12,)))]


def test_a_recall_of_what_is_being_promised_is_not_answered(broker: Broker) -> None:
    rid = in_line(broker)
    broker.receive("there", grant(rid, 22))
    broker.sent()
    broker.receive("here", m.Recall(rid=rid, att=2, left_ms=3_000))
    assert not broker.sent()
    assert broker.case(rid).phase == "preparing"


def test_a_recall_of_an_older_attempt_is_not_answered(broker: Broker) -> None:
    rid = in_line(broker)
    broker.receive("here", m.Recall(rid=rid, att=1, left_ms=3_000))
    assert not broker.sent()


def test_a_hold_that_is_taken_back_while_it_waits_elsewhere_is_waited_for(broker: Broker) -> None:
    rid = in_line(broker)
    broker.receive("here", m.Renewed(rid=rid, att=2, epoch=1, lost=(12,)))
    assert [visit.att for visit in visits(broker)] == [2]
    broker.receive("there", grant(rid, 22))
    assert broker.case(rid).phase == "holding"


def considered(broker: Broker) -> str:
    rid = broker.submit(hold_s=600)
    assert {visit.considered for visit in visits(broker)} == {True}
    broker.visited(rid, vote=False)
    assert broker.case(rid).phase == "held"
    return rid


def test_who_considers_a_hold_is_told_of_a_recall_once(broker: Broker) -> None:
    rid = considered(broker)
    broker.sent()
    for left_ms in (60_000, 50_000):
        broker.receive("here", m.Recall(rid=rid, att=1, left_ms=left_ms))
    assert not broker.sent()
    view = broker.coordinator.table.view(broker.case(rid))
    assert (view.state, view.recalled_until) == ("held", T0 + 61)
    assert broker.row(rid).recalled_until == T0 + 61
    assert [event.kind for event in broker.row(rid).trail] == ["held", "recalled"]


def test_a_recalled_hold_can_be_locked(broker: Broker) -> None:
    rid = considered(broker)
    broker.receive("here", m.Recall(rid=rid, att=1, left_ms=60_000))
    broker.lock(rid, 2)
    broker.voted(rid)
    assert broker.answers[2].state == "reserved"
    assert broker.answers[2].recalled_until == 0


def test_a_recalled_hold_that_is_lost_is_waited_for_until_it_would_have_run_out() -> None:
    broker = Broker()
    rid = considered(broker)
    broker.receive("here", m.Recall(rid=rid, att=1, left_ms=60_000))
    broker.advance(60_000)
    broker.sent()
    broker.receive("here", m.Renewed(rid=rid, att=1, epoch=1, lost=(11,)))
    sent = visits(broker)
    assert {(visit.att, visit.queue, visit.considered) for visit in sent} == {(2, True, True)}
    held_by_another = msgspec.structs.replace(HELD, where="here/one")
    broker.receive("here", no(rid, held_by_another, att=2, ahead=0))
    broker.receive("there", yes(rid, 22, att=2))
    assert broker.coordinator.table.view(broker.case(rid)).recalled_until == 0
    broker.receive("here", grant(rid, 12))
    assert broker.case(rid).phase == "held"


# Waiting lists


def test_where_all_is_locked_it_stands_on_the_lists_of_all_sites(broker: Broker) -> None:
    rid = broker.ask(BOTH, patience="taken")
    show(broker, {"here": ALL_DAY, "there": ()})
    sent = of_kind(broker, m.Await)
    assert [to for to, _ in sent] == ["here", "there"]
    for _, message in sent:
        assert isinstance(message, m.Await)
        assert (message.att, message.length_s, message.stamp) == (1, 60, broker.row(rid).stamp)
        (want,) = message.wants
        assert (want.start, want.end) == (START, START + 600)
    waiting = broker.row(rid).waiting
    assert waiting is not None
    assert (waiting.listed, waiting.awaited, waiting.until) == (True, ("there/one",), START + 540)


def test_it_stands_on_a_list_for_the_time_in_its_own_windows_alone(broker: Broker) -> None:
    first, second = (
        f"between {datetime.fromtimestamp(START + at, UTC):%Y-%m-%dT%H:%M:%S}Z "
        f"{datetime.fromtimestamp(START + at + 120, UTC):%Y-%m-%dT%H:%M:%S}Z"
        for at in (60, 400)
    )
    broker.ask(f"here/one + there/one {first} {second}", patience="taken")
    show(broker, {"here": ALL_DAY, "there": ()})
    wishes = {to: wish for to, wish in of_kind(broker, m.Await) if isinstance(wish, m.Await)}
    asked = {to: [(w.start - START, w.end - START) for w in wishes[to].wants] for to in wishes}
    assert asked == {"here": [(0, 600)], "there": [(60, 180), (400, 520)]}


def test_without_that_patience_it_fails(broker: Broker) -> None:
    broker.ask(BOTH)
    show(broker, {"here": ALL_DAY, "there": ()})
    assert broker.answers[1].state == "failed"
    assert not of_kind(broker, m.Await)


def test_as_much_is_waited_for_as_the_request_needs(broker: Broker) -> None:
    """Less would be offered in vain, and would not be kept from those behind."""
    info = ResourceInfo(name="here/pool", capacity=64, grain_s=1)
    broker.receive("here", m.Hello(site="here", epoch=1, resources=(info,)))
    rid = broker.ask("here/pool:32", patience="taken")
    for site, message in broker.sent():
        assert isinstance(message, m.Query)
        views = (m.FreeSteps(resource="here/pool", until=START + 600),)
        broker.receive(site, m.View(query_id=message.query_id, epoch=1, views=views))
    ((_, wish),) = of_kind(broker, m.Await)
    assert isinstance(wish, m.Await)
    assert [want.units for want in wish.wants] == [32]
    assert broker.case(rid).phase == "waiting"


def test_all_of_many_resources_are_waited_for_at_once(broker: Broker) -> None:
    """A second message would take the place of the first."""
    names = [f"here/r{number}" for number in range(600)]
    infos = tuple(ResourceInfo(name=name, grain_s=1, attributes={"kind": "x"}) for name in names)
    broker.receive("here", m.Hello(site="here", epoch=1, resources=infos))
    broker.ask("{kind=x}", patience="taken")
    show(broker, {"here": (), "there": ()})
    ((to, wish),) = of_kind(broker, m.Await)
    assert isinstance(wish, m.Await)
    assert (to, len(wish.wants)) == ("here", 600)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(wish), type=m.Await) == wish


def test_who_is_new_on_a_list_looks_once_more_when_all_lists_have_answered(broker: Broker) -> None:
    rid = broker.ask(BOTH, patience="taken")
    show(broker, {"here": ALL_DAY, "there": ()})
    broker.sent()
    broker.receive("here", awaited(rid, "here", how="fresh"))
    assert not of_kind(broker, m.Query)
    broker.receive("there", awaited(rid, "there", how="fresh"))
    assert len(show(broker, {"here": ALL_DAY, "there": ()})) == 2
    for site in SITES:
        broker.receive(site, awaited(rid, site))
    assert not of_kind(broker, m.Query)


def test_what_is_offered_is_looked_at_and_asked_for(broker: Broker) -> None:
    rid = listed(broker)
    broker.receive("there", awaited(rid, "there", how="offered"))
    show(broker, {"here": ALL_DAY, "there": ((60, 120),)})
    sent = visits(broker)
    assert {want.start for visit in sent for want in visit.wants} == {START + 60}
    broker.visited(rid)
    assert broker.answers[1].state == "reserved"
    assert broker.row(rid).waiting is None


def test_what_is_offered_while_it_looks_is_looked_at_next(broker: Broker) -> None:
    rid = listed(broker)
    broker.receive("there", awaited(rid, "there", how="offered"))
    queries = broker.sent()
    broker.receive("here", awaited(rid, "here", how="offered"))
    for site, message in queries:
        if isinstance(message, m.Query):
            views = tuple(m.FreeSteps(resource=w.resource, until=w.end) for w in message.wants)
            broker.receive(site, m.View(query_id=message.query_id, epoch=1, views=views))
    assert len(of_kind(broker, m.Query)) == 2
    assert broker.case(rid).phase == "looking"


def test_what_is_offered_before_a_second_look_is_not_forgotten_over_it(broker: Broker) -> None:
    rid = listed(broker)
    broker.receive("there", awaited(rid, "there", how="offered"))
    queries = broker.sent()
    broker.receive("here", awaited(rid, "here", how="offered"))
    broker.sends = [Send(to, message) for to, message in queries]
    show(broker, {"here": (), "there": ()}, held=True)
    queried = show(broker, {"here": (), "there": ()})
    assert {query.counting for query in queried} == {"locked"}
    assert [query.counting for query in show(broker, {})] == ["all", "all"]


def test_an_offer_that_helps_nothing_is_declined_by_waiting_on(broker: Broker) -> None:
    rid = listed(broker)
    broker.receive("there", awaited(rid, "there", how="offered"))
    show(broker, {"here": (), "there": ALL_DAY})
    assert [to for to, _ in of_kind(broker, m.Await)] == ["there"]
    assert broker.case(rid).phase == "waiting"


def test_an_offer_is_looked_into_though_what_it_names_is_only_the_last_piece_of_what_came_free(
    broker: Broker,
) -> None:
    """What came free before was too little by itself, and was not offered."""
    rid = listed(broker)
    piece = m.Freed(resource="there/one", start=START + 20, end=START + 30)
    broker.receive("there", m.Awaited(rid=rid, att=1, offered=(piece,), news=next(NEWS)))
    assert broker.case(rid).phase == "looking"


def test_who_waits_says_who_pays_and_hears_once_of_room_that_is_too_dear(broker: Broker) -> None:
    rid = broker.ask(BOTH, patience="taken")
    show(broker, {"here": ALL_DAY, "there": ()})
    assert {each.pays for _, each in of_kind(broker, m.Await)} == {Pays()}
    for site in SITES:
        broker.receive(site, awaited(rid, site))
    dear = Refusal(
        where="there/one", code=RefusalCode.PRICE, detail="it costs 75.00, you allow 36.00"
    )
    for _ in range(2):
        broker.receive("there", m.Awaited(rid=rid, att=1, dear=dear))
    assert broker.case(rid).phase == "waiting"
    assert broker.events.count("passed-over") == 1
    assert dear in broker.case(rid).tries.refusals


def test_the_place_is_asked_for_again_and_how_many_are_ahead_is_shown(broker: Broker) -> None:
    rid = listed(broker)
    broker.advance(RESEND_EVERY_MS_MAX * 3)
    assert {kind for _, kind in broker.kinds()} == {"Await"}
    broker.receive("here", awaited(rid, "here", ahead=2))
    broker.receive("there", awaited(rid, "there", ahead=5))
    waiting = broker.coordinator.negotiation.waiting_of(rid, broker.now)
    assert waiting is not None
    assert (waiting.ahead, waiting.listed) == (5, True)


def seen_by_lists(broker: Broker) -> dict[str, int]:
    """What was last said to each list of what has been looked into."""
    return {to: wish.seen for to, wish in of_kind(broker, m.Await) if isinstance(wish, m.Await)}


def answers_with(rid: str, site: str, news: int, *, fresh: bool = True) -> m.Awaited:
    return m.Awaited(rid=rid, att=1, fresh=fresh, news=news)


def test_what_a_list_has_told_in_vain_is_looked_into_when_the_list_answers_again() -> None:
    broker = Broker()
    rid = listed(broker)
    broker.receive("there", answers_with(rid, "there", 1_000))
    show(broker, {"here": ALL_DAY, "there": ((60, 120),)})
    assert {want.start for visit in visits(broker) for want in visit.wants} == {START + 60}


def test_what_was_looked_into_is_said_to_the_list_and_not_looked_into_again(broker: Broker) -> None:
    rid = listed(broker)
    broker.receive("there", answers_with(rid, "there", 1_000))
    show(broker, {"here": ALL_DAY, "there": ()})
    broker.sent()
    broker.advance(RESEND_EVERY_MS_MAX)
    assert seen_by_lists(broker)["there"] == 1_000
    broker.receive("there", answers_with(rid, "there", 1_000))
    assert not of_kind(broker, m.Query)


def test_what_a_list_tells_while_the_sites_are_asked_is_not_taken_for_looked_into() -> None:
    broker = Broker()
    rid = listed(broker)
    broker.receive("there", answers_with(rid, "there", 1_000))
    queries = broker.sent()
    broker.receive("there", answers_with(rid, "there", 1_001))
    broker.sends = [Send(to, message) for to, message in queries]
    show(broker, {"here": ALL_DAY, "there": ()})
    assert broker.case(rid).phase == "looking"


def test_a_site_that_did_not_answer_the_look_has_to_tell_again(broker: Broker) -> None:
    rid = listed(broker)
    broker.receive("there", answers_with(rid, "there", 1_000))
    queries = broker.sent()
    broker.sends = [Send(to, message) for to, message in queries if to == "here"]
    show(broker, {"here": ALL_DAY})
    broker.advance(LOOK_MS_MAX)
    broker.sent()
    broker.advance(RESEND_EVERY_MS_MAX)
    assert seen_by_lists(broker)["there"] == 0
    broker.receive("there", answers_with(rid, "there", 1_000))
    assert len(of_kind(broker, m.Query)) == 2


@pytest.mark.parametrize("when", ["waiting", "looking"])
def test_a_site_that_could_not_be_asked_is_looked_at_when_it_comes_up(when: str) -> None:
    broker = Broker()
    for site in SITES:
        info = ResourceInfo(name=f"{site}/one", grain_s=1, attributes={"kind": "x"})
        broker.receive(site, m.Hello(site=site, epoch=1, resources=(info,)))
    broker.coordinator.site_lost("there", "gone")
    rid = broker.ask("{kind=x}", patience="taken")
    if when == "waiting":
        show(broker, {"here": ()})
    assert broker.case(rid).phase == when
    queries = broker.sent()
    broker.receive("there", m.Hello(site="there", epoch=1, resources=(info,)))
    if when == "looking":
        broker.sends = [Send(to, message) for to, message in queries]
        show(broker, {"here": ()})
    show(broker, {"here": (), "there": ALL_DAY})
    assert [want.resource for visit in visits(broker) for want in visit.wants] == ["there/one"]


def test_a_site_that_was_gone_when_its_slot_was_to_be_asked_for_is_looked_at_when_it_is_back(
    broker: Broker,
) -> None:
    rid = broker.ask(BOTH, patience="taken")
    queries = broker.sent()
    for site in SITES:
        broker.sends = [Send(to, message) for to, message in queries if to == site]
        show(broker, {site: ALL_DAY})
        broker.coordinator.site_lost("here", "gone")
    assert broker.case(rid).phase == "waiting"
    broker.sent()
    broker.receive("here", hello("here"))
    show(broker, dict.fromkeys(SITES, ALL_DAY))
    assert sorted(visit.wants[0].resource for visit in visits(broker)) == ["here/one", "there/one"]


def waits_for_an_hour(broker: Broker) -> str:
    """On lists, until an hour from the true time."""
    request = parse_request(
        BOTH, duration="60s", not_before=START, not_after=START + 600, now_s=T0, zone="UTC"
    )
    spec = Spec(request, BOTH, patience="taken", give_up_at=T0 + 3_600)
    user = Principal("ann")
    rid = broker.coordinator.calls.submit(user, "key-of-it-all", "digest", spec, 1, broker.now)
    broker.settle()
    show(broker, {"here": ALL_DAY, "there": ()})
    return rid


def test_it_waits_for_as_long_as_its_user_said_and_is_told_what_was_taken(broker: Broker) -> None:
    rid = waits_for_an_hour(broker)
    broker.advance(3_598_000)
    assert broker.case(rid).phase == "waiting"
    broker.sent()
    broker.advance(1_000)
    assert broker.answers[1].state == "failed"
    problem = broker.answers[1].problem
    assert problem is not None
    assert problem.code == "no-common-time"
    assert {refusal.where for refusal in problem.refusals} == {"there/one"}
    assert {("here", "Release"), ("there", "Release")} <= set(broker.kinds())


YEAR_MS = 365 * 86_400_000


def test_a_wait_that_began_while_the_clock_was_behind_ends_when_its_user_said() -> None:
    broker = Broker()
    broker.set_back_ms = YEAR_MS
    rid = waits_for_an_hour(broker)
    broker.set_back_ms = 0
    broker.advance(3_590_000)
    assert broker.case(rid).phase == "waiting"
    broker.advance(CLOCK_BELIEVED_MS + 30_000)
    assert broker.answers[1].state == "failed"


def test_a_clock_that_is_ahead_for_a_minute_ends_nobodys_wait(broker: Broker) -> None:
    rid = waits_for_an_hour(broker)
    for _ in range(3):
        broker.set_back_ms = -YEAR_MS
        broker.advance(70_000)
        broker.set_back_ms = 0
        broker.advance(70_000)
    assert broker.case(rid).phase == "waiting"


def test_who_does_not_want_to_wait_any_more_leaves_the_lists(broker: Broker) -> None:
    rid = listed(broker)
    broker.release(rid, 2)
    assert broker.answers[2].state == "cancelled"
    assert broker.answers[1].state == "cancelled"
    assert {("here", "Release"), ("there", "Release")} <= set(broker.kinds())


def test_a_list_that_is_full_is_the_end(broker: Broker) -> None:
    rid = broker.ask(BOTH, patience="taken")
    show(broker, {"here": ALL_DAY, "there": ()})
    broker.receive("there", locked(rid, LIMIT, att=1))
    assert broker.answers[1].state == "failed"
    assert codes(broker) == {RefusalCode.LIMIT}
    assert ("here", "Release") in broker.kinds()


def test_a_reservation_leaves_the_lists_of_sites_that_it_did_not_choose(broker: Broker) -> None:
    for site in SITES:
        info = ResourceInfo(name=f"{site}/one", grain_s=1, attributes={"kind": "x"})
        broker.receive(site, m.Hello(site=site, epoch=1, resources=(info,)))
    rid = broker.ask("{kind=x}", patience="taken")
    show(broker, {"here": (), "there": ()})
    broker.receive("there", awaited(rid, "there", how="offered"))
    show(broker, {"here": (), "there": ALL_DAY})
    broker.sent()
    broker.receive(
        "there", m.Visited(rid=rid, att=1, epoch=1, vote="yes", held=(m.HeldSlot(0, 21),))
    )
    assert broker.answers[1].state == "reserved"
    assert set(broker.kinds()) == {("there", "Decide"), ("here", "Release")}


def test_a_site_that_is_lost_is_waited_for_too_and_asked_when_it_is_back(broker: Broker) -> None:
    rid = listed(broker)
    broker.coordinator.site_lost("there", "gone")
    broker.receive("here", awaited(rid, "here", how="offered"))
    assert broker.case(rid).phase == "waiting"
    broker.sent()
    broker.receive("there", hello("there", epoch=2))
    assert [to for to, _ in of_kind(broker, m.Await)] == ["there"]
    broker.receive("there", awaited(rid, "there", how="fresh"))
    show(broker, {"here": ALL_DAY, "there": ALL_DAY})
    assert len(visits(broker)) == 2


def test_what_was_offered_while_a_site_was_away_is_looked_at_when_it_is_back() -> None:
    broker = Broker()
    rid = listed(broker)
    broker.coordinator.site_lost("here", "gone")
    broker.receive("there", awaited(rid, "there", how="offered"))
    broker.receive("here", hello("here"))
    broker.sent()
    broker.receive("here", awaited(rid, "here"))
    assert len(of_kind(broker, m.Query)) == 2


def test_exactly_these_slots_are_waited_for_when_they_are_taken(broker: Broker) -> None:
    rid = broker.submit(patience="taken")
    broker.receive("there", no(rid, TAKEN))
    show(broker, {"here": ((0, 60),), "there": ()})
    sent = of_kind(broker, m.Await)
    assert tuple(want for _, wish in sent for want in getattr(wish, "wants", ())) == WANTS
    broker.receive("there", awaited(rid, "there", att=2, how="offered"))
    show(broker, {"here": ((0, 60),), "there": ((0, 60),)})
    assert {(visit.att, visit.mode) for visit in visits(broker)} == {(2, "hold")}


@pytest.mark.parametrize("refusal", [TAKEN, HELD])
def test_a_slot_that_is_taken_again_in_the_last_moment_is_waited_for_again(
    broker: Broker,
    refusal: Refusal,
) -> None:
    rid = listed(broker)
    broker.receive("there", awaited(rid, "there", how="offered"))
    show(broker, {"here": ((0, 60),), "there": ((0, 60),)})
    broker.receive("there", no(rid, refusal))
    show(broker, {"here": ((0, 60),), "there": ()})
    show(broker, {"here": ((0, 60),), "there": ()})
    assert broker.case(rid).phase == "waiting"
    assert broker.case(rid).record.att == 2


def test_a_take_over_goes_on_standing_on_the_lists() -> None:
    first = Broker()
    rid = listed(first)
    since = first.row(rid).waiting
    second = Broker(first.register, name="b", ms=50_000)
    second.adopt(rid)
    show(second, {"here": ALL_DAY, "there": ()})
    sent = of_kind(second, m.Await)
    assert [(to, getattr(wish, "att", 0)) for to, wish in sent] == [("here", 2), ("there", 2)]
    assert second.row(rid).waiting == since


# Several requests of one broker


def test_two_requests_of_one_broker_do_not_ask_for_the_same_slot(broker: Broker) -> None:
    first, second = broker.ask(BOTH), broker.ask(BOTH, 2, key="another-key")
    free = {"here": ((0, 200),), "there": ((0, 200),)}
    show(broker, free)
    starts = {
        (message.rid, want.start)
        for _, message in broker.sent()
        if isinstance(message, m.Visit)
        for want in message.wants
    }
    assert starts == {(first, START), (second, START + 60)}


def test_what_another_request_asks_for_is_a_reason_to_wait(broker: Broker) -> None:
    first, second = broker.ask(BOTH), broker.ask(BOTH, 2, key="another-key")
    free = {"here": ((0, 60),), "there": ((0, 60),)}
    queries = broker.sent()
    for site, message in queries:
        if isinstance(message, m.Query):
            views = tuple(
                m.FreeSteps(resource=w.resource, until=w.end, steps=((START, START + 60, 1),))
                for w in message.wants
            )
            broker.receive(site, m.View(query_id=message.query_id, epoch=1, views=views))
    assert broker.case(first).phase == "voting"
    assert broker.case(second).look.counting == "locked"
    show(broker, free)
    assert {(visit.rid, visit.queue) for visit in visits(broker)} == {(second, True)}


@pytest.mark.parametrize("refusal", [TAKEN, HELD])
def test_who_gave_way_on_the_lists_to_another_request_looks_again_when_that_is_refused(
    broker: Broker,
    refusal: Refusal,
) -> None:
    """Nothing comes free then, and no list has anything to tell."""
    first = broker.ask(BOTH, patience="taken")
    free = {"here": ((0, 60),), "there": ((0, 60),)}
    show(broker, free)
    second = broker.ask(BOTH, 2, key="another-key", patience="taken")
    show(broker, free)
    show(broker, free)
    assert (broker.case(first).phase, broker.case(second).phase) == ("voting", "waiting")
    for site in SITES:
        broker.receive(site, awaited(second, site))
    broker.sent()
    broker.receive("here", no(first, refusal))
    broker.advance(1)
    assert broker.case(second).phase == "looking"


def test_what_a_site_has_answered_it_shows_by_itself(broker: Broker) -> None:
    first = broker.ask(BOTH, hold_s=600)
    show(broker, {"here": ALL_DAY, "there": ALL_DAY})
    broker.receive("here", yes(first, 11))
    for name, start in (("here/one", START), ("there/one", START + 60)):
        rid = broker.ask(name, key=f"the-key-of-{name}")
        show(broker, {"here": ALL_DAY, "there": ALL_DAY})
        asked = [visit for visit in visits(broker) if visit.rid == rid]
        assert {want.start for visit in asked for want in visit.wants} == {start}


def test_who_has_lost_races_spreads_over_several_starts() -> None:
    starts = set()
    for number in range(12):
        broker = Broker()
        broker.numbers = number * 10
        rid = broker.ask(BOTH)
        show(broker, {"here": ALL_DAY, "there": ALL_DAY})
        broker.receive("there", no(rid))
        show(broker, {"here": ALL_DAY, "there": ALL_DAY})
        starts |= {want.start for visit in visits(broker) for want in visit.wants}
    assert len(starts) > 1
    assert START not in starts

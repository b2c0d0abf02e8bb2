"""A site that is away or silent has not refused: a booking with patience waits for it, and says what for."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tests.protocol_broker import SITES, START, Broker, hello
from tests.protocol_support import T0

from kalends.broker.coordination.search.slot_search import LOOK_MS_MAX
from kalends.broker.coordination.timeouts import RESEND_EVERY_MS_MAX
from kalends.broker.coordination.transaction_table import REQUEST_MS_MAX
from kalends.broker.coordination.voting.prepare_phase import VOTE_MS_MAX
from kalends.contract import messages as m
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.resources import ResourceInfo

BOTH = "here/one + there/one"
EITHER = "there/one | here/one"
HELD = Refusal(where="there/one", code=RefusalCode.HELD, detail="held by another")


def lose(broker: Broker, *sites: str) -> None:
    for site in sites:
        broker.coordinator.site_lost(site, "the connection was closed")
    broker.settle()


def answer(
    broker: Broker, *, but: Collection[str] = (), free: Mapping[str, bool] = {}
) -> list[tuple[str, m.Message]]:
    """All sites answer until nothing is asked, except those in `but`; all is `free` if not said otherwise."""
    heard = []
    while sent := [(to, each) for to, each in broker.sent() if to not in but]:
        heard += sent
        for site, message in sent:
            if isinstance(message, m.Query):
                broker.receive(site, view(message, free=free.get(site, True)))
            elif isinstance(message, m.Visit):
                held = tuple(m.HeldSlot(i, 10 + i) for i in range(len(message.wants)))
                vote = "yes" if message.mode == "vote" else "none"
                visited = m.Visited(
                    rid=message.rid, att=message.att, epoch=1, vote=vote, held=held
                )  # fmt: skip
                broker.receive(site, visited)
            elif isinstance(message, m.Prepare):
                voted = m.Voted(rid=message.rid, att=message.att, epoch=1, vote="yes")
                broker.receive(site, voted)
    return heard


def pass_time(broker: Broker, ms: int, *, but: Collection[str] = ()) -> None:
    for _ in range(0, ms, 500):
        broker.advance(500)
        answer(broker, but=but)


def view(query: m.Query, *, free: bool) -> m.View:
    views = tuple(
        m.FreeSteps(
            resource=want.resource,
            until=want.end,
            steps=((want.start, want.end, 1),) if free else (),
        )
        for want in query.wants
    )
    return m.View(query_id=query.query_id, epoch=1, views=views)


def awaited(broker: Broker, rid: str) -> tuple[str, ...]:
    """What its user is told that it waits for; what is written down for others says the same."""
    waiting = broker.coordinator.negotiation.waiting_of(rid, broker.now)
    assert waiting is not None
    assert broker.row(rid).waiting == waiting
    return waiting.awaited


def problem(broker: Broker, ticket: int = 1) -> tuple[str, list[str]]:
    found = broker.answers[ticket].problem
    assert found is not None
    return found.code, [refusal.where for refusal in found.refusals]


# Away


def test_exactly_these_slots_are_asked_for_once_a_site_that_was_away_is_back() -> None:
    broker = Broker()
    lose(broker, "there")
    rid = broker.submit()
    assert broker.sent() == [], "nothing is held for a site that is away"
    assert awaited(broker, rid) == ("there",)
    assert not broker.row(rid).waiting.listed  # type: ignore[union-attr] # It waits.
    broker.advance(30_000)
    assert broker.sent() == []
    broker.receive("there", hello("there"))
    visits = [each for _, each in broker.sent() if isinstance(each, m.Visit)]
    assert {(each.att, each.mode) for each in visits} == {(1, "vote")}, "as if nothing had happened"
    broker.visited(rid)
    assert broker.answers[1].state == "reserved"
    assert broker.row(rid).waiting is None


def test_what_can_be_at_any_time_is_looked_for_once_a_site_that_was_away_is_back() -> None:
    broker = Broker()
    lose(broker, "there")
    rid = broker.ask(BOTH)
    assert awaited(broker, rid) == ("there",)
    broker.receive("there", hello("there"))
    answer(broker)
    assert broker.answers[1].state == "reserved"


def test_of_two_sites_that_are_away_the_one_is_told_that_still_is(broker: Broker) -> None:
    lose(broker, *SITES)
    rid = broker.submit()
    assert awaited(broker, rid) == SITES
    broker.receive("here", hello("here"))
    assert awaited(broker, rid) == ("there",)


def test_at_the_deadline_it_ends_as_unavailable_and_says_which_site(broker: Broker) -> None:
    lose(broker, "there")
    rid = broker.submit()
    broker.advance(REQUEST_MS_MAX - 1)
    assert broker.row(rid).state == "open"
    broker.advance(1)
    assert problem(broker) == ("unavailable", ["there"])
    assert broker.row(rid).state == "closed"


def test_the_error_says_that_the_key_is_used(broker: Broker) -> None:
    lose(broker, "there")
    broker.submit(patience="none")
    found = broker.answers[1].problem
    assert found is not None
    assert "new key" in found.remedy


def test_an_alternative_that_answers_is_taken_at_once(broker: Broker) -> None:
    lose(broker, "there")
    broker.ask(EITHER)
    answer(broker)
    assert broker.answers[1].state == "reserved"
    assert [claim.resource for claim in broker.answers[1].claims] == ["here/one"]


def test_where_the_alternative_is_taken_the_site_that_is_away_is_waited_for(broker: Broker) -> None:
    lose(broker, "there")
    rid = broker.ask(EITHER)
    answer(broker, free={"here": False})
    assert "there" in awaited(broker, rid)
    broker.receive("there", hello("there"))
    answer(broker, free={"here": False})
    assert broker.answers[1].state == "reserved"


def test_what_attributes_pick_may_be_at_a_site_that_is_away(broker: Broker) -> None:
    for site in SITES:
        info = ResourceInfo(name=f"{site}/one", grain_s=1, attributes={"kind": "x"})
        broker.receive(site, m.Hello(site=site, epoch=1, resources=(info,)))
    lose(broker, "there")
    rid = broker.ask("{kind=x}")
    answer(broker, free={"here": False})
    assert broker.row(rid).state == "open"
    broker.receive("there", m.Hello(site="there", epoch=2, resources=(info,)))
    answer(broker, free={"here": False})
    assert broker.answers[1].state == "reserved"


def test_what_is_refused_for_good_elsewhere_is_not_waited_for(broker: Broker) -> None:
    rid = broker.submit()
    no = m.Visited(
        rid=rid, att=1, epoch=1, vote="no",
        refusals=(Refusal(where="there/one", code=RefusalCode.NOT_ALLOWED, detail="no"),),
    )  # fmt: skip
    lose(broker, "here")
    broker.receive("there", no)
    assert problem(broker) == ("not-allowed", ["there/one"])


def test_a_request_that_stays_open_is_taken_over_and_goes_on_waiting() -> None:
    first = Broker()
    lose(first, "there")
    rid = first.submit()
    second = Broker(first.register, name="b", ms=5_000)
    lose(second, "there")
    second.adopt(rid)
    assert awaited(second, rid) == ("there",)
    second.receive("there", hello("there"))
    answer(second)
    assert second.row(rid).state == "commit"


def test_its_user_gives_it_up(broker: Broker) -> None:
    lose(broker, "there")
    rid = broker.submit()
    broker.release(rid, 2)
    assert broker.answers[2].state == "cancelled"


# Silent


def test_exactly_these_slots_are_asked_for_again_when_a_silent_site_speaks(broker: Broker) -> None:
    rid = broker.submit()
    answer(broker, but={"there"})
    pass_time(broker, 30_000, but={"there"})
    assert broker.row(rid).state == "open"
    assert awaited(broker, rid) == ("there",)
    pass_time(broker, LOOK_MS_MAX + RESEND_EVERY_MS_MAX)
    assert broker.answers[1].state == "reserved"


def test_nothing_is_held_elsewhere_while_a_site_is_silent(broker: Broker) -> None:
    broker.submit()
    answer(broker, but={"there"})
    broker.advance(VOTE_MS_MAX)
    answer(broker, but={"there"})
    for _ in range(4):
        broker.advance(LOOK_MS_MAX)
        kinds = {type(each) for to, each in answer(broker, but={"there"}) if to == "here"}
        assert m.Visit not in kinds


def test_a_silent_site_is_not_called_taken(broker: Broker) -> None:
    rid = broker.submit(patience="taken")
    answer(broker, but={"there"})
    broker.advance(VOTE_MS_MAX)
    answer(broker, but={"there"})
    broker.advance(LOOK_MS_MAX)
    assert broker.case(rid).phase == "waiting"
    assert awaited(broker, rid) == ("there",)


def test_a_plan_without_the_silent_site_is_tried_next(broker: Broker) -> None:
    """The site answers what is free, and then no more: as one whose disk stands still."""
    broker.ask(EITHER)
    first = [each for _, each in broker.sent()]
    for query in first:
        assert isinstance(query, m.Query)
        broker.receive(query.wants[0].resource.partition("/")[0], view(query, free=True))
    assert [to for to, each in broker.sent() if isinstance(each, m.Visit)] == ["there"]
    broker.advance(VOTE_MS_MAX)
    for site, query in broker.sent():
        if isinstance(query, m.Query):
            broker.receive(site, view(query, free=True))
    answer(broker, but={"there"})
    assert broker.answers[1].state == "reserved"
    assert [claim.resource for claim in broker.answers[1].claims] == ["here/one"]


def test_the_start_that_a_silent_site_did_not_promise_is_not_given_up(broker: Broker) -> None:
    broker.ask(BOTH)
    for site, query in broker.sent():
        assert isinstance(query, m.Query)
        broker.receive(site, view(query, free=True))
    broker.advance(VOTE_MS_MAX)
    answer(broker)
    assert broker.answers[1].state == "reserved"
    assert broker.answers[1].start == START


def test_a_site_that_comes_back_hears_first_that_the_attempt_before_is_over(broker: Broker) -> None:
    """Else it would show as taken what it still keeps for that one."""
    rid = broker.submit()
    answer(broker, but={"there"})
    broker.advance(VOTE_MS_MAX + LOOK_MS_MAX)
    answer(broker, but={"there"})
    lose(broker, "there")
    broker.advance(LOOK_MS_MAX)
    answer(broker, but={"there"})
    assert awaited(broker, rid) == ("there",)
    broker.sent()
    broker.receive("there", hello("there", epoch=2))
    to_there = [each for to, each in broker.sent() if to == "there"]
    assert isinstance(to_there[0], m.Decide)
    assert to_there[0].outcome == "abort"
    assert isinstance(to_there[1], m.Query)


def test_who_runs_out_of_time_while_a_site_is_asked_hears_which_site(broker: Broker) -> None:
    broker.ask(BOTH)
    pass_time(broker, REQUEST_MS_MAX, but={"there"})
    code, where = problem(broker)
    assert code == "unavailable"
    assert {each.partition("/")[0] for each in where} == {"there"}


# Holds


def test_a_hold_that_is_locked_waits_for_a_silent_site_and_is_not_asked_for_anew() -> None:
    broker = Broker()
    rid = broker.submit(hold_s=600)
    broker.visited(rid, vote=False)
    broker.lock(rid, 2)
    broker.receive("here", m.Voted(rid=rid, att=1, epoch=1, vote="yes"))
    broker.advance(4 * VOTE_MS_MAX)
    assert (broker.case(rid).phase, broker.row(rid).att) == ("preparing", 1)
    broker.receive("there", m.Voted(rid=rid, att=1, epoch=1, vote="yes"))
    assert broker.answers[2].state == "reserved"


def test_a_hold_whose_site_has_forgotten_it_is_held_again_once_all_sites_are_back() -> None:
    broker = Broker()
    rid = broker.submit(hold_s=600)
    broker.visited(rid, vote=False)
    lose(broker, "here")
    broker.receive("there", m.Renewed(rid=rid, att=1, epoch=2, lost=(21,)))
    broker.advance(2 * REQUEST_MS_MAX)
    assert broker.row(rid).state == "open"
    broker.receive("here", hello("here"))
    answer(broker)
    assert broker.case(rid).phase == "held"
    assert broker.row(rid).held_until_ms == (T0 + 601) * 1_000


def test_a_hold_that_runs_out_while_its_site_is_away_has_expired(broker: Broker) -> None:
    rid = broker.submit(hold_s=600)
    broker.visited(rid, vote=False)
    lose(broker, "here")
    broker.receive("there", m.Renewed(rid=rid, att=1, epoch=2, lost=(21,)))
    broker.advance(600_000)
    assert broker.events[-1] == "expired"


# What it is told to wait for


def test_who_stands_on_lists_is_told_what_is_missing_now(broker: Broker) -> None:
    """A site was down when it began, and is up; what is taken is at another one."""
    lose(broker, "there")
    rid = broker.submit(patience="taken")
    assert awaited(broker, rid) == ("there",)
    broker.receive("there", hello("there"))
    answer(broker, free={"here": False})
    assert broker.case(rid).phase == "waiting"
    assert awaited(broker, rid) == ("here/one",)
    assert [each.detail for each in broker.row(rid).trail] == [
        "waits for there", "waits for here/one",
    ]  # fmt: skip


def test_who_stands_on_lists_is_told_of_a_site_that_is_lost_when_the_rest_is_free() -> None:
    broker = Broker()
    rid = broker.ask(BOTH, patience="taken")
    answer(broker, free={"here": False})
    assert awaited(broker, rid) == ("here/one",)
    lose(broker, "there")
    freed = m.Freed("here/one", START, START + 600)
    broker.receive("here", m.Awaited(rid=rid, att=1, offered=(freed,), news=7))
    answer(broker, but={"there"})
    assert awaited(broker, rid) == ("there",)


def test_the_reason_is_written_once_as_long_as_it_stays(broker: Broker) -> None:
    rid = broker.ask(BOTH, patience="taken")
    answer(broker, free={"here": False})
    since = broker.row(rid).waiting
    broker.advance(1_000)
    broker.receive("here", m.Awaited(rid=rid, att=1, fresh=True, news=7))
    broker.receive("there", m.Awaited(rid=rid, att=1))
    answer(broker, free={"here": False})
    assert broker.row(rid).waiting == since
    assert len(broker.row(rid).trail) == 1


def test_what_came_in_line_is_not_waited_for_any_more(broker: Broker) -> None:
    rid = broker.submit()
    broker.receive("there", m.Visited(rid=rid, att=1, epoch=1, vote="no", refusals=(HELD,)))
    here = Refusal(where="here/one", code=RefusalCode.HELD, detail="held by another")
    for site, refusal in (("there", HELD), ("here", here)):
        broker.receive(
            site,
            m.Visited(rid=rid, att=2, epoch=1, vote="none", refusals=(refusal,), ahead=1),
        )
    broker.receive("there", m.Grant(rid=rid, att=2, epoch=1, held=(m.HeldSlot(0, 21),)))
    assert broker.coordinator.negotiation.waiting_of(rid, broker.now).awaited == ("here/one",)  # type: ignore[union-attr] # It waits.
    assert broker.row(rid).waiting.awaited == ("here/one",)  # type: ignore[union-attr] # So others show.


def test_a_look_of_who_waits_does_not_hide_what_it_waits_for(broker: Broker) -> None:
    rid = broker.ask(BOTH, patience="taken")
    answer(broker, free={"here": False})
    freed = m.Freed("here/one", START, START + 600)
    broker.receive("here", m.Awaited(rid=rid, att=1, offered=(freed,), news=7))
    assert broker.case(rid).phase == "looking"
    assert awaited(broker, rid) == ("here/one",)


def test_the_line_of_an_attempt_that_is_over_is_not_shown(broker: Broker) -> None:
    rid = broker.ask(BOTH)
    answer(broker, but={"there"}, free={})
    broker.advance(1)
    case = broker.case(rid)
    assert case.phase == "looking"
    assert broker.coordinator.negotiation.waiting_of(rid, broker.now) is None

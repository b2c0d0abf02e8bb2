"""A site whose disk was put back: recognised by what others remember, and closed until it is compared."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.protocol_support import (
    BOB,
    COORDS,
    HERE,
    KEY,
    PARTS,
    REGISTER,
    GuardedSite,
    Site,
    chosen,
    lock,
    peer_ask,
    prepare,
    rid,
    secret_of,
    visit,
    vote,
    want,
)

from kalends.backends.names import name_of
from kalends.broker.coordination.record.decision_record import Record, Spec
from kalends.broker.coordination.trust import warrants
from kalends.broker.reconciliation.comparison import Ours, compare
from kalends.calendars import Limit
from kalends.calendars.rules.usage_limits import UsageShare
from kalends.contract import messages as m
from kalends.contract.calls import Event
from kalends.core.principals import Principal
from kalends.core.requests import Alternative, Request, Term
from kalends.resource_servers.participation.memory.recovery import RECOVERY_MS_MIN
from kalends.resource_servers.participation.provision.provisions import Provisions

OURS = REGISTER
THEIRS = "2" * 32
ONE = want("one", 0, 60)
TWO = want("two", 0, 60)
SPEC = Spec(
    Request(
        alternatives=(Alternative(terms=(Term(resource=TWO.resource),)),),
        duration_s=TWO.end - TWO.start, not_before=TWO.start,
    )
)  # fmt: skip


def memory(site: Site, register: str = OURS) -> m.Mark:
    """What a broker remembers that has just heard from the site."""
    return site.participant.past.mark(register, site.position)


def welcome(site: Site, *remembered: m.Mark, register: str = OURS, source: str = "broker") -> bool:
    """A broker comes; whether the site has found that it has forgotten something."""
    said = m.Welcome(register=register, secret=KEY, remembered=remembered)
    known = site.answer(said, source)
    assert isinstance(known, m.Known)
    return known.behind


def relock(number: int, *wants: m.Want, **changes: Any) -> m.Relock:
    fields: dict[str, Any] = {
        "rid": rid(number), "att": 1, "stamp": number, "principal": Principal("ann"),
        "secret": secret_of(rid(number)), "wants": wants, "chosen": chosen(7),
        "parts": PARTS, "need": len(PARTS), "coords": COORDS, **changes,
    }  # fmt: skip
    return m.Relock(**fields)


def put_off(site: Site, visit: m.Visit) -> bool:
    return site.answers(visit) == []


@pytest.fixture
def site() -> Site:
    site = Site()
    welcome(site)
    lock(site, 1, ONE)
    return site


def test_a_site_that_starts_again_has_forgotten_nothing(site: Site) -> None:
    for _ in range(3):
        before = memory(site)
        site.restart()
        assert not welcome(site, before)
        assert not welcome(site, before, memory(site))
    assert site.states(1) == ["locked"]


@pytest.mark.parametrize("lives", [0, 1, 5])
def test_an_image_is_recognised_in_whichever_life_it_was_made_and_however_often_it_starts(
    site: Site, lives: int
) -> None:
    image = site.image()
    for _ in range(lives):
        site.restart()
    lock(site, 2, TWO)
    forgotten = memory(site)
    site.put_back(image)
    for _ in range(lives + 1):
        site.restart()  # The epoch is as high as it was, or higher: it tells nothing.
    assert welcome(site, forgotten)


def test_what_a_forgotten_life_has_made_in_a_batch_system_is_the_sites_own() -> None:
    site = GuardedSite()
    names = site.participant.wing(Provisions).mirror.foreign.names
    theirs = name_of(HERE, "abcdef0123", 17)
    welcome(site, m.Mark("abcdef0123" * 3, 7, "no proof"))
    assert names.of_another(theirs), "any broker could say so"
    past = site.participant.past
    welcome(site, past._replace(life="abcdef0123" * 3).mark(OURS, 7))
    assert theirs in names


def test_an_empty_store_in_the_place_of_the_old_is_recognised(site: Site) -> None:
    assert welcome(Site(), memory(site))


def test_a_promise_stands_where_what_takes_its_place_is_refused() -> None:
    """Found by fuzzing: its room was given up, and the promise stayed."""
    site = Site()
    site.receive(vote(1, ONE))
    senseless = m.Want(ONE.resource, ONE.end, ONE.start, 1)
    unknown = m.Want("here/none", ONE.start, ONE.end, 1)
    for wants in ((senseless,), (unknown,)):
        answer = site.answer(relock(1, *wants, att=2))
        assert isinstance(answer, m.Relocked)
        assert answer.blockers
        assert site.states(1) == ["prepared"]


def test_who_votes_stands_in_no_line() -> None:
    """Found by fuzzing: what it was granted counted as held, and was promised."""
    site = Site()
    site.receive(visit(1, ONE))
    answer = site.answer(replace(vote(2, ONE), queue=True))
    assert isinstance(answer, m.Visited)
    assert (answer.vote, answer.ahead) == ("no", -1)


def test_no_broker_can_make_a_site_believe_that_it_has_forgotten_something(site: Site) -> None:
    true = memory(site)
    for said in (
        replace(true, position=true.position + 1),
        replace(true, life="f" * 32),
        replace(true, position=true.position + 1, proof=""),
        site.participant.past.mark(THEIRS, site.position + 1),
    ):
        assert not welcome(site, said)
        assert not site.participant.recovery.recovering


def test_who_remembers_nothing_beyond_the_image_finds_nothing(site: Site) -> None:
    before, image = memory(site), site.image()
    site.restart()
    lock(site, 2, TWO)
    site.put_back(image)
    assert not welcome(site, before, register=THEIRS, source="theirs")


def put_back(site: Site) -> None:
    """The site forgets that request 2 was locked, and is told so."""
    image = site.image()
    lock(site, 2, TWO)
    forgotten = memory(site)
    site.put_back(image)
    assert welcome(site, forgotten)


def test_until_it_is_compared_nothing_new_is_taken_and_a_restart_changes_nothing(
    site: Site,
) -> None:
    put_back(site)
    for _ in range(2):
        assert put_off(site, vote(3, TWO))
        assert put_off(site, visit(4, TWO))
        site.advance(3_600_000)
        site.restart()
        assert welcome(site)
    assert site.states(1) == ["locked"]


def test_holds_end_and_are_not_promised_any_more_when_it_is_recognised(site: Site) -> None:
    image = site.image()
    lock(site, 2, TWO)
    forgotten = memory(site)
    site.put_back(image)
    welcome(site, register=THEIRS, source="theirs")
    site.receive(visit(3, TWO), "theirs")
    ids = site.ids(3)
    assert ids
    assert welcome(site, forgotten)
    voted = site.answer(prepare(3, *ids), "theirs")
    assert isinstance(voted, m.Voted)
    assert voted.vote != "yes"


def test_it_says_to_no_peer_that_it_never_promised(site: Site) -> None:
    put_back(site)
    assert site.answers(peer_ask(2)) == []


def test_before_the_register_has_come_it_says_to_no_peer_that_it_never_promised(
    site: Site,
) -> None:
    site.restart(come_back=False)
    asked = peer_ask(9)
    assert site.answers(asked) == []
    assert not welcome(site)
    (never,) = site.answers(asked)
    assert isinstance(never, m.PeerSays)
    assert never.says == "never"


def test_what_was_forgotten_is_locked_again_and_the_site_goes_on(site: Site) -> None:
    put_back(site)
    for _ in range(2):
        assert site.answer(relock(2, TWO)) == m.Relocked(rid=rid(2))
    assert site.states(2) == ["locked"]
    site.receive(m.Settled())
    site.advance(10_000)
    assert not welcome(site)
    site.restart()
    assert site.states(2) == ["locked"]
    busy = site.answer(vote(3, TWO))
    assert isinstance(busy, m.Visited)
    assert {each.code for each in busy.refusals} == {"busy"}
    free = site.answer(vote(4, want("two", 60, 120)))
    assert isinstance(free, m.Visited)
    assert free.vote == "yes"


@pytest.mark.parametrize("changes", [0, 1])
def test_what_was_locked_again_can_be_proved_to_a_register_that_forgets_it_later(
    site: Site, changes: int
) -> None:
    """First the site is put back, then the register: the one reminds the other of what it was told."""
    put_back(site)
    committed = Record(
        rid=rid(2), user="ann", key="key", digest="", stamp=5, owner="", created_ms=1,
        reservation=rid(9) if changes else rid(2), changes=changes,
        replaces=rid(8) if changes else "", state="commit", done=True, chosen=chosen(7),
        wants=(TWO,), spec=SPEC,
    )  # fmt: skip
    (relock,) = compare(HERE, m.Compared(), [committed], Ours("", {}, ()), 1).messages
    assert site.answer(relock) == m.Relocked(rid=rid(2))
    page = site.answer(m.Compare())
    assert isinstance(page, m.Compared)
    (kept,) = [each for each in page.kept if each.rid == rid(2)]
    assert warrants.proves_commit("", HERE, kept) == (committed.reservation, changes, "key")


def test_what_was_used_and_then_forgotten_counts_in_its_week_again() -> None:
    week = Limit("week", "everyone", share=UsageShare(unit_s=100))
    site = Site(owners_limits=(week,))
    image = site.image()
    lock(site, 2, TWO)
    site.advance((TWO.start + 30) * 1_000 - site.now.wall_ms)
    site.receive(m.Cancel(rid=rid(2), att=1))
    forgotten = memory(site)
    site.put_back(image)
    assert welcome(site, forgotten)
    cancelled = Event(number=1, at_ms=site.now.wall_ms, id=rid(2), kind="cancelled")
    row = Record(
        rid=rid(2), user="ann", key="key", digest="", stamp=2, owner="", created_ms=1, spec=SPEC,
        reservation=rid(2), state="cancelled", done=True, chosen=chosen(7), wants=(TWO,), trail=(cancelled,),
    )  # fmt: skip
    for answer in (m.Relocked(rid=rid(2)), m.Done(rid=rid(2), att=1, of="cancel")):
        page = site.answer(m.Compare())
        assert isinstance(page, m.Compared)
        (message,) = compare(HERE, page, [row], Ours("", {}, ()), 1).messages
        assert site.answer(message) == answer
    site.receive(m.Settled())
    site.advance(10_000)
    votes = [site.answer(vote(n, want("two", 120, 190 + more))) for n, more in ((3, 1), (4, 0))]
    assert [each.vote for each in votes] == ["no", "yes"]  # type: ignore[attr-defined]  # Visited


@pytest.mark.parametrize("taken", [False, True])
def test_what_was_used_and_then_replaced_counts_in_its_week_again(taken: bool) -> None:
    """Also where the slot, free again, was given to another user from the grain that ran then."""
    week = Limit("week", "user:ann", share=UsageShare(unit_s=150))
    site = Site(owners_limits=(week,))
    image = site.image()
    lock(site, 2, TWO)
    site.advance((TWO.start + 30) * 1_000 - site.now.wall_ms)
    later = want("two", 200, 260)
    forgotten = memory(site)
    site.put_back(image)
    assert welcome(site, forgotten)
    first = Record(
        rid=rid(2), user="ann", key="key", digest="", stamp=2, owner="", created_ms=1, spec=SPEC,
        reservation=rid(2), state="replaced", done=True, chosen=chosen(7), wants=(TWO,),
    )  # fmt: skip
    change = replace(
        first, rid=rid(5), state="commit", replaces=rid(2), changes=1, wants=(later,),
        trail=(Event(number=1, at_ms=site.now.wall_ms, id=rid(2), kind="changed"),),
    )  # fmt: skip
    if taken:
        assert site.answer(relock(1, want("two", 20, 60), principal=BOB)) == m.Relocked(rid=rid(1))
    for _ in range(4):
        page = site.answer(m.Compare())
        assert isinstance(page, m.Compared)
        page = replace(page, kept=tuple(each for each in page.kept if each.rid != rid(1)))
        found = compare(HERE, page, [first, change], Ours("", {}, ()), 1, {rid(2): change})
        for message in found.messages:
            answer = site.answer(message)
            assert not isinstance(answer, m.Relocked) or not answer.blockers
    assert not found.messages
    site.receive(m.Settled())
    site.advance(10_000)
    votes = [site.answer(vote(n, want("two", 300, 360 + more))) for n, more in ((3, 1), (4, 0))]
    assert [each.vote for each in votes] == ["no", "yes"]  # type: ignore[attr-defined]  # Visited


def test_where_there_is_no_room_any_more_it_says_who_has_it(site: Site) -> None:
    put_back(site)
    relocked = site.answer(relock(2, ONE))
    assert relocked == m.Relocked(rid=rid(2), blockers=(rid(1),))
    assert site.states(2) == []
    assert site.states(1) == ["locked"]


def test_who_does_not_know_the_secret_locks_nothing_again(site: Site) -> None:
    put_back(site)
    effects = site.receive(relock(1, ONE, secret="z" * 22))
    assert not effects.sends
    assert effects.alarms


def test_every_register_that_has_something_here_compares_before_it_goes_on(site: Site) -> None:
    welcome(site, register=THEIRS, source="theirs")
    site.receive(vote(5, want("pool", 0, 60)), "theirs")
    put_back(site)
    site.receive(m.Settled())
    site.advance(60_000)
    assert put_off(site, vote(3, TWO))
    assert site.call(lambda participant, _: participant.recovery.unsettled()) == {THEIRS: 1}
    assert welcome(site, register=THEIRS, source="theirs")
    site.receive(m.Settled(), "theirs")
    assert not put_off(site, vote(6, want("two", 60, 120)))


def test_the_operator_is_told_when_it_begins_and_when_it_is_over(site: Site) -> None:
    image = site.image()
    lock(site, 2, TWO)
    forgotten = memory(site)
    site.put_back(image)
    said = m.Welcome(register=OURS, secret=KEY, remembered=(forgotten,))
    [(about, problem)] = site.receive(said).reports
    assert "older backup" in problem
    assert not site.advance(RECOVERY_MS_MIN).reports
    assert site.receive(m.Settled()).reports == [(about, "")]


def test_a_register_that_comes_when_others_are_settled_closes_the_site_again(site: Site) -> None:
    image = site.image()
    lock(site, 2, TWO)
    ours, theirs = memory(site), memory(site, THEIRS)
    site.put_back(image)
    assert welcome(site, ours)
    site.receive(m.Settled())
    site.advance(10_000)
    assert not put_off(site, vote(3, TWO))
    assert welcome(site, theirs, register=THEIRS, source="theirs")


def test_a_refusal_outlives_the_attempt_that_is_locked_again(site: Site) -> None:
    site.receive(vote(2, TWO))
    site.receive(m.Decide(rid=rid(2), att=1, outcome="abort"))
    assert site.answer(relock(2, TWO, att=2)) == m.Relocked(rid=rid(2))
    assert site.participant.book.stakes[rid(2)].refused == 1


def test_the_owner_may_go_on_without_a_register_that_never_comes(site: Site) -> None:
    put_back(site)
    assert site.call(lambda participant, _: participant.recovery.unsettled()) == {OURS: 1}
    site.call(lambda participant, _: participant.recovery.go_on())
    assert not put_off(site, vote(3, TWO))
    site.restart()
    assert not welcome(site)


def test_a_comparison_shows_what_is_kept_for_one_register_a_page_at_a_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kalends.core.limits.COMPARED_MAX", 2)
    welcome(site, register=THEIRS, source="theirs")
    site.receive(vote(2, want("pool", 0, 60)), "theirs")
    lock(site, 3, TWO)
    lock(site, 4, want("one", 60, 120))
    site.receive(m.Cancel(rid=rid(4), att=1))
    site.receive(vote(5, want("one", 60, 120)))
    seen: list[tuple[str, str]] = []
    after = ""
    while True:
        page = site.answer(m.Compare(after=after))
        assert isinstance(page, m.Compared)
        seen += [(each.rid, each.state) for each in page.kept]
        if not page.until:
            break
        after = page.until
    assert seen == [
        (rid(1), "locked"), (rid(3), "locked"), (rid(4), "cancelled"), (rid(5), "promised"),
    ]  # fmt: skip
    (theirs,) = site.answers(m.Compare(), "theirs")
    assert isinstance(theirs, m.Compared)
    assert [each.rid for each in theirs.kept] == [rid(2)]


def test_a_site_that_has_just_begun_waits_some_seconds_for_the_brokers_that_it_knows() -> None:
    site = Site()
    welcome(site, register=THEIRS, source="other")
    site.restart()
    assert put_off(site, vote(1, ONE))
    welcome(site, register=THEIRS, source="other")
    assert not put_off(site, vote(2, ONE))
    site.restart()
    site.advance(RECOVERY_MS_MIN)
    assert not put_off(site, vote(3, TWO))

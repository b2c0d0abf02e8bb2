"""The owner's approval at a site: nothing is promised without it, and each word is durable and final."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol_support import (
    ANN,
    BOB,
    DAY,
    T0,
    Site,
    commit,
    prepare,
    resource,
    rid,
    secret_of,
    visit,
    vote,
    want,
)

from kalends.calendars import AccessRule, Limit
from kalends.contract import messages as m
from kalends.contract.owner_calls import DecideApproval
from kalends.core.errors import Conflict, NotFound, RefusalCode
from kalends.core.principals import Principal
from kalends.resource_servers.participation.claims.petitions import Petition

WORD = Limit("word", "everyone", approval="needed")
HOUR_MS = 3_600_000


def guarded(*before: Limit) -> Site:
    return Site(owners_limits=(*before, WORD))


@pytest.fixture
def site() -> Site:
    return guarded()


def ask(site: Site, number: int, att: int = 1) -> m.Message:
    asked = m.OwnerAsk(rid=rid(number), att=att, hold_ids=site.ids(number), note="a note")
    return site.answer(asked)


def says(message: m.Message) -> str:
    assert isinstance(message, m.OwnerSays)
    return message.state


def decide(
    site: Site,
    number: int,
    *,
    approve: bool,
    word: str = "",
    revision: int = 1,
    by: str = "olga",
) -> Petition:
    body = DecideApproval(id=rid(number), approve=approve, word=word, revision=revision)
    _, petition = site.call(lambda participant, now: site.approval.decide(body, by, now))
    return petition


def approve(site: Site, number: int, *wants: m.Want) -> None:
    site.receive(visit(number, *wants, hold_ms=HOUR_MS))
    ask(site, number)
    decide(site, number, approve=True)


def reserve(site: Site, number: int, *wants: m.Want) -> None:
    """As `approve`, and then locked."""
    approve(site, number, *wants)
    site.receive(prepare(number, *site.ids(number)))
    site.receive(commit(number, *site.ids(number)))
    assert set(site.states(number)) == {"locked"}


def queue(site: Site) -> list[str]:
    return [stake.rid for stake, _ in site.approval.pending()]


def votes(message: m.Message) -> tuple[str, list[str]]:
    assert isinstance(message, m.Voted | m.Visited)
    return message.vote, [refusal.code for refusal in message.refusals]


def test_what_needs_approval_is_held_where_a_promise_was_asked_for(site: Site) -> None:
    visited = site.answer(vote(1, want("one", 0, 60)))
    assert isinstance(visited, m.Visited)
    assert (visited.vote, visited.approval, site.states(1)) == ("none", True, ["held"])
    assert votes(site.answer(vote(1, want("one", 0, 60))))[0] == "none"


@pytest.mark.parametrize("mode", ["hold", "vote"])
def test_no_owner_is_asked_for_a_user_who_may_only_hold(mode: str) -> None:
    site = Site(
        owners_limits=(WORD,),
        rules={"one": (AccessRule("all", "everyone", ("see", "hold")),)},
    )
    visited = site.answer(visit(1, want("one", 0, 60), mode=mode))
    assert isinstance(visited, m.Visited)
    assert [refusal.code for refusal in visited.refusals] == [RefusalCode.NOT_ALLOWED]
    assert site.states(1) == []
    held = site.answer(visit(2, want("one", 0, 60), considered=True))
    assert isinstance(held, m.Visited)
    assert held.held
    answer = ask(site, 2)
    assert isinstance(answer, m.OwnerSays)
    assert (answer.state, answer.resources) == ("declined", ("here/one",))
    assert "lock" in answer.word
    assert queue(site) == []


def test_a_broker_that_asks_for_a_promise_without_the_owners_word_gets_none(site: Site) -> None:
    site.receive(visit(1, want("one", 0, 60)))
    (held,) = site.ids(1)
    assert votes(site.answer(prepare(1, held))) == ("no", [RefusalCode.HELD])
    assert says(ask(site, 1)) == "pending"
    assert votes(site.answer(prepare(1, held))) == ("no", [RefusalCode.HELD])
    site.receive(commit(1, held))
    assert site.states(1) == ["held"]


def test_a_broker_cannot_have_it_locked_again_as_if_it_had_been_approved(site: Site) -> None:
    site.receive(visit(1, want("one", 0, 60)))
    ask(site, 1)
    asked = visit(1, want("one", 0, 60))
    relock = m.Relock(
        rid=asked.rid, att=1, stamp=asked.stamp, principal=asked.principal, secret=secret_of(asked.rid),
        wants=asked.wants, chosen={"here": site.ids(1)}, parts=asked.parts, need=asked.need,
    )  # fmt: skip
    relocked = site.answer(relock)
    assert isinstance(relocked, m.Relocked)
    assert relocked.blockers
    assert "locked" not in site.states(1)


def test_where_two_people_approve_the_word_of_one_is_kept_and_is_not_enough() -> None:
    site = Site(owners_limits=(Limit("both", "everyone", approval="two"),))
    site.receive(visit(1, want("one", 0, 60)))
    (held,) = site.ids(1)
    ask(site, 1)
    for _ in range(2):  # The same person, again.
        waits = decide(site, 1, approve=True, word="with care", by="olga")
        assert (waits.state, waits.first, waits.by) == ("pending", "olga", "")
    assert votes(site.answer(prepare(1, held))) == ("no", [RefusalCode.HELD])
    site.restart()
    assert len(queue(site)) == 1
    approved = decide(site, 1, approve=True, word="and gloves", by="otto")
    assert (approved.state, approved.first, approved.by) == ("approved", "olga", "otto")
    assert approved.word == "with care; and gloves"
    assert votes(site.answer(prepare(1, held)))[0] == "yes"


def test_the_first_of_two_approvals_can_be_taken_back_by_declining_and_counts_for_its_slots_alone() -> (
    None
):
    site = Site(owners_limits=(Limit("both", "everyone", approval="two"),))
    site.receive(visit(1, want("one", 0, 60)))
    ask(site, 1)
    decide(site, 1, approve=True, by="olga")
    assert decide(site, 1, approve=False, word="no", by="olga").state == "declined"
    site.receive(visit(2, want("one", 60, 120)))
    ask(site, 2)
    decide(site, 2, approve=True, by="olga")
    site.receive(visit(2, want("one", 120, 180), att=2))
    ask(site, 2, att=2)
    again = decide(site, 2, approve=True, by="otto", revision=2)
    assert (again.state, again.first) == ("pending", "otto")


def test_what_is_approved_is_promised_and_locked_and_a_restart_forgets_nothing(site: Site) -> None:
    site.receive(visit(1, want("one", 0, 60)))
    (held,) = site.ids(1)
    ask(site, 1)
    site.restart()
    assert site.states(1) == ["held"]
    assert site.free("one", 0, 60) == 0
    decide(site, 1, approve=True, word="with care")
    site.restart()
    assert says(ask(site, 1)) == "approved"
    assert votes(site.answer(prepare(1, held)))[0] == "yes"
    site.receive(commit(1, held))
    assert site.states(1) == ["locked"]


def test_what_is_declined_is_free_at_once_and_its_broker_is_told_the_word(site: Site) -> None:
    site.receive(visit(1, want("one", 0, 60)))
    ask(site, 1)
    decide(site, 1, approve=False, word="not on Fridays")
    (told,) = [send.message for send in site.unsent if isinstance(send.message, m.OwnerSays)]
    assert (told.state, told.word) == ("declined", "not on Fridays")
    assert site.free("one", 0, 60) == 1
    site.restart()
    refused = site.answer(visit(1, want("one", 0, 60), att=2))
    assert isinstance(refused, m.Visited)
    assert [each.code for each in refused.refusals] == [RefusalCode.DECLINED]
    assert "not on Fridays" in refused.refusals[0].detail


@pytest.mark.parametrize("approve", [True, False])
def test_the_same_word_again_changes_nothing_and_the_other_is_refused_by_name(
    site: Site,
    approve: bool,
) -> None:
    site.receive(visit(1, want("one", 0, 60)))
    ask(site, 1)
    first = decide(site, 1, approve=approve, word="so be it")
    before = dict(site.stored)
    assert decide(site, 1, approve=approve, word="again") == first
    assert site.stored == before
    with pytest.raises(Conflict, match=f"{first.state} already, by olga"):
        decide(site, 1, approve=not approve)


def test_who_says_nothing_in_time_has_declined(site: Site) -> None:
    site.receive(visit(1, want("one", 0, 60), hold_ms=HOUR_MS))
    ask(site, 1)
    petition = next(site.approval.pending())[1]
    assert petition.until_s == T0 + DAY + 0  # Never beyond the start of the slot.
    site.wrong_ms += (DAY + 1) * 1_000
    site.advance(HOUR_MS)
    assert site.free("one", 0, 60) == 1
    assert says(site.answer(m.OwnerAsk(rid=rid(1), att=1, hold_ids=(1,)))) == "lapsed"
    with pytest.raises(Conflict, match="its time has passed"):
        decide(site, 1, approve=True)


def test_no_word_is_taken_for_slots_that_its_owner_has_not_seen(site: Site) -> None:
    site.receive(visit(1, want("one", 0, 60)))
    ask(site, 1)
    site.receive(visit(1, want("one", 60, 120), att=2))
    assert says(ask(site, 1, att=2)) == "pending"
    with pytest.raises(Conflict, match="other slots now"):
        decide(site, 1, approve=True)
    decide(site, 1, approve=True, revision=2)
    (held,) = site.ids(1)
    assert votes(site.answer(prepare(1, held, att=2)))[0] == "yes"


def test_what_was_approved_is_not_asked_for_again_by_a_later_attempt(site: Site) -> None:
    site.receive(visit(1, want("one", 0, 60)))
    ask(site, 1)
    decide(site, 1, approve=True)
    visited = site.answer(visit(1, want("one", 0, 60), att=2))
    assert isinstance(visited, m.Visited)
    assert not visited.approval
    (held,) = site.ids(1)
    assert votes(site.answer(prepare(1, held, att=2)))[0] == "yes"


def test_nothing_is_in_the_queue_that_is_given_up_or_unknown(site: Site) -> None:
    site.receive(visit(1, want("one", 0, 60)))
    ask(site, 1)
    assert queue(site) == [rid(1)]
    site.receive(m.Decide(rid=rid(1), att=1, outcome="abort"))
    assert queue(site) == []
    with pytest.raises(Conflict, match="holds no slot"):
        decide(site, 1, approve=True)
    with pytest.raises(NotFound):
        decide(site, 2, approve=True)


def test_no_owner_is_asked_for_holds_of_which_one_is_gone(site: Site) -> None:
    site.receive(visit(1, want("one", 0, 60)))
    asked = m.OwnerAsk(rid=rid(1), att=1, hold_ids=(*site.ids(1), site.ids(1)[0] + 1))
    assert (says(site.answer(asked)), queue(site)) == ("lost", [])


def test_the_first_rule_that_names_approval_decides_for_whom_it_is_needed() -> None:
    staff = Limit("staff", "group:staff", approval="waived")
    site = guarded(staff)
    of_staff = visit(1, want("one", 0, 60), mode="vote", principal=Principal("sue", ("staff",)))
    assert votes(site.answer(of_staff))[0] == "yes"
    assert votes(site.answer(visit(2, want("two", 0, 60), mode="vote", principal=BOB)))[0] == "none"


def _changes(site: Site, start: int, end: int) -> m.Visited:
    answer = site.answer(vote(2, want("one", start, end), replaces=1))
    assert isinstance(answer, m.Visited)
    return answer


@given(st.integers(0, 3_600), st.integers(1, 3_600))
def test_a_change_needs_approval_anew_if_and_only_if_it_goes_beyond_what_stands(
    start: int, length: int
) -> None:
    site = guarded()
    site.receive(visit(1, want("one", 600, 1_200)))
    (held,) = site.ids(1)
    ask(site, 1)
    decide(site, 1, approve=True)
    site.receive(prepare(1, held))
    site.receive(commit(1, held))
    within = start >= 600 and start + length <= 1_200
    answer = _changes(site, start, start + length)
    assert (answer.vote, answer.approval) == (("yes", False) if within else ("none", True))
    assert site.states(1) == ["locked"]


SPANS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 4)).map(lambda each: (each[0], sum(each))),
    min_size=1,
    max_size=3,
)
"""As many slots as the pool has units."""


@given(SPANS, SPANS)
def test_at_no_time_is_more_promised_than_was_approved_together(
    approved: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    site = guarded()
    approve(site, 1, *(want("pool", *span) for span in approved))
    again = site.answer(
        visit(1, *(want("pool", *span) for span in asked), att=2, mode="vote", hold_ms=HOUR_MS)
    )
    within = all(
        sum(start <= at < end for start, end in asked)
        <= sum(start <= at < end for start, end in approved)
        for at in range(8)
    )
    assert votes(again)[0] == ("yes" if within else "none")
    if not within:
        assert votes(site.answer(prepare(1, *site.ids(1), att=2)))[0] == "no"


def test_a_change_into_as_many_units_as_stand_twice_needs_approval(site: Site) -> None:
    reserve(site, 1, want("pool", 0, 60))
    twice = site.answer(vote(2, want("pool", 0, 60), want("pool", 0, 60), replaces=1))
    assert isinstance(twice, m.Visited)
    assert (twice.vote, twice.approval) == ("none", True)


def test_the_owner_may_think_about_more_of_what_runs_until_it_ends(site: Site) -> None:
    reserve(site, 1, want("one", 0, 600))
    site.advance(DAY * 1_000 + 60_000)
    site.receive(visit(2, want("one", 0, 1_200), replaces=1))
    assert says(ask(site, 2)) == "pending"
    ((_, petition),) = site.approval.pending()
    assert petition.until_s == T0 + DAY + 600


def test_what_was_approved_for_one_user_is_not_promised_to_another(site: Site) -> None:
    approve(site, 1, want("one", 0, 60))
    of_bob = visit(1, want("one", 0, 60), att=2, mode="vote", principal=BOB)
    assert votes(site.answer(of_bob))[0] == "none"
    assert says(ask(site, 1, att=2)) == "pending"
    ((stake, petition),) = site.approval.pending()
    assert (stake.principal.user, petition.user, petition.revision) == ("bob", "bob", 2)
    with pytest.raises(Conflict, match="other slots"):
        decide(site, 1, approve=True)


def test_a_broker_cannot_have_locked_again_what_stands_as_if_it_replaced_it(site: Site) -> None:
    reserve(site, 1, want("pool", 0, 60))
    asked = visit(2, want("pool", 0, 60), principal=BOB)
    relocked = site.answer(
        m.Relock(
            rid=asked.rid, att=1, stamp=asked.stamp, principal=asked.principal, secret=asked.secret,
            wants=asked.wants, chosen={"here": (99,)}, parts=asked.parts, need=asked.need, replaces=rid(1),
        )
    )  # fmt: skip
    assert isinstance(relocked, m.Relocked)
    assert relocked.blockers
    assert site.free("pool", 0, 60) == 2


@pytest.mark.parametrize("state", ["held", "prepared", "locked"])
def test_a_petition_for_slots_that_were_given_up_ends_nothing_that_was_claimed_since(
    site: Site,
    state: str,
) -> None:
    site.receive(visit(1, want("one", 0, 60)))
    ask(site, 1)
    free = {"here/two": resource("here/two")}
    site.call(
        lambda participant, now: participant.take_rules(
            participant.book.calendars | free, participant.admission.limits, now
        )
    )
    mode = "hold" if state == "held" else "vote"
    site.receive(visit(1, want("two", DAY, DAY + 60), att=2, mode=mode, hold_ms=2 * HOUR_MS))
    if state == "locked":
        site.receive(commit(1, *site.ids(1), att=2))
    assert queue(site) == []
    site.wrong_ms += (DAY + 1) * 1_000
    site.advance(HOUR_MS - 1)
    assert site.states(1) == [state]
    with pytest.raises(Conflict):
        decide(site, 1, approve=False)


def test_a_word_that_comes_too_late_is_refused_even_before_the_site_has_looked_at_the_time(
    site: Site,
) -> None:
    site.receive(visit(1, want("one", 0, 60), hold_ms=HOUR_MS))
    ask(site, 1)
    site.wrong_ms += (DAY + 1) * 1_000
    with pytest.raises(Conflict, match="its time has passed"):
        decide(site, 1, approve=True)
    assert votes(site.answer(prepare(1, *site.ids(1))))[0] == "no"


@given(st.lists(st.sampled_from(["ask", "approve", "decline", "restart", "prepare", "hour"])))
def test_whatever_happens_only_what_its_owner_has_approved_is_ever_promised(
    steps: list[str],
) -> None:
    site = Site(
        owners_limits=(WORD,),
        rules={"one": (AccessRule("all", "everyone", ("see", "hold", "lock")),)},
    )
    word = ""
    site.receive(visit(1, want("one", 0, 60), principal=ANN, hold_ms=HOUR_MS))
    for step in steps:
        if step == "restart":
            site.restart()
        elif step == "hour":
            site.advance(HOUR_MS)
        elif step in ("approve", "decline"):
            try:
                decide(site, 1, approve=step == "approve")
            except (Conflict, NotFound):
                continue
            word = word or step
            assert word == step
        elif site.ids(1):
            held = site.ids(1)
            message = (
                prepare(1, *held)
                if step == "prepare"
                else m.OwnerAsk(rid=rid(1), att=1, hold_ids=held)
            )
            site.receive(message)
        promised = "prepared" in site.states(1)
        assert not promised or word == "approve"

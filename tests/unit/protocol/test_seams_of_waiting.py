"""Where waiting meets what else happens at a site: looks of changes, reclaims, users who are gone."""

from __future__ import annotations

from msgspec import structs
from tests.protocol_support import BOB, DAY, HERE, T0, Site, commit, rid, visit, vote, want

from kalends.contract import messages as m
from kalends.contract import owner_calls
from kalends.core.errors import RefusalCode


def reserved(site: Site, number: int, *wants: m.Want) -> None:
    site.receive(vote(number, *wants))
    site.receive(commit(number, *site.ids(number)))


def waits(number: int, *wants: m.Want) -> m.Await:
    return m.Await(rid=rid(number), att=1, stamp=number, principal=BOB, wants=wants, length_s=60)


def test_a_look_for_a_change_frees_nothing_and_offers_nothing_to_those_who_wait() -> None:
    site = Site()
    reserved(site, 1, want("pool", 0, 60))
    site.receive(waits(2, want("pool", 0, 60, 2)), "other")
    query = m.Query(
        query_id=1, principal=vote(1, want("pool", 0, 60)).principal,
        wants=(want("pool", 0, 120),), replaces=rid(1),
    )  # fmt: skip
    (view,) = site.answers(query)
    assert isinstance(view, m.View)
    assert max(units for _, _, units in view.views[0].steps) == 3
    assert site.states(1) == ["locked"]


def test_who_waits_in_line_for_a_time_that_its_owner_takes_back_hears_so_at_once() -> None:
    site = Site()
    site.receive(visit(1, want("one", 0, 60)))
    behind = structs.replace(visit(2, want("one", 0, 60)), queue=True, stamp=99)
    (answer,) = site.answers(behind, "other")
    assert isinstance(answer, m.Visited)
    assert answer.ahead >= 0
    site.call(
        lambda participant, now: site.reminders.reclaim(
            owner_calls.Reclaim(
                key="a-key-of-it", resource=f"{HERE}/one", start=T0, end=T0 + 2 * DAY
            ),
            now,
        )
    )
    (told,) = [sent for sent in site.unsent if isinstance(sent.message, m.Locked)]
    assert told.to == "other"
    assert isinstance(told.message, m.Locked)
    assert [each.code for each in told.message.refusals] == [RefusalCode.BLACKOUT]


def test_a_book_remembers_nothing_of_users_who_have_nothing() -> None:
    site = Site()
    site.receive(visit(1, want("pool", 0, 60)))
    assert site.participant.book.totals()["held"] == 1
    site.receive(m.Release(rid=rid(1), att=1))
    book = site.participant.book
    assert not any(book.totals().values())
    assert not vars(book)["_counts"]


def test_who_is_ahead_counts_once_however_many_windows_they_share() -> None:
    site = Site()
    both = (want("one", 0, 60), want("two", 0, 60), want("one", 120, 180))
    for number, wants in ((1, both), (2, both[2:]), (3, (want("pool", 0, 60),))):
        site.receive(waits(number, *wants), "other")
    (awaited,) = site.answers(waits(4, *both), "other")
    assert isinstance(awaited, m.Awaited)
    assert awaited.ahead == 2

"""Resources that come only together: the broker asks for both, and the site insists."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.protocol_support import Site, lock, visit, vote, want

import kalends
from kalends.contract import messages as m
from kalends.core.errors import RefusalCode
from kalends.testing import LocalFacility

SITES = {
    "lab": {
        "camera": {"with": ["table"], "attributes": {"kind": "camera"}},
        "table": {"with": ["key"]},
        "key": {"capacity": 2},
        "lamp": {"attributes": {"kind": "lamp"}},
    },
    "hall": {"desk": 1},
}
DAY = "2027-03-02T"
WINDOW = (DAY + "08:00Z", DAY + "12:00Z")


def test_a_broker_adds_what_comes_with_a_resource_and_changes_move_all_of_it() -> None:
    with (
        LocalFacility(SITES, now="2027-03-01T09:00Z") as servers,
        servers.sync_client("ann") as ann,
        servers.sync_client("bob") as bob,
    ):
        made = ann.book(
            "lab/camera + hall/desk", duration="1h", at=DAY + "09:00Z", key="once-and-again"
        )
        names = ["hall/desk", "lab/camera", "lab/key", "lab/table"]
        assert sorted(each.resource for each in made.claims) == names
        again = ann.book(
            "lab/camera + hall/desk", duration="1h", at=DAY + "09:00Z", key="once-and-again"
        )
        assert again.id == made.id
        moved = ann.move(made.id, to=DAY + "08:30Z")
        assert len({(each.start, each.end) for each in moved.claims}) == 1
        assert sorted(each.resource for each in moved.claims) == names
        with pytest.raises(kalends.KalendsError):
            bob.book("lab/table", duration="1h", at=DAY + "09:00Z")
        found = bob.find("lab/camera", duration="1h", window=WINDOW, count=1).candidates[0]
        assert {each.resource for each in found.claims} == {"lab/camera", "lab/table", "lab/key"}
        assert found.start == moved.end
        ann.cancel(made.id)
        assert bob.book("lab/table + lab/lamp", duration="1h", window=WINDOW).start < found.start


def test_the_best_hours_of_a_series_are_those_at_which_its_companions_are_free() -> None:
    with (
        LocalFacility(SITES, now="2027-03-01T09:00Z") as servers,
        servers.sync_client("ann") as ann,
    ):
        ann.book("lab/key:2", duration="2h", at=DAY + "08:00Z")
        (best,) = ann.find_series(
            "lab/camera", duration="1h", every="week on tue", times=1, between="8:00-12:00",
            window=(DAY + "00:00Z", None),
        ).hours  # fmt: skip
        assert (best.first, best.last, best.missed) == (DAY + "10:00", DAY + "11:00", ())
        (seen,) = ann.book_series(
            "lab/camera", duration="1h", at=best.start, every="day", times=1
        ).occurrences
        assert seen.state == "reserved"


def test_attributes_pick_nothing_that_comes_only_with_others() -> None:
    with (
        LocalFacility(SITES, now="2027-03-01T09:00Z") as servers,
        servers.sync_client("ann") as ann,
    ):
        made = ann.book("1 of {kind=lamp}", duration="1h", window=WINDOW)
        assert [each.resource for each in made.claims] == ["lab/lamp"]
        with pytest.raises(kalends.KalendsError):
            ann.book("1 of {kind=camera}", duration="1h", window=WINDOW)


def test_a_site_refuses_a_resource_without_its_companion_whoever_asks() -> None:
    site = Site()
    calendar = site.participant.book.calendars
    (one, two) = (want("one", 0, 60).resource, want("two", 0, 60).resource)
    calendar[one].info = replace(calendar[one].info, companions=(two,))
    site.participant.book.companions = True
    for number, mode in ((1, "hold"), (2, "vote")):
        refused = site.answer(visit(number, want("one", 0, 60), mode=mode))
        assert isinstance(refused, m.Visited)
        assert {each.code for each in refused.refusals} == {RefusalCode.INCOMPLETE}
        assert f"{one} + {two}" in refused.refusals[0].detail
    short = site.answer(vote(3, want("one", 0, 60), want("two", 0, 30)))
    assert isinstance(short, m.Visited)
    assert {each.rule for each in short.refusals} == {"with"}
    lock(site, 4, want("one", 0, 60), want("two", 0, 90))
    lock(site, 5, want("two", 90, 120))

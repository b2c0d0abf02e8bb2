"""An owner's head start orders the line; among equals the older request is first."""

from __future__ import annotations

from msgspec import structs
from tests.protocol_support import Site, visit, want

from kalends.calendars import HeadStart
from kalends.contract import messages as m
from kalends.core.principals import Principal

STAFF = Principal("cy", ("staff",))
BOB = Principal("bob")


def line_of(head_start_ms: int) -> list[str]:
    """Bob asks at 20,000 and staff at 40,000 for what is held; who gets it when it is released."""
    site = Site()
    rules = site.participant.book.calendars["here/one"].rules
    rules.head_starts = (HeadStart("group:staff", head_start_ms),)
    site.receive(structs.replace(visit(1, want("one", 0, 60), hold_ms=900_000), stamp=1))
    for number, who, stamp in ((2, BOB, 20_000), (3, STAFF, 40_000)):
        asked = visit(number, want("one", 0, 60), principal=who)
        site.receive(structs.replace(asked, stamp=stamp, queue=True), who.user)
    released = site.receive(m.Release(rid=visit(1, want("one", 0, 60)).rid, att=1))
    return [send.to for send in released.sends if isinstance(send.message, m.Grant)]


def test_who_has_a_head_start_is_before_those_who_asked_a_little_earlier() -> None:
    assert line_of(20_001) == ["cy"]


def test_a_head_start_does_not_help_against_those_who_asked_long_before() -> None:
    assert line_of(19_999) == ["bob"]


def test_of_several_resources_the_one_that_gives_least_decides(site: Site) -> None:
    calendars = site.participant.book.calendars
    calendars["here/one"].rules.head_starts = (HeadStart("everyone", 9_000),)
    calendars["here/two"].rules.head_starts = (HeadStart("everyone", 4_000),)
    order = site.participant.room.order_of
    assert order(BOB, 10_000, "r", [want("one", 0, 60)]) == (1_000, "r")
    assert order(BOB, 10_000, "r", [want("one", 0, 60), want("two", 0, 60)]) == (6_000, "r")

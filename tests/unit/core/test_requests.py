"""What can never be right is refused, whoever made the request, with the path of what is wrong."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.core.intervals import Interval
from kalends.core.requests import (
    Alternative,
    Attribute,
    AttributePreference,
    Request,
    Term,
    TimePreference,
    WindowPreference,
    span,
    span_of,
    term_interval,
)
from kalends.core.windows import Daily

SP2 = Term(resource="sdsc/sp2", units=64)


def asked(*terms: Term, **changes: Any) -> Request:
    request = Request(alternatives=(Alternative(terms=terms),), duration_s=3_600, not_before=1_000)
    return msgspec.structs.replace(request, **changes)


def comparing(operator: Any, value: Any, name: str = "kind") -> Term:
    return Term(attributes=(Attribute(name=name, operator=operator, value=value),))


def preferring(*preferred: Attribute, weight: float = 2.0, **changes: Any) -> Term:
    return Term(
        attributes=(Attribute(name="kind", operator="=", value="sgi"),),
        preferred=tuple(AttributePreference(attribute=each, weight=weight) for each in preferred),
        **changes,
    )


MEMORY = Attribute(name="memory", operator=">=", value=128)
GROWING = Term(resource="sdsc/sp2", units=32, units_max=64)


def refused_at(request: Request) -> str:
    with pytest.raises(InvalidInput) as caught:
        request.check()
    assert caught.value.detail
    return caught.value.where


@pytest.mark.parametrize(
    "request_",
    [
        asked(SP2),
        asked(SP2, not_after=4_600),
        asked(SP2, SP2, comparing("=", "sgi"), comparing("in", ("sgi", 3, True))),
        asked(msgspec.structs.replace(SP2, units_max=64)),
        asked(comparing("!=", True), comparing("<", 1.5), comparing(">=", -(1 << 63))),
        asked(*(Term(attributes=(Attribute(name="a", operator="=", value=1),), count=256),) * 2),
        asked(SP2, preferences=(TimePreference(start=0, end=1, weight=-2),), note="größer"),
        asked(Term(resource="a/b", offset_s=-600, duration_s=600), not_after=2_000),
        asked(
            preferring(MEMORY), msgspec.structs.replace(GROWING, units_weight=-limits.WEIGHT_MAX)
        ),
        asked(preferring(units=2, units_max=4), preferring(units=2, units_max=4)),
        asked(GROWING, SP2, msgspec.structs.replace(GROWING, offset_s=3_600)),
        asked(*(msgspec.structs.replace(GROWING, resource=name) for name in ("a/b", "a/c"))),
    ],
)
def test_what_can_be_right_passes(request_: Request) -> None:
    request_.check()


TERM = "alternatives[0].terms[0]"
DAY = Daily("00:00", "24:00", "UTC")


def windowed(start: str, end: str, zone: str = "UTC") -> Term:
    return Term(resource="a/b", windows=(Daily(start, end, zone),))


def test_windows_at_their_limits_pass() -> None:
    asked(windowed("00:00", "24:00"), not_after=1_000 + 4_095 * 86_400).check()
    many = Term(resource="a/b", windows=tuple(Interval(0, 10_000 + n) for n in range(64)))
    asked(many).check()


@pytest.mark.parametrize(
    ("request_", "where"),
    [
        (asked(), "alternatives[0].terms"),
        (asked(SP2, alternatives=()), "alternatives"),
        (asked(Term()), TERM),
        (asked(SP2, Term()), "alternatives[0].terms[1]"),
        (asked(Term(resource="a/b", attributes=comparing("=", 1).attributes)), TERM),
        (asked(Term(resource="nowhere")), f"{TERM}.resource"),
        (asked(Term(resource="a/b\n")), f"{TERM}.resource"),
        (asked(Term(resource="a/b", count=2)), f"{TERM}.count"),
        (asked(Term(resource="a/b", units=0)), f"{TERM}.units"),
        (asked(Term(resource="a/b", units=8, units_max=7)), f"{TERM}.units_max"),
        (asked(Term(resource="a/b", offset_s=limits.OFFSET_S_MAX + 1)), f"{TERM}.offset_s"),
        (asked(windowed("8:00", "12:00")), f"{TERM}.windows[0].start"),
        (asked(windowed("08:00", "12:00\n")), f"{TERM}.windows[0].end"),
        (asked(windowed("24:00", "12:00")), f"{TERM}.windows[0]"),
        (asked(windowed("08:00", "12:00", "Nowhere")), f"{TERM}.windows[0].zone"),
        (asked(windowed("08:00", "08:30")), f"{TERM}.windows"),
        (asked(Term(resource="a/b", windows=(Interval(9, 9),))), f"{TERM}.windows[0]"),
        (asked(Term(resource="a/b", windows=(Interval(-9, 9),))), f"{TERM}.windows[0]"),
        (asked(Term(resource="a/b", windows=(Interval(0, 1 << 40),))), f"{TERM}.windows[0]"),
        (asked(Term(resource="a/b", windows=((0, "x"),))), f"{TERM}.windows[0][1]"),
        (asked(Term(resource="a/b", windows=(Interval(0, 999),))), f"{TERM}.windows"),
        (
            asked(Term(resource="a/b", preferences=(WindowPreference(window=DAY, weight=1e10),))),
            f"{TERM}.preferences[0].weight",
        ),
        (
            asked(alternatives=(Alternative(terms=(SP2,), windows=(Interval(0, 999),)),)),
            "alternatives[0].windows",
        ),
        (asked(windowed("00:00", "24:00"), not_after=1_000 + 4_096 * 86_400), "not_after"),
        (
            asked(
                Term(
                    resource="a/b",
                    windows=tuple(Daily(f"00:{n:02}", "24:00", "UTC") for n in range(40)),
                ),
                Term(resource="c/d", windows=tuple(Interval(0, 9_999 + n) for n in range(25))),
            ),
            "alternatives",
        ),
        (asked(comparing("in", "sgi")), f"{TERM}.attributes[0].value"),
        (asked(comparing("in", ())), f"{TERM}.attributes[0].value"),
        (asked(comparing("=", ("sgi",))), f"{TERM}.attributes[0].value"),
        (asked(comparing("<", True)), f"{TERM}.attributes[0].operator"),
        (asked(comparing("~", 1)), f"{TERM}.attributes[0].operator"),
        (asked(comparing("=", float("nan"))), f"{TERM}.attributes[0].value"),
        (asked(comparing("in", (1.0, float("inf")))), f"{TERM}.attributes[0].value"),
        (asked(comparing("=", 1 << 63)), f"{TERM}.attributes[0].value"),
        (asked(comparing("=", "\ud800")), f"{TERM}.attributes[0].value"),
        (asked(comparing("=", 1, "Kind")), f"{TERM}.attributes[0].name"),
        (asked(comparing("=", 1, "kind\n")), f"{TERM}.attributes[0].name"),
        (asked(*(msgspec.structs.replace(comparing("=", 1), count=256),) * 3), f"{TERM[:-3]}"),
        (asked(SP2, not_after=4_599), "alternatives[0]"),
        (asked(SP2, not_after=1_000), "not_after"),
        (asked(SP2, not_after=999), "not_after"),
        (asked(SP2, not_before=limits.TIME_S_MAX), "not_before"),
        (asked(SP2, not_before=1_772_442_000_000), "not_before"),
        (asked(SP2, not_before=float("nan")), "not_before"),
        (asked(SP2, duration_s=0), "duration_s"),
        (asked(SP2, duration_s=True), "duration_s"),
        (asked(SP2, priority=101), "priority"),
        (asked(SP2, note="x" * 201), "note"),
        (asked(SP2, note="\udcff"), "note"),
        (asked(SP2, agent="\udcff"), "agent"),
        (asked(SP2, agent=object()), "request"),
        (asked(alternatives=[Alternative(terms=(SP2,))]), "request"),
        (
            asked(alternatives=(Alternative(terms=(SP2,), weight=float("inf")),)),
            "alternatives[0].weight",
        ),
        (
            asked(SP2, preferences=(TimePreference(start=0, end=1, weight=float("nan")),)),
            "preferences[0].weight",
        ),
        (asked(preferring(MEMORY, weight=float("-inf"))), f"{TERM}.preferred[0].weight"),
        (asked(preferring(MEMORY, weight=2 * limits.WEIGHT_MAX)), f"{TERM}.preferred[0].weight"),
        (
            asked(preferring(MEMORY, Attribute(name="a", operator="<", value=True))),
            f"{TERM}.preferred[1].attribute.operator",
        ),
        (asked(preferring(*(MEMORY,) * limits.ATTRIBUTES_MAX)), f"{TERM}.preferred"),
        (
            asked(
                Term(resource="a/b", preferred=(AttributePreference(attribute=MEMORY, weight=1.0),))
            ),
            f"{TERM}.preferred",
        ),
        (
            asked(Term(preferred=(AttributePreference(attribute=MEMORY, weight=1.0),))),
            TERM,
        ),
        (asked(Term(resource="a/b", units_weight=2.0)), f"{TERM}.units_weight"),
        (asked(Term(resource="a/b", units_max=1, units_weight=2.0)), f"{TERM}.units_weight"),
        (
            asked(Term(resource="a/b", units_max=2, units_weight=float("nan"))),
            f"{TERM}.units_weight",
        ),
        (
            asked(SP2, GROWING, msgspec.structs.replace(GROWING, offset_s=3_599)),
            "alternatives[0].terms[2].units_max",
        ),
        (asked(SP2, preferences=(TimePreference(start=5, end=5, weight=1),)), "preferences[0].end"),
    ],
)
def test_what_can_never_be_right_is_refused_at_its_path(request_: Request, where: str) -> None:
    assert refused_at(request_) == where


def test_an_alternative_that_does_not_fit_the_window_is_refused_beside_one_that_does() -> None:
    long = Alternative(terms=(msgspec.structs.replace(SP2, duration_s=7_200),))
    request = asked(alternatives=(Alternative(terms=(SP2,)), long), not_after=5_000)
    assert refused_at(request) == "alternatives[1]"


def test_stages_lie_relative_to_the_common_start() -> None:
    before = Term(resource="caltech/net", offset_s=-600, duration_s=600)
    after = Term(resource="ncsa/printer", offset_s=7_200, duration_s=1_800)
    request = asked(before, SP2, after)
    assert term_interval(request, before, 10_000) == Interval(9_400, 10_000)
    assert term_interval(request, SP2, 10_000) == Interval(10_000, 13_600)
    assert span(request) == (-600, 9_000)
    assert span(asked(after)) == (7_200, 9_000)


def test_each_alternative_has_its_own_begin_and_end_of_stages() -> None:
    early, late = (Term(resource="a/b", offset_s=offset_s) for offset_s in (-600, 7_200))
    both = asked(
        alternatives=(Alternative(terms=(SP2, early)), Alternative(terms=(SP2, late, early)))
    )
    assert [span_of(both, each) for each in both.alternatives] == [(-600, 3_600), (-600, 10_800)]
    assert span(both) == (-600, 10_800)


def test_a_request_of_very_many_terms_or_comparisons_is_refused_as_a_whole() -> None:
    one = Alternative(terms=(Term(resource="a/b"),) * 16)
    many = Request(alternatives=(one,) * 9, duration_s=60, not_before=0, not_after=6_000)
    msgspec.structs.replace(many, alternatives=(one,) * 8).check()
    with pytest.raises(InvalidInput, match="144 terms in all"):
        many.check()
    asked = tuple(
        Term(
            attributes=tuple(
                Attribute(name=f"a{number}", operator="=", value=place) for number in range(60)
            )
        )
        for place in range(5)
    )
    picky = msgspec.structs.replace(many, alternatives=(Alternative(terms=asked),))
    with pytest.raises(InvalidInput, match="300 different comparisons"):
        picky.check()
    msgspec.structs.replace(many, alternatives=(Alternative(terms=asked[:4]),) * 2).check()

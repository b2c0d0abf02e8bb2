"""The text form of requests, case by case; the laws are in test_language_properties."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kalends.core import limits
from kalends.core.durations import parse_duration
from kalends.core.errors import InvalidInput
from kalends.core.language import (
    format_alternatives,
    format_comparison,
    format_term,
    parse_alternatives,
    parse_request,
)
from kalends.core.requests import Alternative, Attribute, AttributePreference, Term
from kalends.core.times import parse_time
from kalends.core.windows import Daily

NOW = 1_772_440_200
DOCUMENT = Path(__file__).parents[3] / "docs" / "requests.md"


def one_term(text: str) -> Term:
    (alternative,) = parse_alternatives(text)
    (term,) = alternative.terms
    return term


def refusal(text: str) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        parse_alternatives(text)
    return caught.value


def test_n_of_k_by_attributes() -> None:
    (both,) = parse_alternatives("3 of {kind=sgi, memory>=64} + 2 of {kind=pentium}")
    sgi = Attribute(name="kind", operator="=", value="sgi")
    memory = Attribute(name="memory", operator=">=", value=64)
    pentium = Attribute(name="kind", operator="=", value="pentium")
    assert both.terms == (
        Term(attributes=(sgi, memory), count=3),
        Term(attributes=(pentium,), count=2),
    )


def test_plus_binds_tighter_than_the_bar() -> None:
    assert parse_alternatives("sdsc/sp2:64 | ctc/sp2:64 + caltech/onyx") == (
        Alternative(terms=(Term(resource="sdsc/sp2", units=64),)),
        Alternative(terms=(Term(resource="ctc/sp2", units=64), Term(resource="caltech/onyx"))),
    )


def test_stages_at_offsets() -> None:
    text = "caltech/net @-10m for 10m + sdsc/sp2:64 + ncsa/printer @+2h for 30m"
    assert parse_alternatives(text)[0].terms == (
        Term(resource="caltech/net", offset_s=-600, duration_s=600),
        Term(resource="sdsc/sp2", units=64),
        Term(resource="ncsa/printer", offset_s=7_200, duration_s=1_800),
    )


def test_moldable_amounts_weights_and_units_of_each() -> None:
    assert parse_alternatives("{kind=sgi}:4 + sdsc/sp2:32..64 weight -1.5 | a/b weight 2") == (
        Alternative(
            terms=(
                Term(attributes=one_term("{kind=sgi}").attributes, units=4),
                Term(resource="sdsc/sp2", units=32, units_max=64),
            ),
            weight=-1.5,
        ),
        Alternative(terms=(Term(resource="a/b"),), weight=2.0),
    )


def test_an_attribute_with_a_weight_is_preferred_and_need_not_be_met() -> None:
    memory = Attribute(name="memory", operator=">=", value=128)
    site = Attribute(name="site", operator="in", value=("a", "b"))
    assert one_term("{memory>=128 weight 2, kind=sgi, site in (a, b) weight -0.5}") == Term(
        attributes=one_term("{kind=sgi}").attributes,
        preferred=(
            AttributePreference(attribute=memory, weight=2.0),
            AttributePreference(attribute=site, weight=-0.5),
        ),
    )
    (named,) = one_term("{weight=weight, a=weight weight 3}").preferred
    assert (named.attribute.value, named.weight) == ("weight", 3.0)


def test_the_weight_of_an_amount_stands_in_brackets_with_it() -> None:
    (alternative,) = parse_alternatives("sdsc/sp2:( 32 .. 64 weight 2 ) @1h weight 3")
    assert alternative.weight == 3.0
    assert alternative.terms == (
        Term(resource="sdsc/sp2", units=32, units_max=64, units_weight=2.0, offset_s=3_600),
    )


@pytest.mark.parametrize(
    ("text", "operator", "value"),
    [
        ("a=1", "=", 1), ("a!=-1", "!=", -1), ("a<1.5", "<", 1.5), ("a<=1e3", "<=", 1000.0),
        ("a>x", ">", "x"), ("a>=007", ">=", 7), ("a=true", "=", True), ("a=false", "=", False),
        ('a="true"', "=", "true"), ("a='it\\'s'", "=", "it's"), ('a="\\u00e9\\n"', "=", "é\n"),
        ("a=x-1.y/z_2", "=", "x-1.y/z_2"), ("a in (x,1,true)", "in", ("x", 1, True)),
        ("a in('x')", "in", ("x",)), ("a=True", "=", "True"), ("a=nan", "=", "nan"),
    ],
)  # fmt: skip
def test_comparisons_and_kinds_of_values(text: str, operator: str, value: object) -> None:
    (comparison,) = one_term(f"{{{text}}}").attributes
    assert comparison.operator == operator
    assert repr(comparison.value) == repr(value)


def test_words_of_the_language_are_also_good_names() -> None:
    (term,) = parse_alternatives("2of{in in (in), of=for}:3 for 1h")[0].terms
    assert format_term(term) == "2 of {in in (in), of=for}:3 for 1h"
    assert one_term("for/of").resource == "for/of"
    assert one_term("3/4:5") == Term(resource="3/4", units=5)


def test_an_error_shows_the_line_with_a_caret_below_the_place() -> None:
    error = refusal("sdsc/sp2:x + caltech/onyx")
    assert error.where == "column 10"
    assert error.detail == (
        "expected a number of units, found 'x'\n  sdsc/sp2:x + caltech/onyx\n           ^"
    )


def test_an_error_in_a_text_of_several_lines_names_the_line() -> None:
    error = refusal("sdsc/sp2:64\n  + caltech/onyx $\n")
    assert error.where == "line 2, column 18"
    assert error.detail.endswith("\n    + caltech/onyx $\n" + " " * 19 + "^")


def test_an_error_in_a_long_line_shows_only_what_is_near() -> None:
    error = refusal("a/b + " * 20 + "c/d ? " + "+ a/b " * 9 + "+ a/b " * 9)
    _, line, caret = error.detail.split("\n")
    assert len(line) < 140
    assert line[len(caret) - 1] == "?"
    assert line.startswith("  ...")
    assert line.endswith("...")


@pytest.mark.parametrize(
    ("text", "column", "advice"),
    [
        ("2 sgi", 1, "write 2 of {kind=sgi}"),
        ("2 of sgi", 6, "write 2 of {kind=sgi}"),
        ("2x SGI", 1, "write 2 of {kind=sgi}"),
        ("2 of sdsc/sp2", 6, "write sdsc/sp2:2"),
        ("2 sdsc/sp2", 1, "write sdsc/sp2:2"),
        ("sdsc/sp2 64", 10, "sdsc/sp2:64"),
        ("sgi", 1, "{kind=sgi}"),
        ("SDSC/SP2", 1, "write sdsc/sp2"),
        ("a/b/c", 1, "site/name"),
        ("", 1, "site/name"),
        ("a/b +", 6, "site/name"),
        ("?", 1, "site/name"),
        ("a/b || c/d", 6, "one |"),
        ("a/b and c/d", 5, "with +"),
        ("a/b, c/d", 4, "with +"),
        ("a/b & c/d", 5, "with +"),
        ("a/b or c/d", 5, "with |"),
        ("a/b c/d", 5, "join terms with +"),
        ("{memory>=64GB}", 10, "write memory>=64 in the unit that the owner lists"),
        ("{day=2026-03-02}", 6, '"2026-03-02" in quotes'),
        ("{a=}", 4, "write a=64"),
        ("{a=1e999}", 4, "larger unit"),
        ("{a=9223372036854775808}", 4, "larger unit"),
        ("{}", 2, "{kind=sgi}"),
        ("{kind}", 6, "kind=true"),
        ("{Kind=sgi}", 2, "write kind"),
        ("{=sgi}", 2, "begin with a lower case letter"),
        ("{kind==sgi}", 6, "write kind= instead of =="),
        ("{kind: sgi}", 6, "write kind= instead of :"),
        ("{memory≥64}", 8, "write memory>= instead of ≥"),
        ("{memory=>64}", 8, "write memory>= instead of =>"),
        ("{kind not in (sgi)}", 7, "write kind!= instead of not"),
        ("{kind in sgi}", 10, "in (sgi, pentium)"),
        ("{kind in (sgi}", 14, "end with )"),
        ("{kind=sgi", 10, "end with }"),
        ("{kind=sgi memory=1}", 11, "commas"),
        ("{shared>true}", 9, "shared=true"),
        ("{kind='sgi}", 7, "end it with '"),
        ('{kind="\\ud800"}', 7, "inside write"),
        ("0 of {kind=sgi}", 1, "at least 1"),
        ("257 of {kind=sgi}", 1, "ask for less"),
        ("a/b:0", 5, "at least 1"),
        ("a/b:" + "9" * 99, 5, "ask for less"),
        ("a/b:64nodes", 5, "write :64"),
        ("a/b:10m", 5, "for 10m"),
        ("a/b:32-64", 5, "write 32..64"),
        ("a/b:64..32", 5, "write 32..64"),
        ("a/b:1:2", 6, "units once"),
        ("a/b for 10", 9, "10m"),
        ("a/b for", 8, "for 30m"),
        ("a/b for 1h 30m", 12, "1h30m"),
        ("a/b for 0s", 9, "unit"),
        ("a/b @10", 6, "10m"),
        ("a/b @08:00", 6, "HH:MM:SS"),
        ("a/b @", 6, "@-10m"),
        ("a/b for 10m @-10m", 13, "before the duration"),
        ("a/b weight heavy", 12, "weight 2"),
        ("a/b weight 1e10", 12, "smaller weights"),
        ("a/b*2", 4, "a/b weight 2".replace("a/b", "sdsc/sp2")),
        ("{kind=sgi weight}", 17, "weight 2"),
        ("{kind=sgi weight -2e9}", 18, "smaller weights"),
        ("{memory>=64 weight 2}", 2, "add a condition"),
        ("a/b:(64 weight 2)", 9, "write :64, or give a range: :(64..128 weight 2)"),
        ("a/b:(3..3 weight 2)", 11, "write :3"),
        ("a/b:(32..64)", 12, "write (32..64 weight 2), or leave the ( ) out"),
        ("a/b:(32..64 weight 2", 21, "write (32..64 weight 2)"),
        ("a/b:(x)", 6, "whole number"),
    ],
)
def test_a_mistake_is_pointed_at_and_the_right_form_suggested(
    text: str, column: int, advice: str
) -> None:
    error = refusal(text)
    assert error.where == f"column {column}"
    assert advice in error.remedy


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (" + ".join(["a/b"] * (limits.TERMS_MAX + 1)), "terms in one alternative"),
        (" | ".join(["a/b"] * (limits.ALTERNATIVES_MAX + 1)), "alternatives"),
        ("{" + ",".join(["a=1"] * (limits.ATTRIBUTES_MAX + 1)) + "}", "comparisons"),
        ("256 of {a=1} + 256 of {a=1} + a/b", "513 resources"),
        ("a/b" + " " * limits.REQUEST_TEXT_MAX, "characters"),
    ],
)
def test_more_than_the_limits_is_refused(text: str, part: str) -> None:
    assert part in refusal(text).detail


def test_the_limits_themselves_are_taken() -> None:
    parse_alternatives(" + ".join(["a/b"] * limits.TERMS_MAX))
    parse_alternatives(" | ".join(["a/b"] * limits.ALTERNATIVES_MAX))
    parse_alternatives("256 of {a=1} + 256 of {a=1}")


def test_terms_are_written_with_nothing_that_does_not_matter() -> None:
    for text in (
        "sdsc/sp2",
        "sdsc/sp2:64 @-10m for 1h30m",
        "{kind=sgi}",
        "3 of {kind in (sgi, pentium), memory>=64}:2..4 @+2h",
        'a/b | {note="two words"} + c/d weight 0.5',
        "{kind=sgi, memory>=128 weight 2}:(32..64 weight -1e-05) for 1h weight 3 | a/b:1..2",
    ):
        assert format_alternatives(parse_alternatives(text)) == text


def test_a_comparison_is_written_as_it_is_read() -> None:
    comparison = Attribute(name="kind", operator="in", value=("true", True, 'a"b\n'))
    assert format_comparison(comparison) == 'kind in ("true", true, "a\\"b\\n")'


def test_a_request_starts_now_and_may_end_whenever_unless_told() -> None:
    request = parse_request("sdsc/sp2:64", duration="2h", now_s=NOW, zone="UTC")
    assert (request.not_before, request.not_after, request.duration_s) == (NOW, 0, 7_200)


def test_a_window_is_read_in_the_zone() -> None:
    request = parse_request(
        "sdsc/sp2",
        duration="2h",
        not_before="tomorrow 08:00",
        not_after="tomorrow 18:00",
        now_s=NOW,
        zone="Europe/Zurich",
    )
    assert request.not_before == parse_time("2026-03-03T07:00Z", NOW, "UTC")
    assert request.not_after == parse_time("2026-03-03T17:00Z", NOW, "UTC")


def test_a_fixed_start_leaves_a_window_as_long_as_the_stages() -> None:
    text = "caltech/net @-10m for 10m + sdsc/sp2:64"
    request = parse_request(text, duration="2h", at=NOW, now_s=NOW, zone="UTC")
    assert (request.not_before, request.not_after) == (NOW - 600, NOW + 7_200)
    alike = parse_request("a/b | c/d", duration="2h", at="now+1h", now_s=NOW, zone="UTC")
    assert (alike.not_before, alike.not_after) == (NOW + 3_600, NOW + 10_800)


@pytest.mark.parametrize(
    ("text", "times", "where"),
    [
        ("a/b", {"at": "now", "not_after": "now+3h"}, "at"),
        ("a/b", {"at": "never"}, "at"),
        ("a/b | c/d @+1h", {"at": "now"}, "at"),
        ("a/b @-2h", {"at": 3_600}, "at"),
        ("a/b", {"not_before": "never"}, "not_before"),
        ("a/b", {"not_before": -1}, "not_before"),
        ("a/b", {"not_after": "never"}, "not_after"),
        ("a/b", {"not_after": "now+1h"}, "alternatives[0]"),
        ("a/b", {"duration": "2"}, "duration"),
        ("a/b", {"duration": "367d"}, "duration"),
        ("a b", {}, "column 1"),
    ],
)
def test_what_cannot_be_is_refused_where_it_was_written(
    text: str, times: dict[str, str | int], where: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_request(text, **{"duration": "2h", "now_s": NOW, "zone": "UTC", **times})
    assert caught.value.where == where
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("text", "column", "detail"),
    [
        ("a/b between 08:00 09:30", 5, "the stage takes 2h, its longest window is only 1h30m long"),
        ("c/d + a/b @1h for 2h between 20:00 21:00", 22, "only 1h long"),
        ("(a/b | c/d) between 08:00 09:00", 13, "only 1h long"),
        ("a/b between 2020-01-01T08:00 2020-01-01T20:00", 5, "no start puts the stage into"),
        ("(a/b between 08:00 11:00) between 10:00 13:00", 27, "never met at one start"),
        ("a/b between 08:00 08:00", 13, "has no length"),
        ("a/b between 25:00 08:00", 13, "not a time of day"),
        ("a/b between 08:00 2026-03-02T08:00", 13, "one of these times has a day"),
        ("a/b between 2026-03-02T08:00 2026-03-02T08:00", 13, "ends when it begins"),
        ("a/b between 08:00 12:00 Europe/Berln", 25, "unknown time zone"),
        ("a/b between 08:00 and 12:00", 19, "expected the second time"),
        ("a/b between 08:00-12:00", 13, "expected a time of day"),
        ("a/b prefer 08:00 12:00", 23, "expected 'weight'"),
        ("a/b weight 2 + c/d", 14, "expected '+', '|' or the end"),
        ("(a/b | c/d", 11, "expected '+', '|' or ')'"),
        ("(a/b between 08:00 12:00 UTC) between 2026-03-02T00:00Z 2026-03-03T00:00Z + c/d", 31,
         "not all of one kind"),
        ("(a/b between 08:00 12:00) between 14:00 18:00 + c/d", 27, "never meet"),
        ("(" * 17 + "a/b" + ")" * 17, 17, "more than 16 brackets"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_windows_and_brackets_is_shown_at_its_column(
    text: str, column: int, detail: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_request(
            text, duration="2h", now_s=NOW, zone="Europe/Zurich", not_after=NOW + 9 * 86_400
        )
    assert caught.value.where == f"column {column}"
    assert detail in caught.value.detail
    assert caught.value.remedy


def test_a_window_without_a_zone_is_in_the_users_or_refused_where_there_is_none() -> None:
    asked = parse_request("a/b between 8:00 12:00", duration="2h", now_s=NOW, zone="Asia/Kolkata")
    assert asked.alternatives[0].terms[0].windows == (Daily("08:00", "12:00", "Asia/Kolkata"),)
    assert "have no zone" in refusal("a/b between 08:00 12:00").detail


def test_a_time_that_clocks_skip_is_refused_in_a_window_too() -> None:
    text = "a/b between 2026-03-29T02:30 2026-03-29T08:00 Europe/Berlin"
    assert refusal(text).where == "column 13"


def test_more_alternatives_than_allowed_are_counted_as_they_would_be_multiplied_out() -> None:
    ways = "(a/b | c/d)"
    assert "for 64 alternatives" in refusal(" + ".join([ways] * 6)).detail
    assert "more than a million" in refusal(" + ".join([ways] * 21)).detail
    assert (
        "33 terms in one alternative" in refusal(" + ".join(["a/b"] * 31) + " + (c/d + c/e)").detail
    )


def examples(kind: str) -> list[str]:
    """The lines of the document's blocks of one kind, without remarks behind two spaces and a #."""
    blocks = re.findall(rf"^```{kind}\n(.*?)^```", DOCUMENT.read_text("utf-8"), re.M | re.S)
    lines = [
        re.split(r"\s{2,}#", line)[0].strip() for block in blocks for line in block.split("\n")
    ]
    return [line for line in lines if line]


@pytest.mark.parametrize("text", examples("request"))
def test_every_request_of_the_document_can_be_asked(text: str) -> None:
    parse_request(text, duration="1h", now_s=NOW, zone="Europe/Zurich")


@pytest.mark.parametrize("text", examples("duration"))
def test_every_duration_of_the_document_is_read(text: str) -> None:
    parse_duration(text)


@pytest.mark.parametrize("text", examples("time"))
def test_every_time_of_the_document_is_read(text: str) -> None:
    parse_time(text, NOW, "Europe/Zurich")


@pytest.mark.parametrize("text", examples("refused"))
def test_every_mistake_of_the_document_is_refused_with_advice(text: str) -> None:
    assert refusal(text).remedy


def test_the_document_has_examples_of_every_kind() -> None:
    for kind in ("request", "duration", "time", "refused"):
        assert len(examples(kind)) >= 4

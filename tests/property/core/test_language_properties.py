"""The language's laws: every request that is valid survives writing and reading, no text breaks it."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.core.intervals import Interval
from kalends.core.language import format_alternatives, parse_alternatives
from kalends.core.requests import (
    Alternative,
    Attribute,
    AttributePreference,
    Request,
    Term,
    WindowPreference,
    check_alternative,
    has_windows,
)
from kalends.core.windows import Daily, TimeWindow, both, check_window, opened

local_names = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,10}", fullmatch=True)
resources = st.builds(lambda site, name: f"{site}/{name}", local_names, local_names)
attribute_names = st.from_regex(r"[a-z][a-z0-9_.-]{0,8}", fullmatch=True) | st.sampled_from(
    ("in", "of", "for", "weight", "true")
)
ordered_values = (
    st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.sampled_from(
        ("true", "false", "sgi", "64GB", "a/b", "nan", "inf", "", '"', "\\", "\x00\x7f")
    )
)
values = ordered_values | st.booleans()
attributes = (
    st.builds(
        Attribute,
        name=attribute_names,
        operator=st.sampled_from(("<", "<=", ">", ">=")),
        value=ordered_values,
    )
    | st.builds(
        Attribute, name=attribute_names, operator=st.sampled_from(("=", "!=")), value=values
    )
    | st.builds(
        Attribute,
        name=attribute_names,
        operator=st.just("in"),
        value=st.lists(values, min_size=1, max_size=3).map(tuple),
    )
)
units = st.integers(1, 100) | st.integers(1, limits.UNITS_MAX)
amounts = st.tuples(units, st.just(0)) | st.tuples(units, units).map(
    lambda pair: tuple(sorted(pair))
)


weights = st.floats(-limits.WEIGHT_MAX, limits.WEIGHT_MAX).map(lambda weight: weight + 0.0)
"""Without the negative zero, which is written as the positive one."""

preferences = st.builds(AttributePreference, attribute=attributes, weight=weights)


clocks = st.builds(lambda h, m: f"{h:02}:{m:02}", st.integers(0, 23), st.integers(0, 59))
zones = st.sampled_from(
    ("UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "EST5EDT")
)
daily = st.builds(Daily, clocks, clocks | st.just("24:00"), zones).filter(
    lambda window: window.start != window.end
)
times_s = st.integers(0, limits.TIME_S_MAX)
windows = daily | st.lists(times_s, min_size=2, max_size=2, unique=True).map(
    lambda ends: Interval(*sorted(ends))
)
window_parts = st.fixed_dictionaries(
    {
        "windows": st.just(()) | st.lists(windows, max_size=2).map(tuple),
        "preferences": st.just(())
        | st.lists(st.builds(WindowPreference, window=windows, weight=weights), max_size=2).map(
            tuple
        ),
    }
)
"""Of a term, or of an alternative."""


@st.composite
def terms(draw: st.DrawFn) -> Term:
    least, most = draw(amounts)
    stage = {
        "units": least,
        "units_max": most,
        "units_weight": draw(st.just(1.0) | weights) if most > least else 1.0,
        "offset_s": draw(st.just(0) | st.integers(-limits.OFFSET_S_MAX, limits.OFFSET_S_MAX)),
        "duration_s": draw(st.just(0) | st.integers(0, limits.DURATION_S_MAX)),
        **draw(window_parts),
    }
    if draw(st.booleans()):
        return Term(resource=draw(resources), **stage)
    return Term(
        attributes=tuple(draw(st.lists(attributes, min_size=1, max_size=3))),
        preferred=tuple(draw(st.lists(preferences, max_size=3))),
        count=draw(st.integers(1, 100)),
        **stage,
    )


def growing(term: Term) -> str:
    """The named resource whose amount may grow: two of them at one time would be refused."""
    return term.resource if term.units_max > term.units else ""


several_terms = st.lists(
    terms(), min_size=1, max_size=3, unique_by=lambda term: growing(term) or object()
)
alternatives = st.lists(
    st.builds(
        lambda terms, weight, own: Alternative(terms=terms, weight=weight, **own),
        several_terms.map(tuple),
        weights,
        window_parts,
    ),
    min_size=1,
    max_size=3,
).map(tuple)


@given(alternatives)
@settings(max_examples=300)
def test_reading_what_was_written_gives_the_same_value_types_and_all(
    made: tuple[Alternative, ...],
) -> None:
    for alternative in made:
        check_alternative(alternative, "alternatives[0]")
    text = format_alternatives(made)
    assume(len(text) <= limits.REQUEST_TEXT_MAX)
    assert repr(parse_alternatives(text)) == repr(made)


@given(alternatives)
def test_writing_is_stable_and_spaces_mean_nothing(made: tuple[Alternative, ...]) -> None:
    text = format_alternatives(made)
    assume('"' not in text and len(text) <= limits.REQUEST_TEXT_MAX // 4)
    assert format_alternatives(parse_alternatives(text)) == text
    spaced = text
    for sign in "|{},()@":
        spaced = spaced.replace(sign, f"\n {sign} \t")
    assert repr(parse_alternatives(spaced)) == repr(made)


PIECES = (
    "sdsc/sp2", "{kind=sgi}", "{", "}", "2 of", "of", ":", "64", "..", "+", "|", "@", "-10m", "for",
    "2h", "weight", "in", "(", ")", ",", "=", "!=", ">=", '"', "'", "\\", "true", "memory", " ", "\n",
    "weight 2", "between", "prefer", "08:00", "20:00 06:00", "between 08:00 12:00", "Europe/Berlin",
    "2026-03-02T08:00Z", "2026-03-02T08:00Z 2026-03-03T08:00Z", "24:00", "1..2",
    "é", "\ud800", "1e9", "1e999", "SDSC/SP2", "9" * 30,
)  # fmt: skip


@given(st.text(max_size=200) | st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
@settings(max_examples=500)
def test_any_text_gives_a_valid_value_or_is_refused_at_a_place(text: str) -> None:
    _read(text)


@given(alternatives, st.data())
def test_a_text_with_one_character_changed_gives_a_valid_value_or_is_refused(
    made: tuple[Alternative, ...], data: st.DataObject
) -> None:
    text = format_alternatives(made)
    at = data.draw(st.integers(0, len(text)))
    _read(text[:at] + data.draw(st.characters(codec=None) | st.just("")) + text[at + 1 :])


def _read(text: str) -> None:
    refused = None
    try:
        made = parse_alternatives(text)
    except InvalidInput as error:
        refused = error
    if refused is None:
        _check(made)
        return
    assert refused.where
    assert refused.detail
    assert refused.remedy
    str(refused).encode()


def _check(made: tuple[Alternative, ...]) -> None:
    """A text that can be read is valid, unless its amounts may compete at one time."""
    for alternative in made:
        names = [name for name in map(growing, alternative.terms) if name]
        if len(names) > len(set(names)):
            return
    if any(map(has_windows, made)):
        return  # Two windows may have no start in common: only a whole request is refused for that.
    Request(alternatives=made, duration_s=1, not_before=0).check()


@st.composite
def bracketed(draw: st.DrawFn, depth: int = 3) -> tuple[str, list[tuple[list[str], Fraction]]]:
    """Alternatives with brackets as text, and what they are: names of terms, and a weight."""
    texts, meant = [], []
    for _ in range(draw(st.integers(1, 2))):
        parts, choices = [], [([], Fraction(0))]
        for _ in range(draw(st.integers(1, 2))):
            if depth and draw(st.booleans()):
                inside, of_part = draw(bracketed(depth=depth - 1))
                weight = draw(st.sampled_from(("", " weight 2", " weight -0.1")))
                extra = Fraction(weight.split()[-1]) if weight else Fraction(0)
                parts.append(f"({inside}){weight}")
                of_part = [(names, worth + extra) for names, worth in of_part]
            else:
                name = draw(st.sampled_from(("a/x", "b/y", "c/z")))
                parts.append(name)
                of_part = [([name], Fraction(0))]
            choices = [
                (names + more, worth + further)
                for names, worth in choices
                for more, further in of_part
            ]
        text = " + ".join(parts)
        if not text.endswith(")") and "weight" not in parts[-1] and draw(st.booleans()):
            text += " weight 0.2"
            choices = [(names, worth + Fraction("0.2")) for names, worth in choices]
        texts.append(text)
        meant += choices
    return " | ".join(texts), meant


@given(bracketed())
@settings(max_examples=300)
def test_brackets_are_multiplied_out_in_order_and_a_weight_in_them_is_its_alternatives(
    made: tuple[str, list[tuple[list[str], Fraction]]],
) -> None:
    text, meant = made
    assume(len(text) <= limits.REQUEST_TEXT_MAX)
    if len(meant) > limits.ALTERNATIVES_MAX:
        with pytest.raises(InvalidInput, match=f"asks for {len(meant):,} alternatives, at most 32"):
            parse_alternatives(text)
        return
    found = [
        ([term.resource for term in each.terms], each.weight) for each in parse_alternatives(text)
    ]
    assert found == [(names, float(worth)) for names, worth in meant]


@given(several_terms.map(tuple), st.integers(1, 5))
def test_a_bracket_around_one_alternative_changes_nothing(
    made: tuple[Term, ...], depth: int
) -> None:
    text = format_alternatives((Alternative(terms=made),))
    assume(len(text) <= limits.REQUEST_TEXT_MAX - 2 * depth)
    assert parse_alternatives("(" * depth + text + ")" * depth) == parse_alternatives(text)


@given(st.lists(daily, min_size=1, max_size=2), daily, st.integers(0, 4_000 * 1_440))
def test_a_window_within_a_window_is_open_when_both_are(
    inner: list[Daily], outer: Daily, minute: int
) -> None:
    inner = [Daily(each.start, each.end, outer.zone) for each in inner]
    common = both(inner, [outer])
    assert common is not None
    for window in common:
        check_window(window, "window")
    second = minute * 60

    def is_open(windows: Iterable[TimeWindow]) -> bool:
        return bool(opened(windows, second, second + 1))

    assert is_open(common) == (is_open(inner) and is_open([outer]))


@given(st.sampled_from(PIECES))
def test_the_longest_repetitions_are_read_or_refused(piece: str) -> None:
    _read(piece * (limits.REQUEST_TEXT_MAX // len(piece)))
    _read(f"{{a={piece}" * (limits.REQUEST_TEXT_MAX // (len(piece) + 3)))

"""What a move, an extend and a shrink make of what is reserved."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.broker.register.test_register import RIDS, record_of

from kalends.broker.coordination.record.decision_record import Record, Spec
from kalends.broker.desk.changes import changed_request, changed_wants
from kalends.broker.planning.planner import fixed_wants
from kalends.contract.calls import Change
from kalends.contract.messages import Want
from kalends.core.errors import InvalidInput
from kalends.core.intervals import Interval
from kalends.core.language import format_alternatives
from kalends.core.requests import Alternative, Request, Term, WindowPreference

START = 1_800_000_000
NOW = START - 86_400
STAGES = (
    Term(resource="a/net", offset_s=-600, duration_s=600),
    Term(resource="b/sp2", units=4),
    Term(resource="c/printer", offset_s=3_600, duration_s=1_800),
)


def reserved(*terms: Term) -> Record:
    request = Request(
        alternatives=(Alternative(terms=terms),),
        duration_s=3_600,
        not_before=START + min(term.offset_s for term in terms),
        not_after=START + max(term.offset_s + (term.duration_s or 3_600) for term in terms),
    )
    record = record_of(RIDS[0], "a-key-of-mine")
    record.spec = Spec(request=request)
    record.wants = fixed_wants(request) or ()
    record.state = "commit"
    assert record.wants
    return record


def change(**fields: object) -> Change:
    return Change(id=RIDS[0], key="another-key", **fields)  # type: ignore[arg-type]  # of Change


def times(wants: tuple[Want, ...]) -> dict[str, tuple[int, int]]:
    return {want.resource: (want.start - START, want.end - START) for want in wants}


def test_a_move_shifts_every_stage_by_the_same_from_common_start_to_common_start() -> None:
    wants = changed_wants(reserved(*STAGES), change(start=START + 7_200), NOW, {})
    assert times(wants) == {
        "a/net": (6_600, 7_200),
        "b/sp2": (7_200, 10_800),
        "c/printer": (10_800, 12_600),
    }


def test_a_new_duration_is_that_of_the_stages_that_follow_the_request() -> None:
    wants = changed_wants(reserved(*STAGES), change(duration_s=7_200), NOW, {})
    assert times(wants) == {"a/net": (-600, 0), "b/sp2": (0, 7_200), "c/printer": (3_600, 5_400)}


def test_a_second_extension_begins_from_the_first() -> None:
    record = reserved(*STAGES)
    once = change(duration_s=7_200)
    record.wants, asked = changed_wants(record, once, NOW, {}), record.spec.request
    record.spec = Spec(request=changed_request(record, record.wants, once))
    assert asked.duration_s == 3_600
    wants = changed_wants(record, change(duration_s=10_800, start=START + 60), NOW, {})
    assert times(wants)["b/sp2"] == (60, 10_860)


def test_units_are_those_that_are_kept_and_the_text_says_so() -> None:
    record = reserved(*STAGES)
    fewer = change(units={"b/sp2": 2})
    wants = changed_wants(record, fewer, NOW, {})
    assert {want.resource: want.units for want in wants} == {"a/net": 1, "b/sp2": 2, "c/printer": 1}
    text = format_alternatives(changed_request(record, wants, fewer).alternatives)
    assert "b/sp2:2" in text
    assert "b/sp2:4" not in text


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        (change(), "duration_s"),
        (change(start=START), "start"),
        (change(duration_s=3_600), "duration_s"),
        (change(units={"b/sp2": 4}), "duration_s"),
        (change(units={"d/other": 1}), "units.d/other"),
        (change(units={"b/sp2": 0}), "units.b/sp2"),
        (change(start=1), "start"),
    ],
)
def test_a_change_to_nothing_or_to_what_cannot_be_is_refused(asked: Change, where: str) -> None:
    record = reserved(*STAGES)
    with pytest.raises(InvalidInput) as refused:
        changed_wants(record, asked, NOW, {})
    assert refused.value.where == where
    assert refused.value.remedy


def test_a_stage_that_is_just_over_stays_as_it_is() -> None:
    record = reserved(Term(resource="a/net", offset_s=-3_600), Term(resource="b/sp2"))
    wants = changed_wants(record, change(duration_s=7_200), START, {})
    assert times(wants) == {"a/net": (-3_600, 0), "b/sp2": (0, 7_200)}


def test_a_change_keeps_to_the_alternative_that_was_reserved() -> None:
    record = reserved(*STAGES)
    other = Alternative(terms=(Term(resource="d/other", offset_s=-7_200, units=1, units_max=9),))
    both = (other, record.spec.request.alternatives[0])
    record.spec = Spec(request=msgspec.structs.replace(record.spec.request, alternatives=both))
    record.alternative = 1
    moved = change(start=START + 7_200)
    wants = changed_wants(record, moved, NOW, {})
    assert times(wants)["b/sp2"] == (7_200, 10_800)
    request = changed_request(record, wants, moved)
    assert request.alternatives == (Alternative(terms=STAGES),)
    assert fixed_wants(request) == wants


def test_a_time_that_the_user_chooses_counts_and_the_windows_of_the_request_no_more() -> None:
    record = reserved(*STAGES)
    window = Interval(START - 3_600, START + 4 * 3_600)
    (asked,) = record.spec.request.alternatives
    preferred = WindowPreference(window=window, weight=2)
    terms = tuple(
        msgspec.structs.replace(term, windows=(window,), preferences=(preferred,))
        for term in asked.terms
    )
    windowed = Alternative(terms=terms, windows=(window,), preferences=(preferred,))
    record.spec = Spec(
        request=msgspec.structs.replace(record.spec.request, alternatives=(windowed,))
    )
    moved = change(start=START + 48 * 3_600)
    wants = changed_wants(record, moved, NOW, {})
    request = changed_request(record, wants, moved)
    request.check()
    assert request.alternatives == (asked,)
    assert fixed_wants(request) == wants


def test_an_amount_that_might_grow_is_fixed_by_a_change_of_units() -> None:
    record = reserved(*STAGES)
    growing = Term(resource="b/sp2", units=4, units_max=8, units_weight=2.0)
    alternatives = (Alternative(terms=(STAGES[0], growing, STAGES[2])),)
    record.spec = Spec(
        request=msgspec.structs.replace(record.spec.request, alternatives=alternatives)
    )
    smaller = change(units={"b/sp2": 2})
    request = changed_request(record, changed_wants(record, smaller, NOW, {}), smaller)
    request.check()
    assert format_alternatives(request.alternatives) == (
        "a/net @-10m for 10m + b/sp2:2 + c/printer @+1h for 30m"
    )

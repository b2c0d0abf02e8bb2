"""What a notebook and a terminal show of answers: drawn, in a zone, escaped, bounded, and short in a line."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kalends
from kalends.client.notebooks.calendar_drawing import HEIGHT, WIDTH
from kalends.contract import calls
from kalends.contract.calendar_steps import moments
from kalends.contract.fields import Want
from kalends.contract.notice_calls import ChangeByOthers, NoticeAddressView
from kalends.core.errors import InvalidInput, NoCommonTime, Refusal
from kalends.core.resources import ResourceInfo, Slot

NOW_S = 1_800_000_000
HOSTILE = "<script>alert(1)</script>\u202e\"'&"
SAFE = "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e&quot;&#x27;&amp;"

REQUEST = calls.RequestView(
    id="673ba8f8-d9a3-7be9-9394-4080cc7feafa", state="reserved", user="ada", text=HOSTILE, note=HOSTILE,
    created_at=NOW_S, start=NOW_S, end=NOW_S + 7_200,
    claims=(calls.ClaimView(resource=HOSTILE, start=NOW_S, end=NOW_S + 7_200, units=8, confirmed=True),),
    waiting=calls.Waiting(since=NOW_S, until=NOW_S + 60, awaited=(HOSTILE,)),
    problem=NoCommonTime(
        HOSTILE, remedy=HOSTILE, refusals=(Refusal(where=HOSTILE, code="busy", detail=HOSTILE),)
    ).to_problem(),
)  # fmt: skip
CHANGED = msgspec.structs.replace(
    REQUEST,
    changed=ChangeByOthers(
        made="moved", by=HOSTILE, at=NOW_S, reason=HOSTILE, was=(Want(HOSTILE, NOW_S, NOW_S + 3_600, 8),)
    ),
)  # fmt: skip
INFO = ResourceInfo(
    name="sdsc/sp2", capacity=64, zone="America/Los_Angeles", hours=HOSTILE, description=HOSTILE
)
CALENDAR = calls.CalendarView(
    resource=INFO, start=NOW_S, end=NOW_S + 86_400, until=NOW_S + 80_000,
    free=((NOW_S, NOW_S + 7_200, 64), (NOW_S + 7_200, NOW_S + 14_400, 24)),
    slots=(Slot(NOW_S + 7_200, NOW_S + 14_400, 20, "held"),
           Slot(NOW_S + 7_200, NOW_S + 14_400, 20, "locked", HOSTILE, HOSTILE)),
)  # fmt: skip
FOUND = calls.Found(
    candidates=(calls.Candidate(start=NOW_S, end=NOW_S + 60, claims=REQUEST.claims),)
)
REFUSED = calls.Found(
    candidates=(), refusals=(Refusal(where=HOSTILE, code="busy", detail=HOSTILE, rule=HOSTILE),)
)
RESOURCES = calls.Resources(
    resources=(INFO,),
    sites=(calls.SiteStatus(site=HOSTILE, url="http://x", state="down", detail=HOSTILE),),
)
SHOWN = [
    REQUEST,
    CHANGED,
    calls.RequestViews([REQUEST, REQUEST]),
    CALENDAR,
    FOUND,
    REFUSED,
    RESOURCES,
]
by_kind = pytest.mark.parametrize("answer", SHOWN, ids=lambda each: type(each).__name__)


@by_kind
def test_it_is_whole_html_that_asks_for_nothing_and_runs_nothing(answer: Any) -> None:
    html = answer._repr_html_()
    root = ElementTree.fromstring(html)
    tags = {each.tag.rpartition("}")[2] for each in root.iter()}
    assert tags <= {
        "div", "b", "span", "table", "thead", "tbody", "tr", "th", "td", "time", "svg", "rect", "title",
        "line", "text",
    }  # fmt: skip
    names = {name for each in root.iter() for name in each.attrib}
    assert not any(name.startswith("on") or name in ("src", "href") for name in names)
    assert SAFE in html
    assert "\u202e" not in html


@by_kind
def test_a_file_of_it_is_in_the_zone_that_is_asked_for(answer: Any) -> None:
    html = kalends.as_html(answer, "Asia/Tokyo")
    assert ("JST" in html) == ("<time" in html)
    with pytest.raises(InvalidInput, match="zone"):
        kalends.as_html(answer, "Mars/Olympus")


def test_what_others_have_made_of_a_request_is_marked_in_tables_and_in_a_line() -> None:
    changed = ChangeByOthers(
        made="placed-elsewhere", by="sdsc", at=NOW_S + 60, reason="a new pump",
        was=(Want("sdsc/sp2", NOW_S, NOW_S + 3_600, 8),),
    )  # fmt: skip
    view = msgspec.structs.replace(REQUEST, changed=changed)
    mark = "reserved (placed elsewhere by sdsc)"
    assert mark in repr(view)
    assert mark in kalends.as_html(calls.RequestViews([view]))
    alone = kalends.as_html(view, "UTC")
    assert mark in alone
    assert "a new pump" in alone
    text = "".join(ElementTree.fromstring(alone).itertext())
    assert "changedFri 2027-01-15 08:01 UTC" in text
    assert "beforesdsc/sp2:8, Fri 2027-01-15 08:00 UTC for 1h" in text
    assert "changed" not in kalends.as_html(REQUEST)


def test_a_calendar_is_in_the_zone_of_its_owner() -> None:
    assert "Fri 2027-01-15 02:00 PST" in kalends.as_html(CALENDAR)
    elsewhere = msgspec.structs.replace(
        CALENDAR, resource=msgspec.structs.replace(INFO, zone="../x")
    )
    assert "2027-01-15" in kalends.as_html(elsewhere)


def test_a_new_webhook_is_shown_without_its_secret() -> None:
    view = NoticeAddressView(
        to="https://h/a", kind="webhook", zone="UTC", added_at=NOW_S, secret="whsec_x"
    )
    assert repr(view) == "<webhook to https://h/a>"
    assert "whsec_x" not in repr((view,))


def test_what_has_no_form_says_so() -> None:
    with pytest.raises(InvalidInput, match="no form"):
        kalends.as_html(7)


def test_a_line_says_what_matters_and_steers_no_terminal() -> None:
    assert repr(REQUEST).startswith("<RequestView cc7feafa reserved: <script>")
    assert "2027-01-15 08:00 UTC for 2h" in repr(REQUEST)
    assert all(line.isprintable() for line in repr(calls.RequestViews([REQUEST])).split("\n"))
    assert repr(CALENDAR) == (
        "<CalendarView sdsc/sp2: 2027-01-15 08:00 to 2027-01-16 08:00 UTC, 2 slots taken>"
    )


def test_a_long_answer_is_drawn_in_bounded_size() -> None:
    many = tuple(
        Slot(NOW_S + at * 4, NOW_S + at * 4 + 4, 1 + at % 60, "locked") for at in range(20_000)
    )
    assert len(kalends.as_html(msgspec.structs.replace(CALENDAR, slots=many))) < 1_000_000
    assert len(kalends.as_html(calls.RequestViews([REQUEST] * 10_000))) < 200_000


slots = st.builds(
    lambda start, length, units, state: Slot(NOW_S + start, NOW_S + start + length, units, state),
    st.integers(-10_000, 100_000), st.integers(1, 50_000), st.integers(1, 8),
    st.sampled_from(["held", "locked"]),
)  # fmt: skip


@given(st.lists(slots, max_size=12), st.integers(1, 64), st.integers(60, 90_000))
def test_every_box_is_inside_and_each_moment_is_as_high_as_what_is_taken(
    taken: list[Slot], capacity: int, length_s: int
) -> None:
    view = calls.CalendarView(
        resource=ResourceInfo(name="a/x", capacity=capacity), start=NOW_S, end=NOW_S + length_s,
        until=NOW_S + length_s, free=(), slots=tuple(taken),
    )  # fmt: skip
    root = ElementTree.fromstring(kalends.as_html(view))
    boxes = [each.attrib for each in root.iter() if "class" in each.attrib]
    for box in boxes:
        x, y, wide, high = (float(box[name]) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + wide <= WIDTH + 0.02
        assert -0.02 <= y <= y + high <= HEIGHT + 0.02
    drawn = sum(
        float(box["width"]) * float(box["height"])
        for box in boxes
        if box["class"] in ("held", "locked")
    )
    across, up = (WIDTH - 40) / length_s, HEIGHT / capacity
    counted = sum(min(step.taken, capacity) * (step.end - step.start) for step in moments(view))
    assert drawn == pytest.approx(counted * across * up, abs=4 * len(boxes))


def test_results_of_simulations_are_tables_and_lines() -> None:
    jobs = [
        kalends.SimulatedJob(id=at, submit_s=at, nodes=2, run_s=100, requested_s=100)
        for at in range(9)
    ]
    result = kalends.simulate(jobs, nodes=4, policy="easy")
    assert re.match(r"<SimulationResult easy: 9 jobs on 4 nodes, mean wait \d+ s, ", repr(result))
    root = ElementTree.fromstring(result._repr_html_())
    assert next(root.iter("td")).text == "easy"
    hostile = msgspec.structs.replace(result, policy=HOSTILE)
    assert SAFE in hostile._repr_html_()
    assert kalends.as_html(result) == result._repr_html_()


def test_a_sweep_is_a_table_of_means() -> None:
    from kalends.simulation.sweeps import sweep

    jobs = [
        kalends.SimulatedJob(id=at, submit_s=at, nodes=2, run_s=100, requested_s=100)
        for at in range(9)
    ]
    cells = sweep(jobs, policies=("fcfs", "easy"), nodes=4, repeats=2, shake_s=5, cores=1)
    root = ElementTree.fromstring(cells._repr_html_())
    told = [each.text for each in root.iter("td")]
    assert {"fcfs", "easy"} <= set(told)
    assert any("\u00b1" in str(each) for each in told)

"""Sites bid for jobs in virtual time: few runs show the shape, and no promised start is missed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bid_brokers import Setting
from bid_world import BidWorld
from legion_bids import lines
from transcripts import run_paper

pytestmark = pytest.mark.xdist_group("legion")
"""One worker makes the run that all of them read."""

SCRIPT = "legion_bids.py"


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What a quick run finds, which is made once."""
    quick: dict[str, Any] = json.loads(run_paper(SCRIPT, "--quick", "--json"))
    return quick


def test_no_place_begins_later_than_was_promised(found: dict[str, Any]) -> None:
    for table in ("scale", "choice", "breadth", "bursts"):
        for row in found[table]:
            assert (row["late_places"], row["places"]) == (0, 300)


def test_without_a_lock_jobs_that_come_together_are_told_starts_that_nobody_keeps(
    found: dict[str, Any],
) -> None:
    rows = {(row["lock"], row["burst"]): row for row in found["locks"]}
    assert rows["nothing", 1]["late_places"] == 0
    assert rows["nothing", 100]["late_places"] > 100
    assert rows["nothing", 100]["very_late_places"] > 0
    for burst in (1, 20, 100):
        assert rows["places", burst]["late_places"] == rows["rectangles", burst]["late_places"] == 0
        assert rows["rectangles", burst]["wait_s"] > 2 * rows["places", burst]["wait_s"]


def test_where_users_know_no_speeds_what_was_learned_of_their_jobs_finds_faster_sites(
    found: dict[str, Any],
) -> None:
    rows = {row["run_times"]: row for row in found["learning"]}
    assert all(row["late_places"] == 0 for row in rows.values())
    response_s = [rows[each]["response_s"] for each in ("true", "learned", "limits")]
    assert response_s == sorted(set(response_s))


def test_messages_and_answers_hang_on_how_many_are_asked(found: dict[str, Any]) -> None:
    for row in (*found["choice"], *found["breadth"]):
        assert row["messages_per_job"] <= 3 * row["asked_per_job"] + 3.001
        assert 50 < row["answer_p50_ms"] < row["answer_p99_ms"] <= 1_000
        assert row["answer_p50_ms"] < row["promise_p50_ms"]
    asked = {row["breadth"]: row["asked_per_job"] for row in found["breadth"]}
    assert asked["2"] == 2 < asked["time"] < asked["weight"] < asked["all"]


def test_two_bids_are_too_few_and_by_weight_does_nearly_as_well_as_asking_all(
    found: dict[str, Any],
) -> None:
    rows = {row["breadth"]: row for row in found["breadth"]}
    assert rows["2"]["wait_s"] > 2 * rows["weight"]["wait_s"]
    assert rows["2"]["heavy_response"] > 1.2 * rows["weight"]["heavy_response"]
    assert rows["weight"]["heavy_response"] < 1.25 * rows["all"]["heavy_response"]


def test_figures_are_shown_as_tables(found: dict[str, Any]) -> None:
    told = "\n".join(lines(found))
    assert "history, and one at random, by weight" in told
    assert "10% of them cut off" in told
    assert told.count("\n100 ") == 1, "the largest burst"


def test_a_run_is_a_function_of_its_seed() -> None:
    def run(seed: int) -> dict[str, Any]:
        return BidWorld(Setting(sites=12, jobs=120, away=0.2, burst=5, seed=seed)).run().figures()

    assert run(1) == run(1) != run(2)

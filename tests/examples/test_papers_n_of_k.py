"""The paper's model of n of k comes out: exact, played and measured costs agree, and have their minimum."""

from __future__ import annotations

import json

import pytest
from transcripts import run_paper

SCRIPT = "reservation_n_of_k.py"


def test_costs_by_the_model_are_those_that_are_played_and_measured() -> None:
    found = json.loads(run_paper(SCRIPT, "--busy", "0.3", "--looks", "60", "--json"))
    assert (found["best_by_model"], found["best_with_rounds"]) == (8, 9)
    points = {point["polled"]: point for point in found["points"]}
    assert list(points) == list(range(2, 13))
    for point in points.values():
        if point["chance"] > 0.75:
            assert point["played_ms"] == pytest.approx(point["model_ms"], rel=0.1)
        if point["chance"] > 0.99:
            assert point["measured_ms"] == pytest.approx(point["rounds_ms"], rel=0.15)
    least_ms = min(point["measured_ms"] for point in points.values())
    assert points[found["best_with_rounds"]]["measured_ms"] <= 1.05 * least_ms
    assert points[2]["model_ms"] == pytest.approx(3.0 * points[8]["model_ms"], rel=0.05)


def test_the_curve_is_drawn_with_its_least_point_marked() -> None:
    told = run_paper(SCRIPT, "--busy", "0.1", "--looks", "5")
    assert "2 of 12, each taken with a chance of 10%: 7 are asked first" in told
    (marked,) = [line for line in told.splitlines() if line.lstrip().startswith(">")]
    assert marked.split()[1] == "7"
    assert "least: p = 7 by the model" in told

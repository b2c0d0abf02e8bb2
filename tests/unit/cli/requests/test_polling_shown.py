"""What people are shown of polls: the lines of the curve, and the benchmark's figures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from kalends.cli.requests.find import BAR_WIDTH, ROWS_MAX, poll_lines
from kalends.contract.calls import PollPoint, PollView

ROOT = Path(__file__).resolve().parents[4]


def view(count: int, chosen: int) -> PollView:
    curve = tuple(
        PollPoint(polled=polled, delay_ms=400.0 / polled + 4 * polled, chance=1 - 0.5**polled)
        for polled in range(2, count + 1)
    )
    return PollView(term=1, needed=2, candidates=count, chosen=chosen, busy=0.3, curve=curve)


def test_a_short_curve_is_drawn_point_by_point() -> None:
    assert poll_lines(view(5, 4)) == [
        "term 2: 2 of 5, each taken with a chance of 30%: 4 are asked first",
        "polled      delay  enough",
        "     2     208 ms   75.0%  ################################",
        "     3     145 ms   87.5%  ######################",
        "   > 4     116 ms   93.8%  ##################",
        "     5     100 ms   96.9%  ###############",
    ]


def test_of_a_long_curve_both_ends_and_the_chosen_point_are_shown() -> None:
    told = poll_lines(view(500, 173))[2:]
    assert len(told) <= ROWS_MAX
    assert told[0].split()[0] == "2"
    assert told[-1].split()[0] == "500"
    (marked,) = [line for line in told if ">" in line]
    assert marked.split()[1] == "173"
    assert max(line.count("#") for line in told) == BAR_WIDTH
    numbers = [int(line.replace(">", " ").split()[0]) for line in told]
    assert numbers == sorted(numbers)


def test_a_term_without_a_curve_is_told_in_one_line() -> None:
    empty = PollView(term=0, needed=1, candidates=0, chosen=0, busy=0.0)
    assert poll_lines(empty) == [
        "term 1: 1 of 0, each taken with a chance of 0%: 0 are asked first"
    ]


def test_the_benchmark_finds_the_chosen_p_within_five_hundredths_of_the_measured_best() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "n_of_k.py", "--seeds", "80", "--json", "--only",
         "q=0.3 sigma=0.6"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["scenarios"]
    assert found["chosen"] == 9
    assert found["chosen_over_best"] <= 1.05
    assert found["learned_over_best"] <= 1.10
    points = {point["polled"]: point for point in found["curve"]}
    assert points[2]["measured_ms"] > 1.5 * points[9]["measured_ms"]
    for point in points.values():
        if point["chance"] > 0.99:
            assert abs(point["measured_ms"] - point["predicted_ms"]) <= 4 * point["error_ms"]

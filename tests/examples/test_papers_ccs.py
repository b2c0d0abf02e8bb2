"""The figures of Gehring and Ramme 1996 come out: packings exactly, estimates of waiting times better by
as much as in the paper when the mapper verifies what is planned."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from ccs_readings import Outcome, measured
from transcripts import EXAMPLES, ROOT, environment, run_paper


def test_the_four_packings_of_the_paper_come_out_exactly() -> None:
    found = {each["algorithm"]: each for each in json.loads(run_paper("ccs_packing.py", "--json"))}
    shown = {
        name: (round(each["utilization_percent"], 2), each["mean_wait"])
        for name, each in found.items()
    }
    assert shown == {
        "ffdh": (85.60, 63.0),
        "ffih": (85.60, 18.5),
        "ffdh*": (89.49, 60.5),
        "ffih*": (85.60, 18.5),
        "fcfs*": (82.03, 27.0),
    }


def test_the_drawing_has_every_request_with_its_nodes_and_time() -> None:
    drawn = run_paper("ccs_packing.py")
    assert "ffdh*      89.49   89.49         60.5    60.5" in drawn
    first = drawn.split("\n\n")[1].splitlines()[1:]
    assert len(first) == 16
    assert "".join(first).count("2") == 16 * 25
    assert "".join(first).count("6") == 8 * 20


def test_verified_estimates_are_better_by_as_much_as_in_the_paper_and_ivs_beats_ffdh() -> None:
    found = json.loads(run_paper("ccs_waiting_times.py", "--windows", "3", "--json"))
    assert [each["verified"]["jobs"] for each in found["windows"]] == [600] * 3
    assert found["less_error_percent"] >= 76
    for each in found["windows"]:
        assert each["verified"]["ev_entering_scheduler"] == 0
        assert each["autonomous"]["ev_entering_scheduler"] > 0
        assert sum(each["verified"]["error_classes"]) == 600
        assert each["ivs"]["utilization"] > each["ffdh"]["utilization"]
        assert each["ivs"]["mean_wait_s"] < each["ffdh"]["mean_wait_s"]
    assert found["ivs_more_utilization_percent"] == pytest.approx(30, abs=15)


def test_ev_is_of_the_chosen_errors_and_divided_by_the_largest_that_is_meant() -> None:
    autonomous = Outcome([0, 0, 30, -10, 20], [0, 50, 40, 0, 30])
    found = measured(autonomous, Outcome([0, 0, 0, 0, 40], [0, 50, 40, 0, 80]))
    assert found["as printed"] == (pytest.approx(40), pytest.approx(20))
    assert found["of those who wait"] == (pytest.approx(100 * 50 / 90), pytest.approx(100 / 3))
    assert found["of wrong estimates"] == (pytest.approx(100 * 60 / 90), pytest.approx(100))
    assert found["of late starts"] == (pytest.approx(100 * 50 / 60), pytest.approx(100))
    assert found["one E_max for both"] == (pytest.approx(30), pytest.approx(20))
    assert found["of the wait"] == (pytest.approx(100 * 60 / 130), pytest.approx(100 * 40 / 170))


def test_ivs_gains_as_little_waiting_as_in_the_paper_only_on_small_blocks() -> None:
    rows = json.loads(
        run_paper("ccs_readings.py", "--ivs", "--jobs", "200", "--windows", "1", "--json")
    )
    of = {(row["arrivals"], row["requests"]): row for row in rows}
    small = of["one block, as Fig. 4", 5]
    assert 3 < small["less_wait_percent"] < 12
    assert small["most_utilization_percent"] > 25
    streams = [row for row in rows if row["requests"] == 200]
    assert len(streams) == 10
    assert min(row["less_wait_percent"] for row in streams) > 50


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--windows", "50", "the log has 3000 jobs"),
        ("--interactive", "most", "say who is interactive"),
        ("--machine", "mesh2d:5x5", "25 nodes are no multiple of the log's 128 processors"),
        ("--load", "0", "positive load"),
    ],
)
def test_a_wrong_option_is_told_and_nothing_runs(option: str, value: str, told: str) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "papers" / "ccs_waiting_times.py", option, value],
        env=environment({"PYTHONPATH": str(ROOT / "src")}), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert told in done.stderr


def test_windows_find_the_start_of_suggestions_and_of_trying_every_minute_in_two_rounds() -> None:
    options = ("--machines", "2,6", "--loads", "70", "--runs", "12", "--booked", "40", "--json")
    found = json.loads(run_paper("ccs_steps.py", *options))
    assert [each["machines"] for each in found] == [2, 6]
    assert {each["windows"] for each in found} == {2}
    few, many = found
    assert 2 < few["suggestions_p50"] <= many["suggestions_p50"] < many["suggestions_p99"]
    assert 0 < few["wait_h"] < many["wait_h"]

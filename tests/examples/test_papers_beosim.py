"""What Jones and Pang 2003 print of Beosim comes out again: the M/M/m table, and the policies compared."""

from __future__ import annotations

import json
from typing import Any

import pytest
from transcripts import EXAMPLES, ROOT, run_paper


def test_the_formulas_are_what_the_paper_prints_and_simulations_lie_around_them() -> None:
    found: dict[str, Any] = json.loads(run_paper("beosim_mmm.py", "--jobs", "20000", "--json"))
    assert len(found["rows"]) == 7
    for row in found["rows"]:
        for key, printed in row["paper_formula"].items():
            # As many digits as the paper has, rounded or cut off.
            assert row["formula"][key] == pytest.approx(printed, rel=1e-3, abs=6e-4), (
                row["m"],
                key,
            )
            ours = row["kalends"][key]
            assert abs(ours["mean"] - row["formula"][key]) <= 1.5 * ours["off"], (row["m"], key)
        cut = row["formula_with_mu_as_printed"]["T"]
        assert abs(cut - row["paper_formula"]["T"]) > 0.4
    assert found["within"] >= found["compared"] - 2
    pool = found["pool"]
    assert abs(pool["kalends"]["T"]["mean"] - pool["formula"]["T"]) <= pool["kalends"]["T"]["off"]
    co = found["co_allocation"]
    assert co["ordered"] == pytest.approx(co["ordered_exact"], rel=0.01)
    assert co["total"] == pytest.approx(co["one_cluster_exact"], rel=0.01)
    assert co["ordered"] < co["unordered_first_fit"] < co["unordered_worst_fit"] < co["total"]


def test_scan_beats_no_scan_and_backfill_gives_a_quarter_more_utilization_than_fcfs() -> None:
    found: dict[str, Any] = json.loads(run_paper("beosim_policies.py", "--quick", "--json"))
    drawn = found["conclusions"]
    for held, of in drawn["scan_at_least_as_good"].values():
        assert held == of == 20
    assert drawn["fcfs_best_in"] == 0
    assert drawn["slack_0_is_easy"]
    assert drawn["no_hops_is_fcfs"]
    for measure in ("utilization", "wait_s", "depth"):
        assert drawn["best"]["3000"][measure] != "fcfs"
    assert drawn["best"]["20000"]["utilization"] == "all alike"
    assert drawn["best"]["3000"]["utilization"] == "bjf-scan"
    fcfs = found["points"]["0"]["fcfs"]["utilization"]
    assert fcfs == pytest.approx(drawn["fcfs_saturates_at"], rel=0.02)
    gains = drawn["easy_over_fcfs_utilization"]
    assert gains["20000"] == pytest.approx(0, abs=0.005)
    assert gains["3000"] == pytest.approx(0.25, abs=0.03)


def test_the_longest_first_are_nowhere_best_under_what_the_paper_says_plainly() -> None:
    rows = json.loads(run_paper("beosim_readings.py", "--quick", "--json"))
    assert len(rows) == 48
    for row in rows:
        # Nobody uses more than is offered: where that is little, all are alike.
        assert abs(row["at"]["15000"]["ahead"]) < 1e-3
    plain = [row for row in rows if (row["scan"], row["size"]) == ("rank", "run time")]
    assert len(plain) == 8
    for row in plain:
        assert row["at"]["3000"]["best_other"] == "bjf-scan"
        assert row["at"]["3000"]["ahead"] < -0.03


def test_the_tables_are_printed() -> None:
    told = run_paper("beosim_mmm.py", "--quick")
    assert "0.005   .0059  4  W      0.637      0.64     0.657" in told
    assert "of 24 formulas lie within our intervals." in told


def test_the_page_about_grids_shows_what_the_example_prints() -> None:
    assert (EXAMPLES / "output" / "grid.txt").read_text() in (
        ROOT / "docs" / "grids.md"
    ).read_text()

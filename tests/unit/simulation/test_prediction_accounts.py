"""The accounts of predicted starts: shares of all, of thirds, and of blocks that came one after another."""

from __future__ import annotations

from coverage_of_predictions import swings, thirds

from kalends.scheduling.prediction.predictor import Prediction
from kalends.simulation.prediction_accuracy import Accounts


def accounts_of(late: list[bool]) -> Accounts:
    """All start 100 s after their prediction; who is late was told 10 s less for both bounds."""
    accounts = Accounts()
    for each in late:
        told_s = 90 if each else 100
        accounts.add(Prediction(0, 200, 50, told_s, told_s), 100)
    return accounts


def test_an_average_that_holds_may_hide_a_share_that_swings() -> None:
    accounts = accounts_of([True] * 40 + [False] * 80 + [True] * 40 + [False] * 80)
    assert round(accounts.summary()["p50_coverage"], 9) == round(2 / 3, 9)
    assert [p50 for p50, _ in thirds(accounts)] == [0.5, 0.5, 1.0]
    assert swings(accounts, 40) == [(0.0, 1.0), (0.0, 1.0)]
    assert swings(accounts, 80) == [(0.5, 1.0), (0.5, 1.0)]


def test_only_whole_blocks_count_and_few_jobs_are_one_block() -> None:
    accounts = accounts_of([False] * 10 + [True] * 9)
    assert swings(accounts, 10) == [(1.0, 1.0), (1.0, 1.0)]
    assert swings(accounts, 1000) == [(10 / 19, 10 / 19), (10 / 19, 10 / 19)]


def test_the_pinball_loss_counts_nine_early_seconds_as_much_as_one_late() -> None:
    found = accounts_of([True]).summary()
    assert (found["p90_pinball_s"], found["p50_pinball_s"]) == (9.0, 5.0)
    assert round(found["requested_pinball_s"], 9) == 10.0

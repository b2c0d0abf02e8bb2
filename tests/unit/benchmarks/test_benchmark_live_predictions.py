"""The benchmark of live predictions: only who waits is predicted, and the command tells its figures."""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path

import pytest
from benchmarks import live_predictions as command
from benchmarks.live_predictions import FollowingQueue, LivePredictions
from benchmarks.live_queue.comparison import first_jobs
from benchmarks.live_queue.replay import LiveReplay

LOG = Path(__file__).parents[2] / "data" / "logs" / "KTH-SP2-1996-2.1-cln.swf.gz"
JOBS = 400


def test_just_the_jobs_that_wait_are_predicted_after_every_event() -> None:
    nodes, jobs = first_jobs(LOG, JOBS)
    following = FollowingQueue()
    replay = LiveReplay(jobs, policy="easy", machine=f"pool:{nodes}", store=following.store)
    waited = 0
    for event in islice(replay.events(), 2 * JOBS):
        found = following.predictions()
        assert found.keys() == following.waiting
        assert all(event.now <= told.p50_s <= told.p90_s for told in found.values())
        waited += len(found)
    assert waited > 100


def test_every_job_that_waited_counts_once_whatever_it_was_told() -> None:
    nodes, jobs = first_jobs(LOG, JOBS)
    predictions = LivePredictions(jobs, policy="easy", nodes=nodes)
    predictions.measure()
    summary = predictions.accounts.summary()
    assert summary["jobs"] == JOBS
    assert 0 < summary["predicted"] < JOBS
    assert predictions.told == {}


def test_it_is_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["live_predictions", str(LOG), "--jobs", "300", "--json"])
    command.main()
    found = json.loads(capsys.readouterr().out)
    assert (found["jobs"], found["policy"]) == (300, "easy")
    assert 0 <= found["p50_coverage"] <= found["p90_coverage"] <= 1

"""A file of speed-ups makes jobs of a log moldable or malleable, or says what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kalends.core.errors import InvalidInput
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.policies.moldable.moldable import Lazy
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay
from kalends.simulation.malleable import MalleableJob
from kalends.simulation.workloads.speedups import SpeedUps, read_speed_ups


def read(tmp_path: Path, content: Any) -> SpeedUps:
    file = tmp_path / "speedups.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_speed_ups(file)


def test_jobs_are_found_by_number_then_by_class_and_stay_rigid_otherwise(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        {
            "jobs": {"2": {"sizes": [2, 8], "times": [40, 10], "malleable": True, "iterations": 7}},
            "classes": [{"sizes": [1, 2, 4], "times": [100, 53, 30]}],
        },
    )
    log = [
        SimulatedJob(1, 0, 2, 1060, run_s=530, user=7),
        SimulatedJob(2, 5, 2, 80, run_s=80),
        SimulatedJob(3, 6, 3, 50, run_s=50),
    ]
    one, two, three = found.apply(log)
    assert isinstance(one, MalleableJob)
    assert one.molds is not None
    assert (one.nodes, one.requested_s, one.user, one.submit_s) == (1, 2000, 7, 0)
    assert one.molds.sizes == (1, 2, 4)
    assert one.molds.requested_s == (2000, 1060, 600)
    assert not one.molds.malleable
    assert isinstance(two, MalleableJob)
    assert two.molds is not None
    assert two.course is not None
    assert (two.molds.malleable, two.molds.requested_s, two.course.iterations) == (
        True,
        (80, 20),
        7,
    )
    assert three is log[2]
    ended = {job.id: job for job in replay([one, two, three], Scheduler(Lazy(Cluster(8))))}
    assert (ended[1].granted, ended[1].nodes, ended[1].end_s) == (0, 4, 300)
    assert (ended[2].nodes, ended[2].end_s) == (2, 85)


def test_a_named_job_without_a_time_for_its_nodes_is_refused(tmp_path: Path) -> None:
    found = read(tmp_path, {"jobs": {"2": {"sizes": [2, 8], "times": [40, 10]}}})
    with pytest.raises(InvalidInput, match="has 3 nodes in the log") as refused:
        list(found.apply([SimulatedJob(2, 0, 3, 10, run_s=10)]))
    assert refused.value.where == "speed-ups, job 2"
    assert refused.value.remedy == "add 3 to its sizes"


@pytest.mark.parametrize(
    ("content", "detail", "where"),
    [
        ("{", "Input data was truncated", "speedups.json"),
        ({"clases": []}, "unknown field `clases`", "speedups.json"),
        (
            {"classes": [{"sizes": [1, 2]}]},
            r"required field `times` - at `\$.classes",
            "speedups.json",
        ),
        ({"classes": [{"sizes": [], "times": []}]}, "length >= 1", "speedups.json"),
        ({"classes": [{"sizes": [0], "times": [5]}]}, ">= 1", "speedups.json"),
        ({"classes": [{"sizes": [1], "times": [0]}]}, ">= 1", "speedups.json"),
        ({"jobs": {"x": {"sizes": [1], "times": [5]}}}, "Expected `int`", "speedups.json"),
        ({"classes": [{"sizes": [1, 2], "times": [5]}]}, "1 times for 2 sizes", "class 1, times"),
        ({"jobs": {"4": {"sizes": [2, 1], "times": [5, 9]}}}, r"\[2, 1\]", "job 4, sizes"),
        (
            {"classes": [{"sizes": [1], "times": [5], "redistribution_s": 3}]},
            "redistribution 3, reconfiguration 0",
            "class 1, redistribution_s",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    tmp_path: Path, content: Any, detail: str, where: str
) -> None:
    with pytest.raises(InvalidInput, match=detail) as refused:
        read(tmp_path, content)
    assert where in refused.value.where
    assert refused.value.remedy


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        read_speed_ups(tmp_path / "none.json")

"""A user's own policy: how it is loaded, and that one that is wrong is told so, by name and job."""

from __future__ import annotations

import re
from pathlib import Path

import hostile_policies
import pytest
from tests.policy_logs import SmallLog, crowded_log, decided

from kalends.core.errors import InvalidInput, KalendsError
from kalends.scheduling import Cluster, Job, QueuePolicy, Scheduler, policy_maker
from kalends.scheduling.job import Moldability
from kalends.scheduling.registry import POLICIES, PolicyInfo
from kalends.simulation.kernel import replay

ROOT = Path(__file__).parents[3]
LOG = SmallLog(4, ((0, 2, 9, 5, 0), (1, 2, 9, 9, 0), (2, 4, 9, 9, 0), (30, 1, 9, 9, 0)))

WRONG = {
    "NoCluster": "NoCluster raised TypeError",
    "HalfAPolicy": "has no method ended",
    "WrongSignature": "schedule raised TypeError",
    "Raises": "ended raised ZeroDivisionError for job 100: a slip .*hostile_policies.py",
    "Leaves": "schedule raised SystemExit: 3",
    "MakesThemNarrow": "changes what job 100 asks for",
    "ReadsRunTimes": "schedule raised AttributeError: 'SeenJob' object has no attribute 'run_s'",
    "ShortensThem": "submitted raised AttributeError for job 100",
    "MovesTheirEnds": "schedule raised AttributeError",
    "TakesNodesAway": "calls drain, which only the caller of the scheduler may do",
    "StartsTwice": "starts job 100, which does not wait",
    "KeepsInLine": "starts job 100, which does not wait",
    "StartsStrangers": "starts job 99, which does not wait",
    "StartsTheFinished": "starts job 100, which does not wait",
    "StartsTomorrow": "starts job 100 at 86400, and it is 0 now",
    "StopsTheWaiting": "stops job 100, which does not run",
    "EndsThem": "calls end, which only the caller",
    "NeverStarts": "4 jobs were never started, the first is job 100",
    "ForgetsWideOnes": "1 jobs were never started, the first is job 102",
    "WakesNow": "was woken 10,000 times in a row and started nothing",
    "WokeYesterday": "wants to be woken at -1, and it is 0 now",
    "WakesInWords": "wants to be woken at 'tomorrow'",
    "WakesForEver": "was woken 10,000 times in a row and started nothing",
}


def named(name: str) -> str:
    return f"{hostile_policies.__name__}:{name}"


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_policy_is_an_error_that_names_it(name: str) -> None:
    with pytest.raises(InvalidInput, match=WRONG[name]) as caught:
        list(replay(LOG.simulated(), Scheduler(policy_maker(named(name))(LOG.cluster()))))
    assert caught.value.where == f"policy {named(name)}"
    assert caught.value.remedy


def test_every_hostile_class_is_tried() -> None:
    classes = {
        name
        for name, found in vars(hostile_policies).items()
        if isinstance(found, type) and found.__module__ == hostile_policies.__name__
    }
    assert classes == {*WRONG, "RaisesOurs", "AtFullHours", "ClearsWhatRuns"}


def test_what_a_policy_does_to_its_own_lists_changes_nothing() -> None:
    for seed in range(40):
        assert decided(crowded_log(seed), named("ClearsWhatRuns")) == decided(
            crowded_log(seed), "fcfs"
        )


@pytest.mark.parametrize("policy", ["lazy", "adaptive", "reconfigurable"])
def test_a_watched_policy_sizes_jobs_as_an_unwatched_one_does(policy: str) -> None:
    where = next(info.where for info in POLICIES if info.name == policy)

    def starts(name: str) -> list[tuple[int, int, int]]:
        molds = Moldability((1, 2, 4), (40, 25, 15), malleable=True, reconfiguration_s=1)
        scheduler = Scheduler(policy_maker(name)(Cluster(6, live=True)))
        jobs = [Job(number, number, 1, 40, molds=molds) for number in range(6)]
        told = [(now, job) for now, job in enumerate(jobs)]
        found = []
        for now, job in told:
            found += [(now, each.id, each.granted) for each in scheduler.submit(job, now)]
        for now in range(10, 90):
            for job in jobs:
                if job.target:
                    found += [(now, each.id, each.granted) for each in
                              scheduler.resized(job, now, now + 9)]  # fmt: skip
                elif job.granted and job.until_s == now:
                    found += [(now, each.id, each.granted) for each in scheduler.end(job, now)]
        return found

    assert starts(where) == starts(policy)
    assert any(granted > 1 for _, _, granted in starts(policy))


def test_an_error_of_kalends_raised_by_a_policy_stays_as_it_is() -> None:
    with pytest.raises(KalendsError, match="mine") as caught:
        decided(LOG, named("RaisesOurs"))
    assert caught.value.where == "here"


def test_a_policy_may_wake_itself() -> None:
    assert [each[0] for each in decided(LOG, named("AtFullHours"))] == [0, 3600, 7200, 10800]


def test_a_class_cannot_be_loaded_from_nowhere() -> None:
    for text in (
        "no_such_module:Policy",
        "hostile_policies:Nothing",
        "hostile_policies:",
        "a..b:C",
    ):
        with pytest.raises(InvalidInput):
            policy_maker(text)
    for text in ("hostile_policies:__doc__", "os:system"):
        with pytest.raises(InvalidInput, match="is not a class"):
            policy_maker(text)


def test_a_module_that_breaks_while_it_is_loaded_is_told_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_policy_module.py").write_text("1 / 0\n")
    (tmp_path / "misspelt_policy_module.py").write_text("class (\n")
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("broken_policy_module", "misspelt_policy_module"):
        with pytest.raises(InvalidInput, match="cannot be loaded") as caught:
            policy_maker(f"{module}:Policy")
        assert caught.value.where == f"policy {module}:Policy"


PLAIN = [info for info in POLICIES if info.optional or not info.number]


@pytest.mark.parametrize("info", PLAIN, ids=[info.name for info in PLAIN])
def test_a_policy_of_kalends_does_as_well_when_it_is_watched(info: PolicyInfo) -> None:
    for seed in range(40):
        assert decided(crowded_log(seed), info.where) == decided(crowded_log(seed), info.name)


def test_the_template_is_short_and_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    assert len((ROOT / "examples" / "my_policy.py").read_text().splitlines()) <= 30
    for seed in range(40):
        decided(crowded_log(seed), "my_policy:OnePerUser")


def test_backfilling_written_from_the_docs_decides_as_easy_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    for seed in range(40):
        own = decided(crowded_log(seed), "my_backfilling:FirstPromised")
        assert own == decided(crowded_log(seed), "easy")
    source = (ROOT / "examples" / "my_backfilling.py").read_text()
    page = (ROOT / "docs" / "policies.md").read_text()
    [shown] = re.findall(r"^def schedule\(self, now.*?(?=^```)", page, re.M | re.S)
    code = [line.strip() for line in source.split("def schedule")[1].splitlines()]
    assert [line for line in code if line and line[0] != "#"] == [
        line.strip() for line in shown.removeprefix("def schedule").splitlines()
    ]


def test_nothing_watches_the_policies_of_kalends() -> None:
    assert isinstance(policy_maker("fcfs")(Cluster(1)), QueuePolicy)

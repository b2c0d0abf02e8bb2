"""Priorities and interactive jobs by the queue, the user or the group that a log names."""

from __future__ import annotations

from pathlib import Path

import pytest

from kalends import simulate
from kalends.core.errors import InvalidInput
from kalends.scheduling import Cluster, policy_maker
from kalends.scheduling.policies.levels.voting import Ivs
from kalends.simulation.job import SimulatedJob
from kalends.simulation.treatment import Treatment

LINE = "{id} {submit} -1 {run} 4 -1 -1 4 {run} -1 1 {user} {group} -1 {queue} -1 -1 -1"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Five jobs that each want the whole machine; the last two in queue 0, of users 7 and 8, of group 3."""
    jobs = [
        LINE.format(id=number, submit=number, run=10, user=user, group=group, queue=queue)
        for number, (user, group, queue) in enumerate(
            [(1, 1, 1), (1, 1, 1), (2, 2, 2), (7, 3, 0), (8, 3, 0)]
        )
    ]
    path = tmp_path / "log.swf"
    path.write_text("; MaxProcs: 4\n" + "\n".join(jobs) + "\n")
    return path


def started(log: Path, policy: str, treat: str) -> list[int]:
    """The numbers of the jobs by their starts."""
    jobs: list[SimulatedJob] = []
    simulate(log, policy=policy, treat=treat, watchers=[jobs.append])
    return [job.id for job in sorted(jobs, key=lambda job: job.start_s)]


@pytest.mark.parametrize(
    ("treat", "order"),
    [
        ("", [0, 1, 2, 3, 4]),
        ("queue:0=1", [0, 3, 4, 1, 2]),
        ("group:3=1,queue:2=2", [0, 2, 3, 4, 1]),
        ("user:8=2,group:3=1", [0, 4, 3, 1, 2]),
        ("user:8=0,queue:0=1", [0, 3, 1, 2, 4]),
        ("queue:0=interactive", [0, 1, 2, 3, 4]),
    ],
)
def test_a_queue_a_group_and_a_user_have_priorities_the_user_before_all(
    log: Path, treat: str, order: list[int]
) -> None:
    assert started(log, "priority", treat) == order


@pytest.mark.parametrize(
    ("treat", "order"),
    [
        ("", [0, 2, 3, 4, 1]),
        ("group:1=shares:1", [0, 2, 3, 1, 4]),
        ("group:3=shares:2", [0, 2, 3, 4, 1]),
        ("queue:2=5,queue:1=shares:9", [0, 2, 3, 1, 4]),
    ],
)
def test_users_share_the_machine_or_groups_or_queues_with_their_shares(
    log: Path, treat: str, order: list[int]
) -> None:
    assert started(log, "fair-share", treat) == order


def test_shares_are_of_one_kind_of_account(log: Path) -> None:
    with pytest.raises(InvalidInput, match="shares of a group and of a user"):
        started(log, "fair-share", "group:1=shares:2,user:1=shares:2")


def test_ivs_votes_for_interactive_jobs(log: Path) -> None:
    found: list[Ivs] = []

    def ivs(cluster: Cluster) -> Ivs:
        policy = policy_maker("ivs")(cluster)
        assert isinstance(policy, Ivs)
        found.append(policy)
        return policy

    for treat in ("", "queue:0=interactive,user:1=interactive"):
        simulate(log, policy=ivs, treat=treat)
    batch, voted = found
    assert batch.blocks["ffih*"] == 0 < batch.blocks["ffdh*"]
    assert voted.blocks["ffdh*"] == 0 < voted.blocks["ffih*"]


def test_users_are_known_without_a_log_and_queues_are_not() -> None:
    def jobs() -> list[SimulatedJob]:
        return [SimulatedJob(number, 0, 4, 10, user=number, run_s=10) for number in range(3)]

    ended: list[SimulatedJob] = []
    simulate(jobs, policy="priority", nodes=4, treat="user:2=1", watchers=[ended.append])
    assert [job.id for job in ended] == [0, 2, 1]
    with pytest.raises(InvalidInput, match="only jobs of a log have a queue"):
        simulate(jobs, policy="priority", nodes=4, treat="queue:2=1")


@pytest.mark.parametrize(
    "text", ["queue", "queue:0", "queue:0=", "user:a=1", "user:1=-1", "partition:1=1", "user:1=1,"]
)
def test_a_rule_that_cannot_be_read_is_shown(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"'.*' is not a rule") as caught:
        Treatment.of(text)
    assert caught.value.where == "treat"
    assert "queue:0=interactive" in caught.value.remedy

"""What the registry, the command line and the docs say of the policies is the same, and true."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from kalends.cli import cli
from kalends.core.errors import InvalidInput
from kalends.scheduling import Cluster, Scheduler, policy_maker
from kalends.scheduling.registry import POLICIES, PolicyInfo
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay

DOCUMENT = (Path(__file__).parents[3] / "docs" / "policies.md").read_text()
SECTIONS = dict(re.findall(r"^## (\S+)\n\n(.*?)(?=^## |\Z)", DOCUMENT, re.M | re.S))


@pytest.mark.parametrize("info", POLICIES, ids=[info.name for info in POLICIES])
def test_every_policy_has_a_section_with_its_line_and_paper(info: PolicyInfo) -> None:
    section = SECTIONS[info.shown]
    assert f"{info.summary} ({info.paper})" in section
    assert "*Starvation*: " in section
    assert "*Cost*: " in section


def test_no_section_is_about_a_policy_that_is_not_there() -> None:
    names = {
        name for name in SECTIONS if re.fullmatch(r"[a-z]+(-[a-z]+)*\*?(\S*[A-Z_]+\]?)?", name)
    }
    assert names == {info.shown for info in POLICIES}


@pytest.mark.parametrize("columns", [80, 100, 300])
def test_the_command_lists_the_registry_within_the_columns_of_the_terminal(columns: int) -> None:
    run = CliRunner().invoke(cli, ["policies"], env={"COLUMNS": str(columns)})
    lines = run.stdout.splitlines()
    assert max(map(len, lines)) <= columns
    told = [f"{info.shown} {info.summary} ({info.paper})" for info in POLICIES]
    assert run.stdout.split() == " ".join(["POLICY WHAT IT DOES (FROM)", *told]).split()
    assert len([line for line in lines if line[0] != " "]) == len(POLICIES) + 1
    assert len(lines) == len(POLICIES) + 1 or columns < 300


def test_the_command_lists_the_registry_as_json() -> None:
    answer = json.loads(CliRunner().invoke(cli, ["policies", "--json"]).stdout)
    assert (answer["version"], answer["kind"]) == (1, "policies")
    assert [each["shown"] for each in answer["data"]] == [info.shown for info in POLICIES]
    assert [each["paper"] for each in answer["data"]] == [info.paper for info in POLICIES]


def test_the_command_lists_what_an_own_class_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "examples"))
    run = CliRunner().invoke(cli, ["policies", "my_policy:OnePerUser:3"])
    assert run.stdout.splitlines() == [
        "my_policy:OnePerUser",
        "  Each user's shortest job first, at most `most` of a user at once.",
        "  most: int = 1",
    ]
    run = CliRunner().invoke(cli, ["policies", "my_policy:OnePerUser", "--json"])
    answer = json.loads(run.stdout)
    assert answer["kind"] == "own_policies"
    assert answer["data"][0]["parameters"] == [
        {"name": "most", "type": "int", "default": "1", "shown": "most: int = 1"}
    ]
    for refused in ("easy", "easy-slack:3", "my_policy:Missing", "nothing"):
        assert CliRunner().invoke(cli, ["policies", refused]).exit_code == 2


@pytest.mark.parametrize("info", POLICIES, ids=[info.name for info in POLICIES])
def test_a_number_is_taken_where_the_name_shows_one_and_nowhere_else(info: PolicyInfo) -> None:
    good = [info.name] if not info.number or info.optional else []
    good += [f"{info.name}:7"] if info.number else []
    for text in good:
        assert Scheduler(policy_maker(text)(Cluster(4))).waiting == 0
    for text in {
        info.name,
        *(f"{info.name}:{rest}" for rest in ("", "7", "-1", "x", "1" * 10, "٣")),
    }:
        if text not in good:
            with pytest.raises(InvalidInput):
                policy_maker(text)


TABLE = re.findall(r"^\| `([^`]+)` \| (yes|no) \|", DOCUMENT, re.M)
VICTIMS = {
    "wide": ((2, 10, 0), (1, 20, 0)),
    "wide and long": ((2, 20, 0), (1, 10, 0)),
    "long": ((2, 20, 0), (2, 10, 0)),
    "short": ((2, 10, 0), (2, 20, 0)),
    "narrow": ((1, 10, 0), (2, 10, 0)),
    "unimportant": ((2, 10, 0), (2, 10, 1)),
}
"""One job and a stream of others that never ends, on 2 nodes: nodes, time, priority of each."""


@pytest.mark.parametrize(("policy", "starves"), TABLE)
def test_what_can_starve_a_job_does_and_what_cannot_does_not(policy: str, starves: str) -> None:
    """Two of the stream come every 10 s, for 800 of them; a job starves that the last one overtakes."""
    overtaken = []
    for victim, (one, others) in VICTIMS.items():
        shapes = [others, one] + [others] * 800
        jobs = [
            SimulatedJob(
                id=number, submit_s=number // 2 * 10, nodes=nodes, requested_s=length, run_s=length,
                priority=priority,
            )
            for number, (nodes, length, priority) in enumerate(shapes)
        ]  # fmt: skip
        ended = list(replay(jobs, Scheduler(policy_maker(policy)(Cluster(2)))))
        assert len(ended) == len(jobs)
        if jobs[1].end_s >= max(job.end_s for job in jobs[2:]) - 20:
            overtaken.append(victim)
    assert bool(overtaken) == (starves == "yes"), overtaken


def test_the_table_of_the_docs_tells_of_every_policy() -> None:
    assert {name.partition(":")[0] for name, _ in TABLE} == {info.name for info in POLICIES}

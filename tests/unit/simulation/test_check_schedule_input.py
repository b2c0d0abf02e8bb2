"""What is no schedule is refused or told, in bounded time and memory, and never mistaken for one."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kalends.core.errors import InvalidInput
from kalends.simulation.checking import check

REST = "-1 1 1 1 1 1 1 -1 -1"
LOG = f"1 0 -1 10 2 -1 -1 2 10 {REST}\n2 1 -1 10 2 -1 -1 2 20 {REST}\n"
HEAD = "job_id,submission_time,starting_time,finish_time,allocated_resources\n"
GOOD = HEAD + "1,0,0,10,0-1\n2,1,1,11,2-3\n"
BILLION = "0-999999999"
POLICIES = ("any", "fcfs", "easy", "conservative")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.swf"
    path.write_text(LOG)
    return path


def kinds(log: Path, content: str | bytes, policy: str = "any") -> dict[str, int]:
    result = log.with_name("result.csv")
    result.write_bytes(content.encode() if isinstance(content, str) else content)
    return check(log, result, policy, 4).kinds


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "content",
    [
        GOOD,
        GOOD.replace("\n", "\r\n"),
        "\ufeff" + GOOD,
        gzip.compress(GOOD.encode(), mtime=0),
        gzip.compress(HEAD.encode(), mtime=0)
        + gzip.compress(GOOD.removeprefix(HEAD).encode(), mtime=0),
        "\n\n" + GOOD + "\n\n",
    ],
)
def test_a_right_result_is_read_in_every_dress(
    log: Path, policy: str, content: str | bytes
) -> None:
    assert kinds(log, content, policy) == {}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has no job"),
        (HEAD, "has no job"),
        (bytes(range(256)) * 9, "is not text"),
        (GOOD.encode("utf-16"), "is not text"),
        (GOOD[:-9], "3 values for 5 columns"),
        (gzip.compress(GOOD.encode(), mtime=0)[:-6], "ended before"),
        (gzip.compress(GOOD.encode(), mtime=0) + b"junk", "Not a gzipped file"),
        (HEAD + '"1,0,0,10,0-1\n', "unexpected end of data"),
        (HEAD + "1,0,nan,10,0-1\n", "'nan' is not a valid number"),
        (HEAD + "1,0,inf,10,0-1\n", "'inf' is not a valid number"),
        (HEAD + "1,0,1e3,10,0-1\n", "'1e3' is not a valid number"),
        (HEAD + f"1,0,{'9' * 5_000},10,0-1\n", "is not a valid number"),
        (HEAD + "1,0,999999999999999,10,0-1\n", "is not a valid number"),
        (HEAD + f"1,0,0,10,{'7' * 200_000}\n", "field larger than"),
        (HEAD + "1,0,0,10,3-1\n", "'3-1' is not a valid number"),
        (HEAD + "\u0661,0,0,10,0-1\n", "no number of a job"),
        ("job_id,job_id,starting_time\n1,2,0\n", "two columns are named job_id"),
        (f"1.5 0 0 10 2 -1 -1 2 10 {REST}\n", "'1.5' is not a valid number"),
    ],
)
def test_what_is_no_schedule_is_refused(log: Path, content: str | bytes, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as caught:
        kinds(log, content)
    assert "result.csv" in (caught.value.where or "")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("resources", [BILLION, " ".join([BILLION] * 3_000)])
def test_a_billion_nodes_in_a_word_are_told_and_not_counted_one_by_one(
    log: Path, policy: str, resources: str
) -> None:
    found = kinds(log, GOOD.replace("0-1", resources), policy)
    assert found["nodes"] == found["outside"] == found["shared"] == 1


def test_a_billion_nodes_on_a_topology_are_no_partition(log: Path) -> None:
    result = log.with_name("result.csv")
    result.write_text(GOOD.replace("0-1", BILLION))
    report = check(log, result, "easy", machine="mesh2d:2x2")
    assert report.kinds["partition"] == report.kinds["outside"] == 1


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("end", ["0", "-90", "10"])
def test_a_job_that_ends_before_or_when_it_starts_is_told(log: Path, policy: str, end: str) -> None:
    found = kinds(log, GOOD.replace("1,0,0,10,", f"1,0,10,{end},"), policy)
    assert found["run-time"] == 1


def test_a_job_without_nodes_by_name_among_others_is_told(log: Path) -> None:
    assert kinds(log, GOOD.replace("2-3", "")) == {"unnamed": 1}
    assert kinds(log, GOOD.replace("2-3", "").replace("0-1", "")) == {}


def test_a_node_that_a_job_names_twice_is_not_two(log: Path) -> None:
    assert kinds(log, GOOD.replace("0-1", "0-1 1")) == {"nodes": 1}


def test_a_grid_is_checked_as_all_its_nodes_and_for_any_policy_only(log: Path) -> None:
    result = log.with_name("result.csv")
    result.write_text(GOOD)
    assert check(log, result, "any", machine="grid:2@1.0+2").kinds == {}
    result.write_text(GOOD.replace("2-3", "3-4"))
    assert check(log, result, "any", machine="grid:2,2").kinds == {"outside": 1}
    with pytest.raises(InvalidInput, match="which clusters a job may cross"):
        check(log, result, "easy", machine="grid:2+2")
    with pytest.raises(InvalidInput, match="is not a machine"):
        check(log, result, "any", machine="grid:2+")

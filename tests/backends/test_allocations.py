"""How Slurm is asked for the nodes of a job, and what it says is there."""

from __future__ import annotations

import pytest

from kalends.backends.adapter import SystemSilent
from kalends.backends.allocations import Allocation, SystemProgram
from kalends.backends.check_up import check_launching
from kalends.backends.slurm.adapter import Slurm
from kalends.backends.slurm.allocations import SlurmAllocations, minutes, programs

SLURM = SlurmAllocations(Slurm("/etc/slurm.conf"), ("--partition=ours", "--nodes=9"))


def test_exactly_the_named_nodes_are_asked_for_whatever_the_owner_adds() -> None:
    way = SLURM.passage(Allocation("kal.a/b.1.1", ("n2", "n7"), 61, reservation="kal.a.x-1"))
    assert way.asks[0].rpartition("/")[2] == "salloc"
    assert way.asks[1:] == (
        "--partition=ours", "--nodes=9", "--no-shell", "--job-name=kal.a/b.1.1", "--nodes=2",
        "--exclusive", "--time=2", "--nodelist=n2,n7", "--reservation=kal.a.x-1",
    )  # fmt: skip
    assert "--name=kal.a/b.1.1" in way.clears
    assert "--unbuffered" in way.runs


def test_nodes_that_were_handed_over_need_no_reservation_and_a_terminal_is_one_there() -> None:
    way = SLURM.passage(Allocation("kal.a/b.1.1", ("n2",), 60, terminal=True))
    assert not [each for each in way.asks if each.startswith("--reservation")]
    assert "--pty" in way.runs
    assert "--unbuffered" not in way.runs


def test_time_is_asked_for_in_whole_minutes_and_never_less_than_is_needed() -> None:
    assert [minutes(each) for each in (-5, 0, 1, 60, 61, 3_600)] == [1, 1, 1, 1, 2, 60]


def test_a_listing_tells_whose_programs_are_where() -> None:
    text = (
        "daemon|n[1-2]||kal.x-1|kal.a/b.1.1|.\n"
        "daemon||n3|(null)|kal.a/b.2.1|.\n"
        "bob|n4||(null)|an odd\nname|.\nbob|n5||(null)|a|b|.\n"
    )
    assert programs(text) == [
        SystemProgram("kal.a/b.1.1", "daemon", ("n1", "n2"), "kal.x-1"),
        SystemProgram("kal.a/b.2.1", "daemon", ("n3",), ""),
    ]
    assert programs("") == []


@pytest.mark.parametrize(
    "text", ["daemon|n1||(null)|kal.a/b.1.1", "daemon|n1||(null)|kal.a/b.1.1|."]
)
def test_a_listing_that_is_cut_off_is_no_listing(text: str) -> None:
    with pytest.raises(SystemSilent):
        programs(text)


def test_what_this_host_lacks_to_start_programs_is_told() -> None:
    assert check_launching({"ann": "daemon"}, []) == []
    told = "\n".join(check_launching({"ann": "nobody-here", "eve": "root"}, ["srun"]))
    assert "the command srun is not on this host" in told
    assert "nobody-here, as ann is called there, is not a Unix user of this host" in told
    assert "eve is root there" in told

"""What Slurm prints of cores and licences; the lines are as Slurm 22.05.8 printed them."""

from __future__ import annotations

import pytest

from kalends.backends.adapter import SystemSilent
from kalends.backends.slurm import printed

PARTS = (
    "ReservationName=d StartTime=1795903200 EndTime=1795906800 Duration=01:00:00 Nodes=n[1-3] NodeCnt=3 "
    "CoreCnt=7 Features=(null) PartitionName=main Flags=SPEC_NODES{told} TRES=cpu=7 Users=daemon "
    "Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a "
    "MaxStartDelay=(null)\n"
)
TOLD = "   NodeName=n1 CoreIDs=0   NodeName=n2 CoreIDs=0,2   NodeName=n3 CoreIDs=0-3"
LICENCES = (
    "ReservationName=l StartTime=1795727326 EndTime=1795727926 Duration=00:10:00 Nodes={nodes} NodeCnt=0 "
    "CoreCnt=0 Features=(null) PartitionName=(null) Flags={flags} TRES=(null) Users=daemon "
    "Groups=(null) Accounts=(null) Licenses=matlab:4,ansys State=INACTIVE BurstBuffer=(null) Watts=n/a "
    "MaxStartDelay=(null)\n"
)
JOBS = (
    "1|RUNNING|nobody|n1|1795726052|1795733252|(null)|3|(null)|.\n"
    "2|RUNNING|nobody|n[2-3]|1795726052|1795733252|(null)|4|matlab@flex:8;ansys|.\n"
)


@pytest.mark.parametrize(
    ("told", "in_parts", "cores"),
    [(TOLD, True, (1, 2, 4)), ("", True, (7,)), (TOLD, False, ())],
)
def test_a_reservation_tells_the_cores_of_each_node_or_their_sum(
    told: str, in_parts: bool, cores: tuple[int, ...]
) -> None:
    (found,) = printed.reservations(PARTS.format(told=told), in_parts=in_parts)
    assert (found.nodes, found.cores) == (("n1", "n2", "n3"), cores)


@pytest.mark.parametrize(
    ("nodes", "flags", "broken"),
    [
        ("(null)", "ANY_NODES", ""),
        ("(null)", "MAINT,ANY_NODES", "MAINT"),
        ("n2", "SPEC_NODES,ANY_NODES", "ANY_NODES"),
    ],
)
def test_any_nodes_are_no_flaw_of_a_reservation_that_has_licences_alone(
    nodes: str, flags: str, broken: str
) -> None:
    (found,) = printed.reservations(LICENCES.format(nodes=nodes, flags=flags), in_parts=True)
    assert (found.licences, found.broken) == ((("ansys", 1), ("matlab", 4)), broken)


def test_jobs_tell_their_cores_and_licences() -> None:
    one, two = printed.running_jobs(JOBS, {"n1": 2, "n2": 1, "n3": 1})
    assert (one.cores, one.licences) == ((2,), ())
    assert (two.cores, two.licences) == ((4,), (("ansys", 1), ("matlab", 8)))
    assert [each.cores for each in printed.running_jobs(JOBS)] == [(), ()]


def test_a_licence_that_cannot_be_read_is_left_out_and_its_job_is_not() -> None:
    (found,) = printed.running_jobs("1|RUNNING|nobody|n1|1|2|(null)|3|a b|c:d|ansys:2|.\n")
    assert found.licences == (("ansys", 2),)


def test_licences_are_told_with_how_many_there_are() -> None:
    text = (
        "LicenseName=ansys Total=3 Used=0 Free=3 Reserved=0 Remote=no\n"
        "LicenseName=matlab@flex Total=10 Used=8 Free=2 Reserved=4 Remote=yes\n"
    )
    assert printed.licences(text) == (("ansys", 3), ("matlab", 10))
    assert printed.licences("No licenses configured in Slurm.\n") == ()


def test_a_listing_that_is_cut_off_is_no_listing() -> None:
    with pytest.raises(SystemSilent):
        printed.licences("LicenseName=matlab Tot")
    with pytest.raises(SystemSilent):
        list(printed.running_jobs(JOBS[:-3]))
    with pytest.raises(SystemSilent):
        printed.cores_and_threads("n1|idle|up|4|1|")


def test_nodes_tell_their_cores_and_the_threads_of_a_core() -> None:
    cores, threads = printed.cores_and_threads("n1|mixed|up|2|8|2|.\nn2|idle|up|4|1|1|.\n")
    assert (cores, threads) == ({"n1": 16, "n2": 4}, {"n1": 2, "n2": 1})

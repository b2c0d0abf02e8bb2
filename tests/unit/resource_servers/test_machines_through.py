"""Machines whose jobs run through a batch system, as their owner describes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kalends.core.errors import InvalidInput
from kalends.resource_servers.setup.configured_allocations import machines_through
from kalends.serving.configuration import SiteConfiguration, configuration_of

CLUSTER = {"name": "cluster", "capacity": 2, "nodes": "n[1-2]"}
ROOM = {"name": "room", "capacity": 2}


def site(*machines: dict[str, Any], systems: int = 1, kind: str = "slurm") -> SiteConfiguration:
    raw = {
        "name": "centre", "store": "centre.sqlite", "resources": [CLUSTER, ROOM],
        "machines": list(machines), "batch_systems": [{"name": "slurm", "kind": kind}][:systems],
    }  # fmt: skip
    found = configuration_of({"site": raw}, Path("/")).site
    assert found is not None
    return found


def test_jobs_run_in_reservations_where_a_batch_system_has_a_queue_and_else_on_what_it_handed_over() -> (
    None
):
    cluster, room = machines_through(
        site({"resource": "cluster"}, {"resource": "room", "nodes": "n[3-4]"})
    )
    assert (cluster.resource, cluster.nodes, cluster.reserved_only) == (
        "centre/cluster", ("n1", "n2"), True,
    )  # fmt: skip
    assert (room.resource, room.nodes, room.reserved_only) == ("centre/room", ("n3", "n4"), False)


def test_a_machine_without_any_of_it_runs_jobs_on_this_host() -> None:
    assert machines_through(site({"resource": "room"})) == []


@pytest.mark.parametrize(
    ("machine", "where"),
    [
        ({"resource": "cluster", "nodes": "n[1-2]"}, "nodes"),
        ({"resource": "cluster", "batch_system": "slurm"}, "batch_system"),
        ({"resource": "cluster", "no_show": "5m"}, "no_show"),
        ({"resource": "cluster", "users": {"ann": "ann"}}, "users"),
        ({"resource": "cluster", "cores_each": 1}, "cores_each"),
        ({"resource": "room", "batch_system": "slurm"}, "nodes"),
        ({"resource": "room", "nodes": "n[3-5]"}, "nodes"),
        ({"resource": "room", "nodes": "n[2-3]"}, "nodes"),
        ({"resource": "room", "nodes": "n[3-4]", "batch_system": "other"}, "batch_system"),
        (
            {"resource": "room", "nodes": "n[3-4]", "control_group": "/sys/fs/cgroup/x"},
            "control_group",
        ),
        ({"resource": "room", "allocation_options": ["--partition=x"]}, "allocation_options"),
    ],
)
def test_what_says_nothing_of_such_a_machine_is_refused_with_its_place(
    machine: dict[str, Any], where: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        machines_through(site(machine))
    assert caught.value.where == f"site.machines[0].{where}"


@pytest.mark.parametrize(
    "machine", [{"resource": "cluster"}, {"resource": "room", "nodes": "n[3-4]"}]
)
def test_jobs_are_run_through_a_slurm_and_no_other_batch_system(machine: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="not a Slurm") as caught:
        machines_through(site(machine, kind="oar"))
    assert caught.value.where == "site.machines[0].resource"


def test_without_any_batch_system_there_is_none_to_run_jobs_through() -> None:
    with pytest.raises(InvalidInput, match="no batch system"):
        machines_through(site({"resource": "room", "nodes": "n[3-4]"}, systems=0))

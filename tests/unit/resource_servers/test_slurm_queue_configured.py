"""What an owner may say of a machine whose jobs go into the own queue of a Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from kalends.core.errors import InvalidInput
from kalends.resource_servers.setup.assembly import calendars_of
from kalends.resource_servers.setup.configured_allocations import machines_through
from kalends.resource_servers.setup.configured_backends import adapters_of, backends_of
from kalends.resource_servers.setup.configured_hand_over import handed_over_of
from kalends.resource_servers.setup.machine_check import machines_here
from kalends.serving.configuration import SiteConfiguration, configuration_of
from kalends.serving.configuration.rules import ResourceConfiguration

WHOLE = {"name": "cluster", "capacity": 4, "nodes": "n[1-4]", "batch_system": "slurm"}


def site(
    machine: dict[str, Any] | None = None,
    system: dict[str, Any] | None = None,
    more: tuple[dict[str, Any], ...] = (),
) -> SiteConfiguration:
    raw: dict[str, Any] = {
        "name": "centre", "store": "centre.sqlite",
        "resources": [{"name": "queue", "capacity": 4, "batch_system": "slurm"}, *more],
        "machines": [
            {"resource": "queue", **(machine or {})}, *({"resource": each["name"]} for each in more),
        ],
        "batch_systems": [
            {"name": "slurm", "configuration": "/etc/slurm.conf", "users": {"ann": "ann"}, **(system or {})}
        ],
    }  # fmt: skip
    found = configuration_of({"site": raw}, Path("/")).site
    assert found is not None
    return found


def test_a_machine_of_no_nodes_has_slurm_take_its_jobs() -> None:
    owner = site(
        {"allocation_options": ["--partition=all"]}, {"environment": {"HOME": "/x/{user}"}}
    )
    (handed,) = handed_over_of(owner)
    access = handed.access
    assert (handed.resource, access.kind, access.system) == ("centre/queue", "slurm", "slurm")
    assert access.foresees
    assert access.options == ("--partition=all",)
    assert handed.environment == {"SLURM_CONF": "/etc/slurm.conf", "HOME": "/x/{user}"}


def test_its_jobs_are_not_taken_for_jobs_of_this_host() -> None:
    assert machines_here(site()) == {}
    own = structs.replace(
        site(), batch_systems=(), resources=(ResourceConfiguration(name="queue"),)
    )
    assert list(machines_here(own)) == ["centre/queue"]


def test_it_bids_unless_its_owner_says_otherwise_and_nothing_of_it_is_booked() -> None:
    info = calendars_of(site())["centre/queue"].info
    assert (info.advisory, info.queue) == ("slurm", True)
    assert not calendars_of(site({"bids": False}))["centre/queue"].info.queue


def test_the_same_slurm_may_have_nodes_that_are_booked() -> None:
    both = site(more=(WHOLE,))
    assert [each.resource for each in handed_over_of(both)] == ["centre/queue"]
    assert [each.resource for each in machines_through(both)] == ["centre/cluster"]
    assert list(backends_of(both, adapters_of(both))) == ["centre/cluster"]
    calendars = calendars_of(both)
    assert not calendars["centre/cluster"].info.queue
    assert not calendars["centre/cluster"].info.advisory


@pytest.mark.parametrize(
    ("machine", "where"),
    [
        ({"policy": "fcfs"}, "policy"),
        ({"nodes": "n[1-4]"}, "nodes"),
        ({"users": {"a": "b"}}, "users"),
    ],
)
def test_what_slurm_decides_is_refused(machine: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        handed_over_of(site(machine))
    assert refused.value.where == f"site.machines[0].{where}"


def test_settings_of_psij_are_refused_for_it() -> None:
    with pytest.raises(InvalidInput, match="kind slurm has no such setting"):
        site(system={"project": "dna"})

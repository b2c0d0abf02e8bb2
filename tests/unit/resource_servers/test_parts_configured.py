"""Cores and licences of a batch system, as their owner describes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kalends.backends.slurm.adapter import Slurm
from kalends.core.errors import InvalidInput
from kalends.resource_servers.participation.provision.resource_backend import ResourceBackend
from kalends.resource_servers.setup.configured_allocations import machines_through
from kalends.resource_servers.setup.configured_backends import (
    adapters_of,
    backends_of,
    check_files,
)
from kalends.serving.configuration import SiteConfiguration, configuration_of

CORES = {"name": "cores", "capacity": 8, "nodes": "n[1-2]", "cores_each": 4}
MATLAB = {"name": "matlab", "capacity": 10, "licences": "matlab"}


def site(
    *resources: dict[str, Any], kind: str = "slurm", machine: str = "", **settings: str
) -> SiteConfiguration:
    raw = {
        "name": "centre", "store": "centre.sqlite", "resources": list(resources),
        "batch_systems": [{"name": "batch", "kind": kind, **settings}],
        "machines": [{"resource": machine}] if machine else [],
    }  # fmt: skip
    found = configuration_of({"site": raw}, Path("/")).site
    assert found is not None
    return found


def backends(configuration: SiteConfiguration) -> dict[str, ResourceBackend]:
    return backends_of(configuration, adapters_of(configuration))


def test_units_are_cores_of_nodes_or_licences_of_a_name() -> None:
    found = backends(site(CORES, MATLAB))
    cores, licences = found["centre/cores"], found["centre/matlab"]
    assert (cores.unit, cores.room) == ("cores", {"n1": 4, "n2": 4})
    assert (licences.unit, licences.room) == ("licences", {"matlab": 10})


@pytest.mark.parametrize(("resource", "asked"), [(CORES, True), (MATLAB, True), (None, False)])
def test_a_slurm_is_asked_for_cores_and_licences_where_any_are_offered(
    resource: dict[str, Any] | None, asked: bool
) -> None:
    whole = {"name": "cluster", "capacity": 1, "nodes": "n9"}
    (adapter,) = adapters_of(site(whole, *([resource] if resource else []))).values()
    assert isinstance(adapter, Slurm)
    assert adapter.in_parts is asked


@pytest.mark.parametrize(
    ("resources", "where", "why"),
    [
        ([{**CORES, "capacity": 9}], "site.resources[0].capacity", "2 nodes of 4 cores"),
        ([{**CORES, "nodes": ""}], "site.resources[0].cores_each", "needs nodes"),
        (
            [{"name": "cluster", "capacity": 4, "batch_system": "batch"}],
            "site.resources[0].batch_system",
            "no nodes or licences of batch",
        ),
        (
            [
                {"name": "beam", "capacity": 1},
                {"name": "one", "capacity": 2, "nodes": "n[1-2]"},
                {"name": "two", "capacity": 2, "nodes": "n[2-3]"},
            ],
            "site.resources[2]",
            "n2 also belongs to centre/one",
        ),
        ([{**CORES, "licences": "matlab"}], "site.resources[0].licences", "nodes or licences"),
        ([{**MATLAB, "cores_each": 2}], "site.resources[0].licences", "nodes or licences"),
        (
            [CORES, {"name": "cluster", "capacity": 1, "nodes": "n2"}],
            "site.resources[1]", "n2 also belongs to centre/cores",
        ),
        ([MATLAB, {**MATLAB, "name": "again"}], "site.resources[1]", "matlab also belongs to centre/matlab"),
    ],
)  # fmt: skip
def test_what_says_nothing_is_refused_with_its_place(
    resources: list[dict[str, Any]], where: str, why: str
) -> None:
    with pytest.raises(InvalidInput, match=why) as caught:
        backends(site(*resources))
    assert caught.value.where == where


@pytest.mark.parametrize(
    ("resource", "why"),
    [(CORES, "reserves whole nodes only"), (MATLAB, "does not reserve licences")],
)
def test_a_system_that_reserves_no_parts_refuses_them_when_the_site_starts(
    resource: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        backends(site(resource, kind="oar"))


@pytest.mark.parametrize(("resource", "name"), [(CORES, "cores"), (MATLAB, "matlab")])
def test_no_jobs_of_the_site_run_on_parts(resource: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidInput, match="whole nodes") as caught:
        machines_through(site(resource, machine=name))
    assert caught.value.where == "site.machines[0].resource"


def test_a_setting_of_another_kind_of_batch_system_is_refused() -> None:
    with pytest.raises(InvalidInput, match="kind slurm has no such setting") as caught:
        site(queue="all.q")
    assert caught.value.where == "site.batch_systems[0].queue"


def test_a_configuration_of_a_batch_system_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidInput, match="there is no /nowhere") as caught:
        check_files(site(configuration="nowhere/slurm.conf"))
    assert caught.value.where == "site.batch_systems[0].configuration"

"""What an owner may say of a resource whose batch system takes jobs and makes no reservations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kalends.calendars import ResourceCalendar
from kalends.core.errors import InvalidInput, RefusalCode
from kalends.core.principals import Principal
from kalends.resource_servers.setup.assembly import calendars_of
from kalends.resource_servers.setup.configured_backends import adapters_of, backends_of
from kalends.resource_servers.setup.configured_hand_over import handed_over_of
from kalends.serving.configuration import SiteConfiguration, configuration_of
from kalends_psij_queues.kind import PsijSettings, settings_of

DAY_S = 86_400
ANN = Principal("ann")


def site(
    machine: dict[str, Any] | None = None, system: dict[str, Any] | None = None, **resource: Any
) -> SiteConfiguration:
    raw: dict[str, Any] = {
        "name": "lab", "store": "lab.sqlite",
        "resources": [{"name": "far", "capacity": 4, "batch_system": "pbs", **resource}],
        "machines": [{"resource": "far", **(machine or {})}],
        "batch_systems": [{"name": "pbs", "kind": "psij", "executor": "pbs", **(system or {})}],
    }  # fmt: skip
    found = configuration_of({"site": raw}, Path("/")).site
    assert found is not None
    return found


def far() -> ResourceCalendar:
    return calendars_of(site())["lab/far"]


def test_what_the_owner_says_of_jobs_is_said_to_psij() -> None:
    owner = {"queue": "workq", "project": "dna", "attributes": {"pbs.l": "x"}, "look_every": "30s"}
    (handed,) = handed_over_of(site(system=owner))
    access = handed.access
    assert (handed.resource, access.kind, access.system, access.look_s) == (
        "lab/far", "psij", "pbs", 30,
    )  # fmt: skip
    settings = PsijSettings(executor="pbs", queue="workq", project="dna", attributes={"pbs.l": "x"})
    assert settings_of(access) == settings


def test_no_slot_of_it_can_be_had_by_anybody() -> None:
    calendar = far()
    assert calendar.info.advisory == "pbs"
    for actions in (("hold",), ("lock",), ("hold", "lock")):
        refusal = calendar.refusal(ANN, actions, DAY_S, 2 * DAY_S, 1, 0)
        assert refusal is not None
        assert refusal.code == RefusalCode.ADVISORY
        assert refusal.detail.endswith("submit a job to it: kalends submit lab/far")
    assert calendar.free_steps(ANN, 0, DAY_S, 0, 10) == ([], DAY_S)
    assert calendar.earliest_fit(ANN, 1, 60, 0, DAY_S, 0) is None


@pytest.mark.parametrize(
    ("machine", "where"),
    [
        ({"policy": "fcfs"}, "policy"),
        ({"shape": "mesh2d:2x2"}, "shape"),
        ({"nodes": "n[1-4]"}, "nodes"),
        ({"users": {"ann": "ann"}}, "users"),
        ({"no_show": "5m"}, "no_show"),
        ({"directory": "/jobs"}, "directory"),
        ({"output_mb_max": 10}, "output_mb_max"),
        ({"file_mb_max": 10}, "file_mb_max"),
        ({"core_mb_max": 10}, "core_mb_max"),
        ({"allocation_options": ["--qos=low"]}, "allocation_options"),
    ],
)
def test_what_is_for_other_machines_is_refused(machine: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        handed_over_of(site(machine))
    assert refused.value.where == f"site.machines[0].{where}"


def test_a_system_that_no_resource_names_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no resource names this batch system") as refused:
        handed_over_of(site(batch_system=""))
    assert refused.value.where == "site.batch_systems[0].name"


def test_a_system_needs_an_executor_and_makes_no_nodes() -> None:
    with pytest.raises(InvalidInput, match="names in batch systems") as refused:
        site(system={"executor": ""})
    assert refused.value.where == "site.batch_systems[0].executor"
    with pytest.raises(InvalidInput, match="kind slurm has no such setting") as refused:
        site(system={"kind": "slurm"})
    assert refused.value.where == "site.batch_systems[0].executor"
    named = site(nodes="n[1-4]")
    with pytest.raises(InvalidInput, match="makes no reservations") as refused:
        backends_of(named, adapters_of(named))
    assert refused.value.where == "site.resources[0].nodes"

"""What OAR prints is read whole, or refused: half a listing has nothing missing in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kalends.backends.adapter import SystemSilent
from kalends.backends.oar import printed
from kalends.backends.records import SystemJob, SystemReservation, UnwellNode

NAME = "kal.centre.00000000-1"
START_S = 1_795_716_446


def resource(number: int, node: str, **fields: object) -> dict[str, Any]:
    return {
        "resource_id": number, "network_address": node, "state": "Alive", "type": "default",
        "available_upto": 2_147_483_647, "drain": "NO", "cpuset": "0", "deploy": "NO", **fields,
    }  # fmt: skip


def job(number: int, **fields: object) -> dict[str, Any]:
    return {
        "Job_Id": number, "owner": "daemon", "job_user": "daemon", "state": "Waiting", "name": NAME,
        "reservation": "Scheduled", "types": ["container", "noop"], "startTime": START_S,
        "walltime": 3_600, "assigned_resources": [], "assigned_network_address": [],
        "reserved_resources": {
            "1": {"network_address": "n1", "current_state": "Alive"},
            "2": {"network_address": "n1", "current_state": "Alive"},
        },
        "exit_code": None, "command": None, **fields,
    }  # fmt: skip


RESOURCES = [
    resource(number, f"n{(number + 1) // 2}", cpuset=str(number % 2)) for number in range(1, 9)
]


def listing(
    *jobs: dict[str, Any], resources: list[dict[str, Any]] = RESOURCES
) -> printed.Inventory:
    return printed.listing(
        json.dumps({str(each["resource_id"]): each for each in resources}),
        json.dumps({str(each["Job_Id"]): each for each in jobs}) if jobs else "",
    )


def told(*jobs: dict[str, Any], resources: list[dict[str, Any]] = RESOURCES) -> SystemReservation:
    (found,) = listing(*jobs, resources=resources).reservations()
    return found


def test_a_reservation_is_told_with_its_nodes_times_and_user() -> None:
    wanted = SystemReservation(NAME, START_S, START_S + 3_600, ("n1",), ("daemon",))
    begun = {
        "state": "Running", "reserved_resources": None, "assigned_resources": [1, 2],
        "assigned_network_address": ["n1"],
    }  # fmt: skip
    assert told(job(1)) == told(job(1, **begun)) == wanted


@pytest.mark.parametrize(
    ("jobs", "broken"),
    [
        ([job(1, reservation="toSchedule")], "it is not granted yet"),
        ([job(1, walltime=None, startTime=None)], "it is not granted yet"),
        ([job(1, types=["noop"])], "no jobs can be in it"),
        ([job(1, reserved_resources={"1": {"network_address": "n1"}})],
         "others may have 1 of the 2 parts of n1"),
        ([job(1), job(2)], "there are 2 of its name"),
    ],
)  # fmt: skip
def test_what_keeps_a_reservation_from_being_one_is_told(
    jobs: list[dict[str, Any]], broken: str
) -> None:
    assert told(*jobs).broken == broken


def test_a_node_that_has_gone_is_told() -> None:
    assert told(job(1), resources=RESOURCES[2:]).broken == "n1 has gone"


def test_jobs_that_have_nodes_are_told_and_those_in_reservations_with_their_names() -> None:
    running = {
        "state": "Running", "reservation": "None", "types": ["noop"], "walltime": 600,
        "assigned_resources": [3, 4], "assigned_network_address": ["n2"], "reserved_resources": None,
    }  # fmt: skip
    found = listing(
        job(4),
        job(5, **{**running, "types": ["inner=4"]}),
        job(6, **running, owner="nobody", name=None),
        job(7, **{**running, "state": "Waiting", "assigned_network_address": []}),
        job(8, **{**running, "state": "Waiting", "types": ["inner=4"]}),
    )
    assert list(found.running_jobs()) == [
        SystemJob("5", "daemon", ("n2",), START_S, START_S + 600, NAME),
        SystemJob("6", "nobody", ("n2",), START_S, START_S + 600),
    ]
    assert found.inside(found.numbers(NAME)) == [5, 8]


def test_each_state_says_whether_a_node_counts() -> None:
    changed = [
        resource(1, "n1", state="Dead"), resource(2, "n1"), resource(3, "n2", drain="YES"),
        resource(4, "n3", state="Absent", available_upto=0),
        resource(5, "n4", state="Absent", available_upto=START_S + 1),
        resource(6, "licences", type="licence", state="Dead"),
    ]  # fmt: skip
    found = listing(resources=changed)
    assert found.nodes() == ("n1", "n2", "n3", "n4")
    assert found.unwell(START_S) == (
        UnwellNode("n1", "down", "Dead"),
        UnwellNode("n2", "drained", "drained"),
        UnwellNode("n3", "drained", "Absent"),
    )


def test_a_listing_that_is_cut_off_anywhere_is_refused() -> None:
    resources = json.dumps({str(each["resource_id"]): each for each in RESOURCES})
    jobs = json.dumps({"1": job(1)})
    for at in range(len(resources)):
        with pytest.raises(SystemSilent):
            printed.listing(resources[:at], jobs)
    # No jobs at all are printed as nothing at all.
    for at in range(1, len(jobs)):
        with pytest.raises(SystemSilent):
            printed.listing(resources, jobs[:at])


@pytest.mark.parametrize(
    "field", ["owner", "state", "reservation", "types", "startTime", "walltime"]
)
def test_an_entry_that_lacks_what_each_has_is_refused(field: str) -> None:
    wrong = job(1)
    del wrong[field]
    with pytest.raises(SystemSilent):
        listing(wrong)


def test_a_listing_of_something_else_is_refused() -> None:
    resources = json.dumps({str(each["resource_id"]): each for each in RESOURCES})
    for other in (resources, '{"1": {}}', "[]", "OAR is down", '{"2": ' + json.dumps(job(1)) + "}"):
        with pytest.raises(SystemSilent):
            printed.listing(resources, other)

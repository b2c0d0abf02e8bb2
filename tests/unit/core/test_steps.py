"""Jobs in step: what may be a part of one, and what a part finds in its environment."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kalends.core.errors import InvalidInput
from kalends.core.jobs import After, JobRequest
from kalends.core.steps import Step, StepPart, part_in, variables_of_part

JOB = JobRequest(machine="", limit_s=60, command=("true",))
PARTS = (StepPart("ctc/sp2", 4, ("sp2.ctc.edu",)), StepPart("sdsc/onyx", 9, ("o1", "o2")))


def test_each_part_finds_the_addresses_of_all_in_one_order_and_its_own_number() -> None:
    addresses = "ctc/sp2=sp2.ctc.edu sdsc/onyx=o1,o2"
    assert [variables_of_part(PARTS, part.machine) for part in PARTS] == [
        {"KALENDS_PARTS": addresses, "KALENDS_PART": "0"},
        {"KALENDS_PARTS": addresses, "KALENDS_PART": "1"},
    ]


def test_addresses_for_which_an_environment_has_no_room_are_refused() -> None:
    many = StepPart("ctc/sp2", 4, tuple(f"{number:0250}" for number in range(400)))
    with pytest.raises(InvalidInput, match="too many for an environment variable"):
        variables_of_part((many,), "ctc/sp2")


def test_what_is_named_for_a_machine_runs_there_and_the_common_job_elsewhere() -> None:
    other = replace(JOB, command=("show",))
    step = Step(job=JOB, jobs={"sdsc/onyx": other})
    assert [step.job_on(each) for each in ("ctc/sp2", "sdsc/onyx")] == [JOB, other]
    assert Step(jobs={"sdsc/onyx": other}).job_on("caltech/beamline") is None


@pytest.mark.parametrize(
    "fields",
    [
        {"rerun": True}, {"at_most_once": True}, {"terminal": True}, {"sizes": (1, 2)}, {"shape": (1, 1)},
        {"not_before": 5}, {"at": 5}, {"held": True}, {"indices": (1,)}, {"after": (After(job=1),)},
        {"reservation": "0190a000-0000-7000-8000-000000000001"}, {"command": ()},
    ],
)  # fmt: skip
@pytest.mark.parametrize("named", [False, True])
def test_a_part_starts_once_on_the_nodes_and_in_the_time_of_the_request(
    fields: dict[str, Any], named: bool
) -> None:
    wrong = replace(JOB, **fields)
    step = Step(job=JOB, jobs={"ctc/sp2": wrong}) if named else Step(job=wrong)
    with pytest.raises(InvalidInput):
        step.check()
    Step(job=JOB, jobs={"ctc/sp2": JOB}).check()


def test_a_part_has_all_nodes_of_its_slot_until_that_ends() -> None:
    rid = "0190a000-0000-7000-8000-000000000001"
    part = part_in(JOB, "ctc/sp2", 8, rid)
    part.check()
    assert (part.machine, part.nodes, part.limit_s, part.reservation) == ("ctc/sp2", 8, 0, rid)

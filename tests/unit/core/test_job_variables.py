"""A job's environment is its user's, but for what tells a program about its job."""

from __future__ import annotations

import pytest

from kalends.core.errors import InvalidInput
from kalends.core.jobs import JobRequest


@pytest.mark.parametrize("name", ["KALENDS_JOB", "KALENDS_USER", "KALENDS_BROKER", "KALENDS_"])
@pytest.mark.parametrize("from_wire", [False, True])
def test_no_user_sets_what_the_machine_says(name: str, from_wire: bool) -> None:
    job = JobRequest(machine="lab/box", limit_s=60, command=("true",), environment={name: "1"})
    with pytest.raises(InvalidInput, match="are set by the machine") as raised:
        job.check(from_wire=from_wire)
    assert raised.value.where == f"environment.{name}"


def test_other_variables_are_the_users() -> None:
    variables = {"MY_KALENDS_JOB": "1", "kalends_job": "1", "KALENDS": "1"}
    JobRequest(machine="lab/box", limit_s=60, command=("true",), environment=variables).check()

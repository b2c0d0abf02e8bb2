"""Which implementation of a job is for which machine."""

from __future__ import annotations

import pytest

from kalends.client.inputs.machine_requirements import attributes_in
from kalends.core.errors import InvalidInput
from kalends.core.implementations import Implementation, check_implementations, first_to_end
from kalends.core.jobs import JobRequest
from kalends.core.limits import DURATION_S_MAX

JOB = JobRequest(machine="", limit_s=600, command=("true",))
MPI = Implementation(
    name="mpi",
    needs=attributes_in("net=fast", ""),
    sizes=(2, 8),
    limits_s=(900, 300),
    command=("mpi",),
)
GPU = Implementation(
    name="gpu", needs=attributes_in("gpus>=1", ""), sizes=(1,), limits_s=(600,), speed="gflops",
    command=("gpu",),
)  # fmt: skip
WAYS = (MPI, GPU)


def chosen(attributes: dict[str, str | int | float | bool], capacity: int) -> tuple[object, ...]:
    job = first_to_end(JOB, WAYS, attributes, capacity)
    return () if job is None else (job.implementation, job.nodes, job.limit_s, job.command)


def test_each_machine_gets_the_one_that_would_end_first_there() -> None:
    assert chosen({"net": "fast"}, 8) == ("mpi", 8, 300, ("mpi",))
    assert chosen({"net": "fast"}, 7) == ("mpi", 2, 900, ("mpi",))
    assert chosen({"net": "fast", "gpus": 2, "gflops": 1}, 8) == ("mpi", 8, 300, ("mpi",))
    assert chosen({"net": "fast", "gpus": 2, "gflops": 4.0}, 8) == ("gpu", 1, 150, ("gpu",))


@pytest.mark.parametrize(
    "speed", [0, -1, True, "4", 1e-300, 600 / (DURATION_S_MAX + 1), float("inf"), float("nan")]
)
def test_a_machine_of_unknown_or_senseless_speed_does_not_fit(speed: float) -> None:
    assert chosen({"gpus": 2, "gflops": speed}, 8) == ()


def test_what_fits_nowhere_is_said_as_such() -> None:
    assert chosen({"net": "slow"}, 8) == chosen({"net": "fast"}, 1) == ()


def test_a_limit_is_a_second_at_least() -> None:
    assert chosen({"gpus": 1, "gflops": 1e9}, 8) == ("gpu", 1, 1, ("gpu",))


def test_names_are_given_once_and_each_has_something_to_run() -> None:
    with pytest.raises(InvalidInput, match="the same name"):
        check_implementations(JOB, (MPI, MPI))
    with pytest.raises(InvalidInput) as raised:
        check_implementations(JOB, (MPI, Implementation(name="empty", sizes=(1,), limits_s=(1,))))
    assert raised.value.where == "implementations[1].command"


@pytest.mark.parametrize(
    ("sizes", "limits_s"), [((2, 1), (5, 9)), ((1, 1), (5, 9)), ((1, 2), (5,))]
)
def test_each_number_of_nodes_has_one_limit(
    sizes: tuple[int, ...], limits_s: tuple[int, ...]
) -> None:
    wrong = Implementation(name="odd", sizes=sizes, limits_s=limits_s, command=("x",))
    with pytest.raises(InvalidInput) as raised:
        check_implementations(JOB, (wrong,))
    assert raised.value.where == "implementations[0].sizes"

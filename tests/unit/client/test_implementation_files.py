"""Files of implementations: what they say is read, formulas are evaluated, and mistakes are named."""

from __future__ import annotations

import asyncio

import pytest

from kalends.client.inputs.implementation_file import implementations_in, job_of
from kalends.core.errors import InvalidInput
from kalends.core.jobs import JobRequest

TEXT = """
slack = 2.0

[[implementations]]
name = "mpi"
needs = "memory>=64"
nodes = "2-4"
formula = "7200 / nodes + 60"
command = ["./solve-mpi"]

[[implementations]]
name = "gpu"
run_time = { 1 = "10m", 2 = "6m" }
speed = "gflops"
script = "#!/bin/sh\\n./solve-gpu"
"""


def read(text: str) -> list[tuple[str, dict[int, int]]]:
    return [(each.name, each.table()) for each in asyncio.run(implementations_in(text))]


def test_run_times_are_tables_and_formulas() -> None:
    assert read(TEXT) == [("mpi", {2: 7320, 3: 4920, 4: 3720}), ("gpu", {1: 1200, 2: 720})]


def test_the_job_itself_is_the_shortest_of_them() -> None:
    ways = asyncio.run(implementations_in(TEXT))
    job = job_of(JobRequest(machine="", limit_s=1, command=("x",)), ways)
    assert (job.nodes, job.limit_s, job.command) == (2, 720, ())
    assert job.script.startswith("#!/bin/sh")
    job.check()


@pytest.mark.parametrize(
    ("formula", "told"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("-nodes", "is not a time in seconds"),
        ("'long'", "is not a time in seconds"),
        ("open('/etc/passwd')", "cannot be evaluated"),
        ("sum([each for each in range(10 ** 9)])", "cannot be evaluated"),
        ("nodes.__class__", "cannot be evaluated"),
        ("True", "is not a time in seconds"),
    ],
)
def test_a_formula_that_fails_is_told_of_before_anything_is_asked(formula: str, told: str) -> None:
    text = f'[[implementations]]\nname = "one"\ncommand = ["x"]\nformula = "{formula}"\nnodes = 4\n'
    with pytest.raises(InvalidInput, match=told) as raised:
        read(text)
    assert raised.value.where == "implementations[0].formula"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "implementations"),
        ("[[implementations]\n", "implementations"),
        ("[[implementations]]\nname = 'x'\nspeeds = 1\n", "implementations"),
        ("[[implementations]]\nname = 'x'\n", "implementations[0].run_time"),
        ("[[implementations]]\nname = 'x'\nrun_time = '9'\n", "implementations[0].run_time"),
        ("[[implementations]]\nname = 'x'\nrun_time = { x = '9s' }\n", "implementations[0].run_time"),
        ("[[implementations]]\nname = 'X Y'\nrun_time = '9s'\n", "implementations[0]"),
        ("[[implementations]]\nname = 'x'\nnodes = '4-x'\nrun_time = '9s'\n", "implementations[0].nodes"),
        ("[[implementations]]\nname = 'x'\nnodes = -4\nrun_time = '9s'\n", "implementations[0].nodes"),
        ("[[implementations]]\nname = 'x'\nnodes = '1-999'\nrun_time = '9s'\n", "implementations[0].nodes"),
        ("[[implementations]]\nname = 'x'\nneeds = '2 of'\nrun_time = '9s'\n", "implementations[0].needs"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_named_with_its_place(text: str, where: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        read(text)
    assert raised.value.where == where

"""The wall alone: code that no language holds back gets nowhere, on any Python, as any user.

What is tried is in `wall_attacks`, which each Python runs by itself. Every attack must first be seen to
get through to the kernel; a wall that stops what could not be done anyway has shown nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from pythons import HERE, VERSIONS, pythons

PROGRAM: Final = Path(__file__).with_name("wall_attacks.py")
SOURCES: Final = Path(__file__).parents[2] / "src"
ATTACKS_MIN: Final = 120
RUN_S_MAX: Final = 100.0


class Tried(NamedTuple):
    name: str
    must_work: bool
    opens: bool
    free: str
    walled: str

    @property
    def reached_the_kernel(self) -> bool:
        return self.free == "worked" or (not self.must_work and self.free.startswith("errno"))

    @property
    def stopped(self) -> bool:
        return self.walled == ("errno ENOENT" if self.opens else "SIGSYS")


PYTHONS: Final = pythons()
USERS: Final = ("root", "nobody") if os.geteuid() == 0 else ("nobody",)


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_every_attack_works_without_the_wall_and_none_with_it(version: str, user: str) -> None:
    tried = try_all(PYTHONS[version], user)
    assert len(tried) >= ATTACKS_MIN
    assert [one for one in tried if not one.reached_the_kernel] == []
    assert [one for one in tried if not one.stopped] == []


def test_versions_that_were_not_tried_are_named() -> None:
    missing = sorted(set(VERSIONS) - set(PYTHONS))
    if missing:
        warnings.warn(f"the wall was not tried on Python {', '.join(missing)}", stacklevel=1)
    assert HERE in PYTHONS


def try_all(python: str, user: str) -> list[Tried]:
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o777)
        run = subprocess.run(
            [python, "-s", "-B", str(PROGRAM), user, directory],
            env={"PYTHONPATH": str(SOURCES), "PATH": os.environ["PATH"]},
            capture_output=True, text=True, timeout=RUN_S_MAX, check=False,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
    return [Tried(*json.loads(line)) for line in run.stdout.splitlines()]

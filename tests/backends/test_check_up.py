"""What an owner is told of a batch system before a site relies on it."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kalends.backends.check_up import check_up
from tests.backends.slurm_at_hand import SlurmAtHand
from tests.backends.system_at_hand import SystemAtHand, cleared

pytestmark = pytest.mark.xdist_group("batch-systems")


@pytest.fixture
async def clean(system: SystemAtHand) -> AsyncIterator[SystemAtHand]:
    async with cleared(system):
        yield system


async def test_a_system_that_can_be_relied_on_has_no_problems_and_is_as_before(
    clean: SystemAtHand,
) -> None:
    users = {"ann": clean.user, "bob": clean.other_user}
    found = await check_up(clean.adapter, "centre", clean.nodes, users, int(time.time()))
    assert found.problems == []
    assert "4 nodes" in found.facts[0]
    assert (await clean.adapter.state()).reservations == ()


async def test_each_thing_that_is_wrong_is_told(clean: SystemAtHand) -> None:
    await clean.drain(clean.nodes[1])
    found = await check_up(
        clean.adapter, "centre", [*clean.nodes, "n9"], {"ann": "nobody-here"}, int(time.time()) - 90
    )
    told = "\n".join(found.problems)
    assert "it does not know n9" in told
    assert f"{clean.nodes[1]} is drained" in told
    assert "no reservation can be made for ann as nobody-here" in told
    assert "its clock differs by +9" in told


async def test_a_system_that_is_away_is_told_alone(clean: SystemAtHand) -> None:
    await clean.stop()
    found = await check_up(clean.adapter, "centre", clean.nodes, {}, int(time.time()))
    assert len(found.problems) == 1
    assert found.problems[0].startswith("it does not answer")


CENTRE = """
[site]
name = "centre"
store = "centre.sqlite"

[[site.resources]]
name = "cluster"
capacity = 4
nodes = "n[1-4]"

[[site.machines]]
resource = "cluster"

[[site.batch_systems]]
name = "machine"
configuration = "{configuration}"
users = {{ ann = "{user}" }}
"""


async def doctor(*words: str) -> tuple[int, str]:
    """Return the exit code of `kalends admin doctor`, and what it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kalends", "admin", "doctor", *words,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    printed, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, printed.decode()


@pytest.mark.needs_slurm
async def test_the_command_checks_what_a_configuration_names(
    slurm: SlurmAtHand, tmp_path: Path
) -> None:
    file = tmp_path / "centre.toml"
    good = CENTRE.format(configuration=slurm.adapter.configuration, user=slurm.user)
    file.write_text(good)
    code, printed = await doctor(str(file))
    assert code == 0, printed
    assert "machine: Slurm " in printed
    assert "machine: jobs of centre/cluster run in reservations" in printed
    assert "machine: no problems found" in printed
    file.write_text(good.replace(slurm.user, "nobody-here"))
    code, printed = await doctor(str(file), "--json")
    assert code == 1
    (told,) = json.loads(printed)["data"]["batch_systems"]
    assert "no reservation can be made for ann as nobody-here" in told["problems"][0]
    assert "nobody-here, as ann is called there, is not a Unix user" in told["problems"][1]

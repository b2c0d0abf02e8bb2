"""What the command prints about the batch systems of a configuration."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.backends.slurm_at_hand import SlurmAtHand

pytestmark = pytest.mark.xdist_group("batch-systems")


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

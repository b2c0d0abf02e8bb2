"""PSI/J's own executor for Slurm runs jobs in what a site has reserved there, as docs/psij.md says."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.backends.conformance.owners import owners
from tests.backends.conformance.system_at_hand import cleared, until
from tests.backends.slurm_at_hand import SlurmAtHand

pytestmark = [pytest.mark.xdist_group("batch-jobs"), pytest.mark.needs_slurm]

PAGE: Final = Path(__file__).parents[2] / "docs" / "psij.md"
BLOCK: Final = re.compile(r"<!-- slurm: [^\n]+ -->\n```python\n(.*?)```\n", re.DOTALL)


@pytest.fixture
def home() -> Iterator[Path]:
    """A home into which the reservation's user may write, who is not the one of these tests."""
    folder = Path(tempfile.mkdtemp(prefix="kalends-psij-"))
    for each in (
        folder,
        folder / ".psij",
        folder / ".psij" / "work",
        folder / ".psij" / "work" / "slurm",
    ):
        each.mkdir(exist_ok=True)
        each.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


async def test_a_job_of_psij_runs_in_the_slot_that_its_user_has_booked(
    slurm: SlurmAtHand, home: Path, tmp_path: Path
) -> None:
    (block,) = BLOCK.findall(PAGE.read_text())
    async with cleared(slurm), owners(tmp_path, slurm) as facility, facility.client() as ann:
        await ann.book("centre/cluster:1", duration="10m", window=("now", "now+1h"))
        (ours,) = await facility.ours()
        assert ours.start < ours.end
        program = block.replace("kal.centre.1f0c9a2e-17", ours.name)
        program = program.replace("/home/ann", str(home))
        # Root submits for the user whom the site's owner has named.
        as_user = f'attributes.set_custom_attribute("slurm.uid", "{slurm.user}")\nspec ='
        program = "import psij\nfrom datetime import timedelta\n" + program.replace(
            "spec =", as_user
        )
        submitting = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program,
            env={**os.environ, "SLURM_CONF": slurm.configuration, "HOME": str(home)},
        )  # fmt: skip
        assert await submitting.wait() == 0

        async def said() -> bool:
            path = home / "said"
            return await asyncio.to_thread(path.exists) and bool(path.read_text())

        await until(said, "the job does not run")
        assert (home / "said").read_text() == f"in {ours.name}\n"

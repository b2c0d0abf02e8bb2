"""What `find` offers before a Slurm is what Slurm has: a small run of `tests.backends.agreement`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.agreement import asked
from tests.backends.conformance.owners import owners
from tests.backends.conformance.system_at_hand import cleared
from tests.backends.slurm_at_hand import SlurmAtHand

PROBES = 60


@pytest.mark.needs_slurm
@pytest.mark.xdist_group("batch-systems")
async def test_a_site_and_its_slurm_say_the_same_of_what_is_free(
    slurm: SlurmAtHand, tmp_path: Path
) -> None:
    async with cleared(slurm), owners(tmp_path, slurm) as facility:
        found = await asked(facility, slurm, PROBES, seed=1)
    assert (found.probes, found.site_errs) == (PROBES, [])
    assert found.agreed >= 0.95 * PROBES

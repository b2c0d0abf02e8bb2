"""The same bytes from every policy: whatever the hash seed, and whatever version of Python runs this.

Versions are compared through ``tests/data/schedules/digests.json``: the SHA-256 of every schedule.
``KALENDS_RECORD=1`` records it anew, after a change that is meant to change schedules.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

from kalends.scheduling.registry import POLICIES

ROOT: Final = Path(__file__).parents[2]
DATA: Final = ROOT / "examples" / "data"
DIGESTS: Final = ROOT / "tests" / "data" / "schedules" / "digests.json"
LOG: Final = "sdsc-sp2-excerpt.swf"

CASES: Final = {
    "counted.swf": (LOG,),
    "mesh.csv": (LOG, "--machine", "mesh2d:8x16:2x2"),
    "grid.csv": (LOG, "--machine", "grid:64+32,32@0.5", "--crossing", "once:0.1"),
    "sizes.csv": (LOG, "--speedups", "speedups.json"),
    "shaken.swf": (LOG, "--shake", "10m", "--seed", "5", "--estimates", "exact"),
    "poisson.swf": ("--generate", "poisson:run=lognormal(600,2),estimates=f(5)", "--nodes", "16",
                    "--jobs", "200"),
    "lublin.swf": ("--generate", "lublin:jobs=all", "--nodes", "64", "--jobs", "200"),
}  # fmt: skip


def policies() -> list[str]:
    """Every policy of the registry; those with a number with one, and without where it may be left out."""
    named = []
    for info in POLICIES:
        if not info.number or info.optional:
            named.append(info.name)
        if info.number:
            named.append(f"{info.name}:30")
    return named


def written(directory: Path, case: str, seed: int) -> Mapping[str, Any]:
    """The file of each policy, and the metrics under the name ``metrics``, with this hash seed.

    It is run from a folder of its own: results hold the command with the names of its files.
    """
    directory.mkdir()
    here = [directory / name for name in (LOG, "speedups.json")]
    for link in here:
        link.symlink_to(DATA / link.name)
    program = "import sys; from kalends.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, "simulate", *CASES[case], "--policy", ",".join(policies()),
         "--out", case, "--json"],
        env={**os.environ, "PYTHONHASHSEED": str(seed)}, cwd=directory, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    metrics = json.loads(done.stdout)["data"]
    for each in metrics:
        del each["seconds"], each["jobs_per_second"]
    files = {path.name: path.read_bytes() for path in directory.iterdir() if path not in here}
    assert len(files) == len(policies())
    return {**files, "metrics": metrics}


@pytest.mark.parametrize("case", CASES)
def test_every_policy_writes_the_same_bytes_under_two_hash_seeds_and_all_versions_of_python(
    tmp_path: Path, case: str
) -> None:
    first, second = (written(tmp_path / str(seed), case, seed) for seed in range(2))
    assert first == second
    digests = {
        f"{case}/{name}": sha256(content).hexdigest()
        for name, content in sorted(first.items())
        if name != "metrics"
    }
    if os.environ.get("KALENDS_RECORD") == "1":
        known = json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}
        DIGESTS.write_text(json.dumps({**known, **digests}, indent=1, sort_keys=True) + "\n")
    recorded = json.loads(DIGESTS.read_text())
    kept = {name: recorded.get(name) for name in digests}
    assert digests == kept, "meant? then record them: KALENDS_RECORD=1"

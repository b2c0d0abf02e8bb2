"""The benchmark of changes of size: it goes through all of them and tells what each has cost."""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks import malleable as command


def test_it_goes_through_all_sizes_and_tells_what_each_change_cost() -> None:
    done = subprocess.run(
        [sys.executable, command.__file__, "--rows", "8", "--over", "shared", "--rounds", "1", "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert [each["after"] for each in told["changes"]] == list(command.SIZES[1:])
    assert all(each["took_ms"] > 0 for each in told["changes"])
    assert told["sop_us"]["8 shared"] > 0

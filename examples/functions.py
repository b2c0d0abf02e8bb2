"""Functions as jobs: they run at a machine, and their results come back."""

from __future__ import annotations

import os
from statistics import fmean

import kalends

# Where the machine's Python finds cloudpickle, if that is not installed there.
packages = os.environ.get("KALENDS_PACKAGES", "")

with kalends.connect_sync(user="ann") as client:
    # Without a machine, the broker finds one for each function.
    job = kalends.JobRequest(
        machine="", limit_s=60, directory="/tmp", environment={"PYTHONPATH": packages}
    )
    with kalends.JobExecutor(client, job) as functions:
        means = functions.map(fmean, [[1, 2], [3, 5], [8, 13]])
        print("means:", *means)

        printed = functions.submit(print, "from the machine")
        printed.result()
        print("printed:", printed.output.decode().strip())

        wrong = functions.submit(fmean, [])
        print("raised:", repr(wrong.exception()))
        print(str(wrong.exception().__cause__).strip().splitlines()[-2])

        found = functions.find(wrong.key)
        print("found again by its key:", found is wrong)

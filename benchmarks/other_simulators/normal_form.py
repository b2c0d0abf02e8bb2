"""A log in the one form that every simulator reads alike."""

from __future__ import annotations

from pathlib import Path

from kalends.simulation.workloads.swf import open_log


def write_normal_form(log: Path, out: Path, *, nodes: int) -> int:
    """Write the jobs of `log` that `nodes` nodes can run, and say how many.

    Submit times begin at 0, run times are at most the requested ones, both processor counts are the
    requested ones, and no other field is left unknown that a reader might trip over.
    """
    jobs = open_log(log, nodes=nodes)
    first_s: int | None = None
    with out.open("w", encoding="ascii") as stream:
        for job in jobs:
            first_s = job.submit_s if first_s is None else first_s
            stream.write(
                f"{job.id} {job.submit_s - first_s} -1 {job.run_s} {job.nodes} -1 -1 {job.nodes}"
                f" {job.requested_s} -1 1 1 1 1 1 1 -1 -1\n"
            )
    return jobs.jobs

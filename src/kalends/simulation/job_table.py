"""A schedule as a table of jobs in CSV, with the columns of Batsim's ``jobs.csv``: evalys reads it too."""

from __future__ import annotations

import csv
from typing import Final, TextIO

from kalends.scheduling.node_numbers import Intervals
from kalends.simulation.provenance import Provenance
from kalends.simulation.schedule import Schedule

COLUMNS: Final = (
    "job_id", "workload_name", "profile", "submission_time", "requested_number_of_resources",
    "requested_time", "success", "final_state", "starting_time", "execution_time", "finish_time",
    "waiting_time", "turnaround_time", "stretch", "allocated_resources", "metadata",
)  # fmt: skip


def write_jobs(
    stream: TextIO, schedule: Schedule, nodes: int, provenance: Provenance | None = None
) -> None:
    """Write all jobs of `schedule`, of a machine of `nodes` nodes, in order of submission, with a header.

    ``stretch`` is turnaround / execution time (0 for a run of no time), to 6 digits;
    ``allocated_resources`` are runs of node numbers, such as ``0-3 5``. Of a job that was preempted, or
    changed its size (its ``profile`` is ``malleable``), they are those that it had in the end. ``metadata``
    of the first job is the `provenance` of the schedule as JSON; of all others it is empty.
    """
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    ran_on = {index: taken for index, _, _, taken in schedule.on_nodes(nodes)}
    metadata = provenance.as_json() if provenance is not None else ""
    for index in schedule.by_submission():
        submit_s, start_s, end_s = (
            schedule.submits[index], schedule.starts[index], schedule.ends[index],
        )  # fmt: skip
        run_s, turnaround_s = end_s - start_s, end_s - submit_s
        writer.writerow(
            (
                schedule.ids[index], schedule.name,
                "malleable" if schedule.sized(index) else "rigid", submit_s,
                schedule.widths[index], schedule.requested[index], 1,
                "COMPLETED_SUCCESSFULLY", start_s, run_s, end_s,
                start_s - submit_s, turnaround_s, f"{turnaround_s / run_s if run_s else 0:.6f}",
                _as_text(ran_on[index]), metadata,
            )
        )  # fmt: skip
        metadata = ""


def _as_text(nodes: Intervals) -> str:
    return " ".join(f"{first}-{last}" if first < last else str(first) for first, last in nodes)

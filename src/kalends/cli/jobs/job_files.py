"""Files of all jobs of a schedule, in the format of their suffix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kalends.cli.console.new_files import new_file
from kalends.simulation.experiment import Watcher
from kalends.simulation.provenance import Provenance
from kalends.simulation.workloads import Workload


@contextmanager
def job_file(
    path: Path,
    workload: Workload,
    nodes: int,
    machine: str,
    provenance: Provenance,
    *,
    force: bool = False,
) -> Iterator[Watcher]:
    """Yield a function to call with each finished job; the file is complete after the block.

    With `force` it may replace an existing file.
    """
    with new_file(path, force=force) as stream:
        if path.suffix == ".swf":
            from kalends.simulation.workloads.swf import ResultWriter, open_log

            header = open_log(workload, nodes=nodes).header if isinstance(workload, Path) else {}
            writer = ResultWriter(stream, header, provenance)
            yield writer.add
            writer.close()
        else:
            from kalends.simulation.job_table import write_jobs
            from kalends.simulation.machine_text import parts_of
            from kalends.simulation.schedule import Schedule

            name = workload.name if isinstance(workload, Path) else "generated"
            schedule = Schedule(name, parts_of(machine))
            yield schedule.add
            write_jobs(stream, schedule, nodes, provenance)

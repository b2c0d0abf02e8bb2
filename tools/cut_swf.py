"""Cut the stretch around an instant out of a workload log: LOG.swf.gz in, the excerpt on standard output.

    python tools/cut_swf.py LOG.swf.gz --instant 48786536 > excerpt.swf

Every line is the log's own, in the log's order: the whole header, then each job that was in the
system (waiting or running) at some time in the window. Added are the header fields `Excerpt`,
`ExcerptRecords` and `ExcerptInstant`. The same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from pathlib import Path

from kalends.core.errors import InvalidInput
from kalends.simulation.workloads.swf_fields import SwfJob, read_header, read_jobs

HOUR_S = 3_600


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("log", type=Path, help="a log of the archive, as LOG.swf.gz")
    parser.add_argument("--instant", type=int, required=True, help="seconds from the log's start")
    parser.add_argument("--before-h", type=int, default=6, help="hours kept before the instant")
    parser.add_argument("--after-h", type=int, default=48, help="hours kept after the instant")
    arguments = parser.parse_args()
    try:
        lines = gzip.decompress(arguments.log.read_bytes()).decode("utf-8").splitlines()
        excerpt = cut(
            lines, arguments.log.name, arguments.instant, arguments.before_h, arguments.after_h
        )
    except (OSError, EOFError, UnicodeDecodeError, InvalidInput) as error:
        print(f"cut_swf: {arguments.log}: {error}", file=sys.stderr)
        return 1
    sys.stdout.write("\n".join(excerpt) + "\n")
    return 0


def cut(lines: list[str], log: str, instant_s: int, before_h: int, after_h: int) -> list[str]:
    """The lines of the excerpt; raises `InvalidInput` for a damaged line and for an empty excerpt."""
    header = [line for line in lines if line.startswith(";")]
    rows = [line for line in lines if line.strip() and not line.startswith(";")]
    start_s, end_s = instant_s - before_h * HOUR_S, instant_s + after_h * HOUR_S
    kept = [
        row
        for row, job in zip(rows, read_jobs(rows), strict=True)
        if job.submit_s < end_s and _left_s(job) >= start_s
    ]
    if not kept:
        raise InvalidInput(f"no job around second {instant_s}", where="--instant")
    owner = read_header(header).get("Acknowledge", "not named in the log")
    note = f"""\
; Excerpt: {len(kept)} of the {len(rows)} jobs of {log}
;   from the Parallel Workloads Archive,
;   https://www.cs.huji.ac.il/labs/parallel/workload/ - the log is due to {owner}.
;   Please cite D. G. Feitelson, D. Tsafrir, D. Krakov, "Experience with using the Parallel
;   Workloads Archive", J. Parallel Distrib. Comput. 74(10), 2014.
;   The header above is the whole log's: its counts and end time are too. The jobs are those
;   that waited or ran at some time from {before_h} hours before to {after_h} hours after the
;   instant below (seconds from the log's start). No line was changed.
; ExcerptRecords: {len(kept)}
; ExcerptInstant: {instant_s}
;"""
    return [*header, *note.splitlines(), *kept]


def _left_s(job: SwfJob) -> int:
    """When the job left the system; one that never ran left at the end of its wait."""
    return job.submit_s + (job.wait_s or 0) + (job.run_s or 0)


if __name__ == "__main__":
    sys.exit(main())

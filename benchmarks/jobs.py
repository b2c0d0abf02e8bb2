"""What jobs cost on a live site: beside Slurm on loopback in the same run, and beside fork, exec and wait.

    make bench-jobs [ARGS='--jobs 200 --running 1000 --waiting 10000 --json']

Starts real sites on loopback, and, where it is installed and this is root, a Slurm of as many nodes. What
both do is measured in turns. Our jobs are durable when a submission is answered; Slurm writes its state every
few seconds. Prints a table, with the bar that the project has set itself where there is one. Judges nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.job_rates import live_site, long_queues, slurm_rates
from benchmarks.job_rates.live_site import LiveSite
from benchmarks.shepherds import bound
from kalends.demo.clusters.loopback_slurm import LoopbackSlurm, why_not

SLOTS: Final = 8
ARRAYS: Final = 100
STARTS: Final = 20


class Row(NamedTuple):
    what: str
    unit: str
    ours: float
    slurm: float | None = None
    bar: str = ""


class Sizes(NamedTuple):
    jobs: int
    running: int
    waiting: int


@contextmanager
def site_of(top: Path, name: str, nodes: int) -> Iterator[LiveSite]:
    directory = top / name
    directory.mkdir()
    site = LiveSite(directory, nodes)
    site.start()
    try:
        yield site
    finally:
        asyncio.run(site.end())


def rates(top: Path, sizes: Sizes, slurm: LoopbackSlurm | None) -> list[Row]:
    """Submissions, no-op jobs, time to the program: in turns."""
    starts = min(STARTS, sizes.jobs)
    theirs = slurm_rates.submissions(slurm, sizes.jobs) if slurm else {}
    their_commands = theirs.get("commands")
    with site_of(top, "submissions", SLOTS) as site:
        ours = asyncio.run(live_site.submissions(site, sizes.jobs))
        our_commands = live_site.commands(site, max(sizes.jobs // 10, 1))
    their_no_ops = slurm_rates.no_ops(slurm, sizes.jobs) if slurm else None
    with site_of(top, "jobs", SLOTS) as site:
        our_no_ops = asyncio.run(live_site.no_ops(site, sizes.jobs))
        our_waits = asyncio.run(live_site.submit_to_start(site, starts, sizes.jobs))
    their_waits = slurm_rates.submit_to_start(slurm, max(starts // 2, 1), top) if slurm else None
    bare = bound()["fork_exec_wait_per_s"]
    bar = f">= 15 x Slurm, >= {0.15 * bare:,.0f}"
    return [
        Row("submissions one by one; Slurm: sbatch", "/s", ours["submissions"], their_commands, ">= Slurm"),
        Row("kalends submit, sbatch: a process each", "/s", our_commands, their_commands),
        Row("jobs of an array, one call", "/s", ours["array"], theirs.get("array")),
        Row("no-op jobs", "/s", our_no_ops, their_no_ops, bar),
        Row("fork, exec, wait, nothing else", "/s", bare),
        Row(
            "submit to program, median", "ms", statistics.median(our_waits),
            statistics.median(their_waits) if their_waits else None, "<= 10",
        ),
    ]  # fmt: skip


def many_at_once(top: Path, sizes: Sizes, slurm: LoopbackSlurm | None) -> list[Row]:
    """Jobs that all run at the same time, and a site that is killed meanwhile."""
    with site_of(top, "running", sizes.running) as site:
        ours = asyncio.run(live_site.restart(site, sizes.running))
    theirs_kb = slurm_rates.job_memory_kb(slurm, SLOTS) if slurm else None
    count = f"{sizes.running:,}"
    return [
        Row(f"starts of {count} jobs at once", "/s", ours["starts"]),
        Row("memory of a running job's keeper", "kB", ours["shepherd_kb"], theirs_kb, "<= 1,300"),
        Row(f"{count} running jobs adopted", "s", ours["adopted_s"], None, "<= 2"),
        Row(f"site killed with {count} running, until it answers", "s", ours["restart_s"]),
    ]


def long_lines(top: Path, sizes: Sizes) -> list[Row]:
    """Many jobs that wait."""
    count, text = sizes.waiting, f"{sizes.waiting:,}"
    arrays = min(ARRAYS, count)
    with site_of(top, "waiting", long_queues.NODES) as site:
        shapes = long_queues.random_shapes(arrays)
        listed = asyncio.run(live_site.long_queue(site, shapes, count // arrays))
    rows = [
        Row(f"{text} jobs submitted, {arrays} arrays", "s", listed["arrays_s"]),
        Row("until all of them are predicted", "s", listed["first_predicted_s"]),
        Row(f"queue of {text} with predictions", "ms", listed["listed_ms"], None, "<= 300"),
        Row("the same after a change", "ms", listed["listed_after_change_ms"]),
    ]
    for policy in ("easy", "conservative"):
        cost = long_queues.passes_ms(policy, count)
        rows.append(Row(f"an end with {text} waiting, {policy}, median", "CPU ms", cost["median"]))
        rows.append(Row(f"the same, the most of {long_queues.ENDS}", "CPU ms", cost["most"]))
    for reservations, bar in ((0, ""), (long_queues.RESERVATIONS, "<= 300")):
        cost_ms = long_queues.all_predicted_ms("easy", count, reservations)
        among = f"easy among {reservations} reservations, all predicted"
        rows.append(Row(among, "CPU ms", cost_ms, None, bar))
    return rows


def measured(top: Path, sizes: Sizes, without: str) -> dict[str, Any]:
    """Return all figures; `without` says why there is no Slurm."""
    load = os.getloadavg()[0]
    if without:
        print(f"without Slurm: {without}", file=sys.stderr)
        rows = rates(top, sizes, None) + many_at_once(top, sizes, None)
    else:
        (top / "slurm").mkdir()
        with LoopbackSlurm(top / "slurm", SLOTS) as slurm:
            rows = rates(top, sizes, slurm) + many_at_once(top, sizes, slurm)
    rows += long_lines(top, sizes)
    return {
        **sizes._asdict(),
        "cores": os.cpu_count(),
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
        "without_slurm": without,
        "rows": [row._asdict() for row in rows],
    }


def shown(result: dict[str, Any]) -> str:
    """The figures as a table."""
    before, after = result["load"]
    lines = [
        f"{result['cores']} cores, load {before} at the beginning and {after} at the end",
        f"{'':52} {'kalends':>10} {'Slurm':>10}   unit    bar",
    ]
    for row in (Row(**each) for each in result["rows"]):
        slurm = "" if row.slurm is None else _number(row.slurm)
        lines.append(
            f"{row.what:52} {_number(row.ours):>10} {slurm:>10}   {row.unit:7} {row.bar}".rstrip()
        )
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=200, help="submitted, and run; default 200")
    parser.add_argument("--running", type=int, default=1_000, help="at once; default 1,000")
    parser.add_argument("--waiting", type=int, default=10_000, help="default 10,000")
    parser.add_argument("--without-slurm", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    without = "nobody asked for it" if given.without_slurm else why_not()
    # Not below a folder that only its owner may enter: as root, jobs run as somebody else.
    with tempfile.TemporaryDirectory(prefix="kalends-bench-") as directory:
        top = Path(directory)
        top.chmod(0o711)
        result = measured(top, Sizes(given.jobs, given.running, given.waiting), without)
    print(json.dumps(result) if given.json else shown(result))


if __name__ == "__main__":
    main()

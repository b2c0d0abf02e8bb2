"""LS, AS and RS on a real site, beside a simulation of the same jobs with the measured costs.

    python benchmarks/size_policies.py [--jobs 30] [--nodes 8] [--rounds 1] [--seed 1] [--json]

So many malleable programs come to a site whose nodes are mere slots; they sleep instead of computing, so
that a node more is a node more on any machine. Under each policy the same programs come at the same times.
The simulation counts in milliseconds, with the start-up and the changes of size as they were measured. It
shows the mean time from submission to the end, and its ratio to that under LS. Judges nothing. As root, jobs
run as nobody.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

if __name__ == "__main__":
    # In place of this folder, whose calendar.py would stand in for the standard library's.
    sys.path.pop(0)

import msgspec
import numpy as np

import kalends
import kalends_malleable
from benchmarks.facility import own_environment
from kalends.core.jobs import JobRequest
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.policies.moldable.reconfigurable import INTERVAL, Reconfigurable
from kalends.scheduling.registry import policy_maker
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.kernel import replay
from kalends.simulation.malleable import Course, MalleableJob
from kalends_malleable import Array, Program, Rank, Stage

MACHINE: Final = "lab/box"
POLICIES: Final = ("lazy", "adaptive", "reconfigurable")
SIZES: Final = (1, 2, 4)
STEP_MS: Final = 100
"""What a step of a program takes on one node; at each its size may change."""

LIMIT_S: Final = 300
"""On one node. Programs are over long before."""

REST_MS: Final = 1_000
"""A live queue counts in seconds: it lets a job rest so long at least between two changes."""

USER: Final = "nobody" if os.geteuid() == 0 else ""
LOOK_EVERY_S: Final = 0.1
CHANGE: Final = re.compile(r" ranks in ([0-9.]+) ms")


@dataclass(frozen=True)
class Work:
    """One program: when it comes, and how many steps it makes."""

    after_s: float
    steps: int


@dataclass(frozen=True)
class PolicyFigures:
    """What came of one policy, live and simulated: mean response in s, the end of the last, and changes."""

    policy: str
    live_s: float
    live_end_s: float
    live_changes: int
    simulated_s: float
    simulated_end_s: float
    simulated_changes: int


def program(arguments: list[str]) -> Program:
    """The program that is submitted; `python -m kalends_malleable` runs it from this file."""
    sizes = list(SIZES)
    return Program(
        arrays={"done": Array((max(sizes),))},
        state={"step": 0, "steps": int(arguments[0])},
        stages=[Stage(name="sleep", sizes=sizes, computation=sleep)],
    )


def sleep(rank: Rank) -> None:
    while rank.state["step"] < rank.state["steps"]:
        time.sleep(STEP_MS / 1_000 / rank.size)
        rank.state["step"] += 1
        if rank.state["step"] == rank.state["steps"]:
            break
        rank.sop()
    if rank.number == 0:
        print("done at", time.time(), flush=True)


def workload(jobs: int, nodes: int, seed: int) -> list[Work]:
    """Programs of 1 to 6 s on one node, that come somewhat faster than the machine can do them."""
    draw = random.Random(seed)
    works, after_s = [], 0.0
    for _ in range(jobs):
        steps = draw.randint(1_000 // STEP_MS, 6_000 // STEP_MS)
        works.append(Work(after_s, steps))
        after_s += draw.expovariate(1.2 * nodes / 3.5)
    return works


class Laboratory:
    """A site with a machine of slots, whose jobs find Python."""

    def __init__(self, directory: Path, client: kalends.Client) -> None:
        self.client = client
        self._python, self._path = python_for_jobs()
        self._program = shutil.copy(__file__, directory)
        os.chmod(self._program, 0o644)

    def job(self, steps: int) -> JobRequest:
        return JobRequest(
            machine=MACHINE, nodes=1, sizes=SIZES, malleable=True, limit_s=LIMIT_S, directory="/tmp",
            limits_s=tuple(LIMIT_S // nodes for nodes in SIZES),
            command=(self._python, "-m", "kalends_malleable", self._program, str(steps)),
            environment={"PYTHONPATH": self._path},
        )  # fmt: skip

    async def play(self, works: Sequence[Work]) -> tuple[list[float], float, list[float]]:
        """Submit all; return each one's response and the end of the last in s, and changes in ms."""
        began_s = time.time()
        submitted: dict[int, float] = {}
        for work in works:
            await asyncio.sleep(max(began_s + work.after_s - time.time(), 0))
            at_s = time.time()
            submitted[(await self.client.submit(self.job(work.steps))).job.job] = at_s
        ended: dict[int, float] = {}
        changes: list[float] = []
        while len(ended) < len(submitted):
            await asyncio.sleep(LOOK_EVERY_S)
            over = (await self.client.jobs(MACHINE, state="over")).jobs
            for job in over:
                if job.job not in submitted or job.job in ended:
                    continue
                said = (await self.client.job_output(MACHINE, job.job)).data.decode()
                done = re.search(r"done at ([0-9.]+)", said)
                if done is None:
                    raise SystemExit(f"job {job.job}: {job.end} {job.detail}\n{said}")
                ended[job.job] = float(done[1])
                changes += map(float, CHANGE.findall(said))
        responses = [ended[number] - submitted[number] for number in submitted]
        return responses, max(ended.values()) - began_s, changes


@contextlib.asynccontextmanager
async def laboratory(nodes: int) -> AsyncIterator[Laboratory]:
    """Serve a site in a folder of its own, and end it."""
    with tempfile.TemporaryDirectory(prefix="kalends-sizes-") as folder:
        configuration = _configured(Path(folder), nodes)
        server = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "kalends", "serve", str(configuration),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, env=own_environment(),
        )  # fmt: skip
        try:
            assert server.stdout is not None
            url = b""
            while b"listening" not in url:
                url = await asyncio.wait_for(server.stdout.readline(), 60)
            async with kalends.connect(url.split()[-1].decode(), user="ann", zone="UTC") as client:
                yield Laboratory(Path(folder), client)
        finally:
            server.terminate()
            await server.wait()


def _configured(directory: Path, nodes: int) -> Path:
    directory.chmod(0o755)
    users = f'users = {{ ann = "{USER}" }}' if USER else ""
    configuration = directory / "lab.toml"
    configuration.write_text(f"""
[site]
name = "lab"
listen = "127.0.0.1:0"
store = "lab.sqlite"
[[site.resources]]
name = "box"
capacity = {nodes}
grain = "1s"
[[site.machines]]
resource = "box"
grace = "1s"
{users}
""")
    return configuration


def simulate(
    policy: str, works: Sequence[Work], nodes: int, setup_ms: int, change_ms: int
) -> tuple[float, float, int]:
    """Return the mean response and the end of the last in s, and how often sizes changed."""
    jobs = []
    for number, work in enumerate(works):
        course = Course(
            sizes=SIZES, setup_s=(setup_ms,) * len(SIZES), iterations=work.steps,
            solution_s=tuple(work.steps * STEP_MS // size for size in SIZES),
            reconfiguration_s=change_ms, redistribution_s=change_ms,
        )  # fmt: skip
        molds = course.molds(malleable=True, spare_s=1_000 * LIMIT_S)
        jobs.append(
            MalleableJob(
                number,
                int(1_000 * work.after_s),
                1,
                molds.requested_s[0],
                molds=molds,
                course=course,
            )
        )
    cluster = Cluster(nodes)
    if policy == "reconfigurable":
        made = Reconfigurable(cluster, interval=max(INTERVAL, -(-REST_MS // change_ms)))
    else:
        made = policy_maker(policy)(cluster)  # type: ignore[assignment]  # any policy will do
    ended = list(replay(jobs, Scheduler(made)))
    responses = [(job.end_s - job.submit_s) / 1_000 for job in ended]
    return (
        statistics.mean(responses),
        max(job.end_s for job in ended) / 1_000,
        sum(each.changes for each in jobs),
    )


async def measured(jobs: int, nodes: int, rounds: int, seed: int) -> list[PolicyFigures]:
    works = workload(jobs, nodes, seed)
    async with laboratory(nodes) as site:
        alone = [(await site.play([Work(0.0, 10)]))[0][0] for _ in range(6)][1:]
        setup_ms = max(int(1_000 * statistics.median(alone)) - 10 * STEP_MS // max(SIZES), 0)
        live: dict[str, list[tuple[list[float], float, list[float]]]] = {}
        for _ in range(rounds):
            for policy in POLICIES:
                await site.client.set_policy(MACHINE, policy)
                live.setdefault(policy, []).append(await site.play(works))
    took_ms = [each for played in live["reconfigurable"] for each in played[2]]
    change_ms = max(round(statistics.median(took_ms or [1.0])), 1)
    print(f"start-up {setup_ms} ms, a change {change_ms} ms", file=sys.stderr)
    figures = []
    for policy in POLICIES:
        simulated_s, simulated_end_s, simulated_changes = simulate(
            policy, works, nodes, setup_ms, change_ms
        )
        played = live[policy]
        figures.append(
            PolicyFigures(
                policy,
                statistics.median(statistics.mean(each[0]) for each in played),
                statistics.median(each[1] for each in played),
                round(statistics.median(len(each[2]) for each in played)),
                simulated_s,
                simulated_end_s,
                simulated_changes,
            )
        )
    return figures


def python_for_jobs() -> tuple[str, str]:
    """Return a Python that jobs' users can run, and the path on which it finds what jobs import."""
    folders = {
        Path(each.__file__ or "").parents[1] for each in (kalends, kalends_malleable, np, msgspec)
    }
    path = ":".join(map(str, folders))
    for python in (sys.executable, "/usr/bin/python3"):
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            subprocess.run(
                [python, "-c", "import kalends_malleable"], user=USER or None, cwd="/", check=True,
                env={"PYTHONPATH": path}, capture_output=True,
            )  # fmt: skip
            return python, path
    raise SystemExit(f"{USER} can run no Python of this version with {path}")


def show(figures: Sequence[PolicyFigures]) -> None:
    first = figures[0]
    print(
        f"{'POLICY':16} {'LIVE s':>8} {'/LS':>5} {'END s':>7} {'CHANGES':>8}"
        f" {'SIMULATED s':>12} {'/LS':>5} {'END s':>7} {'CHANGES':>8}"
    )
    for each in figures:
        print(
            f"{each.policy:16} {each.live_s:>8.2f} {each.live_s / first.live_s:>5.2f}"
            f" {each.live_end_s:>7.1f} {each.live_changes:>8}"
            f" {each.simulated_s:>12.2f} {each.simulated_s / first.simulated_s:>5.2f}"
            f" {each.simulated_end_s:>7.1f} {each.simulated_changes:>8}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=30, help="programs under each policy")
    parser.add_argument("--nodes", type=int, default=8, help="slots of the machine")
    parser.add_argument("--rounds", type=int, default=1, help="runs of which the medians are shown")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the sizes and times of the programs"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    figures = asyncio.run(measured(given.jobs, given.nodes, given.rounds, given.seed))
    if given.json:
        print(json.dumps([asdict(each) for each in figures]))
    else:
        show(figures)


if __name__ == "__main__":
    main()

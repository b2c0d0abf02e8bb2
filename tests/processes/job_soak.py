"""Kill a site that runs jobs, its zygotes and their shepherds again and again, and audit what the jobs wrote.

    python -m tests.processes.job_soak --kills 1000 --seed 7

Jobs of up to two seconds are submitted all the time, by callers who repeat themselves until they have an
answer. Each notes that it begins and ends, and locks files that stand for its nodes; some leave a process
behind that would keep these locks for ever. In the end: nothing was started twice in one attempt, and twice
at all only where its user allowed it; nothing was lost but what a killed shepherd took along, and that was
told; no two jobs had a node at once; no process is left; every job is accounted once. Prints what happened as
JSON. The exit code is 1 when a promise was broken; then logs and stores stay where it said.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import kalends
from kalends.batch.shepherds.facts import Begun, Ended, Void
from kalends.batch.shepherds.record import read
from kalends.contract.job_calls import JobView
from kalends.core.errors import OutcomeUnknown, Unavailable
from kalends.core.jobs import JobRequest

from .job_deaths import JobDeaths
from .laboratory import MACHINE, Laboratory
from .servers import until

SUBMITTERS: Final = 3
UNFINISHED_MAX: Final = 12
"""With more jobs on their way nobody submits: they are to meet the kills, not to wait for ever."""

SERVER_SHARE: Final = 0.25
"""Of the kills; a server needs a second to come back, a zygote and the next job do not."""

SERVER_PAUSE_S_MAX: Final = 2.0
JOB_PAUSE_S_MAX: Final = 0.8
SETTLE_S_MAX: Final = 120.0
TELL_EVERY_S: Final = 10.0

MARKS: Final = """
me=$KALENDS_JOB.$KALENDS_ATTEMPT
echo begin $me >> marks
for node in $(echo $KALENDS_NODES | tr , ' '); do
    eval "exec $((node + 3))>node-$node"
    flock -n $((node + 3)) || echo clash $me on $node >> marks
done
"""

Tell = Callable[[str], None]


@dataclass
class SoakReport:
    """What happened; `violations` is empty when every promise was kept."""

    seed: int
    struck: Counter[str] = field(default_factory=Counter)
    attempts: Counter[str] = field(default_factory=Counter)
    """How the attempts ended: void, or the kind of their end."""
    jobs: Counter[str] = field(default_factory=Counter)
    """How the jobs ended."""
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def as_json(self) -> str:
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return json.dumps({**found, "seconds": round(self.seconds, 1)}, indent=2)


class JobSoak:
    """One site, its submitters, and whoever kills."""

    def __init__(self, directory: Path, seed: int, tell: Tell) -> None:
        self.report = SoakReport(seed)
        self.laboratory = Laboratory(directory)
        self.folder = directory / "jobs"
        self.deaths = JobDeaths(self.laboratory.site, str(self.folder))
        self.accepted: dict[int, JobRequest] = {}
        self._mark = f"mark-{directory.name}"
        self._tell = tell
        self._over = False

    async def run(self, kills: int) -> None:
        """Strike so often, wait until all is over, stop the site, and judge."""
        began_s = time.monotonic()
        site, seed = self.laboratory.site, self.report.seed
        await site.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(SUBMITTERS):
                    tasks.create_task(self._submit_all(number, random.Random(f"{seed} {number}")))
                telling = tasks.create_task(self._tell_now_and_then(kills, began_s))
                await self._strike_all(kills, random.Random(seed))
                self._over = True
                telling.cancel()
            await self._settle()
            await site.stop()
        finally:
            self._over = True
            if site.running:
                await site.kill()
        self.report.violations += [
            f"a process is left: {each}" for each in self.deaths.left(self._mark)
        ]
        self.report.struck = self.deaths.struck
        self.report.seconds = time.monotonic() - began_s

    # Those who submit

    async def _submit_all(self, number: int, chance: random.Random) -> None:
        count = 0
        while not self._over:
            if self._unfinished() > UNFINISHED_MAX:
                # Programs write what they have done into files: nobody is told.
                await asyncio.sleep(0.05)
                continue
            count += 1
            request = self._request(chance)
            made = await self._submitted(request, f"submitter-{number}-{count}")
            if made in self.accepted:
                self.report.violations.append(f"job {made} was made for two keys")
            self.accepted[made] = request

    def _request(self, chance: random.Random) -> JobRequest:
        stray = f"(setsid sh -c 'sleep 1000; :' {self._mark} &)" if chance.random() < 0.3 else ""
        sleep_s = chance.choice([0, 0, 0.1, 0.4, 1.0, 2.0])
        text = f"{MARKS}{stray}\nsleep {sleep_s}\necho end $me >> marks"
        nodes, rerun = chance.choice([1, 1, 1, 2, 3]), chance.random() < 0.3
        return self.laboratory.job(text, nodes=nodes, rerun=rerun)

    async def _submitted(self, request: JobRequest, key: str) -> int:
        """Ask with one key until there is an answer."""
        while True:
            try:
                async with self.laboratory.client() as client:
                    return (await client.submit(request, key=key)).job.job
            except (Unavailable, OutcomeUnknown):
                # As a user's own retry would: the site may be dead, and starts again at some moment.
                await asyncio.sleep(0.05)

    def _unfinished(self) -> int:
        """Return about how many jobs are not over; who was killed with its shepherd says nothing."""
        ended = sum(mark.startswith("end ") for mark in self.laboratory.marked())
        return len(self.accepted) - ended - self.deaths.struck["shepherd"]

    # Who kills

    async def _strike_all(self, kills: int, chance: random.Random) -> None:
        """Kill servers, and beside that the processes of jobs, at moments that are left to chance."""
        servers = round(kills * SERVER_SHARE)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._strike_servers(servers, random.Random(chance.random())))
            tasks.create_task(self._strike_jobs(kills - servers, random.Random(chance.random())))

    async def _strike_servers(self, kills: int, chance: random.Random) -> None:
        for _ in range(kills):
            await asyncio.sleep(chance.uniform(0, SERVER_PAUSE_S_MAX))
            await self.deaths.kill_server(chance)

    async def _strike_jobs(self, kills: int, chance: random.Random) -> None:
        while kills:
            await asyncio.sleep(chance.uniform(0, JOB_PAUSE_S_MAX))
            zygote = chance.random() < 0.3
            strike = self.deaths.kill_zygote if zygote else self.deaths.kill_shepherd
            kills -= strike(chance)

    async def _tell_now_and_then(self, kills: int, began_s: float) -> None:
        while True:
            await asyncio.sleep(TELL_EVERY_S)
            self._tell(
                f"{time.monotonic() - began_s:.0f} s: {self.deaths.struck.total()} of {kills} kills, "
                f"{len(self.accepted)} jobs"
            )

    # Who judges

    async def _settle(self) -> None:
        """Wait until all jobs are over, and judge them."""
        async with self.laboratory.client() as client:

            async def all_over() -> bool:
                return not (await client.jobs(MACHINE, everyone=True)).jobs

            await until(all_over, "all jobs are over", within_s=SETTLE_S_MAX)
            views = await _all_over(client)
            usage = await client.job_usage(MACHINE, start=0, end=1 << 33, everyone=True)
            charged_s = sum(row.node_seconds for row in usage.rows)
            counted = sum(row.jobs for row in usage.rows)
        self._judge_jobs({view.job: view for view in views})
        told_s = sum(view.node_seconds for view in views)
        if (counted, charged_s) != (len(self.accepted), told_s):
            self.report.violations.append(
                f"{counted} jobs with {charged_s} node-seconds are accounted, "
                f"of {len(self.accepted)} with {told_s}"
            )

    def _judge_jobs(self, views: dict[int, JobView]) -> None:
        report, marked = self.report, self.laboratory.marked()
        report.violations += [mark for mark in marked if mark.startswith("clash ")]
        report.violations += [
            f"job {number} was accepted, and is unknown" for number in self.accepted.keys() - views
        ]
        report.violations += [
            f"job {number} is there, and nobody submitted it"
            for number in views.keys() - self.accepted
        ]
        for number, view in views.items():
            report.jobs[view.end] += 1
            attempts = [
                self._judge_attempt(number, each + 1, marked) for each in range(view.attempt)
            ]
            begun = sum(kind != "void" for kind in attempts)
            if begun > 1 and not self.accepted[number].rerun:
                report.violations.append(f"job {number} has begun {begun} times: {attempts}")
            if not attempts or (view.end, view.status) != (attempts[-1], 0):
                report.violations.append(
                    f"job {number} is told to be {view.end} {view.status}, after {attempts}"
                )

    def _judge_attempt(self, number: int, attempt: int, marked: Counter[str]) -> str:
        """Return how an attempt ended by its record, and hold that against what the job itself wrote."""
        name = f"{number}.{attempt}"
        facts = read(str(self.folder / "jobs" / name)).facts
        begun = next((each for each in facts if isinstance(each, Begun)), None)
        last = facts[-1] if facts else None
        kind = last.kind if isinstance(last, Ended) else "void"
        self.report.attempts[kind] += 1
        begins, ends = marked[f"begin {name}"], marked[f"end {name}"]
        if kind == "void":
            right = isinstance(last, Void) and begins == 0
        elif kind == "exit":
            right = begins == ends == 1
        else:
            killed = begun is not None and (begun.shepherd, begun.ticks) in self.deaths.killed
            right = kind == "lost" and killed and begins <= 1
        if not right:
            self.report.violations.append(
                f"attempt {name} is {kind}, has begun {begins} times and ended {ends} times"
            )
        return kind


async def _all_over(client: kalends.Client) -> list[JobView]:
    views: list[JobView] = []
    before = 0
    while page := (await client.jobs(MACHINE, state="over", everyone=True, before=before)).jobs:
        views += page
        before = page[-1].job
    return views


def _silent(line: str) -> None:
    """Tell nobody."""


async def soak(directory: Path, *, kills: int, seed: int, tell: Tell = _silent) -> SoakReport:
    """Kill so often, and report."""
    made = JobSoak(directory, seed, tell)
    await made.run(kills)
    return made.report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    given: Any = parser.parse_args()
    # Not below a folder that only its owner may enter: as root, jobs run as somebody else.
    directory = Path(tempfile.mkdtemp(prefix="kalends-soak-"))
    _tell(f"seed {given.seed}, stores and logs in {directory}")
    report = asyncio.run(soak(directory, kills=given.kills, seed=given.seed, tell=_tell))
    print(report.as_json())
    if report.violations:
        return 1
    shutil.rmtree(directory)
    return 0


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

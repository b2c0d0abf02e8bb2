"""A site with one machine on loopback, and what its users would measure there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import kalends
from benchmarks.facility import Server, own_environment, start_server
from benchmarks.shepherds import Jobs, adopted, pss_kb
from kalends.batch.shepherds.conclusion import Conclusion, State
from kalends.batch.shepherds.facts import Begun
from kalends.batch.shepherds.record import read
from kalends.core.jobs import JobRequest

MACHINE: Final = "lab/box"
USER: Final = "ann"
UNIX_USER: Final = "nobody" if os.geteuid() == 0 else ""
FOR_EVER_S: Final = 1 << 33
LOOK_EVERY_S: Final = 0.02
SAMPLE: Final = 50


class LiveSite:
    """A site in `directory` whose machine has so many nodes, all of them mere slots."""

    def __init__(self, directory: Path, nodes: int) -> None:
        self.home = directory / "home"
        self.home.mkdir()
        directory.chmod(0o711)
        if UNIX_USER:
            shutil.chown(self.home, UNIX_USER)
        self.jobs = directory / "jobs"
        self._configuration = directory / "lab.toml"
        users = f'users = {{ {USER} = "{UNIX_USER}" }}' if UNIX_USER else ""
        self._configuration.write_text(
            f"""
[log]
form = "json"
[site]
name = "lab"
listen = "127.0.0.1:0"
store = "{directory}/lab.sqlite"
[[site.resources]]
name = "box"
capacity = {nodes}
grain = "1s"
[[site.machines]]
resource = "box"
directory = "{self.jobs}"
{users}
"""
        )
        self._server: Server | None = None

    def start(self) -> None:
        """Return when it listens."""
        self._server = start_server(self._configuration)

    def kill(self) -> None:
        """SIGKILL. What runs goes on."""
        server, self._server = self._server, None
        if server is not None:
            server.process.kill()
            server.process.wait()

    async def end(self) -> None:
        """Kill the site; return when none of its jobs runs, or can begin any more."""
        self.kill()
        jobs = Jobs(self.jobs)
        names = [name for name in self.attempts() if not _is_over(jobs.launcher.look(name))]
        if not names:
            return
        await jobs.launcher.start()
        await jobs.launcher.adopt(names)
        for name in names:
            await jobs.launcher.kill(name, "the benchmark is over", grace_s=0)

        async def all_over() -> bool:
            return all(_is_over(jobs.launcher.look(name)) for name in names)

        await until(all_over)
        await jobs.launcher.close()

    @property
    def url(self) -> str:
        assert self._server is not None
        return self._server.url

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[kalends.Client]:
        async with kalends.connect(self.url, user=USER, zone="UTC") as client:
            yield client

    def job(self, *command: str, **more: Any) -> JobRequest:
        asked = {"limit_s": 3_600, "directory": str(self.home), **more}
        return JobRequest(machine=MACHINE, command=command, **asked)

    def attempts(self) -> list[str]:
        """The names of all attempts that there were."""
        records = self.jobs / "jobs"
        return [path.name for path in records.iterdir()] if records.exists() else []

    def begun(self) -> list[Begun]:
        """The first lines of the records of all attempts that have begun."""
        facts = [read(str(self.jobs / "jobs" / name)).facts for name in self.attempts()]
        return [each[0] for each in facts if each and isinstance(each[0], Begun)]


def _is_over(found: Conclusion) -> bool:
    return found.state in (State.ENDED, State.VOID)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Ask again and again until it is so."""
    # The other side is a process, and tells nobody when it comes true.
    while not await holds():  # noqa: ASYNC110
        await asyncio.sleep(LOOK_EVERY_S)


async def until_running(client: kalends.Client, count: int, *, waiting: int = 0) -> None:
    """Return when so many jobs are on nodes, and so many wait, as the machine's load says."""

    async def holds() -> bool:
        (load,) = (await client.jobs(MACHINE, count=1, state="running")).machines
        return (load.running, load.waiting) == (count, waiting)

    await until(holds)


async def until_over(client: kalends.Client, count: int) -> None:
    """Return when so many jobs are over, as the accounts say."""

    async def holds() -> bool:
        usage = await client.job_usage(MACHINE, start=0, end=FOR_EVER_S)
        return sum(row.jobs for row in usage.rows) == count

    await until(holds)


async def submissions(site: LiveSite, count: int) -> dict[str, float]:
    """Held jobs a second: each in a call of its own, and as one array."""
    held = site.job("/bin/true", held=True)
    async with site.client() as client:
        await client.submit(held)
        began_s = time.perf_counter()
        for _ in range(count):
            await client.submit(held)
        one_by_one = count / (time.perf_counter() - began_s)
        began_s = time.perf_counter()
        made = await client.submit(site.job("/bin/true", held=True, indices=tuple(range(1_000))))
        array = made.count / (time.perf_counter() - began_s)
    return {"submissions": one_by_one, "array": array}


def commands(site: LiveSite, count: int) -> float:
    """Held jobs a second, with a command for each."""
    command = [
        sys.executable, "-m", "kalends", "submit", MACHINE, "--for", "1h", "--held", "--", "/bin/true",
    ]  # fmt: skip
    environment = own_environment(site.url, USER)
    began_s = time.perf_counter()
    for _ in range(count):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return count / (time.perf_counter() - began_s)


async def no_ops(site: LiveSite, count: int) -> float:
    """Jobs a second, from the submission of an array that does nothing to the end of its last."""
    async with site.client() as client:
        began_s = time.perf_counter()
        await client.submit(site.job("/bin/true", indices=tuple(range(count))))
        await until_over(client, count)
        return count / (time.perf_counter() - began_s)


async def submit_to_start(site: LiveSite, count: int, before: int) -> list[float]:
    """Milliseconds from the call to the first breath of the program, one job after the other.

    `before` jobs are over already.
    """
    waits = []
    async with site.client() as client:
        for over in range(before + 1, before + count + 1):
            at_s = time.time()
            number = (await client.submit(site.job("/bin/date", "+%s.%N"))).job.job
            await until_over(client, over)
            said = await client.job_output(MACHINE, number)
            waits.append(1e3 * (float(said.data) - at_s))
    return waits


async def restart(site: LiveSite, count: int) -> dict[str, float]:
    """Start so many jobs, kill the site, take over its jobs; what that takes, and a shepherd's memory."""
    async with site.client() as client:
        began_s = time.perf_counter()
        await client.submit(site.job("/bin/sleep", "3600", indices=tuple(range(count))))
        await until_running(client, count)

        async def all_begun() -> bool:
            return len(site.begun()) == count

        await until(all_begun)
        found = {"starts": count / (time.perf_counter() - began_s)}
    shepherds = [each.shepherd for each in site.begun()][:: max(count // SAMPLE, 1)]
    found["shepherd_kb"] = statistics.mean(map(pss_kb, shepherds))
    site.kill()
    jobs, times = await adopted(site.jobs, site.attempts())
    await jobs.launcher.close()
    found["adopted_s"] = times["adopt_s"]
    began_s = time.perf_counter()
    site.start()
    async with site.client() as client:
        await until_running(client, count)
        found["restart_s"] = time.perf_counter() - began_s
    return found


async def long_queue(
    site: LiveSite, shapes: Sequence[tuple[int, int]], each: int
) -> dict[str, float]:
    """Let jobs of these nodes and limits wait, `each` times; what the queue then takes to be listed."""
    async with site.client() as client:
        (machine,) = (await client.jobs(MACHINE, count=1)).machines
        await client.submit(site.job("/bin/sleep", "3600", nodes=machine.nodes))
        began_s = time.perf_counter()
        indices = tuple(range(each))
        for nodes, limit_s in shapes:
            await client.submit(
                site.job("/bin/true", nodes=nodes, limit_s=limit_s, indices=indices)
            )
        found = {"arrays_s": time.perf_counter() - began_s}
        count = len(shapes) * each

        async def listed_s() -> tuple[float, int]:
            began_s = time.perf_counter()
            views = (await client.jobs(MACHINE, state="waiting", count=count)).jobs
            assert len(views) == count
            return time.perf_counter() - began_s, sum(view.predicted is not None for view in views)

        async def all_predicted() -> bool:
            return (await listed_s())[1] == count

        began_s = time.perf_counter()
        await until(all_predicted)
        found["first_predicted_s"] = time.perf_counter() - began_s
        found["listed_ms"] = 1e3 * statistics.median([(await listed_s())[0] for _ in range(5)])
        await client.kill_job(MACHINE, (await client.submit(site.job("/bin/true"))).job.job)
        found["listed_after_change_ms"] = 1e3 * (await listed_s())[0]
    return found

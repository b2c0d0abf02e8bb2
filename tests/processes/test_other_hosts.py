"""A site's store that is opened on another host, while jobs run on the one before; and back again."""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import kalends
from kalends.core.errors import InvalidInput, NotFound, Unavailable

from .laboratory import MACHINE, USER, Laboratory, laboratory
from .servers import Server, until

__all__ = ["laboratory"]

OTHER_HOST = """
from pathlib import Path
import socket
from kalends.serving import this_host
this_host.MACHINE_IDS = (Path(__file__).with_name("machine-id"),)
socket.gethostname = lambda: {name!r}
"""
WAITS = "echo $KALENDS_JOB.$KALENDS_ATTEMPT >> begun; until test -e go; do sleep 0.1; done"


class Hosts:
    """The same store at two hosts: each with an id, a name, and a folder of its own for its jobs."""

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory
        self.top = laboratory.marks.parent
        self._text = laboratory.site.configuration.read_text()
        self.sites = {name: self._site(name) for name in ("node1", "node2")}

    def _site(self, name: str) -> Server:
        folder = self.top / name
        folder.mkdir()
        (folder / "machine-id").write_text(f"the id of {name}\n")
        (folder / "sitecustomize.py").write_text(OTHER_HOST.format(name=name))
        configuration = self.top / f"{name}.toml"
        configuration.write_text(self._text.replace(f"{self.top}/jobs", f"{self.top}/{name}.jobs"))
        environment = {"PYTHONPATH": str(folder)}
        return Server(name, configuration, self._laboratory.site.url, environment=environment)

    async def start(self, name: str) -> None:
        """Stop the site where it runs, and start it on this host."""
        await self._laboratory.site.stop()
        self._laboratory.site = self.sites[name]
        await self._laboratory.site.start()

    def begun(self) -> list[str]:
        path = self._laboratory.marks / "begun"
        return sorted(path.read_text().split()) if path.exists() else []

    def begun_of(self, job: int) -> list[str]:
        """Return the attempts of a job that have begun; one that comes late is made anew before it begins."""
        return [each for each in self.begun() if each.startswith(f"{job}.")]

    async def have_begun(self, *attempts: str) -> None:
        async def all_have() -> bool:
            return set(attempts) <= set(self.begun())

        await until(all_have, f"{attempts} have begun", explain=self.begun)


@pytest.fixture
async def hosts(laboratory: Laboratory) -> AsyncIterator[Hosts]:
    """The laboratory stops in the end where it runs then; jobs of the other host end with `go`."""
    hosts = Hosts(laboratory)
    await laboratory.site.stop()
    for path in laboratory.marks.parent.glob("lab.sqlite*"):
        path.unlink()
    await hosts.start("node1")
    yield hosts
    (laboratory.marks / "go").touch()


async def two_jobs(laboratory: Laboratory, client: kalends.Client) -> tuple[int, int]:
    once = (await client.submit(laboratory.job(WAITS, limit_s=900, nodes=2))).job.job
    again = (await client.submit(laboratory.job(WAITS, limit_s=900, nodes=1, rerun=True))).job.job
    return once, again


async def typed(words: list[str], url: str) -> str:
    """Return what a command prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *words, "--broker", url, "--user", USER,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    printed, _ = await process.communicate()
    assert process.returncode == 0
    return printed.decode()


def alive(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


async def problems(client: kalends.Client) -> str:
    return "\n".join((await client.audit()).problems)


async def test_on_another_host_no_job_is_adopted_and_back_on_its_own_all_go_on(
    laboratory: Laboratory, hosts: Hosts
) -> None:
    async with laboratory.client() as client:
        once, again = await two_jobs(laboratory, client)
        waits = (await client.submit(laboratory.job(WAITS, limit_s=900, nodes=4))).job.job
        first = [f"{once}.1", f"{again}.1"]
        await hosts.have_begun(*first)
    await hosts.start("node2")
    async with laboratory.client() as client:
        for machine in ("", MACHINE):
            (load,) = (await client.jobs(machine)).machines
            assert (load.machine, load.aside, load.free) == (MACHINE, "node1", 0)
        shown = await typed(["kalends", "machine", MACHINE], laboratory.site.url)
        assert shown.startswith("lab/box: belongs to the host node1, and its site runs on another")
        with pytest.raises(Unavailable, match="lab/box belongs to the host node1"):
            await client.submit(laboratory.job("true"))
        with pytest.raises(Unavailable, match="lab/box belongs to the host node1"):
            await client.job(MACHINE, once)
        assert "lab/box is put aside" in await problems(client)
    await hosts.start("node1")
    async with laboratory.client() as client:
        assert [(each.job, each.attempt) for each in (await client.jobs(MACHINE)).jobs] == [
            (once, 1), (again, 1), (waits, 0)
        ]  # fmt: skip
        assert "put aside" not in await problems(client)
        assert hosts.begun() == first
        (laboratory.marks / "go").touch()
        for number in (once, again, waits):
            assert (await laboratory.over(client, number)).end == "exit"
    assert hosts.begun() == sorted([*first, f"{waits}.1"])


async def test_jobs_of_a_lost_host_end_as_lost_or_go_on_exactly_once_on_the_present_one(
    laboratory: Laboratory, hosts: Hosts
) -> None:
    async with laboratory.client() as client:
        once, again = await two_jobs(laboratory, client)
        await hosts.have_begun(f"{once}.1", f"{again}.1")
    await hosts.start("node2")
    async with laboratory.client() as client:
        for wrong, kind in (("nowhere", NotFound), ("node2", InvalidInput)):
            with pytest.raises(kind, match=wrong):
                await client.host_lost(wrong)
        told = re.search(r"run: (kalends admin host-lost .*)", await problems(client))
        assert told is not None
        printed = await typed(shlex.split(told[1]), laboratory.site.url)
        assert printed == (
            "lab/box belongs to this site's host now: 1 job was lost, 1 runs again\n"
        )
        over = await laboratory.over(client, once)
        assert (over.end, over.detail) == ("lost", "its host node1 was lost")

        async def second_time() -> bool:
            return len(hosts.begun_of(again)) == 2

        await until(second_time, "it runs again", explain=hosts.begun)
        assert "put aside" not in await problems(client)
        with pytest.raises(NotFound, match="node1"):
            await client.host_lost("node1")
        new = (await client.submit(laboratory.job(WAITS, limit_s=900, nodes=2))).job.job

        async def runs() -> bool:
            return bool(hosts.begun_of(new))

        await until(runs, "a new job runs")
    await hosts.start("node1")
    async with laboratory.client() as client:
        (load,) = (await client.jobs()).machines
        assert load.aside == "node2", "it was given up here"
    await hosts.start("node2")
    async with laboratory.client() as client:
        (laboratory.marks / "go").touch()
        for number in (again, new):
            assert (await laboratory.over(client, number)).end == "exit"
    assert [len(hosts.begun_of(number)) for number in (once, again, new)] == [1, 2, 1]


async def test_what_still_runs_on_a_host_that_was_given_up_ends_when_its_machine_comes_back(
    laboratory: Laboratory, hosts: Hosts
) -> None:
    async with laboratory.client() as client:
        text = "echo $$ > pid; exec sleep 600"
        zombie = (await client.submit(laboratory.job(text))).job.job
        path = laboratory.marks / "pid"

        async def runs() -> bool:
            return path.exists() and path.read_text() != ""

        await until(runs, "it runs")
    process = int(path.read_text())
    await hosts.start("node2")
    async with laboratory.client() as client:
        await client.host_lost("node1", machine=MACHINE)
        assert (await laboratory.over(client, zombie)).end == "lost"
    assert alive(process)
    await hosts.start("node1")
    async with laboratory.client() as client:
        await client.host_lost("node2")
        assert not alive(process)
        assert "were given up with this host" in await problems(client)
        number = (await client.submit(laboratory.job("true", nodes=4))).job.job
        assert number > zombie
        assert (await laboratory.over(client, number)).end == "exit"

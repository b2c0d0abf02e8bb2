"""Jobs that are left to a broker, on real servers that are killed at any moment: each runs once."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import kalends
from kalends.contract.calls import PlacedEnd, RequestView
from kalends.core.jobs import JobRequest
from tests.support.job_folders import folder_of_jobs
from tests.support.ports import free_urls

from .facility import broker_text, write
from .laboratory import USER, Laboratory
from .servers import Server, running, until

JOBS = 24
KILLS = 8
LOST_S = 2.0
HALL = """
[virtual]
name = "hall"
listen = "{}"
[[virtual.members]]
name = "west"
url = "{}"
"""


class Federation:
    """Two sites with a machine of four nodes each, and a broker, which reaches ``west`` by a virtual site."""

    def __init__(self, directory: Path) -> None:
        names = ("east", "west")
        directory.chmod(0o711)
        for name in names:
            (directory / name).mkdir()
        rules = 'policy = "conservative"'
        self.sites = {name: Laboratory(directory / name, name=name, rules=rules) for name in names}
        url, hall = free_urls(2)
        known = {"east": self.sites["east"].site.url, "hall": hall}
        text = broker_text(url, known).replace(
            "[[broker.sites]]", f"bid_s_max = 30.0\nlost_s = {LOST_S}\n[[broker.sites]]", 1
        )
        text = text.replace(f'url = "{hall}"', f'url = "{hall}"\nmembers = ["west"]')
        member = HALL.format(hall.removeprefix("http://"), self.sites["west"].site.url)
        self.hall = Server("hall", write(directory / "hall.toml", member), hall)
        self.broker = Server("broker", write(directory / "broker.toml", text), url)

    @property
    def servers(self) -> list[Server]:
        return [*(each.site for each in self.sites.values()), self.hall, self.broker]

    def marks(self) -> Counter[str]:
        """What the programs of all sites have noted."""
        return sum((each.marked() for each in self.sites.values()), Counter())

    def logs(self) -> str:
        return "\n".join(f"{each.name}:\n{each.log()}" for each in self.servers)

    async def connected(self, client: kalends.Client) -> None:
        async def both() -> bool:
            with contextlib.suppress(kalends.Unavailable):
                sites = (await client.resources()).sites
                return len(sites) == 2 and all(each.state == "up" for each in sites)
            return False

        await until(both, "the broker knows both sites")

    async def nothing_waits(self) -> bool:
        for name, each in self.sites.items():
            async with kalends.connect(each.site.url, user=USER, zone="UTC") as ann:
                if (await ann.jobs(f"{name}/box")).jobs:
                    return False
        return True

    async def strike(self, chance: random.Random) -> None:
        for _ in range(KILLS):
            # Real processes die at moments that nothing foresees: this pause waits for nothing.
            await asyncio.sleep(chance.uniform(0.05, 0.5))
            server = chance.choice(self.servers)
            await server.kill()
            await server.start()


@pytest.fixture
async def federation() -> AsyncIterator[Federation]:
    # Not in pytest's own folder, which only root could enter.
    with folder_of_jobs("kalends-bids-") as directory:
        found = Federation(Path(directory))
        async with running(*found.servers):
            yield found


async def placed(
    client: kalends.Client,
    job: JobRequest,
    key: str,
    explain: Callable[[], str] = lambda: "",
    **options: Any,
) -> RequestView:
    """Ask, by the same key, until it is told where the job is."""
    last: list[object] = []

    async def told() -> RequestView | None:
        try:
            view = await client.place_job(job, key=key, wait_s=20, **options)
        except (kalends.OutcomeUnknown, kalends.Unavailable) as error:
            last[:] = [error]
            return None
        last[:] = [view]
        return view if view.state != "open" else None

    return await until(told, f"{key} is placed", explain=lambda: f"{last}\n{explain()}")


async def test_each_job_runs_once_where_its_user_was_told_whoever_is_killed(
    federation: Federation,
) -> None:
    chance = random.Random(4)
    marks = "; ".join(
        f'[ "$KALENDS_MACHINE" = {name}/box ] && cd {each.marks}'
        for name, each in federation.sites.items()
    )

    async with kalends.connect(federation.broker.url, user=USER, zone="UTC") as client:
        await federation.connected(client)
        views = {}
        async with asyncio.TaskGroup() as both:
            both.create_task(federation.strike(chance))
            for number in range(JOBS):
                text = f"{marks}; echo job-{number} >> marks"
                job = JobRequest(
                    machine="", limit_s=60, directory="/", command=("/bin/sh", "-c", text)
                )
                key = f"the-job-{number:03}"
                views[f"job-{number}"] = await placed(client, job, key, explain=federation.logs)

        async def all_have_run() -> bool:
            return federation.marks().keys() == views.keys()

        await until(all_have_run, "all jobs have run", explain=federation.marks)
        assert set(federation.marks().values()) == {1}
        for name, view in views.items():
            assert view.placed is not None
            assert name in federation.sites[view.placed.machine.partition("/")[0]].marked()


async def test_who_cancels_the_request_ends_the_job(federation: Federation) -> None:
    job = JobRequest(machine="", limit_s=600, directory="/", command=("/bin/sleep", "600"))
    async with kalends.connect(federation.broker.url, user=USER, zone="UTC") as client:
        await federation.connected(client)
        view = await placed(client, job, "the-long-job")
        await client.cancel(view.id)
    where = view.placed
    assert where is not None
    site = federation.sites[where.machine.partition("/")[0]].site

    async def ended() -> str:
        async with kalends.connect(site.url, user=USER, zone="UTC") as ann:
            return (await ann.job(where.machine, where.number)).end

    assert await until(ended, "the job has ended") in ("killed", "withdrawn")


async def test_a_job_that_waits_at_two_sites_starts_once_whoever_is_killed(
    federation: Federation,
) -> None:
    """Both are full until the same moment; then each asks whether it may start what waits at both."""
    chance = random.Random(7)
    text = "; ".join(
        f'[ "$KALENDS_MACHINE" = {name}/box ] && cd {each.marks}'
        for name, each in federation.sites.items()
    )
    async with kalends.connect(federation.broker.url, user=USER, zone="UTC") as client:
        await federation.connected(client)
        at_both = 0
        for number in range(8):
            run = f"{text}; echo job-{number} >> marks; sleep 1"
            job = JobRequest(
                machine="", nodes=4, limit_s=60, directory="/", command=("/bin/sh", "-c", run)
            )
            key = f"the-twin-{number:03}"
            view = await placed(client, job, key, explain=federation.logs, redundant=True)
            assert view.placed is not None
            at_both += len(view.placed.also)
            if number % 2:
                server = chance.choice(federation.servers)
                await server.kill()
                await server.start()
        assert at_both

        async def all_have_run() -> bool:
            return len(federation.marks()) == 8

        await until(all_have_run, "all jobs have run", explain=federation.marks)

        await until(
            federation.nothing_waits, "no place is left of a job that has started elsewhere"
        )
        assert set(federation.marks().values()) == {1}


async def test_a_job_of_a_site_that_is_gone_runs_elsewhere_and_not_there_when_it_is_back(
    federation: Federation,
) -> None:
    async with kalends.connect(federation.broker.url, user=USER, zone="UTC") as client:
        await federation.connected(client)
        for name in federation.sites:
            long = JobRequest(
                machine="", nodes=4, limit_s=600, directory="/", command=("/bin/sleep", "600")
            )
            await placed(client, long, f"first-{name}-job")
        text = "; ".join(
            f'[ "$KALENDS_MACHINE" = {name}/box ] && cd {each.marks}'
            for name, each in federation.sites.items()
        )
        job = JobRequest(
            machine="", limit_s=60, directory="/", command=("/bin/sh", "-c", f"{text}; echo it >> marks")
        )  # fmt: skip
        view = await placed(client, job, "the-job-that-moves", at_most_once=True)
        assert view.placed is not None
        async with kalends.connect(federation.broker.url, user="bob", zone="UTC") as bob:
            with pytest.raises(kalends.KalendsError, match=f"it belongs to {USER}|no such request"):
                await bob.place_elsewhere(view.id)
        gone, _, _ = view.placed.machine.partition("/")
        (other,) = federation.sites.keys() - {gone}
        await federation.sites[gone].site.kill()

        async def moved() -> bool:
            now = (await client.show(view.id)).placed
            return now is not None and now.machine == f"{other}/box"

        await until(moved, "it has another place", explain=federation.logs)
        await federation.sites[gone].site.start()
        for name in (gone, other):
            url = federation.sites[name].site.url
            async with kalends.connect(url, user=USER, zone="UTC") as ann:
                for each in (await ann.jobs(f"{name}/box")).jobs:
                    if each.limit_s == 600:
                        await ann.kill_job(each.machine, each.job)

        async def has_run() -> bool:
            return bool(federation.marks())

        # Its site lists no job of which it has not heard yet that the offer was taken.
        await until(has_run, "it has run", explain=federation.logs)
        await until(federation.nothing_waits, "nothing is left of it where it was first")
        assert federation.marks() == {"it": 1}
        assert federation.sites[other].marked() == {"it": 1}


async def test_who_kills_a_job_at_a_site_that_is_cut_off_ends_it_everywhere(
    federation: Federation,
) -> None:
    """Also if that site starts again before its broker is back, which has not heard of it."""
    async with kalends.connect(federation.broker.url, user=USER, zone="UTC") as client:
        await federation.connected(client)
        first = {}
        for name, each in federation.sites.items():
            async with kalends.connect(each.site.url, user=USER, zone="UTC") as ann:
                long = JobRequest(
                    machine=f"{name}/box", nodes=4, limit_s=600, directory="/",
                    command=("/bin/sleep", "600"),
                )  # fmt: skip
                first[name] = (await ann.submit(long)).job.job
        job = JobRequest(machine="", nodes=4, limit_s=60, directory="/", command=("/bin/true",))
        view = await placed(client, job, "the-job-that-is-killed", redundant=True)
    assert view.placed is not None
    (other,) = view.placed.also
    await federation.broker.kill()
    killed = federation.sites[view.placed.machine.partition("/")[0]].site
    async with kalends.connect(killed.url, user=USER, zone="UTC") as ann:
        await ann.kill_job(view.placed.machine, view.placed.number)
    await killed.kill()
    await killed.start()
    await federation.broker.start()
    url = federation.sites[other.machine.partition("/")[0]].site.url
    async with kalends.connect(url, user=USER, zone="UTC") as ann:

        async def over() -> str:
            return (await ann.job(other.machine, other.number)).end

        assert await until(over, "its other place is given up") == "withdrawn"
    for name, each in federation.sites.items():
        async with kalends.connect(each.site.url, user=USER, zone="UTC") as ann:
            await ann.kill_job(f"{name}/box", first[name])

            async def gone(ann: kalends.Client = ann, name: str = name) -> str:
                return (await ann.job(f"{name}/box", first[name])).end

            await until(gone, "no program is left behind")


async def test_how_a_job_has_ended_is_heard_whoever_was_away_and_others_are_compared_by_it(
    federation: Federation,
) -> None:
    """It ends while its broker is away, and its site starts again before that is back."""
    east, broker = federation.sites["east"], federation.broker
    async with kalends.connect(broker.url, user=USER, zone="UTC") as client:
        await federation.connected(client)
        wait = f"until [ -e {east.marks}/go ]; do sleep 0.05; done"
        job = JobRequest(machine="", limit_s=3_600, directory="/", command=("/bin/sh", "-c", wait))
        view = await placed(client, job, "the-short-job", on="site=east")
        where = view.placed
        assert where is not None

        async def over() -> str:
            async with kalends.connect(east.site.url, user=USER, zone="UTC") as ann:
                return (await ann.job(where.machine, where.number)).end

        async def told() -> PlacedEnd | None:
            with contextlib.suppress(kalends.Unavailable):
                now = (await client.show(view.id)).placed
                return now.ended if now is not None else None
            return None

        assert await told() is None
        await broker.kill()
        (east.marks / "go").touch()
        assert await until(over, "the job has ended", explain=federation.logs) == "exit"
        await east.site.kill()
        await east.site.start()
        await broker.start()
        ended = await until(told, "its broker knows it", explain=federation.logs)
        assert (ended.end, ended.status) == ("exit", 0)
        assert 0 < ended.ran_s < 3_600
        assert [each.placed for each in await client.list()] == [
            (await client.show(view.id)).placed
        ]

        await broker.kill()
        await broker.start()
        await federation.connected(client)
        for user, jobs in ((USER, 1), ("bob", 0)):
            async with kalends.connect(broker.url, user=user, zone="UTC") as whoever:
                sites = (await whoever.resources()).sites
            assert [each.learned_jobs for each in sites] == [jobs, jobs]
        second = await placed(client, job, "the-second-job")
        story = [each.detail for each in (await client.why(second.id)).events]
        assert any("by your last job) starts by" in each for each in story), story
        third = await placed(client, job, "the-third-job", by_limits=True)
        story = [each.detail for each in (await client.why(third.id)).events]
        assert not any("your last job" in each for each in story), story


async def test_a_job_that_runs_is_moved_drained_away_and_lost_and_starts_after_it_has_ended(
    federation: Federation,
) -> None:
    """It tidies up when it is told to end. Its lost site ends it when it is back."""
    turns = federation.sites["east"].marks / "turns"
    script = (
        f"#!/bin/sh\nsay() {{ echo $1 $KALENDS_RESTARTS >> {turns}; }}\n"
        "trap 'say ends; exit 0' TERM\nsay begins\n"
        f"until [ -e {turns}.go ]; do sleep 0.05; done\nsay done\n"
    )

    async def said(line: str) -> bool:
        return turns.exists() and line in turns.read_text().splitlines()

    async def heard(line: str) -> None:
        await until(lambda: said(line), f"its program says {line!r}", explain=federation.logs)

    async def where() -> str:
        placed = (await client.show(view.id)).placed
        assert placed is not None
        return placed.machine.partition("/")[0]

    async def drained(name: str, *, on: bool) -> None:
        url = federation.sites[name].site.url
        async with kalends.connect(url, user="operator", zone="UTC") as operator:
            await operator.drain(on=on)

    async with kalends.connect(federation.broker.url, user=USER, zone="UTC") as client:
        await federation.connected(client)
        job = JobRequest(machine="", limit_s=600, directory="/", script=script, rerun=True)
        view = await placed(client, job, "the-job-that-runs")
        await heard("begins 0")
        first = await where()
        await client.place_elsewhere(view.id)
        second = await where()
        assert first != second
        await heard("begins 1")
        await drained(second, on=True)
        await heard("begins 2")
        assert turns.read_text().splitlines() == [
            "begins 0", "ends 0", "begins 1", "ends 1", "begins 2",
        ]  # fmt: skip
        assert await where() == first
        await drained(second, on=False)
        await federation.sites[first].site.kill()
        await heard("begins 3")
        assert not await said("ends 2")
        await federation.sites[first].site.start()
        await heard("ends 2")
        turns.with_suffix(".go").touch()

        async def ended() -> PlacedEnd | None:
            placed = (await client.show(view.id)).placed
            return placed.ended if placed is not None else None

        end = await until(ended, "its broker hears of its end", explain=federation.logs)
        assert end.succeeded
        assert turns.read_text().split().count("done") == 1
        with pytest.raises(kalends.Conflict, match="it has ended"):
            await client.place_elsewhere(view.id)

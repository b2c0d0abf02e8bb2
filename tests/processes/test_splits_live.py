"""Jobs that a virtual site splits over its members, on real servers: all parts start together, or none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import kalends
from kalends.core.jobs import JobRequest
from tests.support.job_folders import folder_of_jobs
from tests.support.ports import free_urls

from .facility import broker_text, write
from .laboratory import USER, Laboratory
from .servers import Server, running, until

NAMES = ("east", "north", "west")
LINKS = (("east", "west", 100), ("north", "west", 10))


class Hall:
    """Three members with a machine of four nodes each, their virtual site with links, and a broker."""

    def __init__(self, directory: Path) -> None:
        directory.chmod(0o711)
        for name in NAMES:
            (directory / name).mkdir()
        self.sites = {name: Laboratory(directory / name, name=name) for name in NAMES}
        url, hall = free_urls(2)
        members = "".join(
            f'[[virtual.members]]\nname = "{name}"\nurl = "{each.site.url}"\n'
            for name, each in self.sites.items()
        )
        links = "".join(
            f'[[virtual.links]]\nsites = ["{one}", "{other}"]\nmb_per_s = {rate}\n'
            for one, other, rate in LINKS
        )
        door = f'[virtual]\nname = "hall"\nlisten = "{hall.removeprefix("http://")}"\n'
        self.hall = Server("hall", write(directory / "hall.toml", door + members + links), hall)
        text = broker_text(url, {"hall": hall})
        text = text.replace(f'url = "{hall}"', f'url = "{hall}"\nmembers = {list(NAMES)}')
        self.broker = Server("broker", write(directory / "broker.toml", text), url)

    @property
    def servers(self) -> list[Server]:
        return [*(each.site for each in self.sites.values()), self.hall, self.broker]

    def client(self) -> kalends.Client:
        return kalends.connect(self.broker.url, user=USER, zone="UTC")

    def marking(self, text: str) -> JobRequest:
        folders = "; ".join(
            f'[ "$KALENDS_MACHINE" = {name}/box ] && cd {each.marks}'
            for name, each in self.sites.items()
        )
        command = ("/bin/sh", "-c", f"{folders}; {text}")
        return JobRequest(machine="", limit_s=30, directory="/", command=command)

    async def known(self, client: kalends.Client) -> None:
        async def all_up() -> bool:
            return [each.state for each in (await client.resources()).sites] == ["up"] * 3

        await until(all_up, "the broker knows all members")


@pytest.fixture
async def hall() -> AsyncIterator[Hall]:
    # Not in pytest's own folder, which only root could enter.
    with folder_of_jobs("kalends-splits-") as directory:
        found = Hall(Path(directory))
        async with running(*found.servers):
            yield found


async def test_a_job_that_no_member_can_take_alone_runs_on_the_members_whose_link_carries_it(
    hall: Hall,
) -> None:
    async with hall.client() as client:
        await hall.known(client)
        said = hall.marking('echo "$KALENDS_MACHINE $KALENDS_NODE_COUNT" >> marks')
        view = await client.submit_in_step(
            "hall/members:6", said, traffic="50MB", wait_s=20, window=("now", "now+1h")
        )
        # 4 x 2 / 5 x 50 MB are 80 MB; 3 x 3 / 5 x 50 MB are 90 MB.
        assert view.text.startswith(
            "hall/members:6 exchanging 50 MB/s, split: east/box:4 + west/box:2 | "
        )
        assert {part.machine for part in view.parts} == {"east/box", "west/box"}

        async def ended() -> bool:
            return bool((await client.show(view.id)).parts_ended_at)

        await until(ended, "all parts have ended")
        marks = [line for each in hall.sites.values() for line in each.marked()]
        assert sorted(marks) == sorted(f"{each.resource} {each.units}" for each in view.claims)
        assert sum(each.units for each in view.claims) == 6


async def test_without_traffic_all_members_may_take_part_and_one_alone_comes_first(
    hall: Hall,
) -> None:
    async with hall.client() as client:
        await hall.known(client)
        found = await client.find("hall/members:12", duration="1m")
        assert [each.units for each in found.candidates[0].claims] == [4, 4, 4]
        alone = await client.find("hall/members:3", duration="1m", traffic="1TB")
        assert [len(each.claims) for each in alone.candidates] == [1] * len(alone.candidates)


async def test_a_job_that_no_link_carries_is_refused_with_what_would_fit(hall: Hall) -> None:
    async with hall.client() as client:
        await hall.known(client)
        with pytest.raises(kalends.InvalidInput) as refused:
            await client.find("hall/members:6", duration="1m", traffic="100MB")
        assert refused.value.detail == (
            "no split of 6 nodes fits the links: with 4 nodes at east and 2 at west they exchange"
            " 160 MB/s, and the link between these carries 100"
        )
        assert "at most --traffic 62.5MB" in refused.value.remedy
        fits = await client.find("hall/members:6", duration="1m", traffic="62.5MB")
        assert {each.resource for each in fits.candidates[0].claims} == {"east/box", "west/box"}
        with pytest.raises(kalends.InvalidInput, match="12 together"):
            await client.find("hall/members:13", duration="1m")
        with pytest.raises(kalends.InvalidInput, match="not fixed"):
            await client.find("hall/members:2..6", duration="1m")


async def test_a_member_that_is_away_gets_no_part_and_a_key_finds_its_job_without_a_manager(
    hall: Hall,
) -> None:
    async with hall.client() as client:
        await hall.known(client)
        window = ("tomorrow 12:00", "tomorrow 13:00")
        await hall.sites["east"].site.stop()

        async def away() -> bool:
            states = {each.site: each.state for each in (await client.resources()).sites}
            return states["east"] == "down"

        await until(away, "east is away")
        booked = await client.book(
            "hall/members:6", duration="1m", window=window, key="the-only-one-of-it"
        )
        assert {each.resource for each in booked.claims} == {"north/box", "west/box"}
        await hall.hall.stop()
        again = await client.book(
            "hall/members:6", duration="1m", window=window, key="the-only-one-of-it"
        )
        assert again.id == booked.id

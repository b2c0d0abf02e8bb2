"""A site without a broker follows its clock when that is set right, as its alarm has asked for."""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

import kalends
from kalends import __version__
from kalends.core.intervals import Moment
from kalends.core.jobs import JobRequest
from kalends.servers.site import build_site
from kalends.serving.configuration import load_configuration
from kalends.serving.http.runner import Service, listen

HOURS_S = 2 * 3_600
HELD = JobRequest(machine="lab/box", limit_s=60, command=("true",), held=True)
SITE = """
[site]
name = "lab"
listen = "127.0.0.1:0"
store = "lab.sqlite"
[[site.resources]]
name = "box"
capacity = 2
[[site.machines]]
resource = "box"
"""


class Host:
    """A host whose clock may be wrong by some seconds."""

    def __init__(self, wrong_s: int = 0) -> None:
        self.wrong_s = wrong_s

    def read(self) -> Moment:
        monotonic_ms = time.monotonic_ns() // 1_000_000
        return Moment(monotonic_ms, int((time.time() + self.wrong_s) * 1_000))


@asynccontextmanager
async def running(directory: Path, host: Host, text: str = SITE) -> AsyncIterator[str]:
    configuration = load_configuration(text, directory).site
    assert configuration is not None
    site = build_site(configuration, version=__version__, moment=host.read)
    listener = await listen(Service("lab", site, configuration.listen))
    try:
        yield listener.url
    finally:
        await listener.stop()


async def submitted_s(url: str) -> int:
    """Submit a job; return when that was for the queue."""
    async with kalends.connect(url, user="ann") as client:
        return (await client.submit(HELD)).job.submitted


async def doubt(url: str) -> str:
    async with aiohttp.ClientSession() as http, http.get(f"{url}/healthz") as answer:
        return str((await answer.json()).get("detail", ""))


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short, for the paths of sockets below it are limited."""
    with tempfile.TemporaryDirectory(prefix="kl-") as name:
        yield Path(name)


async def test_a_site_that_began_with_a_clock_behind_its_store_follows_it_when_it_is_set_right(
    directory: Path,
) -> None:
    async with running(directory, Host()) as url:
        last_s = await submitted_s(url)
    host = Host(-HOURS_S)
    async with running(directory, host) as url:
        assert await submitted_s(url) == last_s, "time stands still"
        host.wrong_s = 100
        assert await submitted_s(url) >= last_s + 100
        assert await doubt(url) == ""
        host.wrong_s = HOURS_S
        assert await submitted_s(url) < last_s + HOURS_S, "nothing confirms this one"
        assert "restart this server" in await doubt(url)

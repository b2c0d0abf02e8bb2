"""Stores that are restored to an earlier state: a backup as it is documented, or a host's whole disk.

What a disk is put back to is an image of one moment of it. Until then the server works on, so that there
is something to be forgotten.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

import kalends

from .facility import Facility
from .servers import Server, until

WORKS_ON_S: Final = (0.1, 12.0)
"""So long a server works on until it is put back: from a few promises to dozens."""

NEWS_OF_RESTORES: Final = (
    "may have forgotten promises, and is being compared",
    "an older backup of this site's store was restored",
    "this broker's register was restored to an earlier state",
    "the register is made good",
    "that were open when it was restored have failed",
    "which is not known here",  # A decision that comes before the comparison.
)
"""By these, servers tell their owners that they have noticed it."""

Quiet = Callable[[], AbstractAsyncContextManager[None]]


class Restores:
    """Strikes upon the servers of `facility`. What a comparison could not make good is in `lost`.

    Nobody gets room of what is forgotten, so nothing has to be lost. `quiet` keeps customers from
    beginning anything, and waits until every site has confirmed what they have. A second store is put back
    only when the first is made good: what both have forgotten, nobody could bring back.
    """

    def __init__(self, facility: Facility, quiet: Quiet) -> None:
        self.lost: set[str] = set()
        self._brokers = facility.brokers
        self._quiet = quiet
        self._one = asyncio.Lock()

    async def backup(self, site: Server, chance: random.Random) -> None:
        """A backup that was made of the running site is put back, as the owners' page says."""
        store = store_of(site)
        copy = store.with_name(f"{site.name}.backup")
        async with self._one:
            await _succeeds("admin", "backup", store, copy)
            await _works_on(chance)
            await site.stop()
            copy.replace(store)
            for suffix in ("-wal", "-shm"):
                store.with_name(store.name + suffix).unlink(missing_ok=True)
            await _succeeds("admin", "reconcile", store)
            await site.start()
            await self._compared(site)

    async def disk(self, site: Server, chance: random.Random) -> None:
        """All files of the site's host are put back, as by a snapshot of its disk; nobody says so."""
        async with self._one:
            async with _image(site) as put_back:
                await _works_on(chance)
                await site.kill()
                put_back()
            await site.start()
            await self._known_again(site)

    async def register(self, broker: Server, chance: random.Random) -> None:
        """All files of the host of `broker` and its replicas are put back; nobody says so.

        A commit that no site has heard of is gone with its register, and nobody can bring it back: so
        this happens when all is confirmed. Customers go on when it is made good: what they are shown
        before may be out of date.
        """
        async with self._one, _image(broker, *self._others(broker)) as put_back:
            await _works_on(chance)
            async with self._quiet():
                for each in self._brokers:
                    await each.kill()
                put_back()
                for each in self._brokers:
                    await each.spawn()
                for each in self._brokers:
                    await each.listening()
                for each in self._brokers:
                    await self._made_good(each)

    def _others(self, broker: Server) -> list[Server]:
        return [each for each in self._brokers if each is not broker]

    async def _made_good(self, broker: Server) -> None:
        """Return when `broker` has compared with all its sites, and takes new requests."""

        async def is_whole() -> bool:
            async with kalends.connect(broker.url, user="owner", zone="UTC") as client:
                try:
                    reconciled = await client.reconcile(wait_s=20)
                except kalends.KalendsError:
                    return False
            for site in reconciled.sites:
                self.lost.update(f"{lost.id} at {site.site}" for lost in site.lost)
            return not (reconciled.unreached or reconciled.comparing or reconciled.recovering)

        await until(is_whole, f"the register of {broker.name} is whole")
        await broker.healthy()

    async def _known_again(self, site: Server) -> None:
        """Return when all brokers have `site` back, and it takes new requests: nobody asked them to."""
        rows = 0

        async def is_known() -> bool:
            nonlocal rows
            rows = rows + 1 if await self._takes_requests(site) else 0
            return (
                rows == 2
            )  # A broker has it back a moment before it hears what that one remembers.

        await until(is_known, f"{site.name} is known again")

    async def _takes_requests(self, site: Server) -> bool:
        try:
            for broker in self._brokers:
                async with kalends.connect(broker.url, user="owner", zone="UTC") as client:
                    states = {each.site: each.state for each in (await client.resources()).sites}
                if states.get(site.name) != "up":
                    return False
            async with kalends.connect(site.url, user="owner", zone="UTC") as client:
                return not (await client.reconcile()).recovering
        except kalends.KalendsError:
            return False

    async def _compared(self, site: Server) -> None:
        """Let brokers compare once more, until one of them has done so with `site`."""
        said: list[str] = []

        async def compared() -> bool:
            broker = self._brokers[len(said) % len(self._brokers)]
            _, text = await _kalends(
                "--broker",
                broker.url,
                "--user",
                "owner",
                "admin",
                "reconcile",
                "--wait",
                40,
                "--json",
            )
            said.append(text)
            with contextlib.suppress(ValueError):
                for each in json.loads(text)["data"].get("sites", ()):
                    if each["site"] == site.name:
                        self.lost.update(f"{lost['id']} at {site.name}" for lost in each["lost"])
                        return True
            return False

        await until(
            compared, f"a broker has compared with {site.name}",
            explain=lambda: said[-3:],
        )  # fmt: skip


async def _works_on(chance: random.Random) -> None:
    # How much there is to be forgotten is left to chance.
    await asyncio.sleep(chance.uniform(*WORKS_ON_S))


@contextlib.asynccontextmanager
async def _image(*servers: Server) -> AsyncIterator[Callable[[], None]]:
    """An image of all files of the store that `servers` share, of one moment.

    What is yielded puts it back.
    """
    store = store_of(servers[0])
    image = store.with_name(f"{store.stem}.image")
    image.mkdir()
    for server in servers:
        os.kill(server.pid, signal.SIGSTOP)
    try:
        for server in servers:
            await _stands_still(server)
        for file in _files(store):
            shutil.copy2(file, image)
    finally:
        for server in servers:
            os.kill(server.pid, signal.SIGCONT)

    def put_back() -> None:
        for file in _files(store):
            file.unlink()
        for file in image.iterdir():
            shutil.copy2(file, store.parent)

    try:
        yield put_back
    finally:
        shutil.rmtree(image)


async def _stands_still(server: Server) -> None:
    """Return when no thread of it runs any more."""

    async def still() -> bool:
        return _states(server.pid) == {"T"}

    await until(still, f"{server.name} stands still")


def _states(pid: int) -> set[str]:
    """The states of all its threads (Linux), without those that end meanwhile."""
    states = set()
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):
            states.add(thread.read_text().rpartition(")")[2].split()[0])
    return states


def _files(store: Path) -> list[Path]:
    return sorted(store.parent.glob(f"{store.name}*"))


def store_of(server: Server) -> Path:
    name = "broker" if server.name.startswith("broker") else server.name
    return server.configuration.with_name(f"{name}.sqlite")


async def _kalends(*arguments: object) -> tuple[int, str]:
    """The exit code and the standard output of a command; its errors, too, when it fails."""
    command = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kalends", *map(str, arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, errors = await command.communicate()
    assert command.returncode is not None
    return command.returncode, (said or errors).decode()


async def _succeeds(*arguments: object) -> None:
    code, said = await _kalends(*arguments)
    assert code == 0, f"kalends {' '.join(map(str, arguments))}: exit code {code}: {said}"

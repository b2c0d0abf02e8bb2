"""Two owners and a broker: a centre with a batch system behind its cluster, and a lab with a beam line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import kalends
from kalends.backends.adapter import Adapter
from kalends.backends.records import (
    FinishedJob,
    ListFinishedJobs,
    SystemReservation,
    SystemState,
    Traits,
)
from kalends.client.client import Client
from kalends.servers.broker import build_broker
from kalends.servers.site import build_site
from kalends.serving.configuration import Configuration, configuration_of
from kalends.serving.http.runner import Listener, Service, listen
from tests.backends.conformance.system_at_hand import SystemAtHand, until

CLUSTER = "centre/cluster"
BOTH = "centre/cluster:2 + lab/beam"
WHOLE: Final = ({"name": "cluster", "capacity": 4, "nodes": "n[1-4]"},)


@dataclass
class WatchedAdapter:
    """An adapter whose looks and writes are counted."""

    adapter: Adapter
    looks: int = 0
    writes: list[str] = field(default_factory=list)
    creates: asyncio.Event = field(default_factory=asyncio.Event)
    """While it is not set, no creation begins."""
    ends: list[tuple[bool, int]] = field(default_factory=list)
    """Whether jobs were killed or asked to end, and when (seconds UTC)."""
    listed: list[ListFinishedJobs] = field(default_factory=list)

    @property
    def traits(self) -> Traits:
        return self.adapter.traits

    def __post_init__(self) -> None:
        self.creates.set()

    async def state(self) -> SystemState:
        self.looks += 1
        return await self.adapter.state()

    async def find(self, name: str) -> SystemReservation | None:
        return await self.adapter.find(name)

    async def create(self, reservation: SystemReservation) -> None:
        self.writes.append(f"create {reservation.name}")
        await self.creates.wait()
        await self.adapter.create(reservation)

    async def change(self, reservation: SystemReservation) -> None:
        self.writes.append(f"change {reservation.name}")
        await self.adapter.change(reservation)

    async def delete(self, name: str) -> None:
        self.writes.append(f"delete {name}")
        await self.adapter.delete(name)

    async def end_jobs(self, name: str, *, at_once: bool) -> None:
        self.ends.append((at_once, int(time.time())))
        await self.adapter.end_jobs(name, at_once=at_once)

    async def finished_jobs(self, asked: ListFinishedJobs) -> tuple[FinishedJob, ...]:
        self.listed.append(asked)
        return await self.adapter.finished_jobs(asked)


class Owners:
    """All servers, in this process, and what the system behind the centre has."""

    def __init__(
        self,
        directory: Path,
        system: SystemAtHand,
        resources: Sequence[Mapping[str, object]] = WHOLE,
    ) -> None:
        self.system = system
        self._resources = resources
        self.adapter = WatchedAdapter(system.adapter)
        self._directory = directory
        self._listening: dict[str, Listener] = {}
        self._configured: dict[str, Configuration] = {}

    def client(self, user: str = "ann", at: str = "broker") -> Client:
        return kalends.connect(self._listening[at].url, user=user, zone="UTC")

    def url(self, at: str) -> str:
        return self._listening[at].url

    async def looked(self) -> None:
        """Return when the site has looked anew, and done what that has led to."""
        begun = self.adapter.looks

        async def twice() -> bool:
            return self.adapter.looks >= begun + 3  # The third one begins behind the second.

        await until(twice, "the site does not look")

    async def ours(self) -> list[SystemReservation]:
        """Return the reservations that the site has made."""
        state = await self.system.adapter.state()
        return [each for each in state.reservations if each.name.startswith("kal.centre.")]

    async def problems(self) -> str:
        """Return what the operator of the centre is told."""
        async with self.client("operator", "centre") as operator:
            return "\n".join((await operator.audit()).problems)

    async def operator_is_told(self, what: str) -> None:
        """Return once the operator is told of `what`."""

        async def told() -> bool:
            return what in await self.problems()

        await until(told, "the operator is not told")

    async def operator_is_told_no_more(self) -> None:
        """Return once no problem is left."""

        async def over() -> bool:
            return await self.problems() == ""

        await until(over, "the operator is told still")

    async def told(self) -> str:
        """Return what the operator of the centre was told, and is over."""
        async with self.client("operator", "centre") as operator:
            return "\n".join((await operator.audit()).settled)

    def _configure_centre(self, **more: object) -> None:
        users = {"ann": self.system.user, "bob": self.system.other_user, "cat": "nobody-here"}
        answer_s = self.system.answer_s_max
        machine = {
            "name": "machine", "users": users, "look_every": "1s", "answer_s_max": answer_s,
            "warn": "15s", "kill": "10s", "give_up_after": "3s", "usage_every": "1s",
        }  # fmt: skip
        resources = [{"batch_system": "machine", "grain": "1s", **each} for each in self._resources]
        self._configure("centre", "site", resources=resources, batch_systems=[machine], **more)

    async def start(self) -> None:
        self._configure_centre()
        self._configure("lab", "site", resources=[{"name": "beam", "capacity": 1}])
        await self.start_server("centre")
        await self.start_server("lab")
        sites = [{"name": each, "url": self._listening[each].url} for each in ("centre", "lab")]
        self._configure("broker", "broker", sites=sites)
        await self.start_server("broker")

    async def start_server(self, name: str, *, wait: bool = True) -> None:
        configured = self._configured[name]
        if configured.site is not None:
            adapters = {"machine": self.adapter} if name == "centre" else {}
            application = build_site(configured.site, version="test", adapters=adapters)
            address = configured.site.listen
        else:
            assert configured.broker is not None
            application = build_broker(configured.broker, version="test")
            address = configured.broker.listen
        if name in self._listening:
            address = self._listening[name].url.removeprefix("http://")
        self._listening[name] = await listen(Service(name, application, address))
        if wait and "broker" in self._listening:
            await self._connected()

    async def stop_server(self, name: str) -> None:
        await self._listening[name].stop()

    async def change_resources(self, *resources: Mapping[str, object]) -> None:
        """Start the centre again with these."""
        await self.stop_server("centre")
        address = self._listening["centre"].url.removeprefix("http://")
        self._resources = resources
        self._configure_centre(listen=address)
        await self.start_server("centre")

    def lose_store(self, name: str) -> None:
        """Delete all that a server that does not run has stored."""
        for each in self._directory.glob(f"{name}.sqlite*"):
            each.unlink()

    async def stop(self) -> None:
        for name in ("broker", "lab", "centre"):
            if name in self._listening:
                await self.stop_server(name)

    async def _connected(self) -> None:
        async with self.client() as client:

            async def all_up() -> bool:
                return all(site.state == "up" for site in (await client.resources()).sites)

            await until(all_up, "the broker does not find its sites")

            async def known() -> bool:
                # The site has looked at its system: without that it promises nothing.
                found = await client.find(CLUSTER, duration="10m", window=("now+1h", "now+300d"))
                return bool(found.candidates)

            await until(known, "the site does not look at its system")

    def _configure(self, name: str, role: str, **fields: object) -> None:
        raw = {"name": name, "listen": "127.0.0.1:0", "store": f"{name}.sqlite", **fields}
        self._configured[name] = configuration_of({role: raw}, self._directory)


@asynccontextmanager
async def owners(
    directory: Path, system: SystemAtHand, resources: Sequence[Mapping[str, object]] = WHOLE
) -> AsyncIterator[Owners]:
    found = Owners(directory, system, resources)
    try:
        await found.start()
        yield found
    finally:
        await found.stop()

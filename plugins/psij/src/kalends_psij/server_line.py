"""The connection to a server, in threads of its own, and the thread that tells users of their jobs."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from typing import Any, TypeVar

import kalends
from kalends.client.client import Client
from kalends.core.errors import InvalidInput, NotFound
from kalends.core.identifiers import split_resource
from kalends_psij.configuration import ServerAccess
from kalends_psij.job_follower import JobFollower

logger = logging.getLogger(__name__)
T = TypeVar("T")


class ServerLine:
    """Calls to one server and the sites that it knows, from any thread.

    What users are to be told is told in a thread of its own, in order: they may call the executor there.
    """

    def __init__(self, access: ServerAccess) -> None:
        """Connects to nothing yet; raises `InvalidInput` for an address that cannot be one."""
        self._server = kalends.connect(
            access.url, token=access.token, user=access.user, ca=access.ca
        )
        self._loop = asyncio.new_event_loop()
        self._followers: dict[str, asyncio.Task[JobFollower]] = {}
        self._sites: dict[str, asyncio.Task[Client]] = {}
        self._told: SimpleQueue[Callable[[], None]] = SimpleQueue()
        for name, target in (("calls", self._loop.run_forever), ("callbacks", self._tell_all)):
            threading.Thread(target=target, name=f"kalends-psij {name}", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` returns, which is done on the event loop."""
        answer = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return answer.result()
        except BaseException:
            # Also at Ctrl-C: nobody waits for the answer any more.
            answer.cancel()
            raise

    def soon(self, step: Callable[[], None]) -> None:
        """Have `step` done on the event loop."""
        self._loop.call_soon_threadsafe(step)

    def tell(self, said: Callable[[], None]) -> None:
        """Call `said` in the thread for users, after all that was to be told before."""
        self._told.put(said)

    async def follower(self, machine: str) -> JobFollower:
        """Return what submits to `machine`; raises `NotFound` for one of a site that nobody knows."""
        making = self._followers.get(machine)
        if making is None or (making.done() and making.exception() is not None):
            making = self._followers[machine] = asyncio.create_task(self._make_follower(machine))
        return await asyncio.shield(making)

    async def site(self) -> Client:
        """Return a client of the server, which is a site; raises `InvalidInput` for a broker."""
        if (await self._server.health()).role != "site":
            raise InvalidInput(
                "which machine is not said, and the server is a broker",
                where="url",
                remedy="put the machine behind the address, as http://127.0.0.1:7100/lab/box",
            )
        return self._server

    async def _make_follower(self, machine: str) -> JobFollower:
        client = self._server
        if (await client.health()).role == "broker":
            client = await self._at(split_resource(machine)[0])
        return JobFollower(client, machine)

    async def _at(self, site: str) -> Client:
        """Return the one client of a site that the broker knows; it comes by a pass of the broker."""
        making = self._sites.get(site)
        if making is None or (making.done() and making.exception() is not None):
            making = self._sites[site] = asyncio.create_task(self._server.at_site(site))
        try:
            return await asyncio.shield(making)
        except NotFound as error:
            error.where = "queue_name"
            raise

    def _tell_all(self) -> None:
        while True:
            said = self._told.get()
            try:
                said()
            except Exception:
                # A user's own callback: what it raises is logged, and ends no other job's news.
                logger.exception("a status could not be told")


_lines: dict[ServerAccess, ServerLine] = {}
_lock = threading.Lock()


def line_to(access: ServerAccess) -> ServerLine:
    """Return the one line of this process to a server."""
    with _lock:
        if access not in _lines:
            _lines[access] = ServerLine(access)
        return _lines[access]

"""A row of the register that cannot be read stops nobody: no heartbeat, no other requests, no look."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec import structs

import kalends
from kalends.broker.register.sqlite import lives
from kalends.broker.register.sqlite.broker_store import KIND
from kalends.client.transports.retry import Backoff
from kalends.contract import codec, proofs
from kalends.contract import messages as m
from kalends.core.errors import StoreDamaged
from kalends.core.identifiers import request_id
from kalends.servers.broker import build_broker
from kalends.servers.site import build_site
from kalends.serving.configuration import load_configuration
from kalends.serving.http.runner import Listener, Service, listen
from kalends.stores.sqlite.maintenance import doctor

ONCE = Backoff(tries_max=1)
WHEN = (int(time.time()) // 86_400 + 10) * 86_400


class Facility:
    """A site and one broker in this process; the broker can be stopped and started again."""

    def __init__(self, directory: Path) -> None:
        self.store = directory / "npaci.sqlite"
        self._directory = directory
        self._stack = AsyncExitStack()
        self._site_url = ""
        self.broker: Listener | None = None

    async def start_site(self) -> None:
        text = '[site]\nname = "sdsc"\nstore = "sdsc.sqlite"\n[[site.resources]]\nname = "sp2"\n'
        configuration = load_configuration(text, self._directory).site
        assert configuration is not None
        site = await listen(
            Service("site sdsc", build_site(configuration, version="1"), "127.0.0.1:0")
        )
        self._stack.push_async_callback(site.stop)
        self._site_url = site.url

    async def start_broker(self) -> None:
        text = (
            '[broker]\nname = "npaci"\nstore = "npaci.sqlite"\n'
            f'[[broker.sites]]\nname = "sdsc"\nurl = "{self._site_url}"\n'
        )
        configuration = load_configuration(text, self._directory).broker
        assert configuration is not None
        application = build_broker(configuration, version="1")
        self.broker = await listen(Service("broker npaci", application, "127.0.0.1:0"))
        async with self.client() as client:
            while [site.state for site in (await client.resources()).sites] != ["up"]:
                pass

    async def stop_broker(self) -> None:
        broker, self.broker = self.broker, None
        if broker is not None:
            await broker.stop()

    async def stop(self) -> None:
        await self.stop_broker()
        await self._stack.aclose()

    @property
    def url(self) -> str:
        assert self.broker is not None
        return self.broker.url

    def client(self) -> kalends.Client:
        return kalends.connect(self.url, user="anna", backoff=ONCE, zone="UTC")

    async def inquire(self, inquire: m.Inquire | m.StartAsk) -> tuple[int, dict[str, Any]]:
        path = "inquire" if isinstance(inquire, m.Inquire) else "start"
        async with (
            aiohttp.ClientSession() as http,
            http.post(
                f"{self.url}/v1/{path}",
                data=codec.encode_msgpack(inquire),
                headers={"Content-Type": codec.MSGPACK},
            ) as response,
        ):
            await response.read()
            return response.status, {} if response.status == 200 else await response.json()

    def secret_of(self, rid: str) -> str:
        """The proof of the site that it takes part in a request."""
        with closing(sqlite3.connect(self.store)) as connection:
            return proofs.of_request(proofs.site_key(lives.secret(connection), "sdsc"), rid)

    def spoil(self, rid: str, *, open_: bool = False) -> None:
        """What is stored of `rid` is no record any more, and with `open_` somebody has to see to it."""
        with closing(sqlite3.connect(self.store, isolation_level=None)) as connection:
            changed = connection.execute(
                "update request set body = x'c1' || substr(body, 2) where rid = ?", (rid,)
            )
            assert changed.rowcount == 1
            if open_:
                connection.execute(
                    "update request set state = 'open', done = 0, owner = 'npaci-9:1'"
                    " where rid = ?",
                    (rid,),
                )


@asynccontextmanager
async def facility(directory: Path) -> AsyncIterator[Facility]:
    made = Facility(directory)
    try:
        await made.start_site()
        await made.start_broker()
        yield made
    finally:
        await made.stop()


async def book(client: kalends.Client, hour: int, key: str = "") -> str:
    view = await client.book("sdsc/sp2", duration="1h", at=WHEN + hour * 3600, key=key)
    assert view.state == "reserved"
    return view.id


async def test_an_orphan_that_cannot_be_read_is_left_as_it_is_and_the_others_are_taken_over(
    tmp_path: Path,
) -> None:
    async with facility(tmp_path) as here:
        async with here.client() as client:
            bad, good = await book(client, 0), await book(client, 1)
        await here.stop_broker()
        here.spoil(bad, open_=True)
        with closing(sqlite3.connect(here.store, isolation_level=None)) as connection:
            # Committed, and nobody has told its sites to the end.
            connection.execute(
                "update request set done = 0, owner = 'npaci-9:1' where rid = ?", (good,)
            )
        await here.start_broker()
        async with here.client() as client:
            while not (await client.show(good)).claims[0].confirmed:
                pass
            await book(client, 2)
            assert (await client.health()).status == "ok"
            audited = await client.audit()
            assert sum(bad in problem for problem in audited.problems) >= 1
            assert [each.id for each in audited.records].count(bad) == 1
        with closing(sqlite3.connect(here.store)) as connection:
            row = connection.execute(
                "select owner, done from request where rid = ?", (bad,)
            ).fetchone()
            assert row == ("npaci-9:1", 0)
        assert any(bad in finding for finding in doctor(here.store, [KIND]))


async def test_who_asks_for_it_is_told_and_the_list_shows_that_it_is_there(tmp_path: Path) -> None:
    async with facility(tmp_path) as here, here.client() as client:
        bad, good = await book(client, 0, "the-key-of-it"), await book(client, 1)
        here.spoil(bad)
        for call in (
            client.show(bad),
            client.why(bad),
            client.resolve("the-key-of-it"),
            client.cancel(bad),
            client.move(bad, WHEN + 7200),
            book(client, 0, "the-key-of-it"),
        ):
            with pytest.raises(StoreDamaged) as caught:
                await call
            assert "doctor" in caught.value.remedy
        listed = {view.id: view for view in await client.list()}
        assert listed[good].problem is None
        assert listed[bad].state == "reserved"
        assert listed[bad].problem is not None
        assert (await client.show(good)).state == "reserved"


async def test_an_inquiry_about_it_is_refused_and_nothing_begins_anew(tmp_path: Path) -> None:
    """Absence of a record would mean abort: that is not to be said of one that is only unreadable.

    A stranger hears the same as about any request of others; a site that takes part hears what is wrong.
    """
    async with facility(tmp_path) as here, here.client() as client:
        good, bad = await book(client, 2), await book(client, 0)
        here.spoil(bad)
        stranger = m.Inquire(rid=bad, att=1, site="sdsc", secret="w" * 24)
        refused = await here.inquire(stranger)
        assert refused == await here.inquire(structs.replace(stranger, rid=good))
        assert refused[0] == 403
        status, problem = await here.inquire(structs.replace(stranger, secret=here.secret_of(bad)))
        assert (status, problem["code"]) == (500, "store-damaged")
        await book(client, 1)
        with closing(sqlite3.connect(here.store)) as connection:
            owners = connection.execute("select owner from replica").fetchall()
        assert owners == [("npaci-1:1",)]


async def test_a_site_that_proves_itself_before_there_is_an_answer_is_asked_to_come_again(
    tmp_path: Path,
) -> None:
    async with facility(tmp_path) as here:
        rid = request_id(1, 1)
        ask = m.StartAsk(rid=rid, att=1, site="sdsc", secret=here.secret_of(rid))
        for each in (ask, structs.replace(ask, gives_up=True)):
            assert (await here.inquire(each))[0] == 503
            assert (await here.inquire(structs.replace(each, secret="w" * 24)))[0] == 403

"""The outbox as it runs, with a real relay: over the lives of a site, and beside bad receivers."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mail_relay as relays
import pytest
from store_support import store_facts
from tests.support.ports import free_ports

from kalends.batch.job_notices import job_notifier
from kalends.batch.journal.contract import JobEntries
from kalends.core.errors import NotAllowed
from kalends.notices.delivery import DeliveriesDone, Delivery
from kalends.notices.delivery_table import stored_deliveries
from kalends.resource_servers.journal.sqlite.site_store import SiteStore
from kalends.serving.configuration import DurationS, NoticesConfiguration
from kalends.serving.logs import configure_logging, get_logger
from kalends.serving.metrics import Metrics

NOW = 1_800_000_000


class Lobby:
    """A notifier over a real store, and everything that it says."""

    def __init__(self, store: SiteStore, rules: NoticesConfiguration | None) -> None:
        self.store = store
        self.now = NOW
        self.reports: list[tuple[str, str]] = []
        self.metrics = Metrics(role="site", name="lab", version="1")
        self.changed = asyncio.Event()
        self.notifier = job_notifier(
            rules,
            now_s=lambda: self.now,
            chance=lambda: 0.0,
            reported=self.reported,
            logger=get_logger(role="site", name="lab"),
            metrics=self.metrics,
        )

    def begin(self) -> None:
        self.notifier.begin_life(*stored_deliveries(self.store.file.connection), self.forget)

    def write(self, *operations: Any) -> None:
        store_facts(self.store, operations, NOW * 1000)
        self.changed.set()

    def forget(self, ids: Sequence[str]) -> None:
        self.write(DeliveriesDone(tuple(ids)))

    def post(self, *deliveries: Delivery) -> None:
        kept = self.notifier.post(deliveries)
        self.write(*kept)
        self.notifier.stored(kept)

    async def emptied(self, *, passing_s: int = 0) -> None:
        """Return once nothing is stored; so much time passes whenever nothing changes for a second."""
        async with asyncio.timeout(60):
            while stored_deliveries(self.store.file.connection).deliveries:
                self.changed.clear()
                try:
                    await asyncio.wait_for(self.changed.wait(), 1)
                except TimeoutError:
                    self.now += passing_s

    def reported(self, about: str, text: str) -> None:
        self.reports.append((about, text))
        self.changed.set()

    async def told(self, number: int) -> None:
        """Return once so much was reported."""
        async with asyncio.timeout(60):
            while len(self.reports) < number:
                self.changed.clear()
                await self.changed.wait()

    def metric(self, name: str) -> float:
        lines = self.metrics.render().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


@asynccontextmanager
async def lobby(path: Path, rules: NoticesConfiguration | None) -> AsyncIterator[Lobby]:
    store = SiteStore.open(path / "lab.sqlite", "lab", sync="off")
    lobby = Lobby(store, rules)
    lobby.begin()
    try:
        yield lobby
    finally:
        await lobby.notifier.close()
        store.close()


def rules_for(port: int, **more: Any) -> NoticesConfiguration:
    fields = {"encryption": "none", "address": "{user}@example.org", **more}
    return NoticesConfiguration(smtp=f"127.0.0.1:{port}", sender="kalends@example.org", **fields)


def delivery(name: str, to: str = "ann@example.org", at: int = NOW) -> Delivery:
    return Delivery(id=name, user="ann", to=to, subject=name, text="all\n", facts={}, made_s=at)


@pytest.fixture
def log() -> io.StringIO:
    stream = io.StringIO()
    configure_logging(form="json", stream=stream)
    return stream


async def test_what_is_posted_is_sent_and_then_forgotten(tmp_path: Path) -> None:
    async with relays.mail_relay() as relay, lobby(tmp_path, rules_for(relay.port)) as here:
        here.post(*(delivery(name) for name in "abcde"))
        assert here.metric("kalends_notices_waiting") == 5
        await here.emptied()
        assert sorted(mail.message["Subject"] for mail in relay.mails) == list("abcde")
        assert here.metric("kalends_notices_waiting") == 0
        assert here.metric('kalends_notices_total{end="sent"}') == 5
        assert here.reports == []


async def test_what_was_stored_and_not_sent_is_sent_in_the_next_life(tmp_path: Path) -> None:
    async with relays.mail_relay() as relay:
        relay.answers["HELLO"] = ""
        async with lobby(tmp_path, rules_for(relay.port)) as here:
            here.post(delivery("a"))
            await relay.connected(1)
        assert not relay.mails
        del relay.answers["HELLO"]
        async with lobby(tmp_path, rules_for(relay.port)) as here:
            await here.emptied()
            assert [mail.message["Subject"] for mail in relay.mails] == ["a"]


async def test_a_relay_that_is_away_is_told_once_and_holds_up_no_webhook(
    tmp_path: Path, log: io.StringIO
) -> None:
    (port,) = free_ports(1)
    key = tmp_path / "key"
    key.write_text("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
    key.chmod(0o600)
    async with relays.webhook_receiver() as receiver:
        rules = rules_for(
            port, webhook_hosts=(receiver.place,), webhook_key=key, pause_s=DurationS(1)
        )
        async with lobby(tmp_path, rules) as here:
            here.post(delivery("a"), delivery("b"), delivery("c", f"{receiver.url}/jobs"))
            await receiver.calls_made(1)
            again = relays.MailRelay()
            await here.told(1)
            await again.open(port)
            # On a busy machine a try may end without an answer, and the next one comes later.
            await here.emptied(passing_s=5)
            await again.close()
    about = "notices by mail"
    assert [(each, bool(text)) for each, text in here.reports] == [(about, True), (about, False)]


async def test_what_blocked_a_way_in_an_earlier_life_is_told_anew(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    async with lobby(tmp_path, rules_for(port)) as here:
        here.post(delivery("a"))
        await here.told(1)
        here.notifier.end_life()
        here.begin()
        await here.told(3)
    assert [bool(text) for _, text in here.reports] == [True, False, True], "a stop ends no problem"


async def test_a_delivery_that_is_refused_is_lost_and_said(
    tmp_path: Path, log: io.StringIO
) -> None:
    async with relays.mail_relay() as relay, lobby(tmp_path, rules_for(relay.port)) as here:
        relay.answers["RCPT"] = "550 no such user"
        here.post(delivery("a"))
        await here.emptied()
        assert here.metric('kalends_notices_total{end="lost"}') == 1
    (said,) = [json.loads(line) for line in log.getvalue().splitlines()]
    assert (said["event"], said["notice"], said["reason"]) == (
        "notice_lost", "a", "550 no such user",
    )  # fmt: skip


async def test_a_delivery_that_breaks_its_carrier_is_lost_alone(
    tmp_path: Path, log: io.StringIO
) -> None:
    class BrokenCarrier:
        async def carry(self, delivery: Delivery) -> None:
            raise RuntimeError("it has no wheels")

    async with relays.mail_relay() as relay, lobby(tmp_path, rules_for(relay.port)) as here:
        here.notifier._webhooks = BrokenCarrier()  # type: ignore[assignment]  # that is the point
        here.post(delivery("a", "https://hooks.example.org/x"), delivery("b"))
        await here.emptied()
        assert [mail.message["Subject"] for mail in relay.mails] == ["b"]
        here.notifier._webhooks = None
    assert "it has no wheels" in log.getvalue()


async def test_without_rules_of_the_owner_nobody_is_told_and_that_is_refused(
    tmp_path: Path, log: io.StringIO
) -> None:
    async with lobby(tmp_path, None) as here:
        with pytest.raises(NotAllowed, match="this server sends no notices") as refused:
            here.notifier.address_of("ann", "")
        assert "[site.notices]" in str(refused.value.remedy)
        here.post(delivery("from-before"))
        await here.emptied()
    assert "notice_lost" in log.getvalue()


async def test_a_stored_delivery_that_cannot_be_read_is_said_and_keeps_up_nothing(
    tmp_path: Path, log: io.StringIO
) -> None:
    store = SiteStore.open(tmp_path / "lab.sqlite", "lab", sync="off")
    store.file.connection.execute("insert into letter (id, body) values ('bad', x'c1')")
    store.close()
    async with relays.mail_relay() as relay, lobby(tmp_path, rules_for(relay.port)) as here:
        here.post(delivery("good"))
        await here.emptied()
        assert [mail.message["Subject"] for mail in relay.mails] == ["good"]
        assert not stored_deliveries(store_of(here)).unreadable
    assert '"notice": "bad"' in log.getvalue()


def store_of(here: Lobby) -> Any:
    return here.store.file.connection


async def test_deliveries_and_facts_are_stored_together_or_not_at_all(tmp_path: Path) -> None:
    store = SiteStore.open(tmp_path / "lab.sqlite", "lab", sync="off")
    connection = store.file.connection
    connection.execute("begin immediate")
    store.carry_out(connection, [delivery("a"), JobEntries("lab/box", ())], 1)
    connection.rollback()
    assert stored_deliveries(connection) == ([], [])
    store.close()


async def test_an_address_that_a_user_has_chosen_is_no_alarm(
    tmp_path: Path, log: io.StringIO
) -> None:
    key = tmp_path / "key"
    key.write_text("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
    key.chmod(0o600)
    rules = rules_for(1, webhook_hosts=("*", "127.0.0.1:1"), webhook_key=key)
    async with lobby(tmp_path, rules) as here:
        here.post(delivery("a", "https://nowhere.invalid/x"))
        await asyncio.wait(set(here.notifier._tries))
        assert "notices_of_user" in log.getvalue()
        assert here.reports == []
        here.post(delivery("b", "http://127.0.0.1:1/x"))
        await here.told(1)
    assert [about for about, _ in here.reports] == ["notices by http://127.0.0.1:1"]

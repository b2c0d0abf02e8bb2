"""What docs/notices.md shows is what users and receivers get, and its receiver believes the right ones."""

from __future__ import annotations

import asyncio
import re
import ssl
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from transcripts import ROOT, environment

from kalends.batch.job_delivery import job_delivery
from kalends.batch.queue import facts as f
from kalends.batch.queue.queue import BatchQueue
from kalends.core.jobs import JobRequest, Notify
from kalends.core.principals import Principal
from kalends.notices.address_book import AddressBook
from kalends.notices.delivery import Delivery, FailedTry
from kalends.notices.webhooks import WebhookCalls, owners_secret
from kalends.rim.webhook_signatures import secret_text
from kalends.serving.configuration import NoticesConfiguration, load_configuration

PAGE = (ROOT / "docs" / "notices.md").read_text()
BLOCKS = dict(
    re.findall(
        r"<!-- ([^:\n]+): tests/examples/test_notices_docs\.py -->\n```[a-z]*\n(.*?)```\n",
        PAGE,
        re.DOTALL,
    )
)


def test_its_configuration_can_be_served_and_allows_what_it_says() -> None:
    site = load_configuration(BLOCKS["configuration"], Path()).site
    assert site is not None
    assert site.notices is not None
    book = AddressBook(site.notices)
    assert book.address_of("ann", "") == "ann@lab.example"
    assert book.address_of("bob", "") == "robert@uni.example"
    assert book.address_of("ann", "ann@uni.example")
    assert book.address_of("ann", "https://hooks.lab.example/jobs")


def test_a_broker_s_configuration_can_be_served_and_allows_what_it_says() -> None:
    broker = load_configuration(BLOCKS["broker"], Path()).broker
    assert broker is not None
    assert broker.notices is not None
    book = AddressBook(broker.notices)
    assert book.address_of("ann", "") == "ann@npaci.example"
    assert book.address_of("ann", "ann@uni.example")
    assert book.address_of("ann", "https://any.host.example/x")


def test_its_mail_is_what_a_user_gets() -> None:
    def at(clock: str) -> int:
        return int(datetime.fromisoformat(f"2026-11-23T{clock}").replace(tzinfo=UTC).timestamp())

    queue = BatchQueue("lab/box", f.Terms(machine="pool:4"), at("09:14"))
    queue.skip_numbers(17)
    job = JobRequest(
        machine="lab/box", limit_s=3_600, nodes=2, name="solver", command=("./solve",),
        notify=Notify(when=("fail",)), not_before=at("09:40"),
    )  # fmt: skip
    number, _ = queue.submit(Principal("ann"), job, "the-first-key", at("09:14"))
    queue.advance(at("09:40"))
    queue.begun(number, 1, at("09:40"))
    queue.ended(number, 1, f.JobEnding(kind="exit", status=3), at("10:12"))
    (milestone,) = queue.take_effects().milestones
    delivery = job_delivery("lab/box", milestone, "ann@lab.example", at("10:12"))
    assert BLOCKS["mail"] == f"Subject: {delivery.subject}\n\n{delivery.text}"


def test_its_receiver_takes_what_the_site_has_signed_once_and_nothing_else(
    tmp_path: Path,
) -> None:
    (tmp_path / "receiver.py").write_text(BLOCKS["receiver.py"])
    for name, secret in (("webhooks", b"the owner's secret of 32 bytes.."), ("others", bytes(32))):
        (tmp_path / name).write_text(f"{secret_text(secret)}\n")
        (tmp_path / name).chmod(0o600)
    with subprocess.Popen(
        [sys.executable, "receiver.py", "0"], cwd=tmp_path, env=environment({}), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as receiver:  # fmt: skip
        try:
            assert receiver.stdout is not None
            port, now = int(receiver.stdout.readline()), int(time.time())
            genuine = tmp_path / "webhooks"
            refused = FailedTry("refused", "status 401")
            assert asyncio.run(called(port, tmp_path / "others", "forged", now)) == refused
            assert asyncio.run(called(port, genuine, "old", now - 3_600)) == refused
            for name in ("first", "first", "second"):
                assert asyncio.run(called(port, genuine, name, now)) is None
            told = [receiver.stdout.readline().strip() for _ in range(2)]
            assert told == ["first", "second"]
        finally:
            receiver.terminate()


async def called(port: int, key: Path, name: str, now: int) -> FailedTry | None:
    rules = NoticesConfiguration(webhook_hosts=(f"127.0.0.1:{port}",), webhook_key=key)
    tls = ssl.create_default_context()
    secret = owners_secret(key, "site.notices.webhook_key")

    async def secret_of(delivery: Delivery) -> bytes:
        return secret

    calls = WebhookCalls(rules, AddressBook(rules), tls, lambda: now, secret_of)
    url = f"http://127.0.0.1:{port}/jobs"
    delivery = Delivery(id=name, user="ann", to=url, subject=name, text="", facts={}, made_s=now)
    try:
        return await calls.carry(delivery)
    finally:
        await calls.close()

"""Users of a real site are told what becomes of their jobs, whatever becomes of the site and its relay."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from mail_relay import MailRelay, mail_relay, webhook_receiver

from kalends.core.errors import InvalidInput, NotAllowed
from kalends.core.jobs import Notify
from tests.support.job_folders import folder_of_jobs
from tests.support.ports import free_ports

from .laboratory import MACHINE, USER, Laboratory, laboratories, opened
from .servers import until

END = Notify(when=("end", "fail"))


@contextlib.asynccontextmanager
async def told_laboratory(port: int, more: str = "") -> AsyncIterator[Laboratory]:
    """A laboratory that sends mail to a relay on `port`."""
    rules = f"""
[site.notices]
smtp = "127.0.0.1:{port}"
encryption = "none"
from = "kalends@lab.example"
address = "{{user}}@lab.example"
wait = "5s"
pause = "1s"
{more}
"""
    # Not in pytest's own folder, which only root could enter.
    with folder_of_jobs("kalends-jobs-") as directory:
        key = Path(directory) / "hooks"
        key.write_text("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
        key.chmod(0o600)
        async for laboratory in opened(Laboratory(Path(directory), rules=rules)):
            yield laboratory


async def none_waits(laboratory: Laboratory) -> bool:
    """Whether the site says that no notice waits."""
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"{laboratory.site.url}/metrics") as answer,
    ):
        return "kalends_notices_waiting 0.0" in await answer.text()


@pytest.fixture
async def relay() -> AsyncIterator[MailRelay]:
    async with mail_relay() as relay:
        yield relay


async def test_a_job_is_told_of_when_it_begins_and_when_it_has_failed(relay: MailRelay) -> None:
    async with told_laboratory(relay.port) as laboratory, laboratory.client() as client:
        notify = Notify(when=("begin", "end", "fail"))
        made = await client.submit(laboratory.job("exit 3", name="three", notify=notify))
        assert made.job.notify == notify
        mails = await relay.mail(2)
        assert sorted(mail.message["Subject"] for mail in mails) == [
            "lab/box/1 (three) has begun",
            "lab/box/1 (three) has failed: exit 3",
        ]
        for mail in mails:
            assert mail.to == f"TO:<{USER}@lab.example>"
            assert "kalends log lab/box/1" in mail.message.get_content()


async def test_an_array_is_told_of_by_one_mail(relay: MailRelay) -> None:
    async with told_laboratory(relay.port) as laboratory, laboratory.client() as client:
        await client.submit(
            laboratory.job("exit $KALENDS_INDEX", notify=END, indices=(0, 1, 2, 3, 4))
        )
        await laboratory.over(client, 5)
        (mail,) = await relay.mail()
        assert mail.message["Subject"] == "array lab/box/1 has failed: 4 of 5 jobs failed"


async def test_a_site_that_is_killed_before_a_mail_was_taken_sends_it_when_it_is_back(
    relay: MailRelay,
) -> None:
    relay.answers["MESSAGE"] = ""
    async with told_laboratory(relay.port) as laboratory:
        async with laboratory.client() as client:
            await client.submit(laboratory.job("true", notify=END))
            await relay.hears(1)
        await laboratory.site.kill()
        assert not relay.mails
        del relay.answers["MESSAGE"]
        await laboratory.site.start()
        (mail,) = await relay.mail()
        assert mail.message["Message-ID"] == relay.heard[0].message["Message-ID"]
        await until(partial(none_waits, laboratory), "that is stored")
        await laboratory.site.stop()
        await laboratory.site.start()
        async with laboratory.client() as client:
            await client.submit(laboratory.job("true", notify=END))
            mails = await relay.mail(2)
        assert [each.message["Subject"] for each in mails] == [
            "lab/box/1 has ended: exit",
            "lab/box/2 has ended: exit",
        ], "what was taken is not sent again"


async def test_a_relay_that_is_away_hurts_no_job_and_gets_its_mail_when_it_is_back() -> None:
    (port,) = free_ports(1)
    async with told_laboratory(port) as laboratory, laboratory.client() as client:
        for _ in range(3):
            await client.submit(laboratory.job("true", notify=END))
        for number in (1, 2, 3):
            assert (await laboratory.over(client, number)).end == "exit"

        async def said(times: int) -> bool:
            return laboratory.site.log().count("mail takes no notices, and they wait") == times

        await until(partial(said, 1), "the operator is told")
        assert (await client.health()).status == "ok"
        back = MailRelay()
        await back.open(port)
        try:
            mails = await back.mail(3)
        finally:
            await back.close()
        assert sorted(mail.message["Subject"] for mail in mails) == [
            f"lab/box/{number} has ended: exit" for number in (1, 2, 3)
        ]
        await until(partial(said, 2), "the operator is told that it is over")


async def test_a_webhook_is_called_beside_a_relay_that_hangs(relay: MailRelay) -> None:
    relay.answers["HELLO"] = ""
    async with webhook_receiver() as receiver:
        more = f'webhook_hosts = ["{receiver.place}"]\nwebhook_key = "hooks"'
        async with (
            told_laboratory(relay.port, more) as laboratory,
            laboratory.client() as client,
        ):
            await client.submit(laboratory.job("true", notify=END))
            hook = Notify(when=("end",), to=f"{receiver.url}/jobs")
            await client.submit(laboratory.job("true", notify=hook))
            (call,) = await receiver.calls_made()
            told = json.loads(call.body)
            assert (told["job"], told["event"], told["end"]) == (2, "end", "exit")
            assert told["id"] == call.headers["webhook-id"]


async def test_where_the_owner_does_not_allow_it_nobody_is_told_and_nothing_submitted(
    relay: MailRelay,
) -> None:
    async with told_laboratory(relay.port) as laboratory, laboratory.client() as client:
        for to in ("bob@lab.example", "eve@example.com", "https://example.com/x"):
            with pytest.raises(NotAllowed):
                await client.submit(laboratory.job("true", notify=Notify(when=("end",), to=to)))
        with pytest.raises(InvalidInput):
            await client.submit(laboratory.job("true", notify=Notify(when=("end",), to="nobody")))
        assert not (await client.jobs(MACHINE)).jobs


async def test_a_site_that_sends_nothing_says_what_to_do() -> None:
    async for laboratory in laboratories():
        async with laboratory.client() as client:
            with pytest.raises(NotAllowed, match="this server sends no notices") as refused:
                await client.submit(laboratory.job("true", notify=END))
            assert "ask the owner to set up" in str(refused.value.remedy)

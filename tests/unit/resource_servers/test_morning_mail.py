"""The owner's day comes as a mail each morning: once a day, over restarts and changes of the clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import mail_relay as relays
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kalends.contract.day_text import day_lines
from kalends.core.errors import InvalidInput
from kalends.resource_servers.morning_mail import LATE_S, due_day
from kalends.serving.configuration import NoticesConfiguration
from kalends.serving.configuration.notices import check_notices
from kalends.testing import LocalFacility

BERLIN = "Europe/Berlin"
OWNER = "owner@lab.example"
NOW = "2027-03-26T20:00Z"
"""A Friday; on the Sunday after it, Berlin's clocks go forward."""

ZONES = (BERLIN, "America/Havana", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia")


@given(st.sampled_from(ZONES), st.times(), st.integers(0, 400))
@example(BERLIN, time(2, 30), 86)
@example(BERLIN, time(2, 30), 303)
@example("America/Havana", time(0, 0), 72)
@example("America/Havana", time(0, 30), 310)
def test_each_day_is_due_once_from_its_time_on_for_six_hours(
    zone: str, at: time, after: int
) -> None:
    place, at = ZoneInfo(zone), at.replace(microsecond=0, second=0)
    noon = datetime.combine(date(2027, 1, 1) + timedelta(days=after), time(12), UTC)
    looks = range(int(noon.timestamp()), int(noon.timestamp()) + 3 * 86_400, 600)
    days = [due_day(now_s, at, place) for now_s in looks]
    told = [day for day, before in zip(days, [None, *days], strict=False) if day != before and day]
    assert told == sorted(set(told))
    assert len(told) >= 3 if days[0] is None else len(told) >= 2
    for now_s, day in zip(looks, days, strict=True):
        shown = datetime.fromtimestamp(now_s, place).replace(tzinfo=None)
        if day is None:
            assert (
                not timedelta() <= shown - datetime.combine(shown.date(), at) < timedelta(hours=5)
            )
        else:
            late = shown - datetime.combine(day, at)
            assert timedelta(hours=-1) <= late <= timedelta(seconds=LATE_S, hours=1)


@pytest.fixture
async def relay() -> AsyncIterator[relays.MailRelay]:
    async with relays.mail_relay() as relay:
        yield relay


@pytest.fixture
async def servers(relay: relays.MailRelay) -> AsyncIterator[LocalFacility]:
    notices = NoticesConfiguration(
        smtp=f"127.0.0.1:{relay.port}", encryption="none", sender="kalends@lab.example",
        morning="07:00", morning_to=(OWNER,),
    )  # fmt: skip
    async with LocalFacility({"lab": {"room": {"zone": BERLIN}}}, now=NOW) as servers:
        servers.stop("lab")
        configured = servers._configured["lab"]
        assert configured.site is not None
        site = msgspec.structs.replace(configured.site, notices=notices)
        servers._configured["lab"] = msgspec.structs.replace(configured, site=site)
        servers.start("lab")
        yield servers


def restart(servers: LocalFacility) -> None:
    servers.stop("lab")
    servers.start("lab")


async def test_the_text_of_the_day_comes_each_morning_once_also_after_restarts(
    servers: LocalFacility, relay: relays.MailRelay
) -> None:
    async with servers.client("ann") as ann, servers.client("owner", at="lab") as owner:
        await ann.book("lab/room", duration="1h", at="2027-03-27T09:00Z", note="run 7")
        servers.clock.advance(hours=9, minutes=59)
        assert relay.mails == [], "it is a minute before seven"
        servers.clock.advance(minutes=2)
        (mail,) = await relay.different()
        restart(servers)
        servers.clock.advance(hours=2)
        expected = day_lines(await owner.today(day="2027-03-27"))
        restart(servers)
        servers.clock.advance(hours=20, minutes=57)
        assert len(await relay.different()) == 1, "at 06:59 of Sunday, an hour earlier by UTC"
        servers.clock.advance(minutes=3)
        _, second = await relay.different(2)
    assert mail.to == f"TO:<{OWNER}>"
    assert mail.message["Subject"] == "kalends: lab, Sat 2027-03-27 (Europe/Berlin)"
    body = mail.message.get_body(("plain",))
    assert body is not None
    assert [line for line in body.get_content().splitlines() if "ann" in line] == [
        line for line in expected if "ann" in line
    ]
    assert "lab, Sun 2027-03-28" in second.message["Subject"]


async def test_a_morning_that_was_missed_is_sent_late_once_and_not_after_six_hours(
    servers: LocalFacility, relay: relays.MailRelay
) -> None:
    servers.stop("lab")
    servers.clock.advance(hours=15)
    servers.start("lab")
    (late,) = await relay.different()
    restart(servers)
    servers.stop("lab")
    servers.clock.advance(hours=25)
    servers.start("lab")
    servers.clock.advance(hours=17, minutes=1)
    _, monday = await relay.different(2)
    assert "Sat 2027-03-27" in late.message["Subject"], "at noon"
    assert "Mon 2027-03-29" in monday.message["Subject"], "on Sunday it was back at two"


def test_the_owner_s_mail_needs_a_time_addresses_and_a_relay() -> None:
    key = Path("key")
    for wrong in (
        NoticesConfiguration(smtp="a:1", sender="a@b.c", morning="07:00"),
        NoticesConfiguration(smtp="a:1", sender="a@b.c", morning_to=(OWNER,)),
        NoticesConfiguration(
            webhook_hosts=("a",), webhook_key=key, morning="07:00", morning_to=(OWNER,)
        ),
    ):
        with pytest.raises(InvalidInput):
            check_notices(wrong, "site.notices")

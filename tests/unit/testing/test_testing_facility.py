"""`kalends.testing`: real servers in the process of a test, and a clock that it moves."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import kalends
from kalends.extras import install_command
from kalends.testing import LocalFacility

NOW = "2027-03-01T09:00Z"
SITES = {"sdsc": {"sp2": 64}, "caltech": {"onyx": 1}}
NOON = ("2027-03-01 12:00", "2027-03-01 14:00")
BOTH = "sdsc/sp2:64 + caltech/onyx"


@pytest.fixture
def servers() -> Iterator[LocalFacility]:
    with LocalFacility(SITES, now=NOW) as servers:
        yield servers


async def test_servers_for_a_test_with_an_event_loop() -> None:
    async with LocalFacility(SITES, now=NOW) as servers, servers.client("ann") as broker:
        booked = await broker.book(BOTH, duration="2h", window=("now", "now+3d"))
        assert {claim.resource for claim in booked.claims} == {"sdsc/sp2", "caltech/onyx"}
        assert kalends.as_datetime(booked.start, "UTC").date().isoformat() == "2027-03-01"
        servers.clock.advance(hours=3)
        again = await broker.book(BOTH, duration="2h", window=("now", "now+3d"))
        assert again.start >= booked.end


def test_servers_for_a_test_without_one(servers: LocalFacility) -> None:
    with servers.sync_client("ann") as ann, servers.sync_client("bob") as bob:
        booked = ann.book("caltech/onyx", duration="2h", window=NOON)
        with pytest.raises(kalends.NoCommonTime) as refused:
            bob.book("caltech/onyx", duration="2h", window=NOON, patience="none")
        assert {refusal.where for refusal in refused.value.refusals} == {"caltech/onyx"}
        ann.cancel(booked.id)
        assert bob.book("caltech/onyx", duration="2h", window=NOON).state == "reserved"


def test_a_hold_expires_when_its_time_is_made_to_pass(servers: LocalFacility) -> None:
    with servers.sync_client("ann") as ann, servers.sync_client("bob") as bob:
        held = ann.hold(BOTH, duration="2h", window=NOON, keep="10m")
        servers.clock.advance(minutes=9)
        assert ann.show(held.id).state == "held"
        servers.clock.advance(minutes=2)
        expired = ann.show(held.id)
        assert (expired.state, expired.problem and expired.problem.code) == ("failed", "expired")
        with pytest.raises(kalends.KalendsError):
            ann.lock(held.id)
        taken = bob.book(BOTH, duration="2h", window=NOON)
        assert taken.state == "reserved"


def test_what_waits_gets_what_expires(servers: LocalFacility) -> None:
    with servers.sync_client("ann") as ann, servers.sync_client("bob") as bob:
        held = ann.hold("caltech/onyx", duration="2h", window=NOON, keep="30s")
        waits = bob.book("caltech/onyx", duration="2h", window=NOON, wait_s=0)
        assert waits.state == "open"
        while servers.clock.wall_s() < held.expires_at:
            servers.clock.advance(seconds=2)
        assert bob.wait(waits.id).state == "reserved"


def test_of_many_who_want_one_instrument_each_gets_a_time_of_its_own() -> None:
    async def book(servers: LocalFacility, user: str) -> kalends.RequestView:
        async with servers.client(user) as broker:
            return await broker.book("caltech/onyx", duration="1h", window=("now", "now+2d"))

    async def story() -> list[kalends.RequestView]:
        async with LocalFacility(SITES, now=NOW) as servers:
            return await asyncio.gather(*(book(servers, f"user{n}") for n in range(8)))

    views = asyncio.run(story())
    assert len({view.start for view in views}) == len(views)


def test_a_site_that_is_stopped_keeps_what_it_promised(servers: LocalFacility) -> None:
    with servers.sync_client("ann") as ann:
        booked = ann.book(BOTH, duration="2h", window=NOON)
        url = servers.url("caltech")
        servers.stop("caltech")
        states = {site.site: site.state for site in ann.resources().sites}
        assert states == {"sdsc": "up", "caltech": "down"}
        servers.start("caltech")
        assert servers.url("caltech") == url
        assert ann.show(booked.id).state == "reserved"
        with pytest.raises(kalends.NoCommonTime):
            ann.book("caltech/onyx", duration="2h", window=NOON, patience="none")


def test_a_broker_that_is_stopped_knows_its_requests_again(servers: LocalFacility) -> None:
    with servers.sync_client("ann") as ann:
        booked = ann.book(BOTH, duration="2h", window=NOON)
        servers.stop(servers.broker)
        servers.clock.advance(days=1)
        servers.start(servers.broker)
        assert ann.show(booked.id).state == "reserved"


def test_the_clock_goes_forward_and_no_server_doubts_it(servers: LocalFacility) -> None:
    began = datetime(2027, 3, 1, 9, tzinfo=UTC)
    for _ in range(3):
        servers.clock.advance(days=30)
    assert (servers.clock.now() - began).days == 90
    for name in ("broker", "sdsc", "caltech"):
        with servers.sync_client("ann", at=name) as client:
            health = client.health()
            assert (health.status, health.detail) == ("ok", "")
            assert client.time_s("now") >= began.timestamp() + 90 * 86_400
    with pytest.raises(kalends.InvalidInput, match="forward"):
        servers.clock.advance(hours=-1)


def test_a_resource_may_have_all_fields_of_a_configuration() -> None:
    onyx = {"capacity": 2, "grain": "30m", "attributes": {"kind": "onyx"}}
    with (
        LocalFacility({"caltech": {"onyx": onyx}}) as servers,
        servers.sync_client("ann") as broker,
    ):
        (resource,) = broker.resources().resources
    assert (resource.capacity, resource.grain_s) == (2, 1_800)
    with (
        pytest.raises(kalends.InvalidInput, match="graim"),
        LocalFacility({"a": {"b": {"graim": "1h"}}}),
    ):
        pass


def test_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with LocalFacility(SITES) as servers:
        assert any(tmp_path.iterdir())
        listening = urlsplit(servers.url("sdsc"))
    assert not any(tmp_path.iterdir())
    assert "kalends-testing" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(OSError, match="refused"), socket.socket() as probe:
        probe.connect((listening.hostname, listening.port))


def test_what_cannot_be_configured_leaves_nothing_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    bad = LocalFacility({"sdsc": {"sp2": 64}, "caltech": {"onyx": {"graim": "1h"}}})
    with pytest.raises(kalends.InvalidInput, match="graim"):
        bad.__enter__()
    assert not any(tmp_path.iterdir())
    assert "kalends-testing" not in {thread.name for thread in threading.enumerate()}


def test_a_server_that_does_not_exist_is_named(servers: LocalFacility) -> None:
    with pytest.raises(kalends.NotFound, match="ncsa"):
        servers.stop("ncsa")


def test_without_the_servers_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['structlog'] = None; import kalends.testing"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert install_command("server") in run.stderr


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "testing.md").read_text("utf-8")
    (tmp_path / "test_page.py").write_text(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_page.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 passed" in run.stdout, run.stdout


def test_sites_behind_a_virtual_one_are_reached_by_it_alone() -> None:
    sites = {"sdsc": {"sp2": 8}, "physics": {"cluster": 4}}
    with (
        LocalFacility(sites, virtual={"campus": ["physics"]}) as servers,
        servers.sync_client("ann") as ann,
    ):
        through = {each.site: each.through for each in ann.resources().sites}
        assert through == {"sdsc": "", "physics": "campus"}
        servers.stop("campus")
        assert {each.site for each in ann.resources().sites if each.state == "up"} == {"sdsc"}
        servers.start("campus")
        booked = ann.book("sdsc/sp2:8 + physics/cluster:4", duration="1h", window=("now", "now+1d"))
        assert booked.state == "reserved"

"""Listening and stopping: real sockets, real signals, real certificates."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from serving_support import Deeds
from tests.support.patience import PATIENCE_S

from kalends.contract.versions import own_version
from kalends.core.errors import Conflict, InvalidInput
from kalends.serving.auth.callers import OpenAccess
from kalends.serving.configuration import TlsConfiguration
from kalends.serving.http.application import build_application
from kalends.serving.http.certificates import SOON_S, ServerCertificate
from kalends.serving.http.runner import Service, listen, run, serve, tls_context
from kalends.serving.logs import get_logger
from kalends.serving.metrics import Metrics
from kalends.serving.self_signed import self_signed

TESTS = Path(__file__).parents[2]
IMPORTED_FROM = str(Path(__file__).parent), str(TESTS / "support"), str(TESTS.parent)

PROGRAM = """
import sys
from test_serving_runner import site
from kalends.serving.http.runner import run

async def services():
    return [site("127.0.0.1:0"), site("127.0.0.1:0")]

sys.exit(run(services))
"""


def site(address: str, tls: ssl.SSLContext | None = None) -> Service:
    application = build_application(
        role="site",
        name="sdsc",
        version=own_version("1"),
        handlers=Deeds().handlers("site"),
        authenticator=OpenAccess(),
        metrics=Metrics(role="site", name="sdsc", version="1"),
        logger=get_logger(role="site", name="sdsc"),
    )
    return Service("site sdsc", application, address, tls)


@contextmanager
def program() -> Iterator[subprocess.Popen[str]]:
    """The program above, with its output to read; gone at the end whatever happens."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(IMPORTED_FROM)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


class Announced(io.StringIO):
    """Output that says when `count` lines have been written."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.complete = asyncio.Event()

    def flush(self) -> None:
        if self.getvalue().count("\n") == self.count:
            self.complete.set()


async def test_every_service_announces_the_address_where_it_answers() -> None:
    out, stop = Announced(2), asyncio.Event()
    services = [site("127.0.0.1:0"), site("[::1]:0" if socket.has_ipv6 else "127.0.0.1:0")]
    task = asyncio.create_task(serve(services, stop, out))
    await out.complete.wait()
    async with aiohttp.ClientSession() as client:
        for line in out.getvalue().splitlines():
            word, role, name, url = line.split()
            assert (word, role, name) == ("listening", "site", "sdsc")
            async with client.get(url + "/healthz") as response:
                assert response.status == 200
    stop.set()
    await task


async def test_a_taken_port_is_a_clear_error_and_nothing_is_left_running() -> None:
    first = await listen(site("127.0.0.1:0"))
    address = first.url.removeprefix("http://")
    cleaned: list[str] = []

    async def clean(application: web.Application) -> None:
        cleaned.append("x")

    other, second = site("127.0.0.1:0"), site(address)
    other.application.on_cleanup.append(clean)
    second.application.on_cleanup.append(clean)
    out = io.StringIO()
    with pytest.raises(Conflict, match=f"{address} is taken"):
        await serve([other, second], asyncio.Event(), out)
    assert cleaned == ["x", "x"]
    started = out.getvalue().split()[3]
    async with aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.ClientConnectorError):
            await client.get(started + "/healthz")
    await first.stop()


@pytest.mark.parametrize("address", ["192.0.2.1:0", "127.0.0.1:1"])
async def test_an_address_that_cannot_be_used_is_an_error(address: str) -> None:
    if address.endswith(":1") and os.geteuid() == 0:
        address = "203.0.113.9:0"  # The superuser may use any port.
    with pytest.raises(InvalidInput, match="cannot listen"):
        await listen(site(address))


@pytest.mark.parametrize("address", ["", "x", ":80", "a:b", "a:-1", "::1:80", "[::1]", "a:٣"])
async def test_what_is_no_address_is_an_error(address: str) -> None:
    with pytest.raises(InvalidInput, match="not an address"):
        await listen(site(address))


def test_an_error_on_the_way_up_is_printed_and_gives_its_exit_code() -> None:
    async def services() -> list[Service]:
        raise InvalidInput("no such store", where="site.store", remedy="make it")

    out, err = io.StringIO(), io.StringIO()
    assert run(services, out=out, err=err) == 2
    assert err.getvalue() == "kalends: site.store: no such store (make it)\n"
    assert out.getvalue() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_process_in_order(number: signal.Signals) -> None:
    with program() as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        assert all(line.startswith("listening site sdsc http://127.0.0.1:") for line in lines)
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, out, err) == (0, "", "")


async def test_a_signal_ends_a_start_that_waits_and_what_has_started_before() -> None:
    stop, begun = asyncio.Event(), asyncio.Event()
    ended: list[str] = []
    waiting, out = site("127.0.0.1:0"), io.StringIO()

    async def waits(application: web.Application) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("the wait")

    async def closed(application: web.Application) -> None:
        ended.append("the first one")

    waiting.application.on_startup.append(waits)
    first = site("127.0.0.1:0")
    first.application.on_cleanup.append(closed)
    serving = asyncio.create_task(serve([first, waiting], stop, out))
    await begun.wait()
    stop.set()
    await serving
    assert ended == ["the wait", "the first one"]
    assert out.getvalue().count("listening") == 1


def certificate(directory: Path, *, lifetime_s: int = 3_600) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1, and its key."""
    made = self_signed(["127.0.0.1"], int(time.time()), lifetime_s)
    pem, key = directory / "site.pem", directory / "site.key"
    pem.write_bytes(made.certificate)
    key.touch(0o600)
    key.write_bytes(made.key)
    return pem, key


async def test_a_service_with_certificate_speaks_tls_only(tmp_path: Path) -> None:
    pem, key = certificate(tmp_path)
    listening = await listen(site("127.0.0.1:0", tls_context(pem, key)))
    assert listening.url.startswith("https://")
    trusting = ssl.create_default_context(cafile=str(pem))
    async with aiohttp.ClientSession() as client:
        async with client.get(listening.url + "/healthz", ssl=trusting) as response:
            assert response.status == 200
        with pytest.raises(aiohttp.ClientError):
            await client.get(listening.url.replace("https", "http") + "/healthz")
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await client.get(listening.url + "/healthz")
    await listening.stop()


def test_certificates_that_cannot_be_used_are_an_error(tmp_path: Path) -> None:
    pem, key = certificate(tmp_path)
    for wrong in ((tmp_path / "none", key), (key, pem), (pem, pem)):
        with pytest.raises(InvalidInput, match="cannot be used"):
            tls_context(*wrong)


def test_the_key_of_a_certificate_is_a_secret(tmp_path: Path) -> None:
    pem, key = certificate(tmp_path)
    key.chmod(0o644)
    with pytest.raises(InvalidInput, match="every user of this machine can read"):
        tls_context(pem, key)


def test_a_certificate_and_a_key_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    pem, _ = certificate(tmp_path)
    _, key = certificate(tmp_path / "other")
    with pytest.raises(InvalidInput, match="mismatch"):
        ServerCertificate(TlsConfiguration(certificate=pem, key=key))


def test_the_end_of_a_certificate_is_told_three_weeks_before(tmp_path: Path) -> None:
    pem, key = certificate(tmp_path, lifetime_s=30 * 86_400)
    shown = ServerCertificate(TlsConfiguration(certificate=pem, key=key))
    assert shown.problem(shown.ends_at - SOON_S - 1) == ""
    assert "expires in 21d" in shown.problem(shown.ends_at - SOON_S)
    assert "has expired" in shown.problem(shown.ends_at)


async def test_a_renewed_certificate_is_shown_to_who_connects_and_ends_no_connection(
    tmp_path: Path,
) -> None:
    files = TlsConfiguration(
        **dict(zip(("certificate", "key"), certificate(tmp_path), strict=True))
    )
    shown = ServerCertificate(files)
    first = ssl.create_default_context(cafile=str(files.certificate))
    listening = await listen(site("127.0.0.1:0", shown.context))
    async with aiohttp.ClientSession() as old, aiohttp.ClientSession() as new:
        async with old.get(listening.url + "/healthz", ssl=first) as response:
            await response.read()
        certificate(tmp_path)
        shown.take(ServerCertificate(files), files)
        async with old.get(listening.url + "/healthz", ssl=first) as response:
            assert response.status == 200
        second = ssl.create_default_context(cafile=str(files.certificate))
        async with new.get(listening.url + "/healthz", ssl=second) as response:
            assert response.status == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await new.get(listening.url + "/healthz", ssl=first)
    await listening.stop()

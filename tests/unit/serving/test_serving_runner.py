"""Listening and stopping: real sockets, real signals, real certificates."""

from __future__ import annotations

import asyncio
import datetime
import io
import ipaddress
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from serving_support import Deeds

from kalends.core.errors import Conflict, InvalidInput
from kalends.serving.auth.callers import OpenAccess
from kalends.serving.http.application import build_application
from kalends.serving.http.runner import Service, listen, run, serve, tls_context
from kalends.serving.logs import get_logger
from kalends.serving.metrics import Metrics

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
        version="1",
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
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, "", "")


def certificate(directory: Path) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sdsc")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .sign(key, hashes.SHA256())
    )
    (directory / "site.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (directory / "site.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return directory / "site.pem", directory / "site.key"


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

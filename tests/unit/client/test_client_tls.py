"""Over TLS the client trusts the owner's authority and nobody else."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import write_certificate
from click.testing import CliRunner
from client_broker import Broker, serving_broker

import kalends
from kalends.cli import cli
from kalends.client.transports.retry import Backoff
from kalends.client.transports.tls_probe import speaks_tls
from kalends.core.errors import InvalidInput, Unavailable

TRANSPORTS = ("session", "http")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return write_certificate(tmp_path / "owner.pem")


@pytest.fixture
def broker(certificate: Path) -> Iterator[Broker]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with serving_broker(tls) as broker:
        yield broker


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_server_of_the_trusted_authority_is_called(
    broker: Broker, certificate: Path, transport: Any
) -> None:
    async with kalends.connect(broker.url, ca=str(certificate), transport=transport) as client:
        assert (await client.health()).status == "ok"


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_server_of_another_authority_is_told_nothing(
    broker: Broker, transport: Any
) -> None:
    async with kalends.connect(broker.url, token="secret", transport=transport) as client:
        with pytest.raises(
            InvalidInput, match="the server's certificate is not trusted: self"
        ) as caught:
            await client.health()
    assert "--ca" in caught.value.remedy
    assert broker.seen == []


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_speaking_tls_to_a_plain_server_says_so(transport: Any) -> None:
    with serving_broker() as plain:
        url = plain.url.replace("http:", "https:")
        async with kalends.connect(url, transport=transport) as client:
            with pytest.raises(InvalidInput, match="the server does not use TLS"):
                await client.health()


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_speaking_no_tls_to_a_server_that_does_leads_to_https(
    broker: Broker, transport: Any
) -> None:
    url, once = broker.url.replace("https:", "http:"), Backoff(tries_max=1)
    async with kalends.connect(url, transport=transport, backoff=once) as client:
        with pytest.raises(Unavailable, match="the server closed the connection") as caught:
            await client.health()
    assert "write https://" in caught.value.remedy
    assert speaks_tls(url)


def test_a_server_that_speaks_no_tls_or_is_not_there_is_not_taken_for_one_that_does() -> None:
    with serving_broker() as plain:
        url = plain.url
        assert not speaks_tls(url)
    assert not speaks_tls(url)
    assert not speaks_tls("http://")


@pytest.mark.parametrize("words", [("list",), ("book", "sdsc/sp2", "--for", "1h")])
def test_a_command_says_that_the_port_speaks_tls(broker: Broker, words: tuple[str, ...]) -> None:
    url = broker.url.replace("https:", "http:")
    result = CliRunner().invoke(cli, [*words, "--broker", url])
    assert result.exit_code == 2
    assert "the server at that port uses TLS" in result.stderr
    assert f"write {broker.url}" in result.stderr
    assert broker.seen == []


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_host_that_there_is_not_is_said_at_once(transport: Any) -> None:
    async with kalends.connect("http://nowhere.invalid:7100", transport=transport) as client:
        with pytest.raises(InvalidInput, match="no such host"):
            await client.health()

"""Over TLS the client trusts the owner's authority and nobody else."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import write_certificate
from client_broker import Broker, serving_broker

import kalends
from kalends.client.retry import Backoff
from kalends.core.errors import Unavailable

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
    once = Backoff(tries_max=1)
    async with kalends.connect(
        broker.url, token="secret", transport=transport, backoff=once
    ) as client:
        with pytest.raises(Unavailable, match="its certificate is not trusted: self"):
            await client.health()
    assert broker.seen == []


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_speaking_tls_to_a_plain_server_says_so(transport: Any) -> None:
    with serving_broker() as plain:
        url = plain.url.replace("http:", "https:")
        async with kalends.connect(
            url, transport=transport, backoff=Backoff(tries_max=1)
        ) as client:
            with pytest.raises(Unavailable, match="secure connection"):
                await client.health()

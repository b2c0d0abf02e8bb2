"""Logging in at a real terminal: the server's provider is asked by itself, and what is typed is not shown."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from client_broker import serving
from device_provider import CLIENT, DeviceProvider, device_provider

from kalends.broker.server import build_broker
from kalends.serving.auth.keys import load_private_key, write_key_pair
from kalends.serving.auth.tokens import mint
from kalends.serving.configuration import load_configuration

from .person import Person

BROKER = """
[broker]
name = "npaci"
store = "broker.sqlite"
[[broker.keys]]
file = "people.pub"
"""
OPENID = """
[[broker.keys]]
openid = "{url}"
realm = "kit.example"
client = "{client}"
[broker.keys.claims]
audiences = ["kalends"]
scopes = {{ use = ["openid"] }}
"""


@pytest.fixture
def provider() -> Iterator[DeviceProvider]:
    with device_provider() as provider:
        yield provider


@contextmanager
def broker(folder: Path, more: str = "") -> Iterator[str]:
    write_key_pair(folder / "people")
    made = load_configuration(BROKER + more, folder).broker
    assert made is not None
    with serving(build_broker(made, version="1")) as url:
        yield url


def at_home(folder: Path) -> dict[str, str]:
    return {"KALENDS_CONFIG": str(folder / "config.toml")}


async def test_the_provider_that_the_server_believes_is_asked_by_itself(
    provider: DeviceProvider, tmp_path: Path
) -> None:
    with broker(tmp_path, OPENID.format(url=provider.url, client=CLIENT)) as url:
        async with Person("login", "--broker", url, environment=at_home(tmp_path)) as ada:
            await ada.sees(b"enter  ")
            code = (await ada.line()).decode().strip()
            assert code in {each["user_code"] for each in provider.codes.values()}
            provider.answers[code] = True
            await ada.sees(b"ada@kit.example at npaci")
            assert await ada.left() == 0


async def test_a_token_that_is_pasted_is_not_shown(tmp_path: Path) -> None:
    with broker(tmp_path) as url:
        token = mint(
            load_private_key(tmp_path / "people"), user="ada", groups=[], audience=["npaci"],
            scopes=["use"], issuer="people", lifetime_s=86_400, now_s=int(time.time()),
        )  # fmt: skip
        async with Person("login", "--broker", url, environment=at_home(tmp_path)) as ada:
            await ada.sees(b"token (not shown): ")
            ada.type(token.encode() + b"\n")
            assert await ada.left() == 0
            assert token.encode() not in ada.seen
            assert b"ada at npaci" in ada.seen

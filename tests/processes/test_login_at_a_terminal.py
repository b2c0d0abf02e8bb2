"""Logging in at a real terminal: the server's provider is asked by itself, and what is typed is not shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from device_provider import DeviceProvider, device_provider
from keyed_broker import keyed_broker, token_of_ada

from .person import Person


@pytest.fixture
def provider() -> Iterator[DeviceProvider]:
    with device_provider() as provider:
        yield provider


def at_home(folder: Path) -> dict[str, str]:
    return {"KALENDS_CONFIG": str(folder / "config.toml")}


async def test_the_provider_that_the_server_believes_is_asked_by_itself(
    provider: DeviceProvider, tmp_path: Path
) -> None:
    with keyed_broker(tmp_path, provider) as url:
        async with Person("login", "--broker", url, environment=at_home(tmp_path)) as ada:
            await ada.sees(b"enter  ")
            code = (await ada.line()).decode().strip()
            assert code in {each["user_code"] for each in provider.codes.values()}
            provider.answers[code] = True
            await ada.sees(b"ada@kit.example at npaci")
            assert await ada.left() == 0


async def test_a_token_that_is_pasted_is_not_shown(tmp_path: Path) -> None:
    with keyed_broker(tmp_path) as url:
        token = token_of_ada(tmp_path)
        async with Person("login", "--broker", url, environment=at_home(tmp_path)) as ada:
            await ada.sees(b"token (not shown): ")
            ada.type(token.encode() + b"\n")
            assert await ada.left() == 0
            assert token.encode() not in ada.seen
            assert b"ada at npaci" in ada.seen

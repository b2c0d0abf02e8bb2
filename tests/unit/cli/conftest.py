"""A broker on loopback, and commands that call it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result
from client_broker import Broker, serving_broker

from kalends.cli import cli


@pytest.fixture
def broker() -> Iterator[Broker]:
    with serving_broker() as broker:
        yield broker


@pytest.fixture
def run(broker: Broker) -> Callable[..., Result]:
    """Run a command as ada in Berlin; `env` is further environment."""

    def run(*words: str, **env: str) -> Result:
        settings = {
            "KALENDS_BROKER": broker.url,
            "KALENDS_ZONE": "Europe/Berlin",
            "KALENDS_USER": "ada",
        }
        return CliRunner().invoke(cli, words, env=settings | env)

    return run

"""A broker on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from client_broker import Broker, serving_broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with serving_broker() as broker:
        yield broker

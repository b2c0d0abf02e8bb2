"""A register in each of its stores, waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.register_twin import Tables
from tests.support.registers import STORES, Replica, stores

from kalends.broker.register import writes as w

Write = Callable[[Sequence[w.Write]], Sequence[Any]]


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(params=stores())
def replica(
    request: pytest.FixtureRequest, tmp_path: Path, runner: asyncio.Runner
) -> Iterator[Replica]:
    opened = STORES[request.param](tmp_path, 1)
    (replica,) = runner.run(opened.__aenter__())
    yield replica
    runner.run(opened.__aexit__(None, None, None))


@pytest.fixture
def write(replica: Replica, runner: asyncio.Runner) -> Write:
    return lambda writes: runner.run(_of(replica.run, writes))


@pytest.fixture
def tables(replica: Replica, runner: asyncio.Runner) -> Callable[[], Tables]:
    return lambda: runner.run(_of(replica.tables))


async def _of(function: Callable[..., Any], *args: Any) -> Any:
    return await function(*args)

"""A facility for the examples: three sites and a broker, started once, empty for every example."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import kalends
from kalends.demo.facility import USER, Facility, facility

# A transcript that differs is shown line by line.
pytest.register_assert_rewrite("transcripts")


@pytest.fixture(scope="session")
def everyones_facility(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Facility]:
    yield from _running(tmp_path_factory.mktemp("everyones"))


@pytest.fixture
def empty_facility(everyones_facility: Facility) -> Iterator[Facility]:
    """Nothing is booked there, and nothing stays."""
    yield everyones_facility
    token = everyones_facility.token(USER)
    with kalends.connect_sync(everyones_facility.broker_url, token=token) as broker:
        for view in broker.list(state="reserved"):
            broker.cancel(view.id)
        for view in broker.list(state="held"):
            broker.release(view.id)


@pytest.fixture
def own_facility(tmp_path: Path) -> Iterator[Facility]:
    """One that an example may damage, and whose lists show only what the example did."""
    yield from _running(tmp_path / "own")


def _running(directory: Path) -> Iterator[Facility]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    context = facility(directory, int(time.time()))
    try:
        yield asyncio.run_coroutine_threadsafe(context.__aenter__(), loop).result()
        asyncio.run_coroutine_threadsafe(context.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

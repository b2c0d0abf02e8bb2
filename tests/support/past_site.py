"""A real site whose machine `lab/box` has a past: jobs that are over stand in its store."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from store_support import store_facts

from kalends import __version__
from kalends.batch.journal.contract import JobOver, ReservedTime
from kalends.batch.queue.facts import JobEnding
from kalends.core.jobs import JobRequest
from kalends.resource_servers.journal.sqlite.site_store import SiteStore
from kalends.servers.site import build_site
from kalends.serving.configuration import load_configuration
from kalends.serving.http.runner import Service, listen
from kalends.testing.facility import ServerThread

MACHINE = "lab/box"
OCTOBER = 1_790_812_800
"""2026-10-01T00:00Z."""
NODES = 8


def past_job(number: int, **fields: Any) -> JobOver:
    """A job of ann's for 2 nodes that was submitted in October, waited 10 s and ran 100 s of 600."""
    at = OCTOBER + 60 * number
    asked = {
        name: fields.pop(name) for name in ("nodes", "limit_s", "project", "priority") if name in fields
    }  # fmt: skip
    request = JobRequest(
        machine=MACHINE, command=("true",), **{"nodes": 2, "limit_s": 600, **asked}
    )
    given: dict[str, Any] = {
        "user": "ann", "submitted": at, "started": at + 10, "over": at + 110, "phase": "ended",
        "attempt": 1, "node_numbers": tuple(range(request.nodes)), "node_seconds": 100 * request.nodes,
        "ending": JobEnding(kind="exit", cpu_s=150.0, memory_bytes=4_096_000),
    }  # fmt: skip
    return JobOver(machine=MACHINE, number=number, request=request, **{**given, **fields})


@contextmanager
def past_site(jobs: Sequence[JobOver], reserved: Sequence[ReservedTime] = ()) -> Iterator[str]:
    """Serve it; yields its address."""
    # Paths of sockets must be short.
    with tempfile.TemporaryDirectory(prefix="kalends-") as directory:
        yield from _served(Path(directory), jobs, reserved)


def _served(
    directory: Path, jobs: Sequence[JobOver], reserved: Sequence[ReservedTime]
) -> Iterator[str]:
    with closing(SiteStore.open(directory / "lab.sqlite", "lab", sync="off")) as store:
        store_facts(store, [*jobs, *reserved], 0)
    text = f"""
[site]
name = "lab"
listen = "127.0.0.1:0"
store = "lab.sqlite"
[[site.resources]]
name = "box"
capacity = {NODES}
grain = "1s"
[[site.machines]]
resource = "box"
"""
    configuration = load_configuration(text, directory).site
    assert configuration is not None
    thread = ServerThread(time.monotonic)
    try:
        site = build_site(configuration, version=__version__)
        listener = thread.run(listen(Service("lab", site, configuration.listen)))
        try:
            yield listener.url
        finally:
            thread.run(listener.stop())
    finally:
        thread.stop()

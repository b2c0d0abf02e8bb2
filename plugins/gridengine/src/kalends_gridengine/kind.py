"""Grid Engine as a kind of batch system: what its owner configures, and the adapter for it."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from kalends.backends.kinds import Reach, SystemKind
from kalends.core.identifiers import QUEUE_PATTERN, whole
from kalends_gridengine.adapter import GridEngine

Queue = Annotated[str, Meta(pattern=whole(QUEUE_PATTERN))]


class GridEngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of ``[[site.batch_systems]]`` that only Grid Engine has."""

    queue: Queue = "all.q"
    """The queue whose hosts are the nodes."""
    parallel_environment: Queue = "kalends"
    """An environment of that queue that fills up its hosts."""


def _adapter(reach: Reach, settings: GridEngineSettings) -> GridEngine:
    return GridEngine(
        reach.configuration, settings.queue, settings.parallel_environment, reach.timeout_s
    )


KIND: Final = SystemKind(GridEngineSettings, _adapter)

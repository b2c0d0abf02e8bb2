"""Slurm as a kind of batch system: slots are reserved in it, and its own queue takes jobs."""

from __future__ import annotations

from typing import Final

import msgspec

from kalends.backends.desks.handed_over import QueueAccess
from kalends.backends.kinds import OwnQueue, Reach, SystemKind
from kalends.backends.slurm.adapter import Slurm
from kalends.backends.slurm.own_queue import SlurmQueue


def queue_facts(access: QueueAccess, version: str) -> list[str]:
    """Return the facts about a Slurm's own queue."""
    return [
        *([f"{version} takes jobs of each user"] if version else []),
        "advisory: it alone decides about the jobs in its own queue; a bid for one holds no place there",
        f"its jobs are checked every {access.look_s} s",
    ]


def _adapter(reach: Reach, _: msgspec.Struct) -> Slurm:
    return Slurm(reach.configuration, reach.timeout_s, in_parts=reach.in_parts)


KIND: Final = SystemKind(
    msgspec.Struct,
    _adapter,
    OwnQueue(SlurmQueue, queue_facts, "Slurm", foresees=True, takes_options=True),
)

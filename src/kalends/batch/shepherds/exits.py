"""The end of a program, as recorded and shown."""

import signal
import time
from collections.abc import Mapping
from typing import Final

from kalends.batch.shepherds.facts import Ended
from kalends.batch.shepherds.process_tree import ResourceUsage

DETAIL_CHARACTERS_MAX: Final = 1_000
GROWN_BYTES: Final = 1 << 20
"""What the process that becomes the program may take until it does, besides what it has reported."""

OF_SHELL: Final = 128
"""A shell that runs a program ends with this and the number of the signal that ended the program."""


def end_fact(
    kind: str,
    status: int,
    detail: str,
    ran_s: float,
    used: ResourceUsage,
    strays: ResourceUsage,
    own_bytes: int,
    *,
    here: bool,
) -> Ended:
    """Return the fact of an end, now; the first process has `used` this much, and its `strays` the rest.

    The kernel counts the memory of the process that becomes a program, `own_bytes`, as the program's. So of
    one that had no more it is not known what it had.
    """
    used_bytes = used.memory_bytes if used.memory_bytes > own_bytes + GROWN_BYTES else 0
    return Ended(
        kind, status, detail[:DETAIL_CHARACTERS_MAX], time.time(), ran_s, used.cpu_s + strays.cpu_s,
        max(used_bytes, strays.memory_bytes), strays.processes, int(here),
    )  # fmt: skip


def exit_words(status: int, limits: Mapping[str, int]) -> str:
    """Return words for an exit status, or the negative number of a signal; `limits` are an order's."""
    most = limits.get("FSIZE")
    if most and status in (-signal.SIGXFSZ, OF_SHELL + signal.SIGXFSZ):
        return (
            f"ended by SIGXFSZ: one of its files grew beyond {most} bytes, the owner's file_mb_max"
        )
    return f"ended by {_name_of(-status)}" if status < 0 else ""


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

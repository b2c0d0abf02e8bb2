"""The states of queues as they are stored, so that a restart is short.

A `follower` makes them, the site stores them. One is used only by the program that has made it, and only with
the journal that it was made of: after an update, or with a store that was brought back, the whole journal is
gone through.
"""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib import resources
from pathlib import Path

from kalends.batch.journal.contract import JobJournal, StoredState
from kalends.batch.queue.checkpoint import OURS, QueueState, decode_state, encode_state
from kalends.core.errors import InvalidInput


@cache
def made_by() -> str:
    """Return a digest of the code that decides and keeps the state: another program has another digest."""
    root = Path(str(resources.files("kalends")))
    folders = [root.joinpath(*name.split(".")[1:-1]) for name in OURS]
    digest = hashlib.blake2b(platform.python_version().encode(), digest_size=16)
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def usable_state(journal: JobJournal, machine: str) -> QueueState | None:
    """Return the last state of a queue that was stored; None if there is none of use."""
    kept = journal.state(machine)
    if kept is None or kept.made_by != made_by():
        return None
    if kept.journal != journal.mark(machine, kept.number):
        return None
    try:
        return decode_state(kept.body)
    except InvalidInput:
        return None


def state_to_store(journal: JobJournal, machine: str, state: QueueState) -> StoredState:
    """Return what is to be stored of the state; raises `InvalidInput` where it cannot be written down."""
    mark = journal.mark(machine, state.number)
    return StoredState(machine, made_by(), mark, state.number, encode_state(state))

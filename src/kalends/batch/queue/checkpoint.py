"""The state of a queue as one piece of bytes, so that a restart need not go through all facts again.

A checkpoint is a short cut, and never the truth: that is the journal, and whoever cannot use a checkpoint
goes through the journal. It holds the very objects, for policies keep what they know to themselves. So it
is of use only to the program that has made it, and only objects of such a program are read.
"""

from __future__ import annotations

import copyreg
import hashlib
import io
import pickle
import zlib
from types import FunctionType, MethodType
from typing import Any, Final, NamedTuple

from kalends.batch.queue.flow import JobFlow
from kalends.batch.queue.machine_room import MachineRoom
from kalends.batch.queue.own_policy import OwnPolicy
from kalends.core.errors import InvalidInput

OURS: Final = ("kalends.batch.queue.", "kalends.core.", "kalends.machines.", "kalends.scheduling.")
"""Where the code lies that decides, and whose objects are in a checkpoint."""

OTHERS: Final = frozenset(
    {
        ("builtins", "object"),
        ("builtins", "set"),
        ("builtins", "frozenset"),
        ("collections", "Counter"),
        ("collections", "OrderedDict"),
        ("collections", "defaultdict"),
        ("collections", "deque"),
        ("copyreg", "_reconstructor"),
        ("itertools", "count"),
        ("msgspec._utils", "rebuild"),
        ("sortedcontainers.sorteddict", "SortedDict"),
        ("sortedcontainers.sortedlist", "SortedKeyList"),
        ("sortedcontainers.sortedlist", "SortedList"),
        ("sortedcontainers.sortedset", "SortedSet"),
    }
)

COMPRESSION: Final = 1


class QueueState(NamedTuple):
    """State of a queue after the facts up to `number`, the last of them at `last_s`."""

    number: int
    last_s: int
    flow: JobFlow


def encode_state(state: QueueState) -> bytes:
    """Raise `InvalidInput` for a state that cannot be written down."""
    written = io.BytesIO()
    writer = pickle.Pickler(written, protocol=5)
    writer.dispatch_table = {
        **copyreg.dispatch_table,
        MachineRoom: _at_rest,
        OwnPolicy: _at_rest,
        MethodType: lambda method: (bound, (method.__self__, method.__name__)),
    }
    try:
        writer.dump(state)
    except (pickle.PicklingError, AttributeError, TypeError, RecursionError) as error:
        raise InvalidInput(
            f"the state of the queue cannot be written: {error}",
            where="checkpoint",
            remedy="nothing needs to be done: the next start reads the whole journal",
        ) from error
    body = zlib.compress(written.getbuffer(), COMPRESSION)
    return _digest(body) + body


def decode_state(body: bytes) -> QueueState:
    """Return what `encode_state` was given; raises `InvalidInput` for anything else."""
    digest, body = body[: len(_digest(b""))], body[len(_digest(b"")) :]
    try:
        if digest != _digest(body):
            raise pickle.UnpicklingError("it was damaged")
        state = _Reader(io.BytesIO(zlib.decompress(body))).load()
    except (pickle.UnpicklingError, zlib.error, ImportError, AttributeError, EOFError) as error:
        raise InvalidInput(
            f"the checkpoint cannot be used: {error}",
            where="checkpoint",
            remedy="read the whole journal",
        ) from error
    assert isinstance(state, QueueState)
    return state


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in OTHERS:
            return super().find_class(module, name)
        if module.startswith(OURS) and "." not in name:
            found = super().find_class(module, name)
            # What a module of ours has imported is not ours.
            if isinstance(found, type | FunctionType) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is not part of a queue")


def bound(owner: object, name: str) -> Any:
    """Return a method of one of our objects."""
    if not type(owner).__module__.startswith(OURS):
        raise pickle.UnpicklingError(f"{type(owner).__name__} is not part of a queue")
    return getattr(owner, name)


def _at_rest(one: MachineRoom | OwnPolicy) -> tuple[Any, ...]:
    return copyreg.__newobj__, (type(one),), one.at_rest()  # type: ignore[attr-defined]


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).digest()

"""What code without any language around it does in a worker: what only the wall can end.

Stands in for the language in a sandbox of its own. The text of a script names what is to be done.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any, Final, NoReturn

ENGINE: Final = "unruly"
_CHANNEL: Final = 3
_MEGABYTE: Final = 1 << 20

Finish = Callable[[dict[str, Any]], NoReturn]


def perform(job: dict[str, Any], finish: Finish) -> None:
    """As `kalends.agents.language.job.perform`; whatever is not named below ends well."""
    misdeed = MISDEEDS.get(job["source"])
    if job["op"] == "check":
        finish({"code": "ok", "functions": ["choose"], "bytecode": b"none"})
    if misdeed is not None:
        misdeed()
    finish({"code": "ok", "answer": []})


def _compute() -> None:
    while True:
        pass


def _search() -> None:
    """One long loop in C, which no check between byte codes ends."""
    sum(range(1 << 60))


def _fill_memory() -> None:
    kept = []
    while True:
        kept.append(bytearray(_MEGABYTE))


def _flood() -> None:
    """Announce a frame of 1 GiB, and begin to send it."""
    os.write(_CHANNEL, (1 << 30).to_bytes(4, "big"))
    while True:
        os.write(_CHANNEL, bytes(_MEGABYTE))


def _babble() -> None:
    os.write(_CHANNEL, (4).to_bytes(4, "big") + b"\xc1\xc1\xc1\xc1")


def _wait() -> None:
    """Use no processor time: wait for a message that never comes."""
    os.read(_CHANNEL, 1)


def _crash() -> None:
    ctypes.string_at(0)


def _attack() -> None:
    os.fork()


def _return_from_a_signal() -> None:
    """As who wants to block the signal that ends a run without processor time (rt_sigreturn of x86-64)."""
    ctypes.CDLL(None).syscall(15)


MISDEEDS: Final[dict[str, Callable[[], None]]] = {
    "compute": _compute,
    "search": _search,
    "fill memory": _fill_memory,
    "flood": _flood,
    "babble": _babble,
    "wait": _wait,
    "crash": _crash,
    "attack": _attack,
    "return from a signal": _return_from_a_signal,
}

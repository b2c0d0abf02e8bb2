"""Questions to an `AnsweringChild` and their answers, as frames: four bytes of length, and the body."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

HEADER_BYTES: Final = 4


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(HEADER_BYTES, "big") + body


def frames(source: BinaryIO) -> Iterator[bytes]:
    """Yield the bodies of all whole frames of `source`."""
    while len(header := source.read(HEADER_BYTES)) == HEADER_BYTES:
        length = int.from_bytes(header, "big")
        if len(body := source.read(length)) == length:
            yield body


def answer_all(answer: Callable[[bytes], bytes]) -> None:
    """Answer the questions on standard input until it ends: with the server, however that ends."""
    # The server gets Ctrl-C as well, and closes the input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for question in frames(sys.stdin.buffer):
            sys.stdout.buffer.write(framed(answer(question)))
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        # The server has ended in the midst of an answer; nothing is left to be flushed to it at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

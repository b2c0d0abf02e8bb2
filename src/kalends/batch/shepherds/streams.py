"""The standard streams of an interactive program: a pseudoterminal, or pipes in its place."""

from __future__ import annotations

import os
from typing import NamedTuple


class Streams(NamedTuple):
    """Descriptors: where we read what it says, and write what it is to read; its own ends of both."""

    reads: int
    writes: int
    input: int
    output: int

    def close_theirs(self) -> None:
        """Close our copies of the program's ends, so that the end of the last process shows."""
        for descriptor in {self.input, self.output}:
            os.close(descriptor)


def open_streams(*, piped: bool) -> Streams:
    """Open a terminal, or pipes; ours do not block. Raises `OSError`."""
    if piped:
        theirs, writes = os.pipe()
        reads, output = os.pipe()
        streams = Streams(reads, writes, theirs, output)
    else:
        master, slave = os.openpty()
        streams = Streams(master, os.dup(master), slave, slave)
    os.set_blocking(streams.reads, False)
    os.set_blocking(streams.writes, False)
    return streams

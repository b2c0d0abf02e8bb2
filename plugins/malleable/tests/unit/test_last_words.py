"""What a failing rank says is read before the others are ended."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator

import pytest

from kalends_malleable.mpi.last_words import wait_until_read

LONG_S = 60.0


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reads, writes = os.pipe()
    yield reads, writes
    os.close(reads)
    os.close(writes)


def test_a_rank_waits_until_its_words_have_been_read(pipe: tuple[int, int]) -> None:
    reads, writes = pipe
    os.write(writes, b"error: rank 1 has failed\n" * 100)
    waited: list[bool] = []
    waits = threading.Thread(target=lambda: waited.append(wait_until_read(writes, LONG_S)))
    waits.start()
    os.read(reads, 1_000)
    assert not waited
    os.read(reads, 10_000)
    waits.join(LONG_S)
    assert waited == [True]


def test_a_rank_whose_words_nobody_reads_waits_no_longer_than_that(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"x")
    assert not wait_until_read(pipe[1], 0.01)


def test_what_is_written_to_a_file_needs_no_reader() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
        file.flush()
        assert wait_until_read(file.fileno(), 0.0)

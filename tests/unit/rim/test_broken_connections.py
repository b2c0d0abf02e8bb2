"""Why a connection broke is told in words: no name of a Python exception, as after a suspended computer."""

from __future__ import annotations

import aiohttp
import pytest

from kalends.client.transports.transport import failure
from kalends.rim.broken_connections import BROKE, broken_words


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(), ConnectionResetError("Cannot write to closing transport"), ConnectionAbortedError(),
        aiohttp.ServerTimeoutError("No PONG received after 5.0 seconds"), aiohttp.ClientError(),
        aiohttp.ClientConnectionResetError("Cannot write to closing transport"),
    ],
)  # fmt: skip
def test_a_connection_that_was_given_up_is_told_without_names_of_exceptions(
    error: Exception,
) -> None:
    assert broken_words(error) == BROKE
    assert failure(error, sent=True).detail == BROKE


def test_what_a_library_says_in_words_is_told() -> None:
    assert broken_words(aiohttp.ClientError("the payload is not complete")) == (
        "the payload is not complete"
    )

"""A user of PSI/J before a real site."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

# PSI/J takes this signal for itself when it is imported; the tests beside these do not want that.
_handler = signal.getsignal(signal.SIGCHLD)
import psij  # noqa: E402  # between two looks at the handler

signal.signal(signal.SIGCHLD, _handler)

from tests.processes.laboratory import Laboratory, opened  # noqa: E402  # after PSI/J, as all that uses it

from .psij_user import PsijUser  # noqa: E402  # after PSI/J, which it imports

assert psij.JobExecutor.get_executor_names() >= {"kalends"}


@pytest.fixture
async def ann() -> AsyncIterator[PsijUser]:
    with tempfile.TemporaryDirectory(prefix="kalends-psij-") as directory:
        async for laboratory in opened(Laboratory(Path(directory))):
            yield PsijUser(laboratory, Path(directory))

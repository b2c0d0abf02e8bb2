"""Temporary folders in which jobs run: not in pytest's own, which only root could enter."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.patience import PATIENCE_S


@contextmanager
def folder_of_jobs(prefix: str) -> Iterator[str]:
    """Provide a folder, and remove it at the end.

    What keeps jobs outlives a site that is killed, and writes their ends there: then it is removed again.
    """
    directory = tempfile.mkdtemp(prefix=prefix)
    try:
        yield directory
    finally:
        given_up_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                shutil.rmtree(directory)
            except OSError:
                if time.monotonic() > given_up_s:
                    raise
            else:
                break

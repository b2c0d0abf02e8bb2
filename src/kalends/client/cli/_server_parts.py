"""The client comes without what servers need; this says so where a command needs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kalends.core.errors import KalendsError


@contextmanager
def server_parts() -> Iterator[None]:
    """Around an import of server code: raises `KalendsError` when what it needs is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise KalendsError(
            f"this needs the server parts of kalends: there is no module {error.name}",
            remedy="install them: pip install 'kalends[server]'",
        ) from error

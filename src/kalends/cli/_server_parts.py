"""The client comes without what servers and agents need; this says so where a command needs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kalends.core.errors import KalendsError


@contextmanager
def server_parts() -> Iterator[None]:
    """Around an import of server code: raises `KalendsError` when what it needs is not installed."""
    with _extra("server", "the server parts of kalends"):
        yield


@contextmanager
def agent_parts() -> Iterator[None]:
    """Around an import of what runs scripts: raises `KalendsError` when what it needs is missing."""
    with _extra("agents", "the parts of kalends that run scripts"):
        yield


@contextmanager
def _extra(name: str, words: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        raise KalendsError(
            f"this needs {words}: there is no module {module}",
            remedy=f"install them: pip install 'kalends[{name}]'",
        ) from error

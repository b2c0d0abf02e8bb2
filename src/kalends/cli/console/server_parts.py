"""Imports of server and agent code, which a client installation lacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def server_parts() -> Iterator[None]:
    """Guard an import of server code; raises `KalendsError` if a package is not installed."""
    with _extra("server", "the server parts of kalends"):
        yield


@contextmanager
def agent_parts() -> Iterator[None]:
    """Guard an import of the script runner; raises `KalendsError` if a package is not installed."""
    with _extra("agents", "the parts of kalends that run scripts"):
        yield


@contextmanager
def _extra(name: str, words: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        # Imported here because most installations have what they need.
        from kalends.core.errors import KalendsError
        from kalends.extras import install_command

        module = (error.name or "").partition(".")[0]
        raise KalendsError(
            f"{words} are not installed: no module {module}",
            remedy=f"install what they need: {install_command(name)}",
        ) from error

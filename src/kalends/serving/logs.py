"""Structured logs on standard error: one JSON object a line, or lines for people on a terminal.

Events are snake_case names with fields, never sentences with values inside. Fields whose
names suggest secrets are blanked, and so is anything that looks like a token, in any place: more people
read a log than a key file.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, Literal, TextIO

import structlog

from kalends.core.errors import InvalidInput

Form = Literal["auto", "json", "human"]
Logger = structlog.typing.FilteringBoundLogger

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

HIDDEN: Final = "[hidden]"

_SECRET_NAMES: Final = frozenset(
    {"authorization", "token", "secret", "private_key", "password", "cookie"}
)
_TOKEN = re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
"""A JWT: its first part is base64 of a JSON object, which always begins like this."""


def configure_logging(
    level: str = "info", form: Form = "auto", stream: TextIO | None = None
) -> None:
    """Send this process's logs of at least `level` to `stream` (standard error).

    "auto" is "human" on a terminal and "json" elsewhere. Libraries that use `logging` are logged from
    "warning" on, in the same form. Raises `InvalidInput` for an unknown level. Calling it again
    replaces what was configured, also for loggers that exist already.
    """
    if level not in LEVELS:
        raise InvalidInput(
            f"{level!r} is not a log level", where="log.level", remedy=f"one of {', '.join(LEVELS)}"
        )
    stream = stream if stream is not None else sys.stderr
    human = form == "human" or (form == "auto" and stream.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # Plain tracebacks in both forms: the pretty ones show the values of local variables.
    last: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(
            colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
        if human
        else structlog.processors.JSONRenderer(default=str, ensure_ascii=False)
    )
    renderers: list[structlog.typing.Processor] = [
        structlog.processors.format_exc_info,
        hide_secrets,
        last,
    ]
    structlog.configure(
        processors=[*shared, *renderers],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=False,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(LEVELS[level], logging.WARNING))
    logging.getLogger("aiohttp.server").addFilter(_is_not_malformed_http)
    # What it warns of is raised as an error, too: a connection that ends does so at each failover.
    logging.getLogger("psycopg").setLevel(logging.ERROR)


def get_logger(*, role: str, name: str) -> Logger:
    """Return a logger whose lines have the role and name of the server."""
    logger: Logger = structlog.get_logger(role=role, name=name)
    return logger


def _is_not_malformed_http(record: logging.LogRecord) -> bool:
    """Return false for malformed HTTP, because tracebacks of such bytes would fill the disk."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or kind.__module__ != "aiohttp.http_exceptions"


def hide_secrets(
    logger: object, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Return a structlog processor: blank secrets by name, and tokens by look, at any depth."""
    for name, value in event.items():
        event[name] = _hidden(name, value)
    return event


def _hidden(name: object, value: object) -> object:
    if isinstance(name, str) and name.lower() in _SECRET_NAMES:
        return HIDDEN
    if isinstance(value, str):
        return _TOKEN.sub(HIDDEN, value) if "eyJ" in value else value
    if isinstance(value, Mapping):
        return {key: _hidden(key, inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(None, inner) for inner in value]
    return value

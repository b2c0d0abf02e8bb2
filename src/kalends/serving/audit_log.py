"""The audit log: calls, with user, token and answer; one JSON object a line.

It has calls that change something, refused tokens and rights, and operators' reads of other users' data. A
token is written by its id, never its text. Only the server's user can read the file, which rotates by size.
The lines of one user, or of unknown callers, are bounded: further ones are only counted, in the next line.
"""

from __future__ import annotations

import contextlib
import inspect
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from kalends.contract.bodies import Answer, Body
from kalends.contract.calls import OPERATIONS, Operation
from kalends.contract.server_calls import SitePass
from kalends.core.errors import KalendsError, LimitExceeded
from kalends.core.jobs import JobRequest
from kalends.serving.auth.callers import Caller
from kalends.serving.clocks import Clock
from kalends.serving.http.rate_limits import RateLimiter

SEE_ALL: Final = frozenset({"audit", "admin"})

READS: Final = frozenset(
    each.name
    for each in OPERATIONS
    if each.changes == "nothing" and each.scope not in SEE_ALL and each.answer is not SitePass
)
"""Calls of users that change nothing and give no credentials; every other call is written."""

NAMELESS: Final = frozenset({"job_output", "job_watch"})
"""Reads whose answers do not name their users."""

USER_LINES_PER_S: Final = 10.0
USER_LINES_BURST: Final = 5_000
"""Lines of a person's day, or a script's minute; calls with rights over other users are always written."""

STRANGER_LINES_PER_S: Final = 0.1
STRANGER_LINES_BURST: Final = 200
"""Enough to see the attempts of unknown callers; in a flood, one line every ten seconds."""

USERS_MAX: Final = 10_000
TEXT_MAX: Final = 200
ABOUT: Final = (
    "id",
    "key",
    "name",
    "machine",
    "resource",
    "job",
    "run",
    "on",
    "policy",
    "site",
    "change",
)
"""Fields of a body that identify its subject; only their words, numbers and truth values are written."""

ABOUT_JOB: Final = ("machine", "nodes", "limit_s", "project")
"""Fields of a job that are written. Its program, texts and environment may hold secrets of its user."""

_WHO_HOLDS: Final = frozenset({"user", "holder"})


AuditPlace = tuple[Path | None, int, int]
"""The file of a server, its maximum size, and the number kept; without a file nothing is written."""

NOWHERE: Final[AuditPlace] = (None, 1, 1)


class AuditLog:
    """The log of one server at `place`; `report` gets an error of writing, and "" when it has ended."""

    def __init__(
        self,
        place: AuditPlace,
        server: str,
        clock: Clock,
        report: Callable[[str, str], None],
    ) -> None:
        file, bytes_max, files_kept = place
        self._file = RotatingFile(file, bytes_max, files_kept) if file is not None else None
        self._server = server
        self._clock = clock
        self._report = report
        self._of_users = RateLimiter(
            per_s=USER_LINES_PER_S, burst=USER_LINES_BURST, tracked_max=USERS_MAX
        )
        self._of_strangers = RateLimiter(
            per_s=STRANGER_LINES_PER_S, burst=STRANGER_LINES_BURST, tracked_max=1
        )
        self._left_out: Counter[str] = Counter()
        self._failing = False

    def watched(
        self, operation: Operation, handler: Callable[[Caller, Any], Any]
    ) -> Callable[[Caller, Any], Any]:
        """Return a `handler` that writes its answers, if they belong in the log."""
        if self._file is None or not operation.scope:
            return handler
        only_others = operation.name in READS

        def handle(caller: Caller, body: Body) -> Answer | Awaitable[Answer]:
            if only_others and not caller.scopes & SEE_ALL:
                answer: Answer | Awaitable[Answer] = handler(caller, body)
                return answer
            with self._failure_written(operation, caller, body):
                answer = handler(caller, body)
            if inspect.isawaitable(answer):
                return waited(caller, body, answer)
            self._answered(operation, caller, body, answer)
            return answer

        async def waited(caller: Caller, body: Body, awaitable: Awaitable[Answer]) -> Answer:
            with self._failure_written(operation, caller, body):
                answer = await awaitable
            self._answered(operation, caller, body, answer)
            return answer

        return handle

    def refused(self, call: str, error: KalendsError, caller: Caller, remote: str) -> None:
        """Write that a token, or the right of `caller` (`ANYONE`: unknown), was refused."""
        self._write(call, caller, {"from": remote, **_failure(error)}, always=False)

    def done(self, call: str, caller: Caller, **about: object) -> None:
        """Write an action that is not one of the calls."""
        self._write(call, caller, {"about": about, "answer": "ok"})

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    @contextlib.contextmanager
    def _failure_written(self, operation: Operation, caller: Caller, body: Body) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._write(operation.name, caller, {"about": _about(body), **_failure(error)})
            raise

    def _answered(self, operation: Operation, caller: Caller, body: Body, answer: Answer) -> None:
        if operation.name in READS and not _is_of_others(operation.name, answer, caller):
            return
        about = _about(body)
        if made := getattr(answer, "id", ""):
            about["id"] = str(made)
        self._write(operation.name, caller, {"about": about, "answer": "ok"})

    def _write(
        self, call: str, caller: Caller, what: dict[str, object], *, always: bool = True
    ) -> None:
        """Write one line; `always` if the caller has rights over other users."""
        if self._file is None:
            return
        who = caller.principal.user
        if not (always and caller.scopes & SEE_ALL) and not self._has_room(who):
            if who in self._left_out or len(self._left_out) < USERS_MAX:
                self._left_out[who] += 1
            return
        line = {
            "at": datetime.fromtimestamp(self._clock.wall_s(), UTC).isoformat(),
            "server": self._server, "call": call, "user": who,
            "groups": caller.principal.groups, "key": caller.key if who else "",
            "token": caller.token_id, **what,
        }  # fmt: skip
        if left_out := self._left_out.pop(who, 0):
            line["left_out"] = left_out
        try:
            self._file.append(msgspec.json.encode(line) + b"\n")
        except OSError as error:
            self._failing = True
            self._report("audit log", f"the audit log cannot be written: {error.strerror}")
        else:
            if self._failing:
                self._failing = False
                self._report("audit log", "")

    def _has_room(self, who: str) -> bool:
        limiter = self._of_users if who else self._of_strangers
        try:
            limiter.take(who, self._clock.monotonic_s())
        except LimitExceeded:
            return False
        return True


class RotatingFile:
    """A file of lines, and older files next to it: ``NAME.1`` is the newest of them."""

    def __init__(self, path: Path, bytes_max: int, files_kept: int) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._files_kept = files_kept
        self._descriptor: int | None = None
        self._bytes = 0

    def append(self, line: bytes) -> None:
        """Write `line` whole; raises `OSError`."""
        if self._descriptor is not None and self._bytes + len(line) > self._bytes_max:
            self.close()
            self._rotate()
        if self._descriptor is None:
            self._open()
        assert self._descriptor is not None
        written = os.write(self._descriptor, line)
        self._bytes += written
        if written < len(line):
            raise OSError(28, "No space left on device")

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._path, flags, 0o600)
        os.fchmod(self._descriptor, 0o600)
        self._bytes = os.fstat(self._descriptor).st_size

    def _rotate(self) -> None:
        for number in range(self._files_kept - 1, 0, -1):
            older = self._numbered(number - 1)
            if older.exists():
                older.replace(self._numbered(number))
        if self._files_kept == 1:
            self._path.unlink(missing_ok=True)

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path


def _about(body: Body) -> dict[str, object]:
    found = {name: getattr(body, name, "") for name in ABOUT}
    job = found["job"]
    if isinstance(job, JobRequest):
        found["job"] = {name: _short(getattr(job, name)) for name in ABOUT_JOB}
    said = {name: value for name, value in found.items() if isinstance(value, str | int | dict)}
    return {name: _short(value) for name, value in said.items() if value != ""}


def _short(value: object) -> object:
    return value[:TEXT_MAX] if isinstance(value, str) else value


def _failure(error: Exception) -> dict[str, object]:
    if not isinstance(error, KalendsError):
        return {"answer": "internal"}
    return {"answer": error.code, "detail": error.detail[:TEXT_MAX]}


def _is_of_others(call: str, answer: Answer, caller: Caller) -> bool:
    return call in NAMELESS or any(who != caller.principal.user for who in _named(answer))


def _named(value: Any) -> Iterator[str]:
    """Yield the users that an answer names, and those of its parts."""
    for field in value.__struct_fields__:
        part = getattr(value, field)
        if field in _WHO_HOLDS and isinstance(part, str) and part:
            yield part
        elif isinstance(part, msgspec.Struct):
            yield from _named(part)
        elif isinstance(part, tuple | list):
            for each in part:
                if isinstance(each, msgspec.Struct):
                    yield from _named(each)

"""One call over HTTP or a session: rate limit, scope, validation, handler, failure, metrics.

HTTP requests and session calls both go through `Dispatcher`, so that a call means the same on
either. A handler gets the caller and the validated body of its operation, and answers at once or
with an awaitable. Handlers run to their end even without a waiting caller, because a
half-done booking is useless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import msgspec

from kalends.contract.bodies import Answer, Body
from kalends.contract.calls import OPERATIONS, CallerView, Nothing, Operation, Role
from kalends.core.conversion import convert
from kalends.core.errors import KalendsError, OutcomeUnknown, Problem, Unavailable
from kalends.serving.audit_log import AuditLog
from kalends.serving.auth.callers import Caller
from kalends.serving.clocks import Clock
from kalends.serving.http import bodies
from kalends.serving.http.misdirected import Misdirected
from kalends.serving.http.problems import problem_of
from kalends.serving.http.rate_limits import BYTES_OF_A_CALL, RateLimiter, ServingLimits
from kalends.serving.logs import Logger
from kalends.serving.metrics import NO_OPERATION, Metrics

T = TypeVar("T")

Handler = Callable[[Caller, Any], Answer | Awaitable[Answer]]
"""A function that does one operation for a caller; its second argument is the operation's `Body`."""


class Entry(msgspec.Struct, frozen=True):
    operation: Operation
    handler: Handler


class Dispatcher:
    """The operations of one application, and the calls in flight on it."""

    def __init__(
        self,
        misdirected: Misdirected,
        handlers: Mapping[str, Handler],
        limits: ServingLimits,
        clock: Clock,
        metrics: Metrics,
        logger: Logger,
        audit: AuditLog,
    ) -> None:
        self.misdirected = misdirected
        role = misdirected.role
        operations = operations_of(role)
        wrong = {operation.name for operation in operations} ^ handlers.keys()
        if wrong:
            raise ValueError(f"a {role} has one handler per operation; not so: {sorted(wrong)}")
        self.entries = {
            operation.name: Entry(operation, audit.watched(operation, handlers[operation.name]))
            for operation in operations
        }
        self.limits = limits
        self.clock = clock
        self.metrics = metrics
        self.logger = logger
        self.audit = audit
        self._limiter = RateLimiter(
            per_s=limits.calls_per_s,
            burst=limits.calls_burst,
            tracked_max=limits.principals_tracked_max,
        )
        self._running: set[asyncio.Task[Any]] = set()
        self._stopping = False
        metrics.gauge(
            "kalends_calls_in_flight",
            "Calls in progress.",
            value=lambda: len(self._running),
        )

    def begin(self, caller: Caller, name: str, body: bytes) -> Answer | Awaitable[Answer]:
        """Start operation `name` with the `body` of a session call, in MessagePack.

        Raises the errors that refuse the call before its handler gets it: `NotFound` for an unknown name,
        `Unavailable` at a stop, `LimitExceeded`, `NotAllowed`, `NotAuthenticated`, `TooLarge`,
        `InvalidInput`; and the errors of a handler that answers at once.
        """
        entry = self.entries.get(name)
        if entry is None:
            raise self.misdirected.call(name, self.entries)
        self.admit(caller, entry.operation)
        fields = bodies.decode(body, "msgpack", bytes_max=self.limits.body_bytes_max)
        return entry.handler(caller, convert(fields, entry.operation.body))

    def admit(self, caller: Caller, operation: Operation) -> None:
        """Raises if `caller` may not make this call, or not now; open operations always pass."""
        if not operation.scope:
            return
        if self._stopping:
            raise Unavailable("the server is stopping", remedy="connect again in a moment")
        self._limiter.take(caller.principal.user, self.clock.monotonic_s())
        self.check_right(caller, operation.scope, operation.name)

    def check_rate(self, caller: Caller) -> None:
        """Raises `LimitExceeded` if `caller` may not call now; a session is opened for calls."""
        self._limiter.check(caller.principal.user, self.clock.monotonic_s())

    def charge(self, caller: Caller, read_bytes: int) -> None:
        """Count the cost of reading this many bytes of `caller`, beyond those of any call."""
        if more := read_bytes // BYTES_OF_A_CALL:
            self._limiter.fine(caller.principal.user, more, self.clock.monotonic_s())

    def check_right(self, caller: Caller, scope: str, call: str, remote: str = "") -> None:
        """Raises `NotAuthenticated` or `NotAllowed`, and logs it, unless `caller` has `scope` now."""
        try:
            caller.require(scope, self.clock.wall_s())
        except KalendsError as error:
            self.audit.refused(call, error, caller, remote)
            raise

    async def run(self, handler: Handler, caller: Caller, body: Body) -> Answer:
        """Return the answer of `handler`, after at most `answer_s_max`.

        Raises `OutcomeUnknown` after that. If the waiting is cancelled, the handler still continues.
        """
        answer = handler(caller, body)
        if isinstance(answer, Answer):
            return answer
        task = self.start(_await(answer))
        done, _ = await asyncio.wait({task}, timeout=self.limits.answer_s_max)
        if not done:
            task.add_done_callback(self._log_late_failure)
            raise answer_overdue(self.limits.answer_s_max)
        return task.result()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `coroutine` as a call in flight: kept alive, counted, and waited for at a stop."""
        task = asyncio.create_task(coroutine)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def drain(self, drain_s: float) -> None:
        """Refuse new calls from now on, and wait at most `drain_s` until none is in flight.

        Those left after that are logged and cancelled.
        """
        self._stopping = True
        if not self._running:
            return
        _, left = await asyncio.wait(set(self._running), timeout=drain_s)
        if left:
            self.logger.warning("calls_cut_off", calls=len(left), after_s=drain_s)
        for task in left:
            task.cancel()

    def problem(self, error: Exception) -> Problem:
        return problem_of(error, self.logger)

    def ended(self, name: str, status: int, started_s: float) -> None:
        """Count a call; `started_s` is on the monotonic clock."""
        self.metrics.call_ended(
            name if name in self.entries else NO_OPERATION,
            status,
            self.clock.monotonic_s() - started_s,
        )

    def _log_late_failure(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self.problem(error)


def operations_of(role: Role) -> tuple[Operation, ...]:
    return tuple(operation for operation in OPERATIONS if role in operation.roles)


def answer_overdue(answer_s_max: float) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"no answer within {answer_s_max:g} s; the call continues",
        remedy="repeat the call with the same key, or ask for its request by that key",
    )


async def _await(awaitable: Awaitable[Answer]) -> Answer:
    return await awaitable


def whoami(role: Role, name: str, clock: Clock) -> Handler:
    def view(caller: Caller, body: Nothing) -> CallerView:
        return CallerView(
            server=name,
            role=role,
            user=caller.principal.user,
            realm=caller.vouching.realm,
            groups=caller.principal.groups,
            scopes=tuple(sorted(caller.scopes)),
            key=caller.key,
            audiences=caller.audiences,
            expires_at=caller.expires_at,
            now=clock.wall_s(),
        )

    return view

"""The HTTP side of a server: routes from the table of operations, bodies, answers, problems.

The answer to any input is a result or problem details (RFC 9457), in JSON or MessagePack as the
caller accepts; no input leads to a 5xx. (Bytes that are not HTTP never reach this module: the HTTP
parser answers them with 400 and plain text.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeVar

from aiohttp import web

from kalends.contract import codec
from kalends.contract.agreement import told
from kalends.contract.calls import Health, Nothing, Role
from kalends.contract.paths import CALLS_PATH, OPENAPI_PATH
from kalends.contract.versions import ServerVersion, version_in
from kalends.core.conversion import convert
from kalends.core.errors import NotAuthenticated
from kalends.serving.alarms import Report
from kalends.serving.audit_log import NOWHERE, TEXT_MAX, AuditLog, AuditPlace
from kalends.serving.auth.callers import ANY, ANYONE, Authenticator, Caller
from kalends.serving.auth.claims import SERVERS_SCOPES
from kalends.serving.auth.peer_auth import check_certificate
from kalends.serving.clocks import Clock, SystemClock
from kalends.serving.http import bodies, openapi
from kalends.serving.http.connections import CONNECTIONS_MAX, Connections
from kalends.serving.http.dispatch import Dispatcher, Entry, Handler, whoami
from kalends.serving.http.misdirected import Misdirected
from kalends.serving.http.problem_answers import (
    ANSWER_HEADERS,
    expected,
    no_method_answer,
    problem_answer,
)
from kalends.serving.http.problems import HttpRefusal
from kalends.serving.http.rate_limits import ServingLimits
from kalends.serving.http.request_fields import read_fields
from kalends.serving.http.sessions import OpenSessions, Session
from kalends.serving.logs import Logger
from kalends.serving.metrics import CONTENT_TYPE as METRICS_CONTENT_TYPE
from kalends.serving.metrics import NO_OPERATION, Metrics

METRICS_PATH: Final = "/metrics"
READY_PATH: Final = "/readyz"

CLOSE_S_MAX: Final = 2.0
"""Seconds for which a closing session waits for the client to agree."""

T = TypeVar("T")

_Respond = Callable[[web.Request], Awaitable[web.StreamResponse]]


def build_application(
    *,
    role: Role,
    name: str,
    version: ServerVersion,
    handlers: Mapping[str, Handler],
    authenticator: Authenticator,
    metrics: Metrics,
    logger: Logger,
    limits: ServingLimits = ServingLimits(),  # noqa: B008  immutable
    clock: Clock = SystemClock(),  # noqa: B008  immutable
    routes: Iterable[web.AbstractRouteDef] = (),
    on_stop: Callable[[], None] | None = None,
    report: Report = lambda about, text: None,
    audit: AuditPlace = NOWHERE,
    certified: bool = False,
) -> web.Application:
    """Return the complete application of a server.

    `handlers` has exactly one handler for each operation of the role except `whoami` (`ValueError`
    otherwise). `routes` are further ones, such as the session between brokers and sites: errors that they
    raise become problems too, and `caller_of` returns their caller. At shutdown `on_stop` is called first,
    so that waiting handlers (a watch) answer at once. Then calls in flight get `drain_s_max`, and sessions
    are closed as going away. `report` gets problems (connections, the certificate), and "" when they have
    ended. Calls are written to `audit`. If `certified`, other servers must show a certificate.
    """
    log = AuditLog(audit, f"{role} {name}", clock, report)
    handlers = {**handlers, "whoami": whoami(role, name, clock)}
    dispatcher = Dispatcher(Misdirected(role, name), handlers, limits, clock, metrics, logger, log)
    connections = Connections(
        CONNECTIONS_MAX, dispatcher.clock.monotonic_s, partial(report, "connections"), metrics
    )
    server = _Server(dispatcher, authenticator, on_stop, connections, report, certified, version)
    application = web.Application(
        middlewares=[_problems(server)],
        client_max_size=limits.body_bytes_max,
        handler_args={"auto_decompress": False, "access_log": None},
    )
    application[_SERVER] = server
    paths = [entry.operation.path for entry in dispatcher.entries.values()]
    for entry in dispatcher.entries.values():
        operation = entry.operation
        application.router.add_route(
            operation.method,
            _route(operation.path, paths),
            _operation(server, entry),
            name=operation.name,
            expect_handler=expected,
        )
    document = _fixed(openapi.document(role, name, version.number, authenticator), codec.JSON)
    given = {OPENAPI_PATH: document, METRICS_PATH: _metrics(metrics), READY_PATH: _ready(server)}
    for path, respond in {**given, CALLS_PATH: _sessions(server)}.items():
        application.router.add_get(path, respond, allow_head=False)
    for route in routes:
        if isinstance(route, web.RouteDef):
            route.kwargs.setdefault("expect_handler", expected)
        route.register(application.router)
    application.on_shutdown.append(drain)
    application.on_cleanup.append(_stop_fetching)
    return application


def caller_of(request: web.Request, scope: str) -> Caller:
    """Return the caller of a further route, who must have `scope`.

    Raises `NotAuthenticated` or `NotAllowed`, which become problems.
    """
    return request.app[_SERVER].caller_of(request, scope)


def check_server(request: web.Request) -> None:
    """Raises `NotAuthenticated` if servers must show certificates, and the sender of `request` did not.

    For questions of other servers that come without a token.
    """
    if request.app[_SERVER].certified:
        check_certificate(request.transport)


def caller_by(request: web.Request, token: str, scope: str) -> Caller:
    """Return the caller named by another `token` than the one of `request`."""
    return request.app[_SERVER].caller(request, {"Authorization": f"Bearer {token}"}, scope)


def version_of(request: web.Request) -> ServerVersion:
    return request.app[_SERVER].version


def audit_of(request: web.Request) -> AuditLog:
    """Return the audit log, for actions that are not calls."""
    return request.app[_SERVER].dispatcher.audit


def in_flight(request: web.Request, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Do `work` of a further route as a call in flight: counted, and waited for at a stop."""
    return request.app[_SERVER].dispatcher.start(work)


def connections_of(application: web.Application) -> Connections:
    """Return the connections of an application of `build_application`, for its listener."""
    return application[_SERVER].connections


def report_of(application: web.Application) -> Report:
    """Return the function that gets problems of an application."""
    return application[_SERVER].report


def metrics_of(application: web.Application) -> Metrics:
    return application[_SERVER].dispatcher.metrics


def trust(application: web.Application, authenticator: Authenticator) -> None:
    """Use `authenticator` from now on, and end the sessions of callers that it does not accept."""
    server = application[_SERVER]
    authenticator.follow(server.authenticator)
    server.dispatcher.start(server.authenticator.close())
    server.authenticator = authenticator
    for session in list(server.sessions):
        if not authenticator.believes(session.caller):
            server.dispatcher.start(session.disown())


@dataclass(eq=False)
class _Server:
    """The common state of the routes of one application."""

    dispatcher: Dispatcher
    authenticator: Authenticator
    on_stop: Callable[[], None] | None
    connections: Connections
    report: Report
    certified: bool
    version: ServerVersion
    stopped: bool = False

    def __post_init__(self) -> None:
        self.said = {"Server": f"kalends/{self.version.number}", **self.version.headers()}
        self.sessions = OpenSessions(self.dispatcher.limits.sessions_max)
        self.dispatcher.metrics.gauge(
            "kalends_sessions", "Open sessions of clients.", value=lambda: len(self.sessions)
        )

    def known_to(self, request: web.Request) -> frozenset[str]:
        """Return the features that may be used with the sender of `request`; raises `InvalidInput`."""
        return self.version.features & version_in(request.headers).features

    def caller_of(self, request: web.Request, scope: str) -> Caller:
        """Return the caller of `request`; its connection counts as known from now on if that took a proof."""
        caller = self.caller(request, request.headers, scope)
        if caller.hosts or (self.certified and scope in SERVERS_SCOPES):
            check_certificate(request.transport, caller.hosts)
        if scope:
            self.connections.known(request.transport, caller.principal.user)
        return caller

    def caller(self, request: web.Request, headers: Mapping[str, str], scope: str) -> Caller:
        """Return the caller that `headers` name; a refusal is written to the audit log."""
        if not scope:
            return ANYONE
        call = request.match_info.route.name or request.path[:TEXT_MAX]
        remote = request.remote or ""
        try:
            caller = self.authenticator.authenticate(headers, self.dispatcher.clock.wall_s())
        except NotAuthenticated as error:
            self.dispatcher.audit.refused(call, error, ANYONE, remote)
            raise
        self.dispatcher.check_right(caller, scope, call, remote)
        return caller


_SERVER: Final = web.AppKey("server", _Server)


def _route(path: str, paths: Iterable[str]) -> str:
    """Return `path` for the router, with fields that match no fixed segment of other paths.

    Otherwise ``/v1/requests/list`` would also be the request whose id is ``list``.
    """
    prefix, brace, rest = path.partition("{")
    if not brace:
        return path
    others = {
        other.removeprefix(prefix).partition("/")[0] for other in paths if other.startswith(prefix)
    }
    fixed = sorted(segment for segment in others if not segment.startswith("{"))
    field, _, rest = rest.partition("}")
    return f"{prefix}{{{field}:(?!(?:{'|'.join(fixed)})(?:/|$))[^/]+}}{rest}" if fixed else path


def _operation(server: _Server, entry: Entry) -> _Respond:
    operation, dispatcher = entry.operation, server.dispatcher

    async def respond(request: web.Request) -> web.Response:
        form = bodies.form_of_answer(request.headers.get("Accept", ""))
        known = server.known_to(request)
        caller = server.caller_of(request, operation.scope)
        dispatcher.admit(caller, operation)
        fields = await read_fields(request, operation, dispatcher, caller)
        body = convert(fields, operation.body, strict=operation.method != "GET")
        answer = await dispatcher.run(entry.handler, caller, body)
        return web.Response(
            body=bodies.encode(told(answer, known), form),
            content_type=bodies.CONTENT_TYPE[form],
            headers=ANSWER_HEADERS,
        )

    return respond


def _ready(server: _Server) -> _Respond:
    """Return the route for load balancers: the health, with status 503 if calls should go elsewhere.

    The health itself always has status 200: a supervisor must not end a standby.
    """
    health = server.dispatcher.entries["health"].handler

    async def respond(request: web.Request) -> web.Response:
        form = bodies.form_of_answer(request.headers.get("Accept", ""))
        answer = told(
            await server.dispatcher.run(health, ANYONE, Nothing()), server.known_to(request)
        )
        ready = isinstance(answer, Health) and answer.ready and not server.stopped
        return web.Response(
            status=HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE,
            body=bodies.encode(answer, form),
            content_type=bodies.CONTENT_TYPE[form],
            headers=ANSWER_HEADERS,
        )

    return respond


def _sessions(server: _Server) -> _Respond:
    """Return the WebSocket of clients: authenticated at the upgrade, then served by a `Session`."""
    limits = server.dispatcher.limits

    async def respond(request: web.Request) -> web.StreamResponse:
        # Each call in it needs a scope of its own.
        caller = server.caller_of(request, ANY)
        user, known = caller.principal.user, server.known_to(request)
        server.dispatcher.check_rate(caller)
        server.sessions.make_room(user)
        socket = await open_socket(request, limits)
        abort = request.transport.abort if request.transport else lambda: None
        session = Session(socket, caller, server.dispatcher, abort, known)
        server.sessions.add(user, session)
        try:
            await session.run()
        finally:
            server.sessions.remove(user, session)
        return socket

    return respond


async def open_socket(
    request: web.Request, limits: ServingLimits, said: Mapping[str, str] | None = None
) -> web.WebSocketResponse:
    """Answer a WebSocket upgrade with the headers `said` of a server (None: of this one).

    Raises `HttpRefusal` for an invalid upgrade request.
    """
    socket = web.WebSocketResponse(
        heartbeat=limits.heartbeat_s,
        max_msg_size=limits.frame_bytes_max,
        compress=False,
        timeout=CLOSE_S_MAX,
    )
    socket.headers.update(request.app[_SERVER].said if said is None else said)
    try:
        await socket.prepare(request)
    except (web.HTTPBadRequest, ValueError) as error:
        raise HttpRefusal(
            426,
            "this path serves WebSocket sessions",
            where="Upgrade",
            remedy=f"connect with a WebSocket client (version 13), or call the paths in {OPENAPI_PATH}",
        ) from error
    return socket


def _problems(server: _Server) -> Any:
    """Return the middleware that counts every request and turns every failure into a problem."""
    dispatcher = server.dispatcher

    @web.middleware
    async def middleware(request: web.Request, handler: _Respond) -> web.StreamResponse:
        started_s = dispatcher.clock.monotonic_s()
        try:
            with server.connections.at_work(request.transport):
                await server.authenticator.prepare(request.headers, started_s)
                response = await handler(request)
        except web.HTTPMethodNotAllowed as error:
            response = no_method_answer(request, error)
        except web.HTTPNotFound:
            missing = dispatcher.misdirected.path(request.method, request.path)
            response = problem_answer(request, missing.to_problem())
        except Exception as error:
            # The boundary: every error of a request must leave as a problem.
            if isinstance(error, ConnectionError) and _is_gone(request):
                return web.Response()  # The client has disconnected.
            response = problem_answer(request, dispatcher.problem(error))
        if not response.prepared:
            response.headers.update(server.said)
            asked = request.match_info.route.name or NO_OPERATION
            dispatcher.ended(asked, response.status, started_s)
        return response

    return middleware


def _is_gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


def _fixed(body: bytes, content_type: str) -> _Respond:
    async def respond(request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=content_type, headers=ANSWER_HEADERS)

    return respond


def _metrics(metrics: Metrics) -> _Respond:
    async def respond(request: web.Request) -> web.Response:
        headers = {**ANSWER_HEADERS, "Content-Type": METRICS_CONTENT_TYPE}
        return web.Response(body=metrics.render(), headers=headers)

    return respond


async def _stop_fetching(application: web.Application) -> None:
    await application[_SERVER].authenticator.close()


async def drain(application: web.Application) -> None:
    """Let the calls in flight on `application` end, and close its sessions; repeated calls do nothing.

    Call it while connections still carry data, as `kalends.serving.http.runner` does: then new calls are
    refused instead of lost. aiohttp's own shutdown would be too late for that.
    """
    server = application[_SERVER]
    if server.stopped:
        return
    server.stopped = True
    if server.on_stop is not None:
        server.on_stop()
    drain_s = server.dispatcher.limits.drain_s_max
    await asyncio.gather(
        server.dispatcher.drain(drain_s),
        *(session.drain(drain_s) for session in list(server.sessions)),
    )
    server.dispatcher.audit.close()

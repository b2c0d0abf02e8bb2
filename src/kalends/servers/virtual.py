"""A virtual site as a server: the way to its members, and its manager. It has no store, and decides nothing.

Sessions and calls for a member are handed on (`relay`); brokers ask the manager whom to ask
(``POST /v1/refer``, one `Refer`, one `Referred`), and how to split a job (``POST /v1/split``). If it is gone
its members are out of reach, and what they have promised stands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from aiohttp import web

from kalends.contract import calls, codec
from kalends.contract import messages as m
from kalends.contract.paths import REFER_PATH, SESSION_PATH, SPLIT_PATH
from kalends.contract.versions import KNOWN, own_version
from kalends.core.errors import NotFound
from kalends.core.intervals import Moment
from kalends.core.transport import Rates
from kalends.serving.alarms import Alarms
from kalends.serving.auth.authenticator import asks_for_certificates, authenticator_of
from kalends.serving.auth.callers import Caller
from kalends.serving.clocks import MomentClock, moment
from kalends.serving.configuration import VirtualConfiguration
from kalends.serving.http.application import build_application, caller_of
from kalends.serving.http.problem_answers import refused_session
from kalends.serving.http.rate_limits import ServingLimits
from kalends.serving.http.request_fields import read_body
from kalends.serving.logs import get_logger
from kalends.serving.metrics import Metrics
from kalends.serving.pending_replies import answer_to
from kalends.virtual_sites.manager import bidders_of, referred, split
from kalends.virtual_sites.members import Members
from kalends.virtual_sites.overheard import Overheard
from kalends.virtual_sites.relay import ROUTE, MemberRelay

REFER_BYTES_MAX: Final = 512 * 1024
"""A thousand members with their ways are below it."""


def build_virtual(
    configuration: VirtualConfiguration,
    *,
    version: str,
    features: frozenset[str] = KNOWN,
    moment: Callable[[], Moment] = moment,
) -> web.Application:
    """The complete application of a virtual site; raises `InvalidInput` for files that cannot be used."""
    name, limits = configuration.name, ServingLimits()
    logger = get_logger(role="virtual", name=name)
    metrics = Metrics(role="virtual", name=name, version=version)
    alarms = Alarms(logger, metrics.counter("kalends_alarms", "Alarms that were raised.").inc)
    members = Members(configuration, logger)
    rates = Rates((each.sites, each.mb_per_s) for each in configuration.links)
    desk = ManagerDesk(members, rates, version, limits, moment)
    relay = MemberRelay(members, desk.overheard, moment, limits)
    application = build_application(
        role="virtual",
        name=name,
        version=own_version(version, features),
        handlers={"health": desk.health, "bidders": desk.bidders},
        authenticator=authenticator_of(configuration, alarms.report),
        metrics=metrics,
        logger=logger,
        certified=asks_for_certificates(configuration),
        limits=limits,
        clock=MomentClock(moment),
        routes=[
            web.post(REFER_PATH, desk.refer),
            web.post(SPLIT_PATH, desk.split),
            web.get(SESSION_PATH, desk.no_session, allow_head=False),
            web.route("*", ROUTE, relay.respond),
        ],
        on_stop=relay.begin_stop,
        report=alarms.report,
        audit=configuration.audit_place,
    )
    application.on_startup.append(relay.start)
    application.on_cleanup.append(relay.stop)
    return application


class ManagerDesk:
    """What a virtual site answers itself; `overheard` is what it goes by."""

    def __init__(
        self,
        members: Members,
        rates: Rates,
        version: str,
        limits: ServingLimits,
        moment: Callable[[], Moment],
    ) -> None:
        self.overheard = Overheard()
        self._members, self._rates = members, rates
        self._version = version
        self._limits = msgspec.structs.replace(limits, body_bytes_max=REFER_BYTES_MAX)
        self._moment = moment

    def health(self, caller: Caller, body: calls.Nothing) -> calls.Health:
        return calls.Health(
            status="ok", role="virtual", name=self._members.name, version=self._version, detail=""
        )

    def bidders(self, caller: Caller, body: calls.ListBidders) -> calls.Bidders:
        return bidders_of(self._members.urls, self.overheard, self._moment())

    async def refer(self, request: web.Request) -> web.Response:
        """Answer one `Refer` with one `Referred`, both as the whole body."""
        caller_of(request, "broker")
        body = await read_body(request, self._limits)
        question = codec.decode_msgpack(body, m.Refer, bytes_max=REFER_BYTES_MAX)
        answer = referred(question, self._members.urls, self.overheard, self._moment())
        return answer_to(request, answer)

    async def split(self, request: web.Request) -> web.Response:
        """Answer one `Split` with one `Splits`, both as the whole body."""
        caller_of(request, "broker")
        body = await read_body(request, self._limits)
        question = codec.decode_msgpack(body, m.Split, bytes_max=REFER_BYTES_MAX)
        return answer_to(request, split(question, self._rates, self.overheard, self._moment()))

    async def no_session(self, request: web.Request) -> web.Response:
        """Tell a broker that takes this for a site what it is."""
        return refused_session(
            NotFound(
                f"{self._members.name} is a virtual site: name its `members` where it is listed",
                where="path",
            )
        )

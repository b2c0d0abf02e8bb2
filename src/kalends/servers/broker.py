"""A broker from its configuration: the register, the links to its sites, and the calls of its users."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection
from typing import Final

import aiohttp
from aiohttp import web

from kalends.broker.desk.agent_mailbox import AgentMailbox
from kalends.broker.desk.notice_commands import NoticeCommands
from kalends.broker.desk.priorities import PriorityGrants
from kalends.broker.desk.request_commands import RequestCommands
from kalends.broker.desk.request_queries import Records
from kalends.broker.desk.script_checks import ScriptChecks
from kalends.broker.desk.scripts import Scripts
from kalends.broker.jobs.booked_steps import step_of
from kalends.broker.jobs.job_commands import JobCommands
from kalends.broker.jobs.manager_calls import ManagerCalls
from kalends.broker.jobs.parts.wing import JobParts
from kalends.broker.jobs.shell import JobShell, watch_bids
from kalends.broker.metrics import Measures
from kalends.broker.planning.directory import Directory
from kalends.broker.planning.polling.views import poll_views
from kalends.broker.register import request_reads
from kalends.broker.register.broker_store import BrokerStore
from kalends.broker.replica.archive import Archive
from kalends.broker.replica.leases import ReplicaLock
from kalends.broker.searches.availability_queries import AvailabilityQueries
from kalends.broker.searches.searches import Searches
from kalends.broker.service import BrokerService
from kalends.broker.sites.reached_sites import reached_sites
from kalends.broker.sites.site_link import SiteLink
from kalends.broker.sites.site_passes import PassTerms, SitePasses
from kalends.contract import calls
from kalends.contract.versions import KNOWN, own_version
from kalends.core.intervals import Moment
from kalends.core.requests import Request
from kalends.rim.redirects import refused_redirects
from kalends.serving.alarms import Alarms
from kalends.serving.auth.authenticator import asks_for_certificates, authenticator_of
from kalends.serving.auth.callers import Caller, split_listen
from kalends.serving.auth.peer_auth import server_proofs, trust_for
from kalends.serving.clock_watch import watch_clock
from kalends.serving.clocks import Clock, MomentClock, moment
from kalends.serving.configuration import BrokerConfiguration
from kalends.serving.http.application import build_application
from kalends.serving.http.dispatch import Handler
from kalends.serving.http.rate_limits import ServingLimits
from kalends.serving.http.reload import RULES
from kalends.serving.logs import get_logger
from kalends.serving.metrics import Metrics

QUIET_S_MAX: Final = 3.0
"""The time that open requests get to end at a stop; the rest goes on at the next start, or elsewhere."""


def build_broker(
    configuration: BrokerConfiguration,
    *,
    version: str,
    features: frozenset[str] = KNOWN,
    moment: Callable[[], Moment] = moment,
) -> web.Application:
    """The application of one broker replica; it opens its store and links when it starts.

    With fewer `features` it behaves towards others like an older one.

    Raises `InvalidInput` for keys and certificates that cannot be used. Its start raises `Conflict`
    when the replica is served already, and what opening the store raises.
    """
    clock = MomentClock(moment)
    logger = get_logger(role="broker", name=configuration.name)
    replica = replica_name(configuration)
    sites = list(reached_sites(configuration.sites))
    directory = Directory(
        {site.name: site.url for site in sites},
        {site.name: (site.virtual, site.way) for site in sites if site.virtual},
    )
    speaks = own_version(version, features)
    metrics = Metrics(role="broker", name=configuration.name, version=version)
    service: BrokerService
    measures = Measures(metrics, directory, lambda: service.cases)
    watch_bids(metrics, directory.sites, lambda: _jobs(service).bids.tally)
    watch_clock(metrics, lambda: bool(service.clock_watch.doubt))
    alarms = Alarms(logger, measures.alarms.inc)
    proofs = server_proofs(
        configuration.key, user=replica, issuer=configuration.name, now_s=clock.wall_s
    )
    trust = {
        site.name: trust_for(configuration.calls, site.ca, f"broker.sites.{site.name}.ca")
        for site in configuration.sites
    }
    managers = ManagerCalls(
        {site.name: site.url for site in configuration.sites if site.members},
        proofs, trust, speaks, logger,
    )  # fmt: skip
    checks = ScriptChecks(configuration.agents, logger, alarms.tell)
    jobs = JobShell(
        directory,
        bid_ms_max=int(configuration.bid_s_max * 1_000),
        lost_ms=int(configuration.lost_s * 1_000),
        run_script=checks.run,
        refer=managers.refer,
        logger=logger,
    )
    service = BrokerService(
        replica=replica,
        coords=_coords(configuration),
        open_store=lambda: BrokerStore.open(
            configuration.store, configuration.name, measures.committed
        ),
        directory=directory,
        open_per_user_max=configuration.limits.open_per_principal_max,
        wings=(jobs,),
        notices=configuration.notices,
        alarms=alarms,
        logger=logger,
        metrics=metrics,
        measures=measures,
        moment=moment,
    )
    grants = PriorityGrants(configuration.priority)
    searches = Searches(directory, logger)
    terms = PassTerms(configuration.name, configuration.key, configuration.pass_s)
    passes = SitePasses(terms, sites, clock)

    archive = Archive(
        configuration.store.with_suffix(".archive"), configuration.keep_settled_s,
        lambda: service.replica.current.store if service.replica.current else None, moment, logger,
    )  # fmt: skip

    async def serving(application: web.Application) -> AsyncIterator[None]:
        lock = ReplicaLock(configuration.store, replica)
        try:
            await checks.start()
            async with aiohttp.ClientSession(trace_configs=[refused_redirects()]) as http:
                links = {
                    site.name: SiteLink(
                        site.name,
                        site.url,
                        source=replica,
                        version=speaks,
                        http=http,
                        tls=trust[site.virtual or site.name],
                        proof=proofs(site.name),
                        user=service,
                        logger=logger,
                        jitter=random.random,
                    )
                    for site in sites
                }
                managers.begin(http)
                await service.start(links)
                running = [asyncio.create_task(link.run()) for link in links.values()]
                running.append(asyncio.create_task(archive.run()))
                yield
                await service.stop(QUIET_S_MAX)
                for each in running:
                    each.cancel()
                await asyncio.gather(*running, return_exceptions=True)
        finally:
            await searches.close()
            await checks.stop()
            lock.release()

    application = build_application(
        role="broker",
        name=configuration.name,
        version=speaks,
        handlers=_handlers(
            configuration, version, service, clock, checks, grants, searches, passes
        ),
        authenticator=authenticator_of(configuration, service.alarms.report),
        metrics=metrics,
        logger=logger,
        certified=asks_for_certificates(configuration),
        limits=ServingLimits(
            calls_per_s=configuration.limits.calls_per_s,
            calls_burst=configuration.limits.calls_burst,
        ),
        clock=clock,
        routes=service.inquiries.routes(),
        on_stop=service.events.stop,
        report=service.alarms.report,
        audit=configuration.audit_place,
    )
    application[RULES] = grants.prepared
    application.cleanup_ctx.append(serving)
    return application


def _jobs(service: BrokerService) -> JobParts:
    return service.coordinator.wing(JobParts)


def replica_name(configuration: BrokerConfiguration) -> str:
    """Return the name of this replica at its sites and in the register."""
    return f"{configuration.name}-{configuration.replica}"


def _handlers(
    configuration: BrokerConfiguration,
    version: str,
    service: BrokerService,
    clock: Clock,
    checks: ScriptChecks,
    grants: PriorityGrants,
    searches: Searches,
    passes: SitePasses,
) -> dict[str, Handler]:
    records = Records(service, clock, lambda record: _jobs(service).steps.parts_of(record))
    scripts = Scripts(service, checks)
    commands = RequestCommands(
        service, records, scripts, grants, step_of,
        lambda record: _jobs(service).steps.all_known(record),
    )  # fmt: skip
    jobs = JobCommands(service, records, scripts, commands)
    addresses = NoticeCommands(service, service.notices.notifier)
    mailbox = AgentMailbox(service, records, scripts)

    def polls(request: Request, hidden: Collection[str]) -> tuple[calls.PollView, ...]:
        odds = service.coordinator.search.odds
        return poll_views(request, service.directory, odds, clock.wall_s(), hidden=hidden)

    availability = AvailabilityQueries(
        service.directory, service.site_queries, clock, searches, polls,
        lambda: _jobs(service).bids.experience,
        lambda: _jobs(service).bids.tally,
        lambda: _jobs(service).bids.candidates.learned,
        lambda ids: service.store.read_slowly(
            lambda connection: request_reads.reservations_of(connection, ids)
        ),
    )  # fmt: skip

    def health(caller: Caller, body: calls.Nothing) -> calls.Health:
        trouble = service.trouble()
        return calls.Health(
            status="failing" if trouble else "draining" if service.draining else "ok",
            role="broker",
            name=configuration.name,
            version=version,
            detail=trouble or service.clock_watch.doubt or checks.detail,
        )

    async def watch(caller: Caller, body: calls.Watch) -> calls.Events:
        user = records.of(caller, body.id).user if body.id else caller.principal.user
        return await service.events.watch(user, body.id, body.after, body.wait_ms / 1000)

    def drain(caller: Caller, body: calls.Drain) -> calls.Health:
        service.drain(body.on)
        return health(caller, calls.Nothing())

    async def reconcile(caller: Caller, body: calls.Reconcile) -> calls.Reconciled:
        return await service.comparisons.reconcile(body.wait_ms / 1000, body.go_on)

    return {
        "health": health,
        "resources": availability.resources,
        "calendar": availability.calendar,
        "find": availability.find,
        "book": commands.book,
        "job_place": jobs.place,
        "job_place_elsewhere": jobs.place_elsewhere,
        "by_key": records.by_key,
        "list": records.list,
        "show": records.show,
        "why": records.why,
        "lock": commands.lock,
        "release": commands.release,
        "cancel": commands.cancel,
        "change": commands.change,
        "watch": watch,
        "notify_list": addresses.list,
        "notify_add": addresses.add,
        "notify_remove": addresses.remove,
        "notify_test": addresses.test,
        "site_pass": passes.give,
        "agent_upload": scripts.upload,
        "agent_list": scripts.list,
        "agent_show": scripts.show,
        "agent_delete": scripts.delete,
        "agent_tell": mailbox.tell,
        "audit": records.audit,
        "bidders": availability.bidders,
        "drain": drain,
        "reconcile": reconcile,
    }


def _coords(configuration: BrokerConfiguration) -> tuple[str, ...]:
    """Where sites may inquire; nowhere when the port is still to be found and nobody was told."""
    if configuration.coords:
        return configuration.coords
    _, port = split_listen(configuration.listen)
    if not port and not configuration.url:
        return ()
    scheme = "https" if configuration.tls is not None else "http"
    return (configuration.url_at(f"{scheme}://{configuration.listen}"),)

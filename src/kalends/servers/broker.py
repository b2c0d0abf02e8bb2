"""A broker from its configuration: the register, the links to its sites, and the calls of its users."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Final

import aiohttp
from aiohttp import web
from msgspec.structs import replace

from kalends.broker.coordination.user_calls import DRAINED
from kalends.broker.desk.agent_mailbox import AgentMailbox
from kalends.broker.desk.feeds import FeedDesk
from kalends.broker.desk.notice_commands import NoticeCommands
from kalends.broker.desk.priorities import PriorityGrants
from kalends.broker.desk.request_commands import RequestCommands
from kalends.broker.desk.request_queries import Records
from kalends.broker.desk.script_checks import ScriptChecks
from kalends.broker.desk.scripts import Scripts
from kalends.broker.desk.site_commands import SiteCommands
from kalends.broker.jobs.booked_steps import step_of
from kalends.broker.jobs.job_commands import JobCommands
from kalends.broker.jobs.manager_calls import ManagerCalls
from kalends.broker.jobs.parts.wing import JobParts
from kalends.broker.jobs.shell import JobShell, watch_bids
from kalends.broker.jobs.splits import SplitRequests
from kalends.broker.metrics import Measures
from kalends.broker.planning.directory import Directory
from kalends.broker.planning.polling.views import poll_views
from kalends.broker.replica.archive import Archive
from kalends.broker.searches.availability_queries import AvailabilityQueries
from kalends.broker.searches.searches import Searches
from kalends.broker.series.hour_queries import HourQueries
from kalends.broker.series.series_changes import SeriesChanges
from kalends.broker.series.series_commands import SeriesCommands
from kalends.broker.series.series_reads import SeriesReads
from kalends.broker.series.series_tasks import SeriesTasks
from kalends.broker.series.shell import SeriesShell
from kalends.broker.service import BrokerService
from kalends.broker.sharing.deputies import Deputies, NamedBookings
from kalends.broker.sharing.guest_links import GuestLinks
from kalends.broker.sharing.share_commands import ShareCommands
from kalends.broker.sharing.shared_requests import SharedListings, SharedRequests
from kalends.broker.sites.reached_sites import ReachedSite, reached_sites
from kalends.broker.sites.roster import SiteRoster
from kalends.broker.sites.site_link import SiteLink
from kalends.broker.sites.site_passes import PassTerms, SitePasses
from kalends.contract import calls
from kalends.contract import messages as m
from kalends.contract.versions import KNOWN, own_version
from kalends.core.intervals import Moment
from kalends.core.requests import Request
from kalends.core.transport import Rates
from kalends.federation.bid_tally import BidTally
from kalends.rim.redirects import refused_redirects
from kalends.servers.database_address import check_folder, log_opening
from kalends.servers.registers import register_opener, replica_lock, replica_name
from kalends.servers.revocations import follow, stored_revocations
from kalends.servers.standby_watch import StandbyWatch, detail_of, watch_of
from kalends.serving.alarms import Alarms
from kalends.serving.auth.authenticator import asks_for_certificates, authenticator_of
from kalends.serving.auth.callers import Authenticator, Caller, split_listen
from kalends.serving.auth.peer_auth import server_proofs, trust_for
from kalends.serving.clock_watch import watch_clock
from kalends.serving.clocks import Clock, MomentClock, moment
from kalends.serving.configuration import BrokerConfiguration
from kalends.serving.http.application import build_application
from kalends.serving.http.dispatch import Handler
from kalends.serving.http.rate_limits import ServingLimits
from kalends.serving.http.reload import RULES, RulesChange
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

    Raises `InvalidInput` for keys, certificates and a store that cannot be used. Its start raises
    `Conflict` when the replica is served already, and what opening the store raises.
    """
    check_folder(configuration)
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
    watch_bid = watch_bids(metrics, lambda: _tally(service))
    watch_clock(metrics, lambda: bool(service.clock_watch.doubt))
    alarms = Alarms(logger, measures.alarms.inc)
    proofs = server_proofs(
        configuration.key, user=replica, issuer=configuration.name, now_s=clock.wall_s
    )

    def trust_of(site: ReachedSite) -> ssl.SSLContext | bool:
        where = f"broker.sites.{site.virtual or site.name}.ca"
        return trust_for(configuration.calls, site.ca, where, site.ca_text)

    def watch(site: str) -> None:
        measures.watch_site(site)
        watch_bid(site)

    trust = {site.virtual or site.name: trust_of(site) for site in sites}
    roster = SiteRoster(sites, directory, watch=watch, logger=logger)
    managers = ManagerCalls(
        {site.name: site.url for site in configuration.sites if site.members},
        proofs, trust, speaks, logger,
    )  # fmt: skip
    checks = ScriptChecks(configuration.agents, logger, alarms.tell)
    jobs = JobShell(
        directory,
        bid_ms_max=int(configuration.bid_s_max * 1_000),
        rates=Rates(
            [(each.sites, each.mb_per_s) for each in configuration.links],
            configuration.other_mb_per_s,
        ),
        lost_ms=int(configuration.lost_s * 1_000),
        run_script=checks.run,
        refer=managers.refer,
        logger=logger,
    )
    service = BrokerService(
        replica=replica,
        coords=_coords(configuration),
        open_store=register_opener(configuration, measures.committed, logger),
        directory=directory,
        open_per_user_max=configuration.limits.open_per_principal_max,
        wings=(roster, jobs, SeriesShell()),
        notices=configuration.notices,
        alarms=alarms,
        logger=logger,
        metrics=metrics,
        measures=measures,
        moment=moment,
    )
    standbys = watch_of(configuration, "broker", alarms.report)
    grants = PriorityGrants(configuration.priority)
    deputies = Deputies(configuration.deputies)
    searches = Searches(directory, logger)
    terms = PassTerms(configuration.name, configuration.key, configuration.pass_s)
    passes = SitePasses(terms, roster.reached, clock)

    archive = Archive(
        configuration.keep_settled_s,
        lambda: service.replica.current.store if service.replica.current else None, moment, logger,
    )  # fmt: skip

    async def serving(application: web.Application) -> AsyncIterator[None]:
        log_opening(configuration, logger)
        lock = replica_lock(configuration)
        try:
            await checks.start()
            async with aiohttp.ClientSession(trace_configs=[refused_redirects()]) as http:

                def connect(site: ReachedSite) -> SiteLink:
                    return SiteLink(
                        site.name,
                        site.url,
                        source=replica,
                        version=speaks,
                        http=http,
                        tls=trust_of(site),
                        proof=proofs(site.name),
                        user=service,
                        logger=logger,
                        jitter=random.random,
                    )

                roster.begin(connect, service)
                managers.begin(http)
                await service.start(roster.links)
                roster.run()
                running = [asyncio.create_task(archive.run())]
                if standbys is not None:
                    running.append(asyncio.create_task(standbys.run()))
                yield
                await service.stop(QUIET_S_MAX)
                for each in running:
                    each.cancel()
                await asyncio.gather(*running, roster.end(), return_exceptions=True)
        finally:
            await searches.close()
            await checks.stop()
            if lock is not None:
                lock.release()

    feeds = FeedDesk(service, clock.monotonic_s, configuration.url)
    links = GuestLinks(service, clock.monotonic_s, configuration.url)
    revoked = stored_revocations(configuration, service.alarms.report)
    application = build_application(
        role="broker",
        name=configuration.name,
        version=speaks,
        handlers=_handlers(
            configuration,
            version,
            service,
            clock,
            checks,
            grants,
            deputies,
            searches,
            passes,
            roster,
            standbys,
            feeds,
            links,
            managers.split,
        ),
        authenticator=authenticator_of(configuration, service.alarms.report, revoked),
        metrics=metrics,
        logger=logger,
        certified=asks_for_certificates(configuration),
        limits=ServingLimits(
            calls_per_s=configuration.limits.calls_per_s,
            calls_burst=configuration.limits.calls_burst,
        ),
        clock=clock,
        routes=(*service.inquiries.routes(), *feeds.routes(), *links.routes()),
        on_stop=service.events.stop,
        report=service.alarms.report,
        audit=configuration.audit_place,
    )

    def prepared(section: BrokerConfiguration, trusted: Authenticator) -> RulesChange:
        changed = list(reached_sites(section.sites))
        for site in changed:
            trust_of(site)
        granted = grants.prepared(section, trusted)

        def apply() -> None:
            granted.apply()
            deputies.configure(section.deputies)
            roster.configure(changed)
            service.heartbeat.wake()

        return RulesChange(granted.check, apply)

    application[RULES] = prepared
    application.cleanup_ctx.append(serving)
    follow(application, revoked)
    return application


def _jobs(service: BrokerService) -> JobParts:
    return service.coordinator.wing(JobParts)


def _tally(service: BrokerService) -> BidTally:
    """Return the tally, which is empty without a store: metrics are read then most of all."""
    return _jobs(service).bids.tally if service.replica.current is not None else BidTally()


def _handlers(
    configuration: BrokerConfiguration,
    version: str,
    service: BrokerService,
    clock: Clock,
    checks: ScriptChecks,
    grants: PriorityGrants,
    deputies: Deputies,
    searches: Searches,
    passes: SitePasses,
    roster: SiteRoster,
    standbys: StandbyWatch | None,
    feeds: FeedDesk,
    links: GuestLinks,
    ask_splits: Callable[[str, m.Split], Awaitable[m.Splits | None]],
) -> dict[str, Handler]:
    shared = SharedRequests(service)
    records = Records(
        service, clock, lambda record: _jobs(service).steps.parts_of(record), shared.right
    )
    scripts = Scripts(service, checks)
    availability = _availability(service, clock, searches)
    splits = SplitRequests(
        service.directory.virtual, availability.resources, ask_splits, service.logger
    )
    commands = RequestCommands(
        service, records, scripts, grants, step_of,
        lambda record: _jobs(service).steps.all_known(record),
        splits.split if service.directory.virtual else None,
    )  # fmt: skip
    jobs = JobCommands(service, records, scripts, commands)
    hours = HourQueries(service.directory, service.site_queries, clock, searches)
    series_reads, series_tasks = SeriesReads(service, hours), SeriesTasks()
    series = SeriesCommands(service, records, commands, hours, series_reads, series_tasks)
    series_changes = SeriesChanges(service, commands, series_reads, series_tasks)
    listings = SharedListings(service, records, shared)
    sharing = ShareCommands(service, records, commands, shared)
    named = NamedBookings(service, records, commands, deputies)
    addresses = NoticeCommands(service, service.notices.notifier)
    mailbox = AgentMailbox(service, records, scripts)

    sites = SiteCommands(service, roster)

    async def find(caller: Caller, body: calls.Find) -> calls.Found:
        split = await splits.split(caller, body.request)
        return await availability.find(caller, replace(body, request=split or body.request))

    def health(caller: Caller, body: calls.Nothing) -> calls.Health:
        trouble, replica = service.trouble(), service.replica
        return calls.Health(
            status="failing" if trouble else "draining" if service.drained_until else "ok",
            role="broker",
            name=configuration.name,
            version=version,
            detail=detail_of(standbys, trouble, service.clock_watch.doubt, checks.detail),
            until=service.drained_until if service.drained_until < DRAINED else 0,
            store="fails" if replica.current is None else "hangs" if replica.stuck_s else "works",
            stuck_s=round(replica.stuck_s, 1),
        )

    async def watch(caller: Caller, body: calls.Watch) -> calls.Events:
        user = caller.principal.user
        if body.id:
            user = (await records.of(caller, body.id)).record.user
        return await service.events.watch(user, body.id, body.after, body.wait_ms / 1000)

    def drain(caller: Caller, body: calls.Drain) -> calls.Health:
        body.check(service.moment().wall_s)
        service.drain((body.until or DRAINED) if body.on else 0)
        return health(caller, calls.Nothing())

    async def reconcile(caller: Caller, body: calls.Reconcile) -> calls.Reconciled:
        return await service.comparisons.reconcile(body.wait_ms / 1000, body.go_on)

    return {
        "health": health,
        "resources": availability.resources,
        "calendar": availability.calendar,
        "find": find,
        "book": commands.book,
        "book_for": named.book,
        "job_place": jobs.place,
        "job_place_elsewhere": jobs.place_elsewhere,
        "by_key": records.by_key,
        "list": listings.list,
        "ids": listings.ids,
        "show": listings.show,
        "why": records.why,
        "lock": commands.lock,
        "release": commands.release,
        "cancel": commands.cancel,
        "change": commands.change,
        "series_book": series.book,
        "series_find": hours.find,
        "series_show": series.show,
        "series_retry": series.retry,
        "series_cancel": series.cancel,
        "series_change": series_changes.change,
        "share": sharing.share,
        "unshare": sharing.unshare,
        "give": sharing.give,
        "accept": sharing.accept,
        "decline": sharing.decline,
        "link_add": lambda caller, body: links.add(caller, body, sharing),
        "link_revoke": lambda caller, body: links.revoke(caller, body, sharing),
        "watch": watch,
        "notify_list": addresses.list,
        "notify_add": addresses.add,
        "notify_remove": addresses.remove,
        "notify_test": addresses.test,
        "feed_list": feeds.list,
        "feed_add": feeds.add,
        "feed_revoke": feeds.revoke,
        "site_pass": passes.give,
        "agent_upload": scripts.upload,
        "agent_list": scripts.list,
        "agent_show": scripts.show,
        "agent_delete": scripts.delete,
        "agent_tell": mailbox.tell,
        "audit": records.audit,
        "bidders": availability.bidders,
        "sites_list": sites.list,
        "sites_announce": sites.announce,
        "sites_add": sites.add,
        "sites_remove": sites.remove,
        "drain": drain,
        "reconcile": reconcile,
    }


def _availability(service: BrokerService, clock: Clock, searches: Searches) -> AvailabilityQueries:
    def polls(request: Request, hidden: Collection[str]) -> tuple[calls.PollView, ...]:
        odds = service.coordinator.search.odds
        return poll_views(request, service.directory, odds, clock.wall_s(), hidden=hidden)

    return AvailabilityQueries(
        service.directory, service.site_queries, clock, searches, polls,
        lambda: _jobs(service).bids.experience,
        lambda: _jobs(service).bids.tally,
        lambda: _jobs(service).bids.candidates.learned,
        lambda ids: service.replica.read(lambda store: store.reservations_of(ids)),
    )  # fmt: skip


def _coords(configuration: BrokerConfiguration) -> tuple[str, ...]:
    """Where sites may inquire; nowhere when the port is still to be found and nobody was told."""
    if configuration.coords:
        return configuration.coords
    _, port = split_listen(configuration.listen)
    if not port and not configuration.url:
        return ()
    scheme = "https" if configuration.tls is not None else "http"
    return (configuration.url_at(f"{scheme}://{configuration.listen}"),)

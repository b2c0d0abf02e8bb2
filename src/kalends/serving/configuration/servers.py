"""A site, a broker and a virtual site, each as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, field

from kalends.backends.kinds import kind_named
from kalends.contract.messages import SiteName, Url
from kalends.core import identifiers, limits
from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import whole
from kalends.serving.auth.addresses import check_pattern
from kalends.serving.auth.callers import require_cover, require_loopback, split_listen
from kalends.serving.configuration.keys import (
    CallsConfiguration,
    KeyConfiguration,
    SiteCallsConfiguration,
    TlsConfiguration,
    check_key,
)
from kalends.serving.configuration.machines import (
    BatchSystemConfiguration,
    MachineConfiguration,
    check_machines,
)
from kalends.serving.configuration.members import (
    MemberConfiguration,
    NearConfiguration,
    PeerConfiguration,
    check_members,
    check_urls,
)
from kalends.serving.configuration.notices import (
    BrokerNotices,
    NoticesConfiguration,
    check_notices,
)
from kalends.serving.configuration.rules import (
    AccountConfiguration,
    ResourceConfiguration,
    RulesConfiguration,
    check_resources,
)
from kalends.serving.configuration.sections import (
    DurationOrNoneS,
    DurationS,
    Name,
    Section,
    StorePlace,
    check_at_most,
    check_unique,
)

PASS_S_MAX: Final = 86_400
"""Maximum time in which a user whose token was revoked can still reach a site."""

KEEP_SETTLED_S_MIN: Final = 30 * 86_400


class AuditLogConfiguration(Section, frozen=True, kw_only=True):
    """The audit log; see `kalends.serving.audit_log`.

    Without a `file` it is next to the store: ``sdsc.audit`` next to ``sdsc.sqlite``, and ``npaci.1.audit`` of
    the broker's replica 1. The newest `files_kept` files of `size_mb` each are kept.
    """

    enabled: bool = True
    file: Path | None = None
    size_mb: Annotated[float, Meta(ge=0.01, le=10_000)] = 16.0
    files_kept: Annotated[int, Meta(ge=1, le=1_000)] = 8


class SiteLimits(Section, frozen=True, kw_only=True):
    """Limits for each principal: claims held and promised at once, and the maximum life of a hold.

    `approval_s` is the time for the owner's approval.
    """

    held_per_principal_max: Annotated[int, Meta(ge=1)] = 64
    promised_per_principal_max: Annotated[int, Meta(ge=1)] = 256
    hold_s_max: DurationS = field(name="hold_max", default=DurationS(3_600))
    approval_s: DurationS = field(name="approval_within", default=DurationS(3 * 86_400))
    calls_per_s: Annotated[float, Meta(gt=0)] = 2_000.0
    calls_burst: Annotated[int, Meta(ge=1)] = 4_000


class BrokerLimits(Section, frozen=True, kw_only=True):
    """Limits for each principal: requests open at once, and calls."""

    open_per_principal_max: Annotated[int, Meta(ge=1)] = 256
    calls_per_s: Annotated[float, Meta(gt=0)] = 2_000.0
    calls_burst: Annotated[int, Meta(ge=1)] = 4_000


PersonName = Annotated[str, Meta(pattern=whole(identifiers.USER_PATTERN))]
"""A user, or a group of users."""


class GrantConfiguration(Section, frozen=True, kw_only=True):
    """The highest priority that `who` may give a request; the first match applies."""

    who: Annotated[str, Meta(pattern=whole(identifiers.WHO_PATTERN))]
    max: Annotated[int, Meta(ge=0, le=limits.PRIORITY_MAX)]


class DeputyConfiguration(Section, frozen=True, kw_only=True):
    """The users that `who` means may book in the name of `users`, who are in the groups named for each."""

    who: Annotated[str, Meta(pattern=whole(identifiers.WHO_PATTERN))]
    users: Annotated[
        dict[PersonName, tuple[PersonName, ...]], Meta(min_length=1, max_length=10_000)
    ]


class AgentsConfiguration(Section, frozen=True, kw_only=True):
    """Limits of users' scripts for one visit and for one user, and whether scripts may run.

    `held_max` is the number of slots that one visit may hold; `cpu_s_per_minute` the processor time of all
    runs of one user. `language_only` runs scripts inside the server, without the sandbox: for development,
    on hosts that have no seccomp, and never for scripts of people you do not trust.
    """

    enabled: bool = True
    language_only: bool = False
    held_max: Annotated[int, Meta(ge=1, le=limits.CHOICES_MAX)] = 16
    steps_max: Annotated[int, Meta(ge=1_000, le=2_000_000)] = 2_000_000
    cpu_s_max: Annotated[float, Meta(gt=0, le=0.5)] = 0.5
    wall_s_max: Annotated[float, Meta(gt=0, le=5.0)] = 5.0
    memory_mb_max: Annotated[int, Meta(ge=16, le=96)] = 96
    cpu_s_per_minute: Annotated[float, Meta(gt=0)] = 10.0
    runs_kept_max: Annotated[int, Meta(ge=0, le=10_000_000)] = 20_000
    """Records of runs kept for `kalends agent replay`; the oldest are removed first."""
    runs_kept_per_user_max: Annotated[int, Meta(ge=1, le=10_000_000)] = 2_000
    runs_kept_mb: Annotated[float, Meta(gt=0, le=1_000_000)] = 512.0
    """Maximum size of all records together."""


class ListeningConfiguration(Section, frozen=True, kw_only=True):
    """The common part of all servers. `url` is its address for others; "" means `listen`.

    Without `tls` only this machine may reach it, unless the owner sets `plain_http`: a proxy in front of it
    has the certificate, or the network between is trusted. `revoked` is the file of revoked tokens and keys;
    with a database as store, they are in that.
    """

    name: SiteName
    listen: str
    url: Url = ""
    keys: tuple[KeyConfiguration, ...] = ()
    revoked: Path | None = None
    tls: TlsConfiguration | None = None
    calls: CallsConfiguration = CallsConfiguration()
    plain_http: bool = False
    audit_log: AuditLogConfiguration = AuditLogConfiguration()

    @property
    def audit_file(self) -> Path | None:
        return (self.audit_log.file or self._usual_audit_file) if self.audit_log.enabled else None

    @property
    def audit_place(self) -> tuple[Path | None, int, int]:
        """The place of the log, the maximum size of a file in bytes, and the number kept."""
        size_bytes = int(self.audit_log.size_mb * 1_048_576)
        return self.audit_file, size_bytes, self.audit_log.files_kept

    @property
    def _usual_audit_file(self) -> Path | None:
        return None

    def url_at(self, listening: str) -> str:
        """Return this server's address for others: `url`, or the address at which it listens."""
        return self.url or listening


class _StoringConfiguration(ListeningConfiguration, frozen=True, kw_only=True):
    """The common part of servers with a store: a file, or the URL of a PostgreSQL database.

    With a URL, what a server keeps on its own host is in `folder`, or, if there is none, next to the
    configuration.
    """

    store: StorePlace
    folder: Path | None = None

    @property
    def store_file(self) -> Path:
        """The file of the store; with a URL, the one that would stand for it among this host's files."""
        if self.store.path is not None:
            return self.store.path
        return (self.folder or self.store.folder) / f"{self.name}.sqlite"


class SiteConfiguration(_StoringConfiguration, frozen=True, kw_only=True):
    listen: str = "127.0.0.1:7101"
    calls: SiteCallsConfiguration = SiteCallsConfiguration()
    resources: Annotated[
        tuple[ResourceConfiguration, ...], Meta(max_length=limits.RESOURCES_MAX)
    ] = ()
    defaults: RulesConfiguration = RulesConfiguration()
    limits: SiteLimits = SiteLimits()
    agents: AgentsConfiguration = AgentsConfiguration()
    machines: Annotated[tuple[MachineConfiguration, ...], Meta(max_length=64)] = ()
    notices: NoticesConfiguration | None = None
    batch_systems: Annotated[tuple[BatchSystemConfiguration, ...], Meta(max_length=16)] = ()
    near: Annotated[tuple[NearConfiguration, ...], Meta(max_length=64)] = ()
    accounts: Annotated[tuple[AccountConfiguration, ...], Meta(max_length=10_000)] = ()
    guard_counted: bool = False
    """Whether the database, too, counts what is booked of resources of several units."""

    @property
    def _usual_audit_file(self) -> Path | None:
        return self.store_file.with_suffix(".audit")

    def has_ledger(self, resource: ResourceConfiguration) -> bool:
        """Return whether jobs on `resource` are paid from accounts; otherwise its tariff is only counted."""
        return bool(self.accounts or resource.prices or self.defaults.prices)

    def advisory_system(self, resource: ResourceConfiguration) -> BatchSystemConfiguration | None:
        """Return the batch system that alone decides about this resource, without reservations.

        Either it makes no reservations, or the machine is its own queue, without nodes or licences.
        """
        system = next(
            (each for each in self.batch_systems if each.name == resource.batch_system), None
        )
        if system is None or (kind := kind_named(system.kind)).queue is None:
            return None
        takes_jobs = any(each.resource == resource.name for each in self.machines)
        is_queue = takes_jobs and not (resource.nodes or resource.licences)
        return system if kind.adapter is None or is_queue else None


class LinkConfiguration(Section, frozen=True, kw_only=True):
    """The rate between two sites, in megabytes a second: for input of jobs, or for their parts."""

    sites: tuple[Name, Name]
    mb_per_s: Annotated[float, Meta(gt=0, le=1e9)]


class BrokerConfiguration(_StoringConfiguration, frozen=True, kw_only=True):
    """The configuration of a broker; `replica` names this replica, `coords` are the addresses of all.

    `key` is the private key file with which the broker signs its own tokens for sites.
    """

    listen: str = "127.0.0.1:7100"
    replica: Name = "1"

    @property
    def _usual_audit_file(self) -> Path | None:
        """Each replica has its own log, even with a shared store."""
        return self.store_file.with_suffix(f".{self.replica}.audit")

    sites: tuple[PeerConfiguration, ...] = ()
    key: Path | None = None
    coords: tuple[Url, ...] = ()
    limits: BrokerLimits = BrokerLimits()
    pass_s: DurationS = field(name="pass_life", default=DurationS(3_600))
    """Life of a user's pass for a site; at most that of the user's token."""
    priority: Annotated[tuple[GrantConfiguration, ...], Meta(max_length=1_000)] = ()
    deputies: Annotated[tuple[DeputyConfiguration, ...], Meta(max_length=1_000)] = ()
    bid_s_max: Annotated[float, Meta(ge=0.1, le=30.0)] = 1.0
    """Maximum wait for the bids of sites for a job; less if many others could be asked."""
    links: Annotated[tuple[LinkConfiguration, ...], Meta(max_length=10_000)] = ()
    other_mb_per_s: Annotated[float, Meta(ge=0, le=1e9)] = 0.0
    """Rate between sites without a link here; 0: transport between them is not counted."""
    lost_s: Annotated[float, Meta(ge=0, le=30 * 86_400)] = 900.0
    """Time without contact after which a site is lost: waiting jobs that start at most once go elsewhere.

    0: no site is ever lost.
    """
    keep_settled_s: DurationOrNoneS = field(name="keep_settled", default=DurationOrNoneS(0))
    """Time after which ended requests go to the archive, or are put aside in the database; 0s: never."""
    agents: AgentsConfiguration = AgentsConfiguration()
    """Checks of uploaded scripts; each site decides how much they may hold."""
    notices: BrokerNotices | None = None


class VirtualConfiguration(ListeningConfiguration, frozen=True, kw_only=True):
    """The configuration of a virtual site: the name of a group of sites, and the way to them.

    `keys` are those of the brokers that may ask which members to ask. It stores nothing, and has an audit log
    only if one is named.
    """

    listen: str = "127.0.0.1:7200"
    members: Annotated[
        tuple[MemberConfiguration, ...], Meta(min_length=1, max_length=limits.MEMBERS_MAX)
    ]
    links: Annotated[tuple[LinkConfiguration, ...], Meta(max_length=10_000)] = ()
    """What jobs that are split over members may exchange; members without a link exchange nothing."""


def check_site(site: SiteConfiguration) -> None:
    _check_server(site, "site")
    _check_place(site, "site")
    if site.guard_counted and not site.store.url:
        raise InvalidInput(
            "a file cannot guard what is booked",
            where="site.guard_counted",
            remedy="leave it out; it is for a store on PostgreSQL",
        )
    for index, pattern in enumerate(site.calls.to):
        check_pattern(pattern, f"site.calls.to[{index}]")
    check_at_most(site.limits.hold_s_max, limits.HOLD_MS_MAX // 1000, "site.limits.hold_max")
    check_at_most(site.limits.approval_s, limits.APPROVAL_S_MAX, "site.limits.approval_within")
    check_resources(site.resources, site.defaults)
    check_machines(site.machines, site.resources)
    if site.notices is not None:
        check_notices(site.notices, "site.notices")
    check_unique([each.name for each in site.near], "site.near")


def check_broker(broker: BrokerConfiguration) -> None:
    _check_server(broker, "broker")
    if 0 < broker.keep_settled_s < KEEP_SETTLED_S_MIN:
        raise InvalidInput(
            "sites restored from a backup may still ask about requests of that time",
            where="broker.keep_settled",
            remedy=f"write at least {format_duration(KEEP_SETTLED_S_MIN)}, or 0s for ever",
        )
    _check_place(broker, "broker")
    check_at_most(broker.pass_s, PASS_S_MAX, "broker.pass_life")
    if broker.notices is not None:
        check_notices(broker.notices, "broker.notices")
    check_unique([site.name for site in broker.sites], "broker.sites")
    _check_pairs(broker.links, "broker.links")
    check_members(broker.sites)
    check_urls(broker.sites, "broker.sites")


def _check_place(server: _StoringConfiguration, section: str) -> None:
    if server.revoked is not None and server.store.url:
        raise InvalidInput(
            "what is revoked is in the database, where all processes of the server follow it",
            where=f"{section}.revoked",
            remedy="leave it out, and revoke again what it lists: kalends admin revoke CONFIGURATION.toml",
        )
    if server.folder is not None and not server.store.url:
        raise InvalidInput(
            f"what a {section} keeps next to its store is in the directory of that file",
            where=f"{section}.folder",
            remedy="leave it out; it is for a store on PostgreSQL",
        )


def check_virtual(virtual: VirtualConfiguration) -> None:
    _check_server(virtual, "virtual")
    check_unique([each.name for each in virtual.members], "virtual.members")
    _check_pairs(virtual.links, "virtual.links")
    _check_known(virtual)
    _check_not_itself(virtual)
    _check_lends_nothing(virtual)
    check_urls(virtual.members, "virtual.members")


def _check_server(server: ListeningConfiguration, section: str) -> None:
    try:
        split_listen(server.listen)
        if not server.keys:
            require_loopback(server.listen)
        if server.tls is None and not server.plain_http:
            require_cover(server.listen)
    except InvalidInput as error:
        raise InvalidInput(error.detail, where=f"{section}.listen", remedy=error.remedy) from error
    for index, key in enumerate(server.keys):
        check_key(key, f"{section}.keys[{index}]")
        if key.hosts and not (server.tls and server.tls.clients):
            raise InvalidInput(
                "the server asks callers for no certificate",
                where=f"{section}.keys[{index}].hosts",
                remedy=f"write {section}.tls.clients, the authority that signs certificates of servers",
            )
    if bool(server.calls.certificate) != bool(server.calls.key):
        raise InvalidInput(
            "a certificate needs its key, and a key its certificate",
            where=f"{section}.calls",
            remedy="write both, or neither",
        )
    if server.revoked is not None and not server.keys:
        raise InvalidInput("without keys there is nothing to revoke", where=f"{section}.revoked")


def _check_pairs(links: Sequence[LinkConfiguration], where: str) -> None:
    check_unique([" and ".join(sorted(each.sites)) for each in links], where)
    for index, link in enumerate(links):
        if link.sites[0] == link.sites[1]:
            raise InvalidInput(
                f"{link.sites[0]!r} has no link to itself",
                where=f"{where}[{index}].sites",
                remedy="name two sites; inside a site transport is not counted",
            )


def _check_known(virtual: VirtualConfiguration) -> None:
    members = {each.name for each in virtual.members}
    for index, link in enumerate(virtual.links):
        for name in link.sites:
            if name not in members:
                raise InvalidInput(
                    f"{virtual.name} has no member {name!r}",
                    where=f"virtual.links[{index}].sites",
                    remedy=f"its members are {', '.join(sorted(members))}",
                )


def _check_not_itself(virtual: VirtualConfiguration) -> None:
    for index, member in enumerate(virtual.members):
        if member.name == virtual.name:
            raise InvalidInput(
                f"{member.name!r} cannot be a member of itself",
                where=f"virtual.members[{index}].name",
                remedy="name another site",
            )


def _check_lends_nothing(virtual: VirtualConfiguration) -> None:
    if virtual.calls.certificate and not (virtual.tls and virtual.tls.clients):
        raise InvalidInput(
            "this certificate would let every caller reach the members",
            where="virtual.calls.certificate",
            remedy="write virtual.tls.clients, the authority that signs certificates of servers",
        )

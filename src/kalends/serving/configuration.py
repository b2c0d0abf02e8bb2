"""The configuration of a server as typed values, and the one parser of its TOML text.

Parsing is pure: no file is opened here, and relative paths are taken from the directory of the
configuration. Field names with a unit (`grain_s`) are written without it in the file (``grain =
"15m"``), because there a duration is a text that brings its unit along. An error names the path of
what is wrong; for an unknown field also the one that was probably meant.
"""

from __future__ import annotations

import difflib
import re
import tomllib
import types
import typing
import zoneinfo
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, field

from kalends.contract.messages import SiteName, Units, Url, Way
from kalends.core import identifiers, limits
from kalends.core.conversion import detail_and_path, remedy_at
from kalends.core.durations import format_duration, parse_duration
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import whole
from kalends.core.resources import AttributeValue
from kalends.serving.auth.addresses import check_fetched, check_pattern
from kalends.serving.auth.callers import (
    is_loopback,
    require_cover,
    require_loopback,
    split_listen,
)
from kalends.serving.http.bodies import normalize

CONFIGURATION_BYTES_MAX: Final = 4 * 1024 * 1024
"""A site with ten thousand resources stays below it."""

KEEP_SETTLED_S_MIN: Final = 30 * 86_400

Name = Annotated[str, Meta(pattern=whole(identifiers.NAME_PATTERN))]
Queue = Annotated[str, Meta(pattern=whole(identifiers.QUEUE_PATTERN))]
QueueIfAny = Annotated[str, Meta(pattern=whole(identifiers.perhaps(identifiers.QUEUE_PATTERN)))]
ClockTime = Annotated[str, Meta(pattern=whole(identifiers.CLOCK_PATTERN))]
AttributeName = Annotated[str, Meta(pattern=whole(identifiers.ATTRIBUTE_PATTERN))]
NameIfAny = Annotated[str, Meta(pattern=whole(identifiers.perhaps(identifiers.NAME_PATTERN)))]
ClaimName = Annotated[str, Meta(min_length=1, max_length=128)]
TokenScope = Literal["use", "audit", "admin", "broker", "near"]
VouchedPattern = Annotated[str, Meta(min_length=1, max_length=128)]
Text = Annotated[str, Meta(max_length=1_000)]
MailAddress = Annotated[str, Meta(pattern=whole(identifiers.MAIL_PATTERN))]


MAIL_ADDRESS: Final = re.compile(identifiers.MAIL_PATTERN)


class DurationS(int):
    """Seconds; in the file a text with a unit, such as ``"15m"``."""


class DurationOrNoneS(DurationS):
    """Seconds; in the file also ``"0s"``, for what is not to be done."""


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything in the file: unknown fields are refused."""


class HoursConfiguration(_Section, frozen=True, kw_only=True):
    """Times that come again: `rrule` (RFC 5545) gives the days, each from `start` for `duration_s`.

    In the time zone `zone`, or the resource's.
    """

    rrule: Text
    start: ClockTime
    duration_s: DurationS = field(name="duration")
    zone: str = ""


class AccessConfiguration(_Section, frozen=True, kw_only=True):
    """One access rule: what `who` may do, up to how many units, and when.

    `who` is ``everyone``, ``user:NAME`` or ``group:NAME``. `may` each step includes those before it:
    see, hold, lock; "nothing" refuses. `units_max` 0 is the whole capacity; no `hours`: at any time.
    """

    name: str = ""
    who: Annotated[str, Meta(pattern=whole(identifiers.WHO_PATTERN))]
    may: Literal["nothing", "see", "hold", "lock"]
    units_max: Annotated[int, Meta(ge=0, le=limits.UNITS_MAX)] = 0
    hours: tuple[HoursConfiguration, ...] = ()


class LimitConfiguration(_Section, frozen=True, kw_only=True):
    """The maximum usage of `who`, each or `together`; see `kalends.calendars.Limit`.

    Of the rules that name the same limit and match, the first holds. `week_share` is a fraction of all
    units of a calendar week, `week_hours` a number of unit-hours.
    """

    name: str = ""
    who: Annotated[str, Meta(pattern=whole(identifiers.WHO_PATTERN))]
    together: bool = False
    ahead_s: DurationS = field(name="ahead", default=DurationS(0))
    lead_s: DurationS = field(name="lead", default=DurationS(0))
    longest_s: DurationS = field(name="longest", default=DurationS(0))
    held_max: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    week_share: Annotated[float, Meta(ge=0, le=1)] = 0.0
    week_hours: Annotated[float, Meta(ge=0, le=168.0 * limits.UNITS_MAX)] = 0.0


class BlackoutConfiguration(_Section, frozen=True, kw_only=True):
    """A time closed to new bookings: once, from `begins` to `ends`, or recurring, as `hours`.

    `begins` and `ends` are on the clocks of `zone`, or the resource's: ``2026-12-24`` or
    ``2026-12-24 18:00``.
    """

    name: str = ""
    reason: Annotated[str, Meta(max_length=200)] = ""
    begins: Annotated[str, Meta(max_length=32)] = ""
    ends: Annotated[str, Meta(max_length=32)] = ""
    zone: str = ""
    hours: tuple[HoursConfiguration, ...] = ()


class PriorityConfiguration(_Section, frozen=True, kw_only=True):
    """A head start: `who` counts as having asked `head_start_s` earlier; the first match applies."""

    who: Annotated[str, Meta(pattern=whole(identifiers.WHO_PATTERN))]
    head_start_s: DurationS = field(name="head_start")


RulesMax = Meta(max_length=limits.RULES_MAX // 4)


class RulesConfiguration(_Section, frozen=True, kw_only=True):
    """Rules for every resource of a site, after the resource's own.

    A resource's own rule takes the place of the default one with the same name.
    """

    limits: Annotated[tuple[LimitConfiguration, ...], RulesMax] = ()
    blackouts: Annotated[tuple[BlackoutConfiguration, ...], RulesMax] = ()
    priority: Annotated[tuple[PriorityConfiguration, ...], RulesMax] = ()


class ResourceConfiguration(RulesConfiguration, frozen=True, kw_only=True):
    """One resource; `name` is local, prefixed with the site's name outside.

    No `hours`: always open. No `access`: everyone may book it.
    """

    name: Name
    capacity: Units = 1
    grain_s: DurationS = field(name="grain", default=DurationS(60))
    horizon_s: DurationS = field(name="horizon", default=DurationS(366 * 86_400))
    zone: str = "UTC"
    description: Text = ""
    attributes: Annotated[
        dict[AttributeName, AttributeValue], Meta(max_length=limits.ATTRIBUTES_MAX)
    ] = {}
    hours: tuple[HoursConfiguration, ...] = ()
    access: tuple[AccessConfiguration, ...] = ()
    nodes: Annotated[str, Meta(max_length=10_000)] = ""
    """The nodes of a batch system that its units are, as ``n[1-64]``; "": none stands behind it."""
    cores_each: Annotated[int, Meta(ge=0, le=limits.UNITS_MAX)] = 0
    """The units are cores of these nodes, so many of each; 0: whole nodes."""
    licences: Annotated[
        str, Meta(pattern=whole(identifiers.perhaps(identifiers.LICENCE_PATTERN)))
    ] = ""
    """The units are licences of this name in a batch system."""
    batch_system: str = ""
    """Which, where the site has several."""


class BatchSystemConfiguration(_Section, frozen=True, kw_only=True):
    """A batch system behind resources of the site; `users` says what each of our users is called there.

    `configuration` is Slurm's own, or, of the others, a shell file that is read before each command, such as
    the ``settings.sh`` of a cell of Grid Engine; without one the commands find theirs themselves.
    """

    name: Name
    kind: Literal["slurm", "gridengine", "oar", "psij"] = "slurm"
    configuration: Path | None = None
    queue: QueueIfAny = ""
    """Of Grid Engine: the one whose hosts are the nodes, ``all.q`` by default. Of PSI/J: for all jobs."""
    parallel_environment: Queue = "kalends"
    """Of Grid Engine: one of that queue which fills up its hosts."""
    users: Annotated[dict[str, str], Meta(max_length=100_000)] = {}
    answer_s_max: Annotated[float, Meta(gt=0, le=limits.VOTE_MS_MAX / 1000)] = 8.0
    """What has not been answered by then is taken to have no answer."""
    look_every_s: DurationS = field(name="look_every", default=DurationS(10))
    """What it has is compared so often with what was promised."""
    warn_s: DurationOrNoneS = field(name="warn", default=DurationOrNoneS(60))
    """Jobs in a slot are asked to end (SIGTERM) so long before its end; 0s: they are not."""
    kill_s: DurationOrNoneS = field(name="kill", default=DurationOrNoneS(10))
    """Jobs in a slot are killed so long before its end; 0s: that is left to the batch system."""
    repair_s: DurationS = field(name="repair", default=DurationS(86_400))
    """A node that is down counts as taken for so long."""
    give_up_after_s: DurationS = field(name="give_up_after", default=DurationS(1_800))
    """What it cannot keep is moved to another time after so long, or cancelled."""
    executor: QueueIfAny = ""
    """Of PSI/J: the name of its executor."""
    project: QueueIfAny = ""
    """Of PSI/J: all jobs are charged to it there."""
    attributes: Annotated[dict[str, AttributeValue], Meta(max_length=32)] = {}
    """Of PSI/J: custom attributes of all jobs, as ``"pbs.l"``."""
    environment: Annotated[dict[str, str], Meta(max_length=32)] = {}
    """Where jobs are handed over: what the system's commands need besides a usual environment."""
    usage_every_s: DurationS = field(name="usage_every", default=DurationS(600))
    """What jobs used in slots is read from its accounting so often."""


class ClaimsConfiguration(_Section, frozen=True, kw_only=True):
    """Where tokens of an issuer say who, of which groups and what for (`kalends.serving.auth.claim_names`).

    `audiences` are what they may be for, instead of this server's name. `scopes` are patterns of their
    scopes for each of ours: ``{ use = ["compute.*"] }``, or ``["*"]`` for every token.
    """

    user: ClaimName = "sub"
    groups: ClaimName = "groups"
    scope: ClaimName = "scope"
    audiences: Annotated[tuple[Text, ...], Meta(max_length=16)] = ()
    scoped: bool = False
    """The claim `user` brings the realm along, as ``ada@kit.edu``; any other realm is refused."""
    scopes: dict[TokenScope, Annotated[tuple[Text, ...], Meta(max_length=64)]] = {}


class KeyConfiguration(_Section, frozen=True, kw_only=True):
    """Keys whose tokens are believed, for this issuer ("" any) and these scopes.

    They are in a `file` (PEM or JWKS), at the address `jwks`, or where the OpenID provider `openid` says.
    `ca` is the authority that signed that server's certificate, where the system does not know it. The
    users of keys with a `realm` are called ``ada@realm`` here; without one, by their plain names.

    `users` and `groups` are those for whom it may vouch, by name or by a pattern such as ``*@campus-b``.
    `brokers` are the names of brokers that may use it at a site; without any, a name belongs to the key
    that came with it first. With `hosts`, its tokens count only from who shows a certificate for one of
    these names. `client` is what a program of ours calls itself at the provider. A token that is good for
    more than `longest_s` is refused.
    """

    file: Path | None = None
    jwks: Url = ""
    openid: Url = ""
    client: Annotated[str, Meta(max_length=200)] = ""
    ca: Path | None = None
    issuer: Text = ""
    realm: NameIfAny = ""
    scopes: tuple[TokenScope, ...] = ("use",)
    users: Annotated[tuple[VouchedPattern, ...], Meta(max_length=10_000)] = ("*",)
    groups: Annotated[tuple[VouchedPattern, ...], Meta(max_length=10_000)] = ("*",)
    brokers: Annotated[tuple[Name, ...], Meta(max_length=1_000)] = ()
    hosts: Annotated[tuple[Text, ...], Meta(max_length=64)] = ()
    longest_s: DurationS = field(name="longest", default=DurationS(366 * 86_400))
    claims: ClaimsConfiguration = ClaimsConfiguration()


class TlsConfiguration(_Section, frozen=True, kw_only=True):
    """The certificate of a server. `clients` is the authority that signs those of servers that call it."""

    certificate: Path
    key: Path
    clients: Path | None = None
    """Other servers must show a certificate of this authority; users need none."""


class CallsConfiguration(_Section, frozen=True, kw_only=True):
    """How a server calls others: with which certificate, and believing whose.

    `ca` is the authority that signed theirs, where nothing else is said and the system does not know it.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


class SiteCallsConfiguration(CallsConfiguration, frozen=True, kw_only=True):
    """A site also calls at addresses that brokers name: only at those like one of `to`, if there are any."""

    to: Annotated[tuple[Url, ...], Meta(max_length=1_000)] = ()


class LogConfiguration(_Section, frozen=True, kw_only=True):
    level: Literal["debug", "info", "warning", "error"] = "info"
    form: Literal["auto", "json", "human"] = "auto"


class AuditLogConfiguration(_Section, frozen=True, kw_only=True):
    """The file that says who asked for what and was answered what; see `kalends.serving.audit_log`.

    Without a `file` it lies beside the store: ``sdsc.audit`` beside ``sdsc.sqlite``, and ``npaci.1.audit`` of
    the broker's replica 1. The newest `files_kept` files of `size_mb` each are kept.
    """

    enabled: bool = True
    file: Path | None = None
    size_mb: Annotated[float, Meta(ge=0.01, le=10_000)] = 16.0
    files_kept: Annotated[int, Meta(ge=1, le=1_000)] = 8


class SiteLimits(_Section, frozen=True, kw_only=True):
    """Per principal: claims held and promised at once, and the longest a hold may live."""

    held_per_principal_max: Annotated[int, Meta(ge=1)] = 64
    promised_per_principal_max: Annotated[int, Meta(ge=1)] = 64
    hold_s_max: DurationS = field(name="hold_max", default=DurationS(3_600))
    calls_per_s: Annotated[float, Meta(gt=0)] = 2_000.0
    calls_burst: Annotated[int, Meta(ge=1)] = 4_000


class BrokerLimits(_Section, frozen=True, kw_only=True):
    """Per principal: requests open at once, and calls."""

    open_per_principal_max: Annotated[int, Meta(ge=1)] = 256
    calls_per_s: Annotated[float, Meta(gt=0)] = 2_000.0
    calls_burst: Annotated[int, Meta(ge=1)] = 4_000


class GrantConfiguration(_Section, frozen=True, kw_only=True):
    """The highest priority that `who` may give a request; the first that matches holds."""

    who: Annotated[str, Meta(pattern=whole(identifiers.WHO_PATTERN))]
    max: Annotated[int, Meta(ge=0, le=limits.PRIORITY_MAX)]


class MemberConfiguration(_Section, frozen=True, kw_only=True):
    """A member of a virtual site; `ca` is the file of the authority that signed its certificate."""

    name: SiteName
    url: Url
    ca: Path | None = None


class PeerConfiguration(MemberConfiguration, frozen=True, kw_only=True):
    """A site that a broker books at, or a virtual site, at whose `members` it books.

    A member of a member is written with all names on the way: ``campus/psc``.
    """

    members: Annotated[tuple[Way, ...], Meta(max_length=limits.MEMBERS_MAX)] = ()


class ListeningConfiguration(_Section, frozen=True, kw_only=True):
    """The common part of all servers. `url` is its address for others; "" means `listen`.

    Without `tls` only this machine may reach it, unless the owner says `plain_http`: a proxy before it has
    the certificate, or the network between is trusted. `revoked` is the file of tokens and keys that are not
    believed any more.
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
        """The audit log, or None where there is none."""
        return (self.audit_log.file or self._usual_audit_file) if self.audit_log.enabled else None

    @property
    def audit_place(self) -> tuple[Path | None, int, int]:
        """Where the log is, the bytes of one file of it, and how many are kept."""
        size_bytes = int(self.audit_log.size_mb * 1_048_576)
        return self.audit_file, size_bytes, self.audit_log.files_kept

    @property
    def _usual_audit_file(self) -> Path | None:
        return None

    def url_at(self, listening: str) -> str:
        """Return this server's address for others: `url`, or the address at which it listens."""
        return self.url or listening


class _ServerConfiguration(ListeningConfiguration, frozen=True, kw_only=True):
    """The common part of site and broker."""

    store: Path

    @property
    def _usual_audit_file(self) -> Path | None:
        return self.store.with_suffix(".audit")


class NearConfiguration(_Section, frozen=True, kw_only=True):
    """A near site that this one passes agents' visits on to, for those who ask both.

    Its owner must list the key that `key` is the private half of, with the scope ``near``; without
    `key` the near site must be open (loopback).
    """

    name: SiteName
    url: Url
    key: Path | None = None
    ca: Path | None = None


class AgentsConfiguration(_Section, frozen=True, kw_only=True):
    """Whether users' scripts may run here, and what one of them, and one user, may use.

    `held_max` is the number of slots that one visit may hold; `cpu_s_per_minute` what the runs of one
    user may take together. `language_only` runs scripts inside the server, without the sandbox: for
    development, on hosts that have no seccomp, and never for scripts of people you do not trust.
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
    """Records of runs that are kept for `kalends agent replay`; the oldest go first."""
    runs_kept_per_user_max: Annotated[int, Meta(ge=1, le=10_000_000)] = 2_000
    runs_kept_mb: Annotated[float, Meta(gt=0, le=1_000_000)] = 512.0
    """What all of them may take together."""


class JobLimitsConfiguration(_Section, frozen=True, kw_only=True):
    """What one user, or one project, may have on a machine; 0: as much as they like.

    `jobs` are those that have not ended, `running` those that may run at once, on `nodes` nodes, each for
    at most `longest_s`; `node_hours` are used in one period.
    """

    jobs: Annotated[int, Meta(ge=0, le=limits.JOBS_MAX)] = 0
    running: Annotated[int, Meta(ge=0, le=limits.JOBS_MAX)] = 0
    nodes: Annotated[int, Meta(ge=0, le=limits.UNITS_MAX)] = 0
    longest_s: DurationS = field(name="longest", default=DurationS(0))
    node_hours: Annotated[float, Meta(ge=0, le=1e12)] = 0.0


class FairShareConfiguration(_Section, frozen=True, kw_only=True):
    """Between whom the policy ``fair-share`` shares a machine out; who is not named has one share."""

    by: Literal["user", "project"] = "user"
    shares: Annotated[
        dict[str, Annotated[int, Meta(ge=1, le=999_999)]], Meta(max_length=10_000)
    ] = {}


class MachineConfiguration(_Section, frozen=True, kw_only=True):
    """Jobs run on this host, as its own processes, on the units of `resource`.

    `shape` is the machine as `kalends.machines` knows it ("": any nodes will do). A node is `cores_each` of
    this host's cores, or a mere slot if that is 0. `directory` keeps records and output of jobs. Where the
    site runs as root, a job runs as the Unix user that `users` names for its user, else the one of the same
    name; elsewhere all run as the site's own user.

    Each job gets a control group of its own below `control_group` (cgroups(7), version 2), where the owner
    names one that the site may use. A job has at most so much memory and so many processes then; without
    control groups each of its processes has so much memory, and its Unix user so many processes.
    """

    resource: Name
    shape: Annotated[str, Meta(max_length=200)] = ""
    policy: Annotated[str, Meta(max_length=200)] = "easy"
    policy_ms_max: Annotated[int, Meta(ge=1, le=60_000)] = 1_000
    """For one decision of a policy of the owner's own: one that takes longer is put aside."""
    cores_each: Annotated[int, Meta(ge=0, le=4096)] = 0
    directory: Path | None = None
    classes: Annotated[dict[Name, int], Meta(max_length=32)] = msgspec.field(
        default_factory=lambda: {"low": 1, "normal": 2, "high": 3}
    )
    default_class: Name = "normal"
    user: JobLimitsConfiguration = JobLimitsConfiguration()
    project: JobLimitsConfiguration = JobLimitsConfiguration()
    members: Annotated[
        dict[
            Annotated[str, Meta(max_length=64)],
            tuple[Annotated[str, Meta(pattern=whole(identifiers.WHO_PATTERN))], ...],
        ],
        Meta(max_length=10_000),
    ] = {}
    """Who may have jobs counted for a project, and charged to it. Where any is named, there are no others."""
    period_s: DurationS = field(name="period", default=DurationS(30 * 86_400))
    fair_share: FairShareConfiguration = FairShareConfiguration()
    tariff: Annotated[dict[Name, Annotated[int, Meta(ge=0, le=10_000)]], Meta(max_length=32)] = {}
    """Credits for a node-hour, by priority class; nothing for those that are not named."""
    reserved_credits: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Credits for a node-hour that is reserved."""
    grace_s: DurationS = field(name="grace", default=DurationS(10))
    """Between asking a job to end and killing it."""
    clearing_s: DurationS = field(name="clearing", default=DurationS(5))
    """Within so long all of a killed job is gone, and its nodes are free: promised starts count on it."""
    attach_s: DurationS = field(name="attach", default=DurationS(600))
    """An interactive job to whose keys nobody has come this long after its start ends."""
    change_s_max: DurationS = field(name="change_max", default=DurationS(60))
    """How long a program may take to answer when it is asked to change its size."""
    users: Annotated[dict[str, str], Meta(max_length=100_000)] = {}
    memory_mb_max: Annotated[int, Meta(ge=0)] = 0
    processes_max: Annotated[int, Meta(ge=0)] = 0
    output_mb_max: Annotated[int, Meta(ge=0)] = 1_024
    may_delay: Literal["none", "waiting-room", "all"] = "waiting-room"
    """Which waiting jobs a new reservation may delay: none, those without a planned start, or all."""
    bids: bool = True
    """Whether brokers may ask for places in its queue, for jobs whose users name no machine."""
    no_show_s: DurationS = field(name="no_show", default=DurationS(0))
    """The nodes of a reservation go back to the queue when nobody has used them for so long; 0: never."""
    keep_output_s: DurationS = field(name="keep_output", default=DurationS(30 * 86_400))
    """What jobs have written is kept for so long after their end, where their users named no file."""
    control_group: Path | None = None
    address: Annotated[
        str, Meta(pattern=whole(identifiers.perhaps(identifiers.HOST_NAME_PATTERN)))
    ] = ""
    """What parts of jobs in step on other machines call this host; "": its own name."""
    batch_system: str = ""
    """Jobs run through this one, and not on this host, on `nodes` that its owner has handed over.

    It is left out for a resource that a batch system stands behind: there they run in reservations.
    """
    nodes: Annotated[str, Meta(max_length=10_000)] = ""
    """One for each unit of the resource, as ``n[1-8]``."""
    allocation_options: Annotated[
        tuple[Annotated[str, Meta(pattern=whole(identifiers.OPTION_PATTERN))], ...],
        Meta(max_length=32),
    ] = ()
    """What else the batch system is told for each job, as ``--partition=kalends``."""


class NoticesConfiguration(_Section, frozen=True, kw_only=True):
    """How users are told what becomes of their jobs: by mail, by webhooks, or both.

    Mail goes through the relay `smtp`, `from` one address. A user's is in `addresses`, or what `address`
    makes of their name; another one they may name only in one of `mail_domains`. Webhooks go to
    `webhook_hosts` and nowhere else, signed with the secret in the file `webhook_key`. `login` is a file with
    the name and the password for the relay, in two lines; `ca` the authority that has signed its certificate
    and those of `webhook_hosts`, where the system does not know it.
    """

    smtp: Annotated[str, Meta(pattern=whole(identifiers.perhaps(identifiers.PORT_PATTERN)))] = ""
    encryption: Literal["starttls", "tls", "none"] = "starttls"
    sender: Annotated[str, Meta(pattern=whole(identifiers.perhaps(identifiers.MAIL_PATTERN)))] = (
        field(name="from", default="")
    )
    login: Path | None = None
    ca: Path | None = None
    address: Annotated[str, Meta(max_length=256)] = ""
    """With ``{user}`` for the user's name."""
    addresses: Annotated[dict[str, MailAddress], Meta(max_length=100_000)] = {}
    mail_domains: Annotated[
        tuple[Annotated[str, Meta(pattern=whole(identifiers.DOMAIN_PATTERN))], ...],
        Meta(max_length=1_000),
    ] = ()
    webhook_hosts: Annotated[
        tuple[Annotated[str, Meta(pattern=whole(identifiers.HOST_PATTERN))], ...],
        Meta(max_length=64),
    ] = ()
    webhook_key: Path | None = None
    hourly_max: Annotated[int, Meta(ge=1, le=10_000)] = 60
    """Notices to one user in an hour."""
    wait_s: DurationS = field(name="wait", default=DurationS(20))
    """A relay or a receiver that takes longer is taken to be away."""
    pause_s: DurationS = field(name="pause", default=DurationS(30))
    """Between the first try and the second; then ever longer, up to an hour."""
    give_up_s: DurationS = field(name="give_up", default=DurationS(86_400))


class SiteConfiguration(_ServerConfiguration, frozen=True, kw_only=True):
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

    def advisory_system(self, resource: ResourceConfiguration) -> BatchSystemConfiguration | None:
        """Return the batch system that alone decides there: nothing is reserved, and nobody votes.

        It is one that makes no reservations, or a Slurm's own queue: a machine of no nodes or licences.
        """
        named = [each for each in self.batch_systems if each.name == resource.batch_system]
        kind = named[0].kind if named else ""
        takes_jobs = any(each.resource == resource.name for each in self.machines)
        in_parts = resource.nodes or resource.licences
        return (
            named[0]
            if kind == "psij" or (kind == "slurm" and takes_jobs and not in_parts)
            else None
        )


class BrokerConfiguration(_ServerConfiguration, frozen=True, kw_only=True):
    """The configuration of a broker; `replica` names this replica, `coords` are the addresses of all.

    `key` is the private key file that the broker signs its own tokens for sites with.
    """

    listen: str = "127.0.0.1:7100"
    replica: Name = "1"

    @property
    def _usual_audit_file(self) -> Path | None:
        """One for each replica, even where they share a store."""
        return self.store.with_suffix(f".{self.replica}.audit")

    sites: tuple[PeerConfiguration, ...] = ()
    key: Path | None = None
    coords: tuple[Url, ...] = ()
    limits: BrokerLimits = BrokerLimits()
    priority: Annotated[tuple[GrantConfiguration, ...], Meta(max_length=1_000)] = ()
    bid_s_max: Annotated[float, Meta(ge=0.1, le=30.0)] = 1.0
    """So long the bids of sites for a job are waited for; less, where many others could be asked."""
    lost_s: Annotated[float, Meta(ge=0, le=30 * 86_400)] = 900.0
    """A site that is away for so long is lost: what starts at most once, and waits there, goes elsewhere.

    0: none is ever lost.
    """
    keep_settled_s: DurationOrNoneS = field(name="keep_settled", default=DurationOrNoneS(0))
    """Requests that ended so long ago go from the store to its archive; 0s: none does."""
    agents: AgentsConfiguration = AgentsConfiguration()
    """Checks of uploaded scripts; each site decides itself what they may hold."""


class VirtualConfiguration(ListeningConfiguration, frozen=True, kw_only=True):
    """The configuration of a virtual site: the name of a group of sites, and the way to them.

    `keys` are those of the brokers that may ask which members to ask. It keeps nothing, and has an audit log
    only where one is named.
    """

    listen: str = "127.0.0.1:7200"
    members: Annotated[
        tuple[MemberConfiguration, ...], Meta(min_length=1, max_length=limits.MEMBERS_MAX)
    ]


class Configuration(_Section, frozen=True, kw_only=True):
    """A site, a broker and a virtual site: one of them, or several in one process."""

    site: SiteConfiguration | None = None
    broker: BrokerConfiguration | None = None
    virtual: VirtualConfiguration | None = None
    log: LogConfiguration = LogConfiguration()


def load_configuration(text: str, base: Path) -> Configuration:
    """Return the configuration in `text`; relative paths in it are taken from the directory `base`.

    Raises `InvalidInput` with the path of what is wrong: TOML that is not well-formed, unknown
    fields, wrong types, a name given twice, an unknown time zone, or a server without keys that
    other machines could reach.
    """
    if len(text) > CONFIGURATION_BYTES_MAX:
        raise InvalidInput("the configuration is too large", where="configuration")
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # Numbers of 5,000 digits are a bare ValueError.
        raise InvalidInput(f"not TOML: {error}", where="configuration") from error
    normalize(raw)
    return configuration_of(raw, base)


def configuration_of(raw: dict[str, Any], base: Path) -> Configuration:
    """Return the configuration with the fields `raw`; as `load_configuration`, without the text."""
    _check_fields(raw, Configuration, "")
    configuration = _convert(raw, base)
    if not (configuration.site or configuration.broker or configuration.virtual):
        raise InvalidInput(
            "neither a site nor a broker is configured",
            where="configuration",
            remedy="write a [site] or a [broker] section, or both; or a [virtual] one",
        )
    check_configuration(configuration)
    return configuration


def check_configuration(configuration: Configuration) -> None:
    """Raises `InvalidInput` for what each value may be, and all of them together may not."""
    if configuration.site is not None:
        _check_server(configuration.site, "site")
        for index, pattern in enumerate(configuration.site.calls.to):
            check_pattern(pattern, f"site.calls.to[{index}]")
        _check_resources(configuration.site)
        _check_machines(configuration.site)
        if configuration.site.notices is not None:
            _check_notices(configuration.site.notices)
        _check_unique([site.name for site in configuration.site.near], "site.near")
    if configuration.broker is not None:
        _check_server(configuration.broker, "broker")
        if 0 < configuration.broker.keep_settled_s < KEEP_SETTLED_S_MIN:
            raise InvalidInput(
                "sites restored from a backup might still ask about requests of that time",
                where="broker.keep_settled",
                remedy=f"at least {format_duration(KEEP_SETTLED_S_MIN)}, or 0s for ever",
            )
        _check_unique([site.name for site in configuration.broker.sites], "broker.sites")
        _check_members(configuration.broker)
        _check_urls(configuration.broker.sites, "broker.sites")
    if configuration.virtual is not None:
        _check_server(configuration.virtual, "virtual")
        _check_unique([each.name for each in configuration.virtual.members], "virtual.members")
        _check_not_itself(configuration.virtual)
        _check_lends_nothing(configuration.virtual)
        _check_urls(configuration.virtual.members, "virtual.members")


def _convert(raw: dict[str, Any], base: Path) -> Configuration:
    def decode(kind: type, value: object) -> object:
        if not isinstance(value, str) or not value:
            raise ValueError(f"Expected a text, got `{type(value).__name__}`")
        if kind is DurationOrNoneS and value.strip() == "0s":
            return DurationOrNoneS(0)
        if issubclass(kind, DurationS):
            try:
                return kind(parse_duration(value, longest_s=limits.WINDOW_S_MAX))
            except InvalidInput as error:
                raise ValueError(f"{error.detail} ({error.remedy})") from error
        return base / Path(value).expanduser()

    try:
        return msgspec.convert(raw, Configuration, dec_hook=decode)
    except msgspec.ValidationError as error:
        detail, where = detail_and_path(error)
        remedy = remedy_at(Configuration, detail, where)
        raise InvalidInput(detail, where=where or "configuration", remedy=remedy) from error


def _check_members(broker: BrokerConfiguration) -> None:
    """Each site is reached in one way, which is in no circle."""
    names = [site.name for site in broker.sites]
    for index, site in enumerate(broker.sites):
        for number, way in enumerate(site.members):
            where = f"broker.sites[{index}].members[{number}]"
            on_the_way = [site.name, *way.split("/")]
            if len(set(on_the_way)) < len(on_the_way):
                raise InvalidInput(
                    f"{' -> '.join(on_the_way)} is a circle",
                    where=where,
                    remedy="a virtual site is never on the way to itself: leave the member out",
                )
            name = on_the_way[-1]
            if name in names:
                raise InvalidInput(
                    f"{name!r} is there twice",
                    where=where,
                    remedy="name each site once: with its own url, or as a member of one virtual site",
                )
            names.append(name)


def _check_urls(members: Sequence[MemberConfiguration], where: str) -> None:
    for index, member in enumerate(members):
        try:
            parts = urlsplit(member.url)
            fine = parts.scheme in ("http", "https") and bool(parts.hostname)
            fine = fine and not (parts.username or parts.query or parts.fragment)
        except ValueError:
            fine = False
        if not fine:
            raise InvalidInput(
                f"{member.url!r} is not the address of a server",
                where=f"{where}[{index}].url",
                remedy="write http:// or https://, a host, and its port if need be",
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
            "whoever comes this way would be let in by this certificate",
            where="virtual.calls.certificate",
            remedy="write virtual.tls.clients, the authority that signs certificates of servers",
        )


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
        _check_key(key, f"{section}.keys[{index}]")
        if key.hosts and not (server.tls and server.tls.clients):
            raise InvalidInput(
                "nobody is asked for a certificate",
                where=f"{section}.keys[{index}].hosts",
                remedy=f"write {section}.tls.clients, the authority that signs certificates of servers",
            )
    if bool(server.calls.certificate) != bool(server.calls.key):
        raise InvalidInput(
            "a certificate and its key go together",
            where=f"{section}.calls",
            remedy="write both, or neither",
        )
    if server.revoked is not None and not server.keys:
        raise InvalidInput("without keys there is nothing to revoke", where=f"{section}.revoked")


def _check_key(key: KeyConfiguration, where: str) -> None:
    if sum(map(bool, (key.file, key.jwks, key.openid))) != 1:
        raise InvalidInput(
            "keys are in one place", where=where, remedy="write one of file, jwks and openid"
        )
    if key.file is None:
        _check_published_key(key, where)
    if key.claims.scoped and not key.realm:
        raise InvalidInput(
            "names bring no realm along where there is none",
            where=f"{where}.claims.scoped",
            remedy="write the realm of this key",
        )


def _check_published_key(key: KeyConfiguration, where: str) -> None:
    check_fetched(key.jwks or key.openid, f"{where}.{'jwks' if key.jwks else 'openid'}")
    servers = {"broker", "near"}.intersection(key.scopes)
    if servers:
        raise InvalidInput(
            f"the scope {min(servers)} is for keys that a server keeps itself",
            where=f"{where}.scopes",
            remedy="list that server's key as a file",
        )
    if key.jwks and not key.issuer:
        raise InvalidInput(
            "nobody could tell which tokens are of these keys",
            where=f"{where}.issuer",
            remedy="write the issuer (`iss`) of their tokens",
        )
    if key.openid and key.issuer not in ("", key.openid):
        raise InvalidInput(
            "the issuer of an OpenID provider is its address",
            where=f"{where}.issuer",
            remedy="leave it out, or write what `openid` says",
        )


def _check_resources(site: SiteConfiguration) -> None:
    _check_at_most(site.limits.hold_s_max, limits.HOLD_MS_MAX // 1000, "site.limits.hold_max")
    _check_unique([resource.name for resource in site.resources], "site.resources")
    _check_blackouts(site.defaults.blackouts, "site.defaults.blackouts")
    for index, resource in enumerate(site.resources):
        where = f"site.resources[{index}]"
        if identifiers.machine_of(resource.name):
            raise InvalidInput(
                f"names that end with {identifiers.QUEUE_ENDING} are those of queues",
                where=f"{where}.name",
                remedy="give it another name",
            )
        _check_at_most(resource.grain_s, 86_400, f"{where}.grain")
        _check_zone(resource.zone, f"{where}.zone")
        _check_hours(resource.hours, f"{where}.hours")
        _check_blackouts(resource.blackouts, f"{where}.blackouts")
        for number, rule in enumerate(resource.access):
            _check_hours(rule.hours, f"{where}.access[{number}].hours")
            if rule.units_max > resource.capacity:
                raise InvalidInput(
                    f"{rule.units_max} units are more than the capacity of {resource.capacity}",
                    where=f"{where}.access[{number}].units_max",
                    remedy="give at most the capacity, or leave it out for all of it",
                )


def _check_machines(site: SiteConfiguration) -> None:
    _check_unique([machine.resource for machine in site.machines], "site.machines")
    known = {resource.name for resource in site.resources}
    for index, machine in enumerate(site.machines):
        if machine.resource not in known:
            raise InvalidInput(
                f"there is no resource {machine.resource}",
                where=f"site.machines[{index}].resource",
                remedy="name one of site.resources",
            )
        if len(machine.resource) > limits.MACHINE_NAME_MAX:
            raise InvalidInput(
                f"a name of {len(machine.resource)} characters",
                where=f"site.machines[{index}].resource",
                remedy=f"give the resource a name of at most {limits.MACHINE_NAME_MAX}",
            )
        if machine.default_class not in machine.classes:
            raise InvalidInput(
                f"there is no class {machine.default_class}",
                where=f"site.machines[{index}].default_class",
                remedy=f"name one of {', '.join(machine.classes)}",
            )


def _check_notices(notices: NoticesConfiguration) -> None:
    where = "site.notices"
    if not (notices.smtp or notices.webhook_hosts):
        raise InvalidInput(
            "no notice could go anywhere",
            where=where,
            remedy='write smtp = "host:port" for mail, or webhook_hosts',
        )
    if notices.smtp and not notices.sender:
        raise InvalidInput(
            "mail comes from nobody",
            where=f"{where}.from",
            remedy='write from = "kalends@example.org"',
        )
    if notices.webhook_hosts and notices.webhook_key is None:
        raise InvalidInput(
            "nobody could tell who has called a webhook",
            where=f"{where}.webhook_key",
            remedy="name a file with a secret, such as `openssl rand -hex 32` makes one",
        )
    if notices.address and not any(
        MAIL_ADDRESS.fullmatch(notices.address.replace("{user}", user))
        for user in ("ann", "ann@example.org")
    ):
        raise InvalidInput(
            f"{notices.address!r} makes no mail address of a user's name",
            where=f"{where}.address",
            remedy='write address = "{user}@example.org"',
        )
    host = notices.smtp.rpartition(":")[0].strip("[]")
    if notices.login is not None and notices.encryption == "none" and not is_loopback(host):
        raise InvalidInput(
            "the password would go over the net in clear",
            where=f"{where}.encryption",
            remedy='write encryption = "starttls", or "tls"; or leave login out',
        )
    _check_at_most(notices.wait_s, 300, f"{where}.wait")
    for name in ("wait_s", "pause_s", "give_up_s"):
        if getattr(notices, name) < 1:
            raise InvalidInput(
                "no time at all",
                where=f"{where}.{name.removesuffix('_s')}",
                remedy="at least 1s",
            )


def _check_blackouts(blackouts: tuple[BlackoutConfiguration, ...], where: str) -> None:
    for index, blackout in enumerate(blackouts):
        here = f"{where}[{index}]"
        if blackout.zone:
            _check_zone(blackout.zone, f"{here}.zone")
        _check_hours(blackout.hours, f"{here}.hours")
        if bool(blackout.begins) != bool(blackout.ends) or not (blackout.begins or blackout.hours):
            raise InvalidInput(
                "a blackout needs its times",
                where=here,
                remedy="give begins and ends for one time, or hours for recurring times",
            )


def _check_hours(hours: tuple[HoursConfiguration, ...], where: str) -> None:
    for index, times in enumerate(hours):
        if times.zone:
            _check_zone(times.zone, f"{where}[{index}].zone")


def _check_zone(zone: str, where: str) -> None:
    known = zoneinfo.available_timezones()
    if zone not in known:
        raise InvalidInput(
            f"{zone!r} is not a time zone",
            where=where,
            remedy=_suggestion(zone, known) or "use an IANA name, such as Europe/Berlin",
        )


def _check_at_most(length_s: int, length_s_max: int, where: str) -> None:
    if length_s > length_s_max:
        raise InvalidInput(
            f"{format_duration(length_s)} is too long",
            where=where,
            remedy=f"at most {format_duration(length_s_max)}",
        )


def _check_unique(names: list[str], where: str) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InvalidInput(
                f"{name!r} is there twice", where=f"{where}[{index}].name", remedy="rename one"
            )


def _check_fields(raw: object, kind: Any, path: str) -> None:
    """Raises `InvalidInput` for the first field of `raw` that `kind` does not have."""
    for inner in _inner_kinds(kind):
        if isinstance(raw, list):
            for index, value in enumerate(raw):
                _check_fields(value, inner, f"{path}[{index}]")
        elif isinstance(raw, dict) and issubclass(inner, _Section):
            known = {entry.encode_name: entry for entry in msgspec.structs.fields(inner)}
            for name, value in raw.items():
                where = f"{path}.{name}" if path else name
                if name not in known:
                    raise InvalidInput(
                        "there is no such field",
                        where=where,
                        remedy=_suggestion(name, known)
                        or f"the fields here are {', '.join(sorted(known))}",
                    )
                _check_fields(value, known[name].type, where)


def _inner_kinds(kind: Any) -> list[type]:
    """Return the sections that a value of `kind` is, or is a list of, or may be."""
    if isinstance(kind, type) and issubclass(kind, _Section):
        return [kind]
    origin = typing.get_origin(kind)
    if origin is Annotated:
        return _inner_kinds(typing.get_args(kind)[0])
    if origin in (tuple, typing.Union, types.UnionType):
        return [found for inner in typing.get_args(kind) for found in _inner_kinds(inner)]
    return []


def _suggestion(name: str, known: typing.Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=2)
    return f"did you mean {' or '.join(near)}?" if near else ""

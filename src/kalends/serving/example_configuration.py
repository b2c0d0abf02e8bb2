"""A complete configuration with comments, for the documentation and as a file to start from."""

from __future__ import annotations

_EXAMPLE = """\
# kalends serve THIS-FILE: a site, a broker or a virtual site, or several in one process.
# Durations have a unit: "90s", "15m", "1.5h", "2d". Paths are relative to this file.

[log]
level = "info"            # debug, info, warning, error
form = "auto"             # json, human; auto: human on a terminal

# SIGHUP reads this file again; docs/operating.md lists the settings that need a restart.

# ---------------------------------------------------------------- the site: calendars of one owner

[site]
name = "sdsc"             # users name its resources sdsc/...
listen = "127.0.0.1:7101" # port 0: any free port; without keys or TLS, only loopback is allowed
# plain_http = true       # other addresses without TLS: only behind a proxy that has the certificate
url = "http://127.0.0.1:7101"   # how brokers and other sites reach it
store = "sdsc.sqlite"     # all promises of the site
# guard_counted = true    # a store on PostgreSQL, too, refuses more units than there are (docs/postgresql.md)
revoked = "revoked.txt"   # revoked tokens and keys: `kalends admin revoke`

[[site.keys]]             # tokens signed by these keys are accepted; without keys, access is open
file = "keys/people.pub"  # a public key (PEM: Ed25519, P-256 or RSA), or a JWKS file
issuer = "https://login.sdsc.example"   # only tokens of this issuer; leave out for any
scopes = ["use", "audit"] # maximum scopes of its tokens: use, audit, admin, broker, near
users = ["*"]             # users in its tokens: names, or patterns such as "*@campus-b"; also for groups
longest = "12h"           # maximum life of its tokens

[[site.keys]]             # an institution's OpenID provider: its keys are fetched, and refreshed
openid = "https://login.kit.example/realms/main"   # or jwks = "https://..." with issuer = "..."
client = "kalends"        # name of kalends programs at the provider
realm = "kit.example"     # its users are called ada@kit.example here, its groups staff@kit.example
groups = ["hpc-*"]        # its other groups are left out
longest = "1h"

[site.keys.claims]        # claims in its tokens; defaults: those of kalends tokens
user = "preferred_username"
groups = "realm_access.roles"         # roles inside realm_access
audiences = ["http://127.0.0.1:7101"]  # instead of this site's name; never one that other servers accept
scopes = { use = ["openid"] }         # its scopes that grant `use`; ["*"]: every token has it

[[site.keys]]             # the broker, which vouches for its users
file = "keys/broker.pub"
scopes = ["use", "broker"]  # use: the broker's users may use its passes
brokers = ["npaci"]       # names that it may use; left out: a name belongs to the first key that used it
users = ["*"]
groups = ["*"]

[[site.keys]]             # the near site below, which may only pass on visits
file = "keys/caltech.pub"
scopes = ["near"]

[[site.near]]             # site to pass agents' visits on to, if it lists this site, too
name = "caltech"
url = "https://kalends.caltech.example:7101"
key = "keys/sdsc"         # private key for calls to it (mode 0600)

[site.audit_log]          # calls, with user, token and answer
# file = "/var/log/kalends/sdsc.audit"   # default: sdsc.audit, next to the store
size_mb = 16              # size of a file at which it is rotated
files_kept = 8
# enabled = false

[site.agents]             # users' scripts
runs_kept_max = 20000     # newest records for `kalends agent replay`
runs_kept_per_user_max = 2000
runs_kept_mb = 512        # size of all records

[site.limits]
held_per_principal_max = 64       # claims that one user may hold at once
promised_per_principal_max = 256  # claims that are promised to one user at once: a whole series
hold_max = "1h"                   # maximum life of a hold
approval_within = "3d"            # time for your approval, if a rule requires it; then declined
calls_per_s = 2000.0              # calls of one user, after a burst
calls_burst = 4000                # calls of one user at once

[[site.resources]]
name = "sp2"
capacity = 128            # 128 identical nodes; 1 for an instrument
grain = "15m"             # bookings start and end on multiples of this, from midnight in `zone`
horizon = "90d"           # bookings end within this time
# buffer = { before = "10m", after = "20m" }  # set-up and clearing of each booking; none by default
# with = ["microscope"]   # resources that every booking of this one has, too
# no_show = "15m"         # slots without a check-in are given back after this time; never by default
zone = "America/Los_Angeles"
description = "IBM SP2, thin nodes"
attributes = { kind = "sp2", memory = 256, interactive = false }

# Opening hours: days by an RFC 5545 rule, each from `start` for `duration`, in the resource's zone.
# A rule with INTERVAL or COUNT counts from its first day: first = "2026-03-02".
# The server refuses hours that never come (30 February), and access rules outside all opening hours.
[[site.resources.hours]]
rrule = "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"
start = "08:00"
duration = "10h"

[[site.resources.hours]]
rrule = "FREQ=WEEKLY;BYDAY=SA,SU"
start = "00:00"
duration = "24h"

# Access: users who may see, hold or lock. Without rules, everyone may book.
[[site.resources.access]]
name = "staff"            # refusals name the rule
who = "group:staff"
may = "lock"

[[site.resources.access]]
name = "guests at night"
who = "everyone"
may = "lock"
units_max = 32            # maximum number of units at once
hours = [{ rrule = "FREQ=DAILY", start = "20:00", duration = "12h" }]

[[site.resources.access]]
name = "trained"
who = "everyone"
may = "lock"
members = { ann = 2030-03-01 }   # only these users, each until the end of a day

# Limits: the first rule that matches a user and names a field applies; put special rules first.
[[site.resources.limits]]
name = "staff"
who = "group:staff"
longest = "2d"            # length of one booking
week_share = 0.5          # share of all units of a calendar week, for each user

[[site.resources.limits]]
name = "others"
who = "everyone"
longest = "8h"
# shortest = "30m"        # minimum length of one booking
lead = "1h"               # minimum time from booking to start
ahead = "14d"             # maximum time from booking to end
held_max = 4              # slots held or promised at once, for each user
locked_max = 20           # slots that have not ended, for each user
# locked_hours = 4096     # unit-hours of these slots, for each user
week_hours = 512          # unit-hours of a calendar week, for each user
# approval = true         # bookings wait for your approval: kalends admin requests

[[site.resources.limits]]
name = "all students"
who = "group:students"
together = true           # limits for the whole group, not for each user
week_share = 0.25

# Blackouts: no new booking may overlap them; existing locks stay.
[[site.resources.blackouts]]
name = "helium"
reason = "helium is refilled"
hours = [{ rrule = "FREQ=MONTHLY;BYDAY=1MO", start = "09:00", duration = "4h" }]

# Head starts: requests of these users wait as if made earlier.
[[site.resources.priority]]
who = "group:staff"
head_start = "10m"

[[site.resources]]
name = "microscope"
description = "High-voltage electron microscope"

# Prices: the first that means the user and covers the time decides. Without prices, a slot is free.
[[site.resources.prices]]
name = "night"
hours = [{ rrule = "FREQ=DAILY", start = "20:00", duration = "12h" }]
credits = 2.5             # of this owner, for a unit and an hour

[[site.resources.prices]]
name = "industry"
who = "group:industry"
credits = 40

[[site.resources.prices]]
name = "all"
who = "everyone"
credits = 10

[site.resources.cancel]   # left out: a cancel is free until the start, and nothing is paid back after it
free_until = "1d"
fee = 50                  # percent that a later cancel costs
unused = 0                # percent paid back for unused time of a slot that has begun

# Jobs: this host runs programs on the units of a resource, around its reservations.
[[site.resources]]
name = "box"
capacity = 8

[[site.machines]]
resource = "box"
# shape = "mesh2d:4x2"    # topology, if it matters which nodes a job gets; left out: any nodes
policy = "easy-priority"  # kalends policies lists them; or module:Class of your own
policy_ms_max = 1000      # time for one decision of your own class
cores_each = 4            # cores of this host in each node; 0: slots without cores of their own
directory = "box.jobs"    # records and output of jobs
users = { ann = "alice" } # Unix users with other names than their users; only if the site runs as root
grace = "10s"             # between asking a job to end and killing it
clearing = "5s"           # until a killed job has ended; promised starts count with limit, grace and this
attach = "10m"            # an interactive job ends if no terminal attaches in this time
change_max = "1m"         # time for a program to answer a request to change its size
may_delay = "waiting-room"  # which waiting jobs a new reservation may delay; or "none", or "all"
undecided = "15m"         # maximum time that nodes wait for a decision of a broker; 0: until it decides
aim = "response"          # or "throughput", "parallel", "sequential", "cost": which way it offers
shared = false            # whether a job may share its nodes with others; bids say so
disclosed = true          # sites that lose a job to this machine hear its site, start and expected run time
no_show = "15m"           # unused nodes of a reservation go back to the queue after this; 0: never
repair = "1d"             # a node out of service counts as taken for this time, renewed until it is back
processes_max = 500       # processes of a Unix user; with a control group, of a job
memory_mb_max = 16000     # memory of a process; with a control group, of a job
# control_group = "/sys/fs/cgroup/kalends"  # group (version 2) that the site may use
keep_output = "30d"       # time to keep the output of jobs without output files
output_mb_max = 1024      # maximum size of that output of a job; the rest is cut off; 0: no limit
file_mb_max = 0           # maximum size of a file that a program writes (RLIMIT_FSIZE); 0: no limit
core_mb_max = 0           # maximum size of core dumps; 0: none, unless a program raises its own limit
umask = "022"             # umask of all jobs
environment = { PATH = "/opt/lab/bin:/usr/local/bin:/usr/bin:/bin" }  # defaults; jobs may override them
default_class = "normal"  # class of jobs without --priority
period = "30d"            # period for node_hours
reserved_credits = 20     # credits for a reserved node-hour, used or not

[site.machines.classes]   # for `kalends submit --priority`
low = 1
normal = 2
high = 3

[site.machines.class_members]  # users of each class; classes above the default are for users named here only
high = ["group:operators"]

[site.machines.user]      # limits for each user; `project`: for each project
running = 20
nodes = 6
longest = "2d"
node_hours = 2000.0       # used in each period

[site.machines.members]   # users who may charge jobs to each project; left out: any user to any project
dna = ["group:biologists", "user:ann"]

[site.machines.tariff]    # credits for a node-hour by class, shown by `kalends usage`
normal = 10
high = 30

[site.machines.fair_share]  # policy "fair-share": the project with the least use for its shares is next
by = "project"            # or "user"
shares = { dna = 3 }      # all others have 1

# Accounts: kalends admin credits grants to user:NAME and project:NAME. With accounts, jobs pay by the tariff.
[[site.accounts]]
name = "project:dna"
members = ["user:ann", "group:biologists"]  # users who may charge it
parent = "project:biology"  # a budget that must suffice, too

[[site.accounts]]
name = "project:biology"
debt = 100.0              # how far the balance may go below zero

[site.notices]            # for `kalends submit --notify`: mail, webhooks, or both
smtp = "relay.sdsc.example:587"   # mail relay for this host
encryption = "starttls"   # or "tls" from the first byte, or "none"
from = "kalends@sdsc.example"
login = "keys/relay"      # two lines, name and password (private: mode 0600); left out: no login
address = "{user}@sdsc.example"   # mail address of each user, except those in `addresses`
addresses = { ann = "ann.smith@ucsd.example" }
mail_domains = ["ucsd.example"]   # other domains that users may choose with --notify-to
webhook_hosts = ["hooks.sdsc.example", "127.0.0.1:8080"]  # hosts of webhooks: https; http on loopback only
webhook_networks = ["10.1.0.0/16"]  # private networks in which webhooks may also be called
webhook_key = "keys/webhooks"     # secret that signs webhook calls, in base64 (private: mode 0600)
# ca = "keys/sdsc-ca.pem" # authority of the relay's and receivers' certificates, if the system lacks it
hourly_max = 60           # notices to one user in an hour
morning = "07:00"         # local time of a mail with the day, as `kalends today` shows it; left out: none
morning_to = ["owner@sdsc.example"]   # its addresses
wait = "20s"              # time limit for an answer of a relay or receiver
pause = "30s"             # before the second try; doubled for each further try, up to an hour
give_up = "1d"            # a notice is dropped after this time

# A resource backed by Slurm: each slot is a reservation of named nodes there.
[[site.resources]]
name = "cluster"
capacity = 64
nodes = "n[1-64]"         # names in Slurm, one for each unit
batch_system = "slurm"

[[site.machines]]         # for kalends submit and run, too, in reservations
resource = "cluster"

[[site.resources]]
name = "cores"
capacity = 64             # cores of nodes that reservations share
nodes = "m[1-4]"
cores_each = 16

[[site.resources]]
name = "matlab"
capacity = 10
licences = "matlab"       # name of the licence in Slurm, which has at least `capacity` of them

[[site.resources]]
name = "room"
capacity = 8

[[site.machines]]         # the site's own queue, on nodes that Slurm's owner has handed over
resource = "room"
batch_system = "slurm"
nodes = "n[65-72]"
allocation_options = ["--partition=kalends"]  # further options of salloc

[[site.batch_systems]]
name = "slurm"
kind = "slurm"            # or "oar"; with plug-ins "gridengine", or "psij" for others, which only take jobs
configuration = "/etc/slurm/slurm.conf"   # left out: where Slurm's commands find it
users = { ann = "ann", bob = "rmiller" }  # Unix user of each kalends user; users not listed cannot book
answer_s_max = 8.0        # time limit of a command; later its outcome counts as unknown
look_every = "10s"        # interval between comparisons with the promises
warn = "60s"              # jobs in a slot are asked to end this long before its end
kill = "10s"              # and killed this long before its end; 0s: Slurm ends them
repair = "1d"             # a node that is down counts as taken for this time
give_up_after = "30m"     # then a promise that the system cannot keep is moved or cancelled
usage_every = "10m"       # interval between readings of the use of slots, for `kalends usage`

# Limits, blackouts and head starts for all resources, after each resource's own rules.
[[site.defaults.blackouts]]
name = "new year"
begins = "2027-01-01"
ends = "2027-01-02"

# ------------------------------------------------ the broker: bookings at many sites, all or none

[broker]
name = "npaci"
replica = "1"             # replicas of one broker share its name, its store and its host; if one stops
                          # responding while it writes, kill it: it locks the store (docs/operating.md)
listen = "127.0.0.1:7100"
url = "http://127.0.0.1:7100"
store = "npaci.sqlite"
keep_settled = "400d"     # ended requests leave the store after this time, for npaci.archive; left out: never
key = "keys/broker"       # signs the broker's own tokens for the sites (private: mode 0600)
pass_life = "1h"          # life of a pass, with which users reach a site without their own token
coords = ["http://127.0.0.1:7100"]   # addresses of all replicas, at which sites ask for decisions

[[broker.keys]]
file = "keys/people.pub"
scopes = ["use", "audit", "admin"]

[broker.limits]
open_per_principal_max = 256      # undecided requests of one user, at all replicas

[broker.notices]          # for `kalends notify`: notices about changes of requests by others
smtp = "relay.npaci.example:587"  # as in [site.notices]
from = "kalends@npaci.example"
address = "{user}@npaci.example"
webhook_hosts = ["*"]     # any public host, by https; or list hosts, as in [site.notices]
webhook_networks = ["10.1.0.0/16"]  # private networks in which webhooks may also be called
minute_max = 6            # mails to one user in a minute; the last one lists all remaining changes

[[broker.links]]          # rate between two sites, for jobs that say where their input lies
sites = ["sdsc", "ctc"]
mb_per_s = 400.0          # megabytes a second; other_mb_per_s in [broker] is for all other pairs

[[broker.priority]]       # highest priority of requests of these users; 0 for others
who = "group:staff"
max = 20

[[broker.deputies]]       # who may book in the name of which users, and the groups of these
who = "group:office"
users = { bob = ["optics"], eva = [] }

[[broker.sites]]
name = "sdsc"
url = "http://127.0.0.1:7101"

[[broker.sites]]
name = "caltech"
url = "https://kalends.caltech.example:7101"
ca = "keys/caltech-ca.pem"        # authority that signed its certificate
# passes = false          # no passes: the site does not give this broker's key the scope `use`

[[broker.sites]]          # a virtual site, and the sites behind it that this broker books at
name = "midwest"
url = "https://kalends.midwest.example:7200"
members = ["ncsa", "campus/psc"]  # psc is a member of campus, which is one of midwest

# ---------------------------- a virtual site: the way to its members, and their manager

[virtual]
name = "midwest"
listen = "127.0.0.1:7200"

[[virtual.members]]
name = "ncsa"
url = "http://127.0.0.1:7103"

[[virtual.members]]       # a virtual site, too
name = "campus"
url = "http://127.0.0.1:7201"

[[virtual.links]]         # what two members may exchange, for jobs that are split over them
sites = ["ncsa", "campus"]
mb_per_s = 1000.0

[[virtual.keys]]          # brokers that may ask its manager; its members have their own keys
file = "keys/broker.pub"
scopes = ["broker", "audit"]

# TLS, for any server that other machines reach:
#
# [site.tls]
# certificate = "keys/site.pem"
# key = "keys/site.key"
# clients = "keys/authority.pem"    # other servers must show a certificate of this authority
#
# A server's certificate for calls to others, the authority that it trusts, and the addresses of brokers
# and sites that a site may ask for decisions:
#
# [site.calls]
# ca = "keys/authority.pem"
# certificate = "keys/site.pem"
# key = "keys/site.key"
# to = ["https://*.npaci.example"]
"""


def example() -> str:
    """Return the text of the example; `kalends.serving.configuration.load_configuration` takes it."""
    return _EXAMPLE

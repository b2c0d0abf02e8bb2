"""A complete configuration with comments, for the documentation and as a file to start from."""

from __future__ import annotations

_EXAMPLE = """\
# kalends serve THIS-FILE: a site, a broker or a virtual site, or several in one process.
# Durations are texts with a unit: 90s, 15m, 1.5h, 2d. Paths are relative to this file.

[log]
level = "info"            # debug, info, warning, error
form = "auto"             # json, human; auto: human on a terminal

# SIGHUP reads this file again; docs/operating.md says what holds at once, and what waits for a restart.

# ---------------------------------------------------------------- the site: calendars of one owner

[site]
name = "sdsc"             # resources are called sdsc/... outside
listen = "127.0.0.1:7101" # port 0 takes any free one; without keys, or TLS, only loopback is allowed
# plain_http = true       # beyond loopback without TLS: behind a proxy that has the certificate
url = "http://127.0.0.1:7101"   # how brokers and other sites reach it
store = "sdsc.sqlite"     # everything that was promised lives here
revoked = "revoked.txt"   # tokens and keys that are not believed any more: `kalends admin revoke`

[[site.keys]]             # tokens signed by these keys are believed; without any, access is open
file = "keys/people.pub"  # a public key (PEM: Ed25519, P-256 or RSA), or a JWKS file
issuer = "https://login.sdsc.example"   # only tokens of this issuer; leave out for any
scopes = ["use", "audit"] # the most that this key may allow: use, audit, admin, broker, near
users = ["*"]             # whom it may vouch for: names, or patterns such as "*@campus-b"; so for groups
longest = "12h"           # a token that is good for longer is refused

[[site.keys]]             # an institution's OpenID provider: its keys are fetched, and fetched again
openid = "https://login.kit.example/realms/main"   # or jwks = "https://..." with issuer = "..."
client = "kalends"        # what programs of ours call themselves there
realm = "kit.example"     # its users are ada@kit.example here, its groups staff@kit.example
groups = ["hpc-*"]        # others of its groups are left out
longest = "1h"

[site.keys.claims]        # what its tokens call things; without this section as ours do
user = "preferred_username"
groups = "realm_access.roles"         # roles inside realm_access
audiences = ["http://127.0.0.1:7101"]  # instead of the name of this site; never one that others take
scopes = { use = ["openid"] }         # its scope openid stands for ours; ["*"]: every token

[[site.keys]]             # the broker, which vouches for its users
file = "keys/broker.pub"
scopes = ["use", "broker"]  # use: its users may come by its passes
brokers = ["npaci"]       # who may use it; left out, a broker's name belongs to the key that came first
users = ["*"]
groups = ["*"]

[[site.keys]]             # the near site below, which may pass visits on and nothing else
file = "keys/caltech.pub"
scopes = ["near"]

[[site.near]]             # agents' visits are passed on to it, if it lists us, too
name = "caltech"
url = "https://kalends.caltech.example:7101"
key = "keys/sdsc"         # proves to it who we are (private: mode 0600)

[site.audit_log]          # who asked for what, by which token, and what was answered
# file = "/var/log/kalends/sdsc.audit"   # left out: sdsc.audit, beside the store
size_mb = 16              # of one file; it is rotated then
files_kept = 8
# enabled = false

[site.agents]             # users' scripts
runs_kept_max = 20000     # records for `kalends agent replay`, the newest; of each user at most
runs_kept_per_user_max = 2000
runs_kept_mb = 512        # and all of them together

[site.limits]
held_per_principal_max = 64       # claims that one user may hold at once
promised_per_principal_max = 64   # claims that are promised to one user at once
hold_max = "1h"                   # the longest life of a hold
approval_within = "3d"            # how long a request may wait for your approval, where a rule wants it
calls_per_s = 2000.0              # per user, after
calls_burst = 4000                # this many at once

[[site.resources]]
name = "sp2"
capacity = 128            # 128 identical nodes; 1 for an instrument
grain = "15m"             # bookings start and end on multiples of this, from midnight in `zone`
horizon = "90d"           # bookings end within this time
zone = "America/Los_Angeles"
description = "IBM SP2, thin nodes"
attributes = { kind = "sp2", memory = 256, interactive = false }

# Opening hours: days by an RFC 5545 rule, each from `start` for `duration`, in the resource's zone.
# A rule with INTERVAL or COUNT counts from a first day: first = "2026-03-02".
# Hours that never come (30 February), or a rule whose hours never meet these, are refused at start.
[[site.resources.hours]]
rrule = "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"
start = "08:00"
duration = "10h"

[[site.resources.hours]]
rrule = "FREQ=WEEKLY;BYDAY=SA,SU"
start = "00:00"
duration = "24h"

# Access: who may see, hold or lock. Without rules, everyone may book.
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

# Limits: of those that match and name the same thing, the first holds; so put the few first.
[[site.resources.limits]]
name = "staff"
who = "group:staff"
longest = "2d"            # one booking at most
week_share = 0.5          # of all units of a calendar week, each

[[site.resources.limits]]
name = "others"
who = "everyone"
longest = "8h"
lead = "1h"               # booked at least this long before it starts
ahead = "14d"             # and at most this long before it ends
held_max = 4              # held or promised at once, each
locked_max = 20           # slots that are not over, each
# locked_hours = 4096     # unit-hours of them together, each
week_hours = 512          # unit-hours of a calendar week, each
# approval = true         # each waits for your word: kalends admin requests

[[site.resources.limits]]
name = "all students"
who = "group:students"
together = true           # all of them in one
week_share = 0.25

# Blackouts: nothing new may overlap them; what is locked already stays.
[[site.resources.blackouts]]
name = "helium"
reason = "helium is refilled"
hours = [{ rrule = "FREQ=MONTHLY;BYDAY=1MO", start = "09:00", duration = "4h" }]

# Head starts: these users wait as if they had asked earlier.
[[site.resources.priority]]
who = "group:staff"
head_start = "10m"

[[site.resources]]
name = "microscope"
description = "High-voltage electron microscope"

# Jobs: this host runs programs on the units of a resource, around its reservations.
[[site.resources]]
name = "box"
capacity = 8

[[site.machines]]
resource = "box"
# shape = "mesh2d:4x2"    # where it matters which nodes a job gets; left out, any will do
policy = "easy-priority"  # kalends policies lists them; or module:Class of your own
policy_ms_max = 1000      # for one decision of your own class
cores_each = 4            # cores of this host in each node; 0: a mere slot
directory = "box.jobs"    # records and output of jobs
users = { ann = "alice" } # Unix users that are not named like their users; only where the site is root
grace = "10s"             # between asking a job to end and killing it
clearing = "5s"           # until all of it is gone then; starts are promised for limits, grace and this
attach = "10m"            # an interactive job ends if nobody comes to its terminal in this time
change_max = "1m"         # within this, a program must begin to change its size as it was asked
may_delay = "waiting-room"  # which waiting jobs a new reservation may delay; or "none", or "all"
undecided = "15m"         # nodes are kept idle no longer for a broker that does not decide; 0: until it does
no_show = "15m"           # nodes of a reservation that nobody uses go back to the queue; 0: never
repair = "1d"             # a node out of service counts as taken for so long, renewed while it lasts
processes_max = 500       # of its Unix user; with a control group, of one job
memory_mb_max = 16000     # of each process; with a control group, of one job
# control_group = "/sys/fs/cgroup/kalends"  # a group of version 2 that the site may use
keep_output = "30d"       # what jobs have written, where their users named no file
output_mb_max = 1024      # size of that output, for each job; the rest is cut off; 0: no limit
file_mb_max = 0           # size of any file that a program writes (RLIMIT_FSIZE); 0: no limit
core_mb_max = 0           # size of core dumps; 0: none, unless a program raises its own limit
umask = "022"             # of all jobs
environment = { PATH = "/opt/lab/bin:/usr/local/bin:/usr/bin:/bin" }  # of all jobs; their own variables win
default_class = "normal"  # of jobs without --priority
period = "30d"            # in which node_hours are counted
reserved_credits = 20     # for a node-hour that is reserved, used or not

[site.machines.classes]   # for `kalends submit --priority`
low = 1
normal = 2
high = 3

[site.machines.class_members]  # who may name which class; a class above the default: only users named here
high = ["group:operators"]

[site.machines.user]      # what each user may have; `project` likewise
running = 20
nodes = 6
longest = "2d"
node_hours = 2000.0       # in each period

[site.machines.members]   # who may have jobs charged to which project; left out, anybody to any
dna = ["group:biologists", "user:ann"]

[site.machines.tariff]    # credits for a node-hour by class, told by `kalends usage`
normal = 10
high = 30

[site.machines.fair_share]  # under the policy "fair-share": who has used least for its shares goes first
by = "project"            # or "user"
shares = { dna = 3 }      # all others have 1

[site.notices]            # for `kalends submit --notify`: mail, webhooks, or both
smtp = "relay.sdsc.example:587"   # the relay that takes mail from this host
encryption = "starttls"   # or "tls" from the first byte on, or "none"
from = "kalends@sdsc.example"
login = "keys/relay"      # two lines, name and password (private: mode 0600); left out: without
address = "{user}@sdsc.example"   # where each user's mail goes, but those in
addresses = { ann = "ann.smith@ucsd.example" }
mail_domains = ["ucsd.example"]   # users may have it sent to other addresses there: --notify-to
webhook_hosts = ["hooks.sdsc.example", "127.0.0.1:8080"]  # and to these, https; http on loopback only
webhook_networks = ["10.1.0.0/16"]  # private networks in which they may be called, too
webhook_key = "keys/webhooks"     # the secret that signs them, in base64 (private: mode 0600)
# ca = "keys/sdsc-ca.pem" # the authority that signed the certificates of both, if the system knows it not
hourly_max = 60           # notices to one user in an hour
wait = "20s"              # a relay or receiver that takes longer is away
pause = "30s"             # before the second try; then ever longer, up to an hour
give_up = "1d"

# A Slurm behind a resource: each slot is a reservation there, of nodes that are named.
[[site.resources]]
name = "cluster"
capacity = 64
nodes = "n[1-64]"         # names in Slurm, one for each unit
batch_system = "slurm"

[[site.machines]]         # kalends submit and run work there, too, in reservations
resource = "cluster"

[[site.resources]]
name = "cores"
capacity = 64             # cores of nodes, which reservations share
nodes = "m[1-4]"
cores_each = 16

[[site.resources]]
name = "matlab"
capacity = 10
licences = "matlab"       # its name in Slurm, which has at least so many

[[site.resources]]
name = "room"
capacity = 8

[[site.machines]]         # a queue of the site's own, on nodes that Slurm's owner has handed over
resource = "room"
batch_system = "slurm"
nodes = "n[65-72]"
allocation_options = ["--partition=kalends"]  # more for salloc

[[site.batch_systems]]
name = "slurm"
kind = "slurm"            # or "gridengine", or "oar"; "psij" for others, which only take jobs
configuration = "/etc/slurm/slurm.conf"   # leave it out where Slurm's commands find it themselves
# queue = "all.q"         # of Grid Engine: the queue whose hosts are the nodes,
# parallel_environment = "kalends"  # and one of its environments, which fills up hosts
users = { ann = "ann", bob = "rmiller" }  # Unix users; who is not listed cannot book
answer_s_max = 8.0        # what has no answer by then may have been done, or may yet be
look_every = "10s"        # how often it is compared with what was promised
warn = "60s"              # jobs in a slot are asked to end so long before its end,
kill = "10s"              # and killed so long before it; 0s: that is left to Slurm
repair = "1d"             # a node that is down counts as taken for so long
give_up_after = "30m"     # what it cannot keep is moved by its broker, or cancelled, after so long
usage_every = "10m"       # what jobs used in slots is read so often, for `kalends usage`

# Limits, blackouts and head starts for all resources, after what each says itself.
[[site.defaults.blackouts]]
name = "new year"
begins = "2027-01-01"
ends = "2027-01-02"

# ------------------------------------------------ the broker: all of it or nothing, over many sites

[broker]
name = "npaci"
replica = "1"             # replicas of one broker share its name, its store and its host; if one stops
                          # responding while it writes, kill it: it locks the store (docs/operating.md)
listen = "127.0.0.1:7100"
url = "http://127.0.0.1:7100"
store = "npaci.sqlite"
keep_settled = "400d"     # then requests go from the store to npaci.archive; left out: never
key = "keys/broker"       # signs the broker's own tokens for the sites (private: mode 0600)
pass_life = "1h"          # users come to a site by a pass for that site alone, never by their own token
coords = ["http://127.0.0.1:7100"]   # all replicas: where a site asks what was decided

[[broker.keys]]
file = "keys/people.pub"
scopes = ["use", "audit", "admin"]

[broker.limits]
open_per_principal_max = 256      # requests of one user that are not decided yet

[broker.notices]          # for `kalends notify`: users are told what others make of their requests
smtp = "relay.npaci.example:587"  # as in [site.notices]
from = "kalends@npaci.example"
address = "{user}@npaci.example"
webhook_hosts = ["*"]     # any public host, by https; or list hosts, as in [site.notices]
webhook_networks = ["10.1.0.0/16"]  # private networks in which webhooks may be called, too
minute_max = 6            # letters to one user in a minute; the last tells all that is left

[[broker.priority]]       # the highest priority that they may give their requests; others: 0
who = "group:staff"
max = 20

[[broker.sites]]
name = "sdsc"
url = "http://127.0.0.1:7101"

[[broker.sites]]
name = "caltech"
url = "https://kalends.caltech.example:7101"
ca = "keys/caltech-ca.pem"        # the authority that signed its certificate
# passes = false          # its owner gives our key the scope broker without use: no passes for it

[[broker.sites]]          # a virtual site: a way to others, which are named here one by one
name = "midwest"
url = "https://kalends.midwest.example:7200"
members = ["ncsa", "campus/psc"]  # psc is a member of campus, which is one of midwest

# ---------------------------- a virtual site: the way to its members, and a manager who knows them

[virtual]
name = "midwest"
listen = "127.0.0.1:7200"

[[virtual.members]]
name = "ncsa"
url = "http://127.0.0.1:7103"

[[virtual.members]]       # a virtual site, too
name = "campus"
url = "http://127.0.0.1:7201"

[[virtual.keys]]          # brokers that may ask its manager; its members believe whom they list themselves
file = "keys/broker.pub"
scopes = ["broker", "audit"]

# TLS, for any server that other machines reach:
#
# [site.tls]
# certificate = "keys/site.pem"
# key = "keys/site.key"
# clients = "keys/authority.pem"    # other servers must show a certificate of this authority
#
# With which certificate it calls others, whose it believes, and where brokers may have it ask:
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

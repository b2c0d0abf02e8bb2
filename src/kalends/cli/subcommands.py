"""The commands with commands of their own, such as ``kalends admin``, ``agent``, ``notify`` and ``feed``."""

from __future__ import annotations

from kalends.cli.console.groups import LazyGroup

admin = LazyGroup(
    "admin",
    listed={
        "Setting up": {
            "init": ("admin.installation:init", "Set up a site or a broker in a new folder."),
            "config": ("admin.installation:config", "Print a commented configuration file."),
            "key": ("admin.keys:key", "Make a key pair for signing tokens."),
            "token": ("admin.keys:token", "Sign a token for a user."),
            "revoke": (
                "admin.keys:revoke",
                "Revoke tokens or keys at the servers that read a list.",
            ),
            "import": ("subcommands:imports", "Import what another booking system has."),
        },
        "Running": {
            "audit": ("admin.servers:audit", "Check all claims or decisions of a server."),
            "sites": ("subcommands:sites", "Add sites to a broker, list and remove them."),
            "credits": ("subcommands:credits", "Grant credits to users and projects of a site."),
            "bids": ("admin.servers:bids", "Show statistics of the sites' bids."),
            "reconcile": (
                "admin.servers:reconcile",
                "Compare a broker with its sites and repair differences.",
            ),
            "drain": ("admin.servers:drain", "Refuse new claims; keep promises."),
            "undrain": ("admin.servers:undrain", "Accept new claims again."),
            "close": ("admin.closures:close", "Close a site, or some resources, for a time."),
            "open": ("admin.closures:open_again", "Open what was closed: one closure, or all."),
            "reclaim": ("admin.reclaims:reclaim", "Reclaim a period; move or cancel reservations."),
            "reclaims": ("admin.reclaims:reclaims", "List the reclaimed periods."),
            "requests": ("admin.approvals:requests", "List the requests that need your approval."),
            "approve": ("admin.approvals:approve", "Approve a request that needs your approval."),
            "rules": (
                "admin.owner_scripts:rules",
                "Check an owner's script, and try it on past bookings.",
            ),
            "decline": ("admin.approvals:decline", "Decline a request that needs your approval."),
        },
        "Machines": {
            "nodes": ("admin.machines:nodes", "Take nodes out of service, or put them back."),
            "policy": (
                "admin.machines:policy",
                "Switch the policy of a machine; its jobs keep their order.",
            ),
            "host-lost": (
                "admin.machines:host_lost",
                "Give up a lost host, and move its machines to this one.",
            ),
            "replan": (
                "admin.machines:replan",
                "Recompute the plan of a queue, and list the promises that no longer hold.",
            ),
        },
        "Stores": {
            "backup": ("admin.stores:backup", "Copy a store while its server runs."),
            "doctor": (
                "admin.stores:doctor",
                "Check a store, or the host and batch systems of a server.",
            ),
            "move-store": (
                "admin.moves:move_store",
                "Move a store from a file to a database, or back.",
            ),
        },
    },
    help="Manage keys, approvals, reclaims and stores.",
    examples=("kalends admin config > kalends.toml", "kalends admin audit"),
)

sites = LazyGroup(
    "sites",
    listed={
        "At the broker": {
            "list": (
                "admin.sites:list_sites",
                "List the sites of a broker, and those that were announced.",
            ),
            "add": ("admin.sites:add", "Add a site to a broker that runs."),
            "remove": (
                "admin.sites:remove",
                "Book nothing more at a site, and forget it once all there has ended.",
            ),
        },
        "At the site": {
            "card": (
                "admin.sites:card",
                "Print the signed card of a site, for operators of brokers.",
            ),
            "announce": (
                "admin.sites:announce",
                "Show the card of your site to the operators of a broker.",
            ),
        },
    },
    help="Add sites to a broker, list and remove them.",
    examples=("kalends admin sites list", "kalends admin sites add sdsc --card sdsc.card"),
)

imports = LazyGroup(
    "import",
    listed={
        "Commands": {
            "bookings": ("admin.imports:bookings", "Book what another system has, for its users."),
            "resources": (
                "admin.imports:resources",
                "Add the resources of a table to a site's configuration.",
            ),
        },
    },
    help="Import what another booking system has.",
    examples=(
        "kalends admin import resources rooms.csv site.toml",
        "kalends admin import bookings old.csv --key people --dry-run",
    ),
)

credits = LazyGroup(
    "credits",
    listed={
        "At the site": {
            "grant": ("admin.credits:grant", "Grant credits to a user or a project."),
            "take": ("admin.credits:take", "Take granted credits back."),
            "list": ("admin.credits:list_credits", "List accounts with their credit."),
            "export": (
                "admin.credits:export",
                "Print the entries of an account as CSV: all, or those of a period.",
            ),
        },
    },
    help="Grant credits to users and projects of a site.",
    examples=("kalends admin credits grant user:ann 40", "kalends admin credits list"),
)

agent = LazyGroup(
    "agent",
    listed={
        "Writing": {
            "ready": ("agents.trials:ready", "List the ready-made agents, or print one."),
            "check": ("agents.trials:check", "Check a script and measure its cost."),
            "run": ("agents.trials:run", "Run a script here on saved calendars."),
        },
        "At the broker": {
            "upload": ("agents.scripts:upload", "Upload a script to the broker."),
            "list": ("agents.scripts:list_scripts", "List your scripts at the broker."),
            "show": ("agents.scripts:show", "Print one of your scripts."),
            "delete": ("agents.scripts:delete", "Delete a script from the broker."),
            "tell": ("agents.scripts:tell", "Send an agent a message."),
        },
        "At a site": {
            "runs": ("agents.scripts:runs", "List the runs of your scripts at a site."),
            "replay": ("agents.scripts:replay", "Repeat a recorded run here and compare."),
        },
    },
    help="Manage scripts that choose slots at each site.",
    examples=("kalends agent ready", "kalends agent check mornings.py"),
)

notify = LazyGroup(
    "notify",
    listed={
        "Commands": {
            "list": ("notices:list_addresses", "List the addresses for your notices."),
            "add": ("notices:add", "Add a mail address or a webhook for notices."),
            "remove": ("notices:remove", "Remove an address for notices."),
            "test": ("notices:test", "Send yourself a test notice."),
        },
    },
    help="Manage the addresses for notices.",
    examples=("kalends notify add", "kalends notify add https://hooks.example.org/kalends"),
)

feed = LazyGroup(
    "feed",
    listed={
        "Commands": {
            "list": ("requests.calendar_files:list_feeds", "List your calendar feeds."),
            "add": (
                "requests.calendar_files:add_feed",
                "Make a calendar feed of your reservations.",
            ),
            "revoke": ("requests.calendar_files:revoke_feed", "Revoke a calendar feed."),
        },
    },
    help="Manage calendar feeds of your reservations.",
    examples=("kalends feed add", "kalends feed revoke phone"),
)

series = LazyGroup(
    "series",
    listed={
        "Commands": {
            "retry": ("requests.series:retry", "Book again the occurrences that were missed."),
        },
    },
    help="Book again what was missed of a series.",
    examples=("kalends series retry 5d0c0000", "kalends series retry 5d0c0000 --wait 2m"),
)

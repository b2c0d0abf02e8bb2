"""The commands that have commands of their own: ``kalends admin``, ``agent`` and ``notify``."""

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
                "Revoke tokens or keys at the servers that read a file.",
            ),
        },
        "Running": {
            "audit": ("admin.servers:audit", "Check all claims or decisions of a server."),
            "sites": ("admin.servers:sites", "Show statistics of the sites' bids."),
            "reconcile": (
                "admin.servers:reconcile",
                "Compare a broker with its sites and repair differences.",
            ),
            "drain": ("admin.servers:drain", "Refuse new claims; keep promises."),
            "undrain": ("admin.servers:undrain", "Accept new claims again."),
            "reclaim": ("admin.reclaims:reclaim", "Reclaim a period; move or cancel reservations."),
            "reclaims": ("admin.reclaims:reclaims", "List the reclaimed periods."),
            "requests": ("admin.approvals:requests", "List the requests that need your approval."),
            "approve": ("admin.approvals:approve", "Approve a request that needs your approval."),
            "decline": ("admin.approvals:decline", "Decline a request that needs your approval."),
        },
        "Machines": {
            "nodes": ("admin.machines:nodes", "Take nodes out of service, or put them back."),
            "policy": (
                "admin.machines:policy",
                "Switch the policy of a machine; its jobs keep their order.",
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
        },
    },
    help="Manage keys, approvals, reclaims and stores.",
    examples=("kalends admin config > kalends.toml", "kalends admin audit"),
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

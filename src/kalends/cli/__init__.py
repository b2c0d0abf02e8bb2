"""The command line: ``kalends COMMAND``. A command is loaded when it is used, from the module of its noun.

The groups and summaries below keep ``--help`` and ``--version`` from loading any command; a test compares
them with the commands themselves.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from kalends import __version__
from kalends.cli.console.commands import group_options
from kalends.cli.console.groups import LazyGroup, Listed
from kalends.cli.console.settings import Settings

COMMANDS: Listed = {
    "Booking": {
        "find": ("requests.find:find", "Find possible starts; book nothing."),
        "book": ("requests.bookings:book", "Book every part of a request, or nothing."),
        "hold": ("requests.bookings:hold", "Hold slots until they are locked or released."),
        "lock": ("requests.changes:lock", "Lock all slots that a request holds."),
        "release": ("requests.changes:release", "Release all slots that a request holds."),
    },
    "Looking up": {
        "resources": ("resources:resources", "List the resources that can be booked."),
        "sites": (
            "resources:sites",
            "List the sites that a broker knows, and how they bid for jobs.",
        ),
        "calendar": ("resources:calendar", "Draw the calendar of a resource."),
        "list": ("requests.lookups:list_requests", "List your requests, newest first."),
        "show": ("requests.lookups:show", "Show one request, by id or by key, or a series."),
        "ics": ("requests.calendar_files:ics", "Print reservations as a calendar file."),
        "why": ("requests.lookups:why", "Explain what happened to a request."),
        "watch": ("requests.lookups:watch", "Follow the events of your requests."),
        "feed": ("subcommands:feed", "Manage calendar feeds of your reservations."),
        "notify": ("subcommands:notify", "Manage the addresses for notices."),
    },
    "Changing": {
        "move": (
            "requests.changes:move",
            "Move a reservation to another time, or a job to another site.",
        ),
        "extend": ("requests.changes:extend", "Make a reservation longer."),
        "shrink": ("requests.changes:shrink", "Make a reservation shorter or smaller."),
        "checkin": ("requests.check_in:checkin", "Check in: you came for a reservation."),
        "series": ("subcommands:series", "Book again what was missed of a series."),
        "cancel": (
            "requests.changes:cancel",
            "Cancel a reservation at all its sites, or occurrences of a series.",
        ),
    },
    "Sharing": {
        "share": ("requests.sharing:share", "Share a request with a user, a group or guests."),
        "unshare": (
            "requests.sharing:unshare",
            "Stop sharing a request with a user, a group or guests.",
        ),
        "give": ("requests.sharing:give", "Offer a reservation to another user."),
        "accept": ("requests.sharing:accept", "Take over a reservation that is offered to you."),
        "decline": (
            "requests.sharing:decline",
            "Decline a reservation that is offered to you, or withdraw your offer.",
        ),
    },
    "Running jobs": {
        "submit": (
            "jobs.submission:submit",
            "Submit a job to a machine, to the one where it ends first, or to several together.",
        ),
        "run": ("jobs.run:run", "Run a program on a machine, in this terminal."),
        "attach": ("jobs.run:attach", "Attach to the terminal of a job."),
        "queue": ("jobs.machine:queue", "List the jobs that wait or run on a machine."),
        "job": ("jobs.job:job", "Show one job, also after its end."),
        "log": ("jobs.job:log", "Print the output of a job."),
        "kill": ("jobs.job:kill", "End jobs: withdraw those that wait, end those that run."),
        "machine": (
            "jobs.machine:machine",
            "Show a machine: its nodes, its policy, and which job has which nodes.",
        ),
        "usage": ("jobs.usage:usage", "Sum up the node-seconds that your jobs used, by project."),
    },
    "Logging in": {
        "login": ("logins.login:login", "Save a server's address and your login in a profile."),
        "whoami": ("logins.caller:whoami", "Show your identity at the server."),
        "logout": ("logins.login:logout", "Forget the token of a profile."),
        "completion": ("completion:completion", "Print the completion script for a shell."),
    },
    "Research": {
        "simulate": ("research.simulate:simulate", "Replay a workload under scheduling policies."),
        "policies": ("research.policies:policies", "List the scheduling policies."),
        "check-schedule": (
            "research.check_schedule:check_schedule",
            "Check a schedule against its log and policy.",
        ),
    },
    "Operating": {
        "today": ("admin.today:today", "Show an owner's day: who comes, what waits, what changed."),
        "serve": ("serve:serve", "Run a site, a broker, a virtual site, or several."),
        "admin": ("subcommands:admin", "Manage keys, approvals, reclaims and stores."),
        "agent": ("subcommands:agent", "Manage scripts that choose slots at each site."),
        "demo": ("demo:demo", "Run three sites and a broker on this machine."),
    },
}

COMPLETE_VARIABLE = "_KALENDS_COMPLETE"
"""Environment variable that a shell sets to ask for completions."""

EPILOG = """Requests: sdsc/sp2:64 + caltech/onyx   or   3 of {kind=sgi, memory>=64}   or   A | B.

Exit codes: 0 done, 1 error, 2 usage, 3 done in part, 4 not allowed, 5 no common time, 6 lost a race,
7 expired, 75 try again later."""


@click.command(
    "kalends",
    cls=LazyGroup,
    listed=COMMANDS,
    epilog=EPILOG,
    examples=(
        "kalends find 'sdsc/sp2:64 + ncsa/cave' --for 2h",
        "kalends book 'sdsc/sp2:64 + ncsa/cave' --for 2h --at 'tomorrow 09:00'",
    ),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@group_options
def cli() -> None:
    """Book resources of several owners for the same time: all or none."""


def main() -> int:
    """Run the ``kalends`` program and return its exit code."""
    if COMPLETE_VARIABLE in os.environ:
        _complete()
    return cli.run(Settings())


def _complete() -> NoReturn:
    """Complete a command for a shell, and exit at once, without waiting for a host look-up."""
    code = 0
    try:
        cli.run(Settings())
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else 1
    finally:
        sys.stdout.flush()
        os._exit(code)

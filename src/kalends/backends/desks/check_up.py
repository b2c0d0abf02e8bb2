"""Check-up of a batch system that takes jobs, before a site relies on it."""

from __future__ import annotations

from collections.abc import Mapping

from kalends.backends.adapter import SystemSilent
from kalends.backends.check_up import CheckUp, check_launching
from kalends.backends.desks.desk_line import DeskLine
from kalends.backends.desks.handed_over import QueueAccess
from kalends.backends.kinds import kind_named


async def check_handing_over(
    access: QueueAccess, users: Mapping[str, str], environment: Mapping[str, str]
) -> CheckUp:
    """Start a desk for each user, which writes a test file to the folder of jobs; raises nothing."""
    problems = check_launching(users, ())
    if not users:
        problems.append("no users are listed, so submitting is not possible")
    version = ""
    for there in sorted(set(users.values())):
        desk = DeskLine(access, there, environment, _ignore, _ignore)
        try:
            version = await desk.version()
        except SystemSilent as error:
            problems.append(f"no jobs can be handed over for {there}: {error}")
    queue = kind_named(access.kind).queue
    return CheckUp(queue.facts(access, version) if queue else [], problems)


def _ignore(said: object) -> None:
    """Ignore all news, because nothing was requested."""

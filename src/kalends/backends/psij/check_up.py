"""Check-up of a batch system that takes jobs, before a site relies on it."""

from __future__ import annotations

from collections.abc import Mapping

from kalends.backends.adapter import SystemSilent
from kalends.backends.check_up import CheckUp, check_launching
from kalends.backends.psij.desk_line import DeskLine
from kalends.backends.psij.handed_over import BY_COMMANDS, Executor


async def check_handing_over(
    executor: Executor, users: Mapping[str, str], environment: Mapping[str, str]
) -> CheckUp:
    """Start a desk for each user, which writes a test file to the folder of jobs; raises nothing."""
    problems = check_launching(users, ())
    if not users:
        problems.append("no users are listed, so submitting is not possible")
    version = ""
    for there in sorted(set(users.values())):
        desk = DeskLine(executor, there, environment, _ignore, _ignore)
        try:
            version = await desk.version()
        except SystemSilent as error:
            problems.append(f"no jobs can be handed over for {there}: {error}")
    return CheckUp(facts_of(executor, version), problems)


def facts_of(executor: Executor, version: str) -> list[str]:
    """Return the facts about a system; `version` is PSI/J's, "" without PSI/J."""
    if executor.name == BY_COMMANDS:
        reached = [f"{version} takes jobs of each user"] if version else []
        return [
            *reached,
            "advisory: it alone decides about the jobs in its own queue; a bid for one holds no place there",
            f"its jobs are checked every {executor.look_s} s",
        ]
    reached = [f"{version} reaches it through its executor {executor.name}"] if version else []
    return [
        *reached,
        "advisory: it makes no reservations, so it takes jobs, but no bookings",
        f"the states of its jobs in PSI/J are read every {executor.look_s} s",
    ]


def _ignore(said: object) -> None:
    """Ignore all news, because nothing was requested."""

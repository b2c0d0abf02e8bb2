"""Scripts tried here: ``kalends agent ready``, ``check`` and ``run``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Unpack
from zoneinfo import ZoneInfo

import click
import msgspec

from kalends.cli.console import output
from kalends.cli.console.commands import local_command, server_command
from kalends.cli.console.output import short_time
from kalends.cli.console.server_parts import agent_parts
from kalends.cli.console.settings import Settings
from kalends.cli.requests import agent_options, request_options
from kalends.core.errors import InvalidInput
from kalends.core.scripts import Violation, script_hash
from kalends.core.times import parse_time
from kalends.rim.script_files import read_script

if TYPE_CHECKING:
    from kalends.agents.world.visible_calendar import Shown
    from kalends.client.trials.script_check import TrialCheck
    from kalends.client.trials.trial_run import LocalRun, SiteRun


EXIT_FAILED = 1


@local_command("ready", "kalends agent ready", "kalends agent ready time-of-day > mornings.py")
@click.argument("name", required=False)
def ready(settings: Settings, name: str | None) -> None:
    """List the ready-made agents, or print one.

    `kalends book --agent ready:NAME` uses one. Print one to start your own script.
    """
    with agent_parts():
        from kalends.agents import ready as scripts
    if name is None:
        listed = [{"name": known, "summary": scripts.summary(known)} for known in scripts.names()]
        output.answer(
            settings,
            "ready",
            listed,
            lambda: output.rows(
                ("NAME", "WHAT IT PREFERS"), [tuple(each.values()) for each in listed]
            ),
        )
        return
    plain = name.removeprefix("ready:")
    source = scripts.source(plain)
    if settings.json:
        found = {"name": plain, "summary": scripts.summary(plain), "source": source}
        output.print_json("ready", found)
    else:
        output.say_script(source)


@local_command(
    "check",
    "kalends agent check mornings.py",
    "kalends agent check mornings.py --argument at=09:30",
)
@click.argument("file", type=click.Path(path_type=Path))
@agent_options.argument_option
def check(settings: Settings, file: Path, argument: tuple[str, ...]) -> int:
    """Check a script and measure its cost.

    Lists every violation of the language with its place and remedy; the exit code is then 2. A valid
    script runs on sample calendars of 100 and 1,000 slots, pick(bids) on sample bids, and
    rank(schedules, machine) on sample schedules; if a run fails, the exit code is 1.
    """
    source = read_script(file)
    arguments = agent_options.argument_values(argument)
    with agent_parts():
        from kalends.client.trials import script_check
    checked = asyncio.run(script_check.check(source, arguments))
    return tell_check(settings, file, source, checked)


def tell_check(settings: Settings, file: Path, source: str, checked: TrialCheck) -> int:
    """Print the result of a check of `file`; return the exit code that it means."""
    output.answer(settings, "checked", checked, lambda: _check_lines(str(file), source, checked))
    if checked.code == "rejected":
        return InvalidInput.exit_code
    fine = all(sample.code == "ok" for sample in checked.samples)
    return 0 if checked.code == "ok" and fine else EXIT_FAILED


def _check_lines(file: str, source: str, checked: TrialCheck) -> list[str]:
    if checked.violations:
        broken = len(checked.violations)
        told = _violation_lines(file, source, checked.violations)
        return [*told, f"{broken} rule{'' if broken == 1 else 's'} broken"]
    if checked.code != "ok":
        return [f"{file} could not be checked: {checked.code}: {checked.detail}"]
    return [
        f"{file} follows the rules",
        f"  script   {script_hash(source)}",
        f"  size     {len(source.encode())} bytes",
        f"  defines  {', '.join(checked.functions)}",
        f"  runs in  {checked.place}",
        *(f"  {line}" for line in _sample_rows(checked)),
    ]


def _sample_rows(checked: TrialCheck) -> list[str]:
    return output.rows(
        ("CALL", "SLOTS", "ENDED", "CHOSEN", "STEPS", "CPU MS", "WALL MS", "DETAIL"),
        [
            (
                sample.function,
                sample.slots,
                sample.code,
                sample.chosen,
                sample.steps,
                f"{sample.cpu_us / 1000:.1f}",
                f"{sample.wall_us / 1000:.1f}",
                f"line {sample.line}: {sample.detail}" if sample.line else sample.detail,
            )
            for sample in checked.samples
        ],
        right=("SLOTS", "CHOSEN", "STEPS", "CPU MS", "WALL MS"),
    )


@server_command(
    "run",
    "kalends agent run ready:latest sdsc/sp2:64 --for 2h --calendar sp2.json",
    "kalends agent run mornings.py sdsc/sp2:64 --for 2h --calendar sp2.json",
)
@click.argument("file", metavar="FILE|ready:NAME")
@click.argument("request")
@request_options.when_options
@agent_options.agent_option("--calendar", "calendars", type=click.Path(path_type=Path), multiple=True,
    required=True, metavar="FILE",
    help="Output of `kalends calendar --json`; may be repeated.")  # fmt: skip
@agent_options.argument_option
@agent_options.agent_option("--message", "messages", multiple=True, metavar="JSON",
    help="Message to the agent, e.g. '{\"skip\": 3}'; may be repeated.")  # fmt: skip
@agent_options.agent_option(
    "--recall", is_flag=True, help="Also call `recall` for each chosen slot."
)
@agent_options.agent_option("--now", metavar="TIME", help="Time of the run.  [default: now]")
def run(
    settings: Settings,
    file: str,
    request: str,
    calendars: tuple[Path, ...],
    argument: tuple[str, ...],
    messages: tuple[str, ...],
    recall: bool,
    now: str | None,
    **when: Unpack[request_options.When],
) -> int:
    """Run a script here on saved calendars.

    Runs the script once for each site of the request, on the slots that you could book there. Prints its
    choices in order of preference, and the values that it leaves for you. The exit code is 1 if a run
    fails, and 2 if the script breaks rules of the language.
    """
    zone = settings.time_zone()
    wall_s = int(time.time())
    if now is not None:
        wall_s = parse_time(now, wall_s, zone, where="--now")
    # Imported here because checks of scripts need no requests.
    from kalends.client.inputs.request_builder import request_from

    with agent_parts():
        source = _source(file)
    wanted = request_from(
        request, duration=when["duration"], at=when["at"], window=request_options.window(when), note="",
        priority=0, prefer=(), agent="mine", arguments=agent_options.argument_values(argument),
        agent_must_run=False,
        now_s=wall_s, zone=zone,
    )  # fmt: skip
    inbox = tuple(agent_options.plain_data(message, "--message") for message in messages)
    with agent_parts():
        from kalends.client.trials import trial_run
    trial = trial_run.Trial(
        source=source, request=wanted, user=settings.user_name(), inbox=inbox, wall_s=wall_s,
        recall=recall,
    )  # fmt: skip
    ran = asyncio.run(trial_run.run(trial, _calendars(calendars)))
    output.answer(settings, "run", ran, lambda: _run_lines(file, source, ran, zone))
    codes = {site.code for site in ran.sites}
    if "rejected" in codes:
        return InvalidInput.exit_code
    return 0 if codes == {"ok"} else EXIT_FAILED


def _source(file: str) -> str:
    """Return the script; raises what `read_script` raises, and `NotFound` for an unknown ready-made one."""
    from kalends.agents import ready

    if file.startswith("ready:"):
        return ready.source(file.removeprefix("ready:"))
    return read_script(Path(file))


def _calendars(paths: Iterable[Path]) -> dict[str, Shown]:
    """Return the calendars in all files; raises `InvalidInput`, which names the file."""
    from kalends.agents.local import load_calendars

    shown: dict[str, Shown] = {}
    for path in paths:
        try:
            found = load_calendars(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", "") or "the file is not UTF-8"
            raise _no_calendar(path, f"cannot read the calendar: {reason}") from error
        except InvalidInput as error:
            raise _no_calendar(path, f"{error.where}: {error.detail}") from error
        if twice := sorted(shown.keys() & found.keys()):
            raise _no_calendar(path, f"{twice[0]} is also in another file")
        shown |= found
    return shown


def _no_calendar(path: Path, detail: str) -> InvalidInput:
    return InvalidInput(
        detail, where=str(path), remedy="give the output of kalends calendar RESOURCE --json"
    )


def _run_lines(file: str, source: str, ran: LocalRun, zone: ZoneInfo) -> Iterable[str]:
    rejected = next((site for site in ran.sites if site.violations), None)
    if rejected is not None:
        return _violation_lines(file, source, rejected.violations)
    lines = [line for site in ran.sites for line in _site_lines(site, zone)]
    return [*lines, f"run in {ran.place}"]


def _site_lines(site: SiteRun, zone: ZoneInfo) -> list[str]:
    if site.code == "ok":
        told = [f"{site.site}: {len(site.chosen)} of {site.slots} slots chosen"]
    else:
        where = f"line {site.line}: " if site.line else ""
        told = [
            f"{site.site}: {site.code}: {where}{site.detail}".rstrip(": "),
            "  the site would choose the earliest slots instead",
        ]
    told += [f"  {line}" for line in _choice_rows(site, zone)]
    if len(site.chosen) > site.held_max:
        told.append(
            f"  and {len(site.chosen) - site.held_max} more, in case some of these are taken"
        )
    told += [f"  left for you: {msgspec.json.encode(value).decode()}" for value in site.sent]
    cpu_ms, wall_ms = site.cpu_us / 1000, site.wall_us / 1000
    return [
        *told,
        f"  {site.steps} steps, {cpu_ms:.1f} ms of CPU time, {wall_ms:.1f} ms in all",
    ]


def _choice_rows(site: SiteRun, zone: ZoneInfo) -> list[str]:
    """Return a row for each slot that would be held, within the owner's limit."""
    held = site.chosen[: site.held_max]
    if not held:
        return []
    asked_back = any(choice.recall for choice in held)
    return output.rows(
        ("SLOT", "RESOURCE", "UNITS", "FREE", f"START ({zone.key})", "END",
         *(("ASKED BACK",) if asked_back else ())),
        [
            (
                choice.id,
                choice.resource,
                choice.units,
                choice.free,
                short_time(choice.start, zone),
                short_time(choice.end, zone),
                *((choice.recall,) if asked_back else ()),
            )
            for choice in held
        ],
        right=("SLOT", "UNITS", "FREE"),
    )  # fmt: skip


def _violation_lines(file: str, source: str, violations: Iterable[Violation]) -> list[str]:
    """Show each violation with its place, its line, a caret below its column, and the remedy."""
    lines = source.splitlines()
    told = []
    for violation in violations:
        told.append(
            f"{file}:{violation.line}:{violation.column}: {violation.rule}: {violation.detail}"
        )
        if 0 < violation.line <= len(lines):
            line = lines[violation.line - 1]
            told += [f"    {line.replace(chr(9), ' ')}", f"    {' ' * (violation.column - 1)}^"]
    return told

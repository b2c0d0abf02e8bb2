"""Jobs on the command line: their names, and how they are shown."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from kalends.cli.console import output
from kalends.cli.console.output import short_time
from kalends.cli.console.progress import LiveLine
from kalends.cli.console.screen import stated
from kalends.cli.console.settings import Settings
from kalends.client.inputs import job_texts
from kalends.client.inputs.job_texts import JobName
from kalends.contract.job_calls import JobView, MachineLoad, end_text
from kalends.core.durations import format_duration
from kalends.core.money import format_credits
from kalends.core.number_ranges import numbers_text
from kalends.core.run_times import clocks_agree
from kalends.core.times import format_time

if TYPE_CHECKING:
    from kalends.client.client import Client


SIGNALLED: Final = 128
"""Base of the exit codes of programs ended by a signal, as in shells."""

LOOK_EVERY_S: Final = 0.1
"""Interval between queries for what is about to happen."""

BEFORE_START: Final = ("held", "queued", "starting")

LOOKS_S: Final = (0.05, 0.1, 0.2, 0.4)
"""First intervals between queries (s); later one each second, or each `FAR_S` if the start is far."""

FAR_S: Final = 5


def job_named(settings: Settings, text: str) -> JobName:
    """Read ``sdsc/sp2/17``, or ``17`` on the default machine; raises `InvalidInput`."""
    if "/" not in text and settings.machine:
        text = f"{settings.machine}/{text}"
    return job_texts.job_named(text)


def made_text(machine: str, first: int, count: int) -> str:
    """Return the name of a submitted job, or of the jobs of an array."""
    more = f", and {count - 1} more, up to {first + count - 1}" if count > 1 else ""
    return f"{machine}/{first}{more}"


def left_lines(machine: str, number: int) -> list[str]:
    """Return the lines to print when the user leaves a running job."""
    name = f"{machine}/{number}"
    return [
        f"kalends: {name} continues without you",
        f"  come back:  kalends attach {name}",
        f"  end it:     kalends kill {name}",
    ]


async def ended(client: Client, machine: str, number: int) -> JobView:
    """Return a job whose terminal has ended, when the job has ended or waits to run again."""
    while True:
        view = await client.job(machine, number)
        if view.end or view.phase in ("held", "queued"):
            return view
        await asyncio.sleep(LOOK_EVERY_S)


def exit_code(job: JobView) -> int:
    """Return the exit code of a job's program; if it did not exit itself, print how it ended."""
    if job.end != "exit":
        how = end_text(job) if job.phase == job.end else f"{job.phase}: {end_text(job)}"
        output.say(f"kalends: {job.machine}/{job.job} {how}", error=True)
    if job.status < 0:
        return SIGNALLED - job.status
    return job.status if job.end == "exit" else job.status or 1


def reservation_id(settings: Settings, text: str) -> str:
    """Return the whole id of a reservation as typed; raises what `full_id` does."""
    with settings.connect() as client:
        return client.full_id(text)


def listing(jobs: tuple[JobView, ...], zone: ZoneInfo) -> list[str]:
    """Return a row for each job: its state, and its start or end."""
    return output.rows(
        ("JOB", "NAME", "USER", "STATE", "NODES", "LIMIT", f"START ({zone.key})", "REASON"),
        [
            (
                f"{job.machine}/{job.job}",
                job.name or _short(job) or "-",
                job.user,
                job.phase,
                len(job.node_numbers) or job.nodes,
                format_duration(job.limit_s) if job.limit_s else "-",
                _start(job, zone),
                "; ".join(job.reasons) or end_text(job) or "-",
            )
            for job in jobs
        ],
        right=("NODES", "LIMIT"),
    )


def machine_lines(machines: tuple[MachineLoad, ...]) -> list[str]:
    """Return a row for each machine, and remarks about its policy and nodes."""
    remarks = [
        f"{load.machine}: the owner's policy is disabled: {load.policy_disabled}"
        for load in machines
        if load.policy_disabled
    ]
    remarks += [
        f"{load.machine}: an operator has switched from {load.configured_policy} to {load.policy}"
        for load in machines
        if load.configured_policy not in ("", load.policy) and not load.policy_disabled
    ]
    remarks += [
        f"{load.machine}: out of service"
        + (f" until {format_time(each.until, 'UTC')}" if each.until else "")
        + f": {numbers_text(each.nodes)}"
        + (f": {each.reason}" if each.reason else "")
        for load in machines
        for each in load.out_reasons
    ]
    remarks += [
        f"{load.machine}: belongs to the host {load.aside}, and its site runs on another one"
        for load in machines
        if load.aside
    ]
    return remarks + output.rows(
        ("MACHINE", "NODES", "FREE", "OUT", "RESERVED", "RUNNING", "WAITING", "POLICY", "KIND"),
        [
            (
                load.machine, load.nodes, "?" if load.decides else load.free, load.out,
                load.reserved, *(("?", "?") if load.aside else (load.running, load.waiting)),
                load.policy, "advisory" if load.decides else load.description,
            )
            for load in machines
        ],
        right=("NODES", "FREE", "OUT", "RESERVED", "RUNNING", "WAITING"),
    )  # fmt: skip


def details(job: JobView, zone: ZoneInfo) -> list[str]:
    """Return everything about one job, a line each."""
    lines = [
        f"job        {job.machine}/{job.job}" + (f" ({job.name})" if job.name else ""),
        f"user       {job.user}" + (f", project {job.project}" if job.project else ""),
        stated(
            f"state      {': '.join(filter(None, (job.phase, '; '.join(job.reasons))))}",
            job.phase,
            11,
        ),
        f"asks for   {_asked(job)} {_how_long(job)}",
        f"submitted  {short_time(job.submitted, zone)}",
    ]
    if job.command:
        lines.append(f"runs       {' '.join(job.command)}")
    if job.notify is not None:
        told = f"on {', '.join(job.notify.when)}" + (", for each job" if job.notify.each else "")
        lines.append(f"notifies   {job.notify.to or job.user} {told}")
    if job.reservation:
        lines.append(f"in         reservation {job.reservation}")
    lines += _starts(job, zone)
    if job.started:
        lines.append(f"started    {short_time(job.started, zone)}, attempt {job.attempt}")
    if job.stood_s or job.phase == "stopped":
        lines.append(f"stood      {format_duration(job.stood_s)}, stopped for more urgent jobs")
    if job.node_numbers:
        lines.append(f"nodes      {numbers_text(job.node_numbers)}")
    if job.changing_to:
        since = short_time(job.changing_since, zone)
        lines.append(f"changing   to {job.changing_to} nodes since {since}: no answer yet")
    if job.refused:
        lines.append(f"unchanged  {short_time(job.refused_at, zone)}: {job.refused}")
    if job.cost_max:
        lines.append(
            f"costs      at most {format_credits(job.cost_max)} credits of {job.payer}: so much is reserved"
        )
    if job.until:
        lines.append(f"until      {short_time(job.until, zone)} at the latest")
    if job.over:
        lines.append(f"ended      {short_time(job.over, zone)}: {end_text(job)}")
        used = f"{job.node_seconds} node-seconds"
        if job.credit_seconds:
            used += f", {credits_text(job.credit_seconds)} credits"
        if job.ran_s:
            used += f", ran {job.ran_s:.1f} s, CPU {job.cpu_s:.1f} s"
        if job.memory_bytes:
            used += f", {job.memory_bytes / 1e6:.0f} MB"
        lines.append(f"used       {used}")
        if job.ran_s and not clocks_agree(job.over - job.started - job.stood_s, job.ran_s):
            lines.append(
                f"{'':11}by the job's own clock: the site was down then, or its clock was wrong"
            )
    return lines


def _starts(job: JobView, zone: ZoneInfo) -> list[str]:
    """Return the start of a waiting job, as far as it is known."""
    if job.at and not job.started:
        return [f"starts     {short_time(job.at, zone)}, when its nodes are booked"]
    if job.predicted is None:
        return []
    latest = short_time(job.predicted.latest, zone)
    if job.reservation:
        return [f"starts     {latest} at the latest"]
    goes_on = "resumes " if job.phase == "stopped" else "starts  "
    return [
        f"{goes_on}   {_start(job, zone)} expected",
        f"           by {short_time(job.predicted.p90, zone)} nine times of ten",
        f"           at the latest {latest}"
        if job.predicted.firm
        else f"           by {latest}, unless a booking or another job overtakes it",
    ]


def credits_text(credit_seconds: int) -> str:
    """Return credits with two decimals, rounded half up."""
    hundredths = (credit_seconds * 100 + 1_800) // 3_600
    return f"{hundredths // 100}.{hundredths % 100:02}"


def news(before: JobView | None, job: JobView, zone: ZoneInfo) -> str:
    """Return the change of a job since `before`, in a few words."""
    if job.end:
        return f"ended: {end_text(job)}"
    stopped = job.phase == "stopped"
    if job.started and not stopped:
        until = f", until {short_time(job.until, zone)} at the latest" if job.until else ""
        return f"{job.phase} on {numbers_text(job.node_numbers)}{until}"
    if job.predicted is None:
        return f"{job.phase}: {'; '.join(job.reasons) or 'its start is not known yet'}"
    expected = f"expected to {'resume' if stopped else 'start'} {_start(job, zone)}"
    if before is None or before.predicted is None:
        return f"{job.phase}: {expected}"
    later = job.predicted.expected - before.predicted.expected
    moved = f"{format_duration(abs(later))} {'later' if later > 0 else 'earlier'}"
    return f"moved: {expected}, {moved}"


def _how_long(job: JobView) -> str:
    if job.limit_s:
        return f"for {format_duration(job.limit_s)}"
    return "until its reservation ends"


def _start(job: JobView, zone: ZoneInfo) -> str:
    if job.started and job.phase != "stopped":
        return short_time(job.started, zone)
    if job.at:
        return short_time(job.at, zone)
    if job.predicted is None:
        return "-"
    return f"~{short_time(job.predicted.expected, zone)}"


def _asked(job: JobView) -> str:
    if len(job.sizes) < 2:
        return f"{job.nodes} node{'' if job.nodes == 1 else 's'}"
    listed = f"{', '.join(map(str, job.sizes[:-1]))} or {job.sizes[-1]} nodes"
    return f"{listed}, changing while it runs," if job.malleable else listed


def _short(job: JobView) -> str:
    return job.command[0].rpartition("/")[2][:20] if job.command else ""


async def started(client: Client, settings: Settings, view: JobView) -> JobView:
    """Return a job when it runs or has ended; until then, show its expected start."""
    looks = iter(LOOKS_S)
    with LiveLine(silent=settings.json) as line:
        while view.phase in BEFORE_START:
            wait_s = next(looks, 1.0)
            rest_s = expected_in_s(view)
            for _ in range(FAR_S if wait_s == 1 and rest_s > 10 * FAR_S else 1):
                line.show(start_text(view, settings), countdown(view))
                await asyncio.sleep(wait_s)
            view = await client.job(view.machine, view.job)
    return view


def start_text(view: JobView, settings: Settings) -> str:
    """Return the state of a job that has not started, and its expected start."""
    said = f"{view.machine}/{view.job} {view.phase}"
    if view.reasons and view.predicted is None:
        return f"{said}: {'; '.join(view.reasons)}"
    if view.predicted is None:
        return said
    zone = settings.time_zone()
    if view.reservation:
        return f"{said}: starts {short_time(view.predicted.latest, zone)} at the latest"
    expected = short_time(view.predicted.expected, zone)
    nine_of_ten = short_time(view.predicted.p90, zone)
    return f"{said}: starts ~{expected}, by {nine_of_ten} nine times of ten"


def countdown(view: JobView) -> str:
    if view.predicted is None:
        return ""
    rest_s = expected_in_s(view)
    return f"; in {format_duration(rest_s)}" if rest_s > 0 else "; at any moment"


def expected_in_s(view: JobView) -> int:
    """Return the seconds until the job's expected start; 0 if none is known."""
    return max(view.predicted.expected - int(time.time()), 0) if view.predicted is not None else 0

"""Jobs that were left to a broker, in words."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from kalends.cli.jobs.job_options import Wish
from kalends.contract.calls import PlacedEnd, PlacedJob
from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput, KalendsError, Unavailable
from kalends.core.jobs import JobRequest
from kalends.core.times import format_time

if TYPE_CHECKING:
    from kalends.client.sync import SyncClient


def check_broker(client: SyncClient, command: str) -> None:
    """Raise `InvalidInput` where a site would be asked to find a machine: that is what brokers do."""
    if client.health().role == "site":
        raise InvalidInput(
            "no machine is named",
            where="MACHINE",
            remedy=f"write kalends {command} sdsc/sp2 ..., or set KALENDS_MACHINE; without a machine, ask a "
            "broker and not a site",
        )


def place_to_follow(client: SyncClient, job: JobRequest, wish: Wish) -> PlacedJob:
    """Leave a job to the broker; if nobody is here any more when it is placed, it is cancelled again."""
    key = client.new_key()
    try:
        view = client.place_job(job, **wish._asdict(), key=key)
        if view.placed is None:
            raise Unavailable("it is not decided yet where it runs", remedy="try again later")
        return view.placed
    except (KeyboardInterrupt, Unavailable):
        with suppress(KalendsError):
            client.cancel(client.resolve(key).id)
        raise


def placed_words(placed: PlacedJob, zone: ZoneInfo) -> str:
    """Say when a job that was left to the broker starts, as was promised or is likely; or how it ended."""
    if placed.ended is not None:
        told = ended_words(placed.ended, zone)
        says_why = f"; kalends job {placed.machine}/{placed.number} says why"
        return f"{told}{says_why if placed.ended.end == 'not-started' else ''}"
    also = "".join(f"; waits as {each.machine}/{each.number} as well" for each in placed.also)
    if placed.start_by:
        return f"starts by {format_time(placed.start_by, zone)}{also}"
    return f"is likely to start by {format_time(placed.late_start, zone)}{also}"


def ended_words(ended: PlacedEnd, zone: ZoneInfo) -> str:
    """Say when and how a job has ended, and how long it ran."""
    at = format_time(ended.at, zone)
    if ended.end == "withdrawn":
        return f"was withdrawn {at}"
    if ended.end == "not-started":
        return f"could not be started {at}"
    return f"ended {at} after {format_duration(ended.ran_s)}: {how_words(ended)}"


def how_words(ended: PlacedEnd) -> str:
    """Say how a job has ended."""
    return ended.end if ended.end != "exit" or ended.succeeded else f"exit {ended.status}"

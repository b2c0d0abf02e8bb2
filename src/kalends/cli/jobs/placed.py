"""Text for jobs that a broker places."""

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
    """Raise `InvalidInput` if the server is a site: only brokers choose a machine."""
    if client.health().role == "site":
        raise InvalidInput(
            "the machine is missing",
            where="MACHINE",
            remedy=f"write kalends {command} sdsc/sp2 ..., or set KALENDS_MACHINE; without a machine, call a "
            "broker, not a site",
        )


def place_to_follow(client: SyncClient, job: JobRequest, wish: Wish) -> PlacedJob:
    """Let the broker place a job; if this command is interrupted first, cancel the job."""
    key = client.new_key()
    try:
        view = client.place_job(job, **wish._asdict(), key=key)
        if view.placed is None:
            raise Unavailable("the broker has not chosen a machine yet", remedy="try again later")
        return view.placed
    except (KeyboardInterrupt, Unavailable):
        with suppress(KalendsError):
            client.cancel(client.resolve(key).id)
        raise


def placed_words(placed: PlacedJob, zone: ZoneInfo) -> str:
    """Return the promised or likely start of a job that a broker placed, or how it ended."""
    if placed.ended is not None:
        told = ended_words(placed.ended, zone)
        says_why = f"; kalends job {placed.machine}/{placed.number} shows why"
        return f"{told}{says_why if placed.ended.end == 'not-started' else ''}"
    also = "".join(f"; also waits as {each.machine}/{each.number}" for each in placed.also)
    if placed.start_by:
        return f"starts by {format_time(placed.start_by, zone)}{also}"
    return f"is likely to start by {format_time(placed.late_start, zone)}{also}"


def ended_words(ended: PlacedEnd, zone: ZoneInfo) -> str:
    """Return when and how a job ended, and how long it ran."""
    at = format_time(ended.at, zone)
    if ended.end == "withdrawn":
        return f"was withdrawn {at}"
    if ended.end == "not-started":
        return f"could not be started {at}"
    return f"ended {at} after {format_duration(ended.ran_s)}: {how_words(ended)}"


def how_words(ended: PlacedEnd) -> str:
    """Return how a job ended, e.g. ``exit 0``."""
    return ended.end if ended.end != "exit" or ended.succeeded else f"exit {ended.status}"

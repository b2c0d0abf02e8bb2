"""The calendar engine by itself, without servers: room in a full machine, what-if, recurring rules.

The bookings are real: two days and a half of a 128-node machine, from a workload log.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from kalends.calendars import Booking, CapacityCalendar, Recurrence, first_clash
from kalends.simulation.workloads.swf_fields import read_header, read_jobs

LOG = Path(__file__).parent / "data" / "sdsc-sp2-excerpt.swf"
HOUR_S = 3600


def booking(number: int, start: int, end: int, units: int = 1) -> Booking:
    return Booking(
        id=number, start=start, end=end, units=units,
        state="locked", holder="ada", reservation=f"r{number}",
    )  # fmt: skip


def clock(time_s: int | None) -> str:
    return (
        "never" if time_s is None else f"{datetime.fromtimestamp(time_s, UTC):%a %Y-%m-%d %H:%M:%S}"
    )


def machine_of_the_log() -> tuple[CapacityCalendar, int]:
    """All its jobs as bookings, taken in at once, and the instant at which every node is in use."""
    lines = LOG.read_text().splitlines()
    header = read_header(lines)
    epoch_s = int(header["UnixStartTime"])
    stretches = [job.stretch for job in read_jobs(lines) if job.stretch]
    machine = CapacityCalendar(int(header["MaxProcs"]))
    machine.load(
        booking(number, epoch_s + start, epoch_s + end, processors)
        for number, (start, end, processors) in enumerate(stretches, 1)
    )
    return machine, epoch_s + int(header["ExcerptInstant"])


def look_for_room(machine: CapacityCalendar, now: int) -> None:
    week_end = now + 7 * 24 * HOUR_S
    print(f"{len(machine)} bookings; {machine.free(now, now + 1)} nodes free at {clock(now)}")
    for units in (8, 32, 64, 128):
        start = machine.earliest_fit(units, 2 * HOUR_S, now, week_end)
        print(f"  {units:3} nodes for 2 h: {clock(start)}")


def what_if(machine: CapacityCalendar, now: int) -> None:
    """A copy is cheap: try, look, throw away."""
    week_end = now + 7 * 24 * HOUR_S
    trial = machine.copy()
    start = trial.earliest_fit(64, 12 * HOUR_S, now, week_end)
    assert start is not None
    trial.book(booking(10_000, start, start + 12 * HOUR_S, 64))
    before = machine.earliest_fit(96, HOUR_S, now, week_end)
    after = trial.earliest_fit(96, HOUR_S, now, week_end)
    print(
        f"96 nodes for 1 h: {clock(before)}; with 64 more booked from {clock(start)}: {clock(after)}"
    )
    assert 10_000 not in [each.id for each in machine.listing(start, start + HOUR_S)]


def recurring_rules() -> None:
    zone = "Europe/Berlin"
    service = Recurrence("FREQ=MONTHLY;BYDAY=-1FR", "14:00", 4 * HOUR_S, zone)
    every = "FREQ=WEEKLY;INTERVAL=6;BYDAY=FR"
    course = Recurrence(every, "16:00", 2 * HOUR_S, zone, first="2026-01-02")
    clash = first_clash(service, course, not_before=1_767_225_600)
    assert clash is not None
    print(f"{service.describe()}\nand {course.describe()}\nfirst clash at {clock(clash.start)}")
    leap_day = Recurrence("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "00:00", 24 * HOUR_S, zone)
    start_of_march = Recurrence("FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=1", "00:00", HOUR_S, zone)
    never = first_clash(leap_day, start_of_march)
    print(
        f"the leap day and the first hour of March clash: {clock(never.start if never else None)}"
    )


def main() -> None:
    machine, now = machine_of_the_log()
    look_for_room(machine, now)
    what_if(machine, now)
    recurring_rules()


if __name__ == "__main__":
    main()

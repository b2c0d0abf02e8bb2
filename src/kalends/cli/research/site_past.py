"""The past of a site's machine, fetched to be replayed: its jobs as a log, and other uses of its nodes."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from kalends.cli.console import site_calls
from kalends.cli.jobs import usage
from kalends.core.errors import InvalidInput
from kalends.simulation.site_past import background, treatment
from kalends.simulation.workloads.site_log import write_site_log

if TYPE_CHECKING:
    from kalends.cli.console.settings import Settings
    from kalends.client.sync import SyncClient
    from kalends.contract.history_calls import HistoryRow
    from kalends.scheduling.reservations import Reservation


_MONTH: Final = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")


@dataclass(frozen=True)
class SitePast:
    """Jobs of a machine as the log `log`, whose time 0 is the start of the wanted period."""

    log: Path
    nodes: int
    machine: str
    """The topology of the machine as text; "" if nodes are interchangeable."""
    treat: str
    """The priorities of the machine's classes, which are queues of the log, and its shares."""
    reservations: Sequence[Reservation]
    """Nodes that were not available to these jobs."""
    said: str

    def applied(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return options of a replay, with the machine's values for options that the user did not give."""
        treat = ",".join(each for each in (self.treat, given.get("treat", "")) if each)
        reservations = [*self.reservations, *given.get("reservations", ())]
        return {**given, "treat": treat, "reservations": reservations}


@contextmanager
def fetched(
    settings: Settings, machine: str, month: str | None, start: str | None, end: str | None
) -> Iterator[SitePast]:
    """Fetch the ended jobs that were submitted to `machine` in a month, or from `start` to `end`."""
    first, last = _bounds(month, start, end)
    with (
        tempfile.TemporaryDirectory(prefix="kalends-") as directory,
        site_calls.client_at(settings, machine) as client,
    ):
        yield _fetch(
            client,
            machine,
            *client.period_s(first, last),
            Path(directory) / "past.swf",
        )


def _fetch(client: SyncClient, machine: str, start: int, end: int, log: Path) -> SitePast:
    pages = list(usage.pages(client, machine, start, end, by="submitted", everyone=True))
    present = pages[0]
    rows = [
        _as_planned(row, present.ending_s)
        for page in pages
        for row in page.rows
        if not row.reservation
    ]
    with log.open("w") as stream:
        numbers = write_site_log(stream, present, rows, began=start)
    counted = present.description.startswith("pool:")
    others: list[Reservation] = []
    if counted:
        ran = list(usage.pages(client, machine, start, end, by="ran", everyone=True))
        before = [
            row
            for page in ran
            for row in page.rows
            if row.submitted < start and not row.reservation
        ]
        others = background(before, ran[0].reserved, start, present.nodes)
    return SitePast(
        log=log,
        nodes=present.nodes,
        machine="" if counted else present.description,
        treat=treatment(present, numbers),
        reservations=others,
        said=f"{machine} from {_date(start)} to {_date(end)}",
    )


def _as_planned(row: HistoryRow, ending_s: int) -> HistoryRow:
    """Return a job whose limit is the time for which its nodes were planned."""
    return replace(row, limit_s=row.limit_s + ending_s) if row.limit_s else row


def _date(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%MZ")


def _bounds(month: str | None, start: str | None, end: str | None) -> tuple[str, str]:
    if month is None and start is not None and end is not None:
        return start, end
    found = _MONTH.fullmatch(month or "")
    if found is None or start is not None or end is not None:
        raise InvalidInput(
            "the period is missing" if month is None else f"{month!r} is not a month, or not alone",
            where="--month",
            remedy="give --month 2026-10, or --from and --to",
        )
    year, number = int(found[1]), int(found[2])
    following = f"{year + number // 12}-{number % 12 + 1:02}"
    return f"{month}-01T00:00", f"{following}-01T00:00"

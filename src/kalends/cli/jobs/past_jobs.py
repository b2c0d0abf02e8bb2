"""Past jobs of a machine, fetched page by page and written as files for accounting and simulation."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from kalends.client.sync import SyncClient
from kalends.contract.history_calls import HistoryPage, HistoryRow, PastBy

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE_ROWS: Final = 2_000

COLUMNS: Final = (
    "job", "user", "project", "reservation", "priority", "submitted", "started", "over", "nodes", "limit_s",
    "nodes_had", "node_seconds", "credit_seconds", "cpu_s", "memory_bytes",
    "stood_s", "end", "status", "attempt", "array", "index",
)  # fmt: skip
"""Fields of `HistoryRow`, as the columns of a table."""
TIMES: Final = frozenset({"submitted", "started", "over"})


def pages(
    client: SyncClient, machine: str, start: int, end: int, *, by: PastBy, everyone: bool
) -> Iterator[HistoryPage]:
    """Yield all pages, at least one."""
    page: HistoryPage | None = None
    while page is None or page.more:
        page = client.job_history(
            machine, start=start, end=end, by=by, everyone=everyone, count=PAGE_ROWS, after=page
        )
        yield page


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """Open a new file that appears when it is complete; ``-`` is standard output."""
    if path == Path("-"):
        yield sys.stdout
        return
    from kalends.cli.console.new_files import new_file

    with new_file(path) as stream:
        yield stream


def write_csv(stream: TextIO, found: Iterable[HistoryPage]) -> int:
    """Write a header and a row for each job; return the number of jobs. Times are UTC, or empty for none."""
    import csv

    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for page in found:
        writer.writerows([_cell(row, name) for name in COLUMNS] for row in page.rows)
        count += len(page.rows)
    return count


def write_log(stream: TextIO, found: Iterable[HistoryPage]) -> int:
    """Write the jobs as a log in the Standard Workload Format; return the number of jobs."""
    from kalends.simulation.workloads.site_log import write_site_log

    all_pages = list(found)
    rows = [row for page in all_pages for row in page.rows]
    write_site_log(stream, all_pages[-1], rows)
    return len(rows)


def _cell(row: HistoryRow, name: str) -> object:
    value = getattr(row, name)
    if name in TIMES:
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if value else ""
    return "" if value is None else value

"""What a broker is told of a job that is over; and of which jobs a new life of the site tells again."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
from store_support import store_facts

from kalends.batch.journal.contract import JobOver
from kalends.batch.place_keys import key_of_place, request_of_key
from kalends.batch.queue.facts import JobEnding
from kalends.contract.calls import PlacedEnd
from kalends.core.jobs import JobRequest
from kalends.core.limits import DURATION_S_MAX
from kalends.resource_servers.jobs.placed_ends import (
    TOLD_AGAIN_MAX,
    TOLD_AGAIN_S,
    end_of,
    newest_over,
)
from kalends.resource_servers.journal.sqlite.site_history import SqliteSiteHistory
from kalends.resource_servers.journal.sqlite.site_store import SiteStore

NOW = 1_800_000_000
REQUEST = JobRequest(machine="lab/box", limit_s=60, command=("true",))


def over(
    ending: JobEnding | None = None, number: int = 1, at: int = NOW, **more: object
) -> JobOver:
    told = {"phase": "ended", "started": at - 30, **more}
    return JobOver(
        machine="lab/box", number=number, user="ann", request=REQUEST, submitted=1, over=at,
        ending=ending, **told,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("job", "told"),
    [
        (over(JobEnding(kind="exit", ran_s=7.2)), PlacedEnd(at=NOW, end="exit", ran_s=8)),
        (over(JobEnding(kind="exit", status=3)), PlacedEnd(at=NOW, end="exit", status=3, ran_s=30)),
        (over(JobEnding(kind="exit", status=999)), PlacedEnd(at=NOW, end="exit", status=255, ran_s=30)),
        (over(), PlacedEnd(at=NOW, end="withdrawn")),
        (over(JobEnding(kind="lost"), phase="withdrawn"), PlacedEnd(at=NOW, end="withdrawn")),
        (over(JobEnding(kind="not-started"), started=0), PlacedEnd(at=NOW, end="not-started")),
        (
            over(JobEnding(kind="limit", ran_s=2.0 * DURATION_S_MAX)),
            PlacedEnd(at=NOW, end="limit", ran_s=DURATION_S_MAX),
        ),
    ],
)  # fmt: skip
def test_a_broker_is_told_how_and_when_it_ended_and_how_long_it_ran(
    job: JobOver, told: PlacedEnd
) -> None:
    assert end_of(job) == told


async def test_a_new_life_tells_again_what_was_over_within_a_day_the_oldest_first(
    tmp_path: Path,
) -> None:
    store = SiteStore.open(tmp_path / "lab.sqlite", "lab", sync="off")
    store_facts(
        store,
        [
            over(number=number, at=NOW - TOLD_AGAIN_S - 5 + number, key=key_of_place(9, "a-rid"))
            for number in range(1, 2 * TOLD_AGAIN_MAX)
        ],
        0,
    )
    history = SqliteSiteHistory(store.file.path, partial(asyncio.sleep, 0))
    found = await newest_over(history, "lab/box", NOW)
    assert [each.number for each in found] == list(range(TOLD_AGAIN_MAX, 2 * TOLD_AGAIN_MAX))
    assert [each.number for each in await newest_over(history, "lab/box", NOW + 1_990)] == [
        *range(1_996, 2 * TOLD_AGAIN_MAX)
    ]
    assert request_of_key(found[0].key) == "a-rid"
    store.close()


@pytest.mark.parametrize("key", ["", "a-key-of-a-user", "place", "place 9", "other 9 rid"])
def test_a_job_that_no_broker_has_bid_for_is_of_no_request(key: str) -> None:
    assert request_of_key(key) == ""

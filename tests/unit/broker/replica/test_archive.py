"""What was settled long ago leaves the register for a file, whole and once; nothing else leaves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.broker.coordination.record.decision_record import Record, Spec, encode_record
from kalends.broker.register.sqlite.broker_store import BrokerStore
from kalends.broker.replica.archive import Archive, is_settled
from kalends.contract.messages import Want
from kalends.core.intervals import Moment
from kalends.core.requests import Alternative, Request, Term
from kalends.serving.logs import get_logger

DAY = 86_400
NOW_S = 2_000 * DAY
KEEP_S = 30 * DAY
OLD, YOUNG = NOW_S - 31 * DAY, NOW_S - 29 * DAY


def rid(number: int) -> str:
    return f"01234567-89ab-7def-8123-{number:012x}"


def record(number: int, *, end: int = OLD, of: int = 0, **changes: Any) -> Record:
    """A reservation that was made `end`, for an hour; of number `of`, if it is a change."""
    request = Request(
        alternatives=(Alternative(terms=(Term(resource="sdsc/sp2"),)),), duration_s=60, not_before=0
    )
    fields: dict[str, Any] = {
        "rid": rid(number), "user": "anna", "key": f"k{number}", "digest": "d", "stamp": 1,
        "owner": "a:1", "reservation": rid(of or number), "state": "commit",
        "created_ms": min(end, OLD) * 1_000 - 1, "spec": Spec(request), "done": True,
        "wants": (Want("sdsc/sp2", end - 3_600, end - 1, 1),),
    }  # fmt: skip
    return Record(**{**fields, **changes})


async def stored(path: Path, records: Sequence[Record]) -> BrokerStore:
    store = await BrokerStore.open(path, "npaci", lambda committed: None)
    connection = store._file.connection
    connection.execute("begin")
    for each in records:
        connection.execute(
            "insert into request values (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
            (each.rid, each.user, each.key, each.reservation, each.att, each.state, each.owner,
             int(each.done), encode_record(each)),
        )  # fmt: skip
    connection.execute("commit")
    return store


def archive(store: BrokerStore) -> Archive:
    return Archive(
        KEEP_S,
        lambda: store,
        lambda: Moment(0, NOW_S * 1_000),
        get_logger(role="b", name="n"),
    )


async def moved(tmp_path: Path, *records: Record) -> tuple[list[str], list[str]]:
    """Which requests are in the archive, and which are still in the register."""
    store = await stored(tmp_path / "npaci.sqlite", records)
    file = tmp_path / "npaci.archive"
    count = await archive(store).move_settled()
    left = [row.rid for row in await store.page("", 1_000)]
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    assert len(lines) == count
    assert not any("secret" in line or line["digest"] for line in lines)
    await store.close()
    return [line["rid"] for line in lines], left


async def test_what_ended_long_ago_leaves_with_its_changes_and_what_did_not_stays(
    tmp_path: Path,
) -> None:
    gone, left = await moved(
        tmp_path, record(1), record(2, end=YOUNG), record(3, state="replaced"), record(4, of=3),
        record(5, state="replaced"), record(6, of=5, end=YOUNG),
    )  # fmt: skip
    assert gone == [rid(1), rid(3), rid(4)]
    assert left == [rid(2), rid(5), rid(6)]


async def test_many_pages_are_gone_through(tmp_path: Path) -> None:
    many = [record(number, end=OLD if number % 2 else YOUNG) for number in range(1, 700)]
    gone, left = await moved(tmp_path, *many)
    assert gone == [rid(number) for number in range(1, 700, 2)]
    assert left == [rid(number) for number in range(2, 700, 2)]


async def test_a_file_that_cannot_be_written_takes_nothing_out_of_the_register(
    tmp_path: Path,
) -> None:
    store = await stored(tmp_path / "npaci.sqlite", [record(1)])
    (tmp_path / "npaci.archive").mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        await archive(store).move_settled()
    assert [row.rid for row in await store.page("", 9)] == [rid(1)]
    await store.close()


async def test_the_archive_is_its_brokers_alone(tmp_path: Path) -> None:
    await moved(tmp_path, record(1))
    assert (tmp_path / "npaci.archive").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "changes",
    [
        {"done": False}, {"state": "open"}, {"created_ms": YOUNG * 1_000},
        {"wants": (Want("sdsc/sp2", 0, OLD - 1, 1), Want("sdsc/sp2", 0, YOUNG, 1))},
    ],
)  # fmt: skip
def test_nothing_leaves_while_something_of_it_may_still_be_wanted(changes: dict[str, Any]) -> None:
    assert not is_settled(record(1, **changes), NOW_S - KEEP_S)


@given(st.integers(OLD - DAY, YOUNG + DAY))
def test_the_border_is_the_end_of_the_last_slot(end: int) -> None:
    wants = (Want("sdsc/sp2", end - 60, end, 1),)
    assert is_settled(record(1, wants=wants), NOW_S - KEEP_S) == (end < NOW_S - KEEP_S)

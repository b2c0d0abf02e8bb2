"""Reads of a register, one statement each, find what a look at every single row finds, in each store."""

from __future__ import annotations

import asyncio
import inspect
import tempfile
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.late_store import NO_READS
from tests.support.register_twin import TwinRows
from tests.support.register_writes import MOVED, OWNERS, REQUEST, RIDS, T0, USERS
from tests.support.registers import STORES, stores
from tests.support.twin_reads import TwinReads, questions

from kalends.broker.coordination.record.decision_record import (
    Placement,
    Record,
    RecordState,
    Spec,
    encode_record,
)
from kalends.broker.register.contract import Register
from kalends.broker.register.rows import StoredEnd, StoredStart
from kalends.broker.register.stored_request import StoredRequest
from kalends.contract.calls import PlacedEnd
from kalends.core.jobs import JobRequest

JOB = JobRequest(machine="", limit_s=60, directory="/", script="#!/bin/sh\n", rerun=True)
SPEC = Spec(REQUEST, what=Placement(job=JOB, elsewhere=("east",)), by_others=MOVED)
STATES: tuple[RecordState, ...] = ("open", "commit", "closed", "cancelled", "replaced")
STARTS = (
    None, StoredStart("", "east"), StoredStart("", "west"), StoredStart("", "east,west"),
    StoredStart("east", "east"), StoredStart("west", "west", again=True),
)  # fmt: skip


class Line(NamedTuple):
    """A request; `body` is what can be read of it: a record, damage, or nothing (a tombstone)."""

    user: str
    state: RecordState
    owner: str
    done: bool
    body: str
    start: StoredStart | None
    ended_at: int | None

    def record(self, number: int) -> Record:
        """The first requests are each third; the two after each are its changes, if they are there."""
        first = number - number % 3
        return Record(
            RIDS[number], self.user, f"key {RIDS[number]}", "d", 1, self.owner, RIDS[first], T0 * 1_000,
            SPEC, replaces=RIDS[number - 1] if number != first else "",
        )  # fmt: skip

    def stored(self, number: int) -> StoredRequest:
        record, rid = self.record(number), RIDS[number]
        if self.body == "none":
            return StoredRequest(rid, "", rid, rid, 1, "closed", "", done=True, body=None)
        whole = encode_record(record)
        body = {
            "record": whole,
            "no record": b"\xc1",
            "flipped": whole.replace(b"/bin/sh", b"/bin/\xff\xff"),
            "another's": encode_record(msgspec.structs.replace(record, rid=RIDS[number - 1])),
        }[self.body]
        return StoredRequest(
            rid,
            self.user,
            record.key,
            record.reservation,
            1,
            self.state,
            self.owner,
            # No operation makes one that is both open and done.
            self.done and self.state != "open",
            body,
        )


BODIES = ("record", "record", "record", "record", "no record", "flipped", "another's", "none")
LINES = st.builds(
    Line,
    st.sampled_from(USERS),
    st.sampled_from(STATES),
    st.sampled_from(OWNERS),
    st.booleans(),
    st.sampled_from(BODIES),
    st.sampled_from(STARTS),
    st.none() | st.integers(0, 3),
)
TABLES = st.lists(st.none() | LINES, min_size=len(RIDS), max_size=len(RIDS))


def filled(table: list[Line | None]) -> TwinRows:
    rows = TwinRows()
    for number, line in enumerate(table):
        if line is None:
            continue
        rows.requests[RIDS[number]] = line.stored(number)
        if line.start is not None:
            rows.starts[RIDS[number]] = line.start
        if line.ended_at is not None:
            end = msgspec.msgpack.encode(PlacedEnd(end="exit", at=line.ended_at))
            rows.endings[RIDS[number]] = StoredEnd(line.ended_at, end)
    return rows


@pytest.mark.parametrize("store", stores("twin"))
@settings(max_examples=60)
@given(TABLES, st.integers(0, 2**40))
def test_every_read_finds_what_a_look_at_each_row_finds(
    store: str, table: list[Line | None], seed: int
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(_compare(store, Path(directory), filled(table), Random(seed)))


async def _compare(store: str, directory: Path, rows: TwinRows, random: Random) -> None:
    async with STORES[store](directory, 1) as (replica,):
        await replica.fill(rows)
        for question in [each for _ in range(8) for each in questions(random)]:
            assert await question.to(replica.reads) == await question.to(TwinReads(rows)), question


def test_each_read_of_the_contract_is_asked() -> None:
    named = {
        name
        for name, member in inspect.getmembers(Register, inspect.iscoroutinefunction)
        if not name.startswith("_")
    }
    assert {each.read for each in questions(Random(0))} == named - NO_READS

"""The register in SQLite against a twin of dictionaries, with two replicas on one file."""

from __future__ import annotations

import copy
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import (
    Record,
    Registered,
    Spec,
    encode_record,
)
from kalends.broker.register.sqlite import (
    notice_table,
    request_reads,
    request_rows,
    request_writes,
)
from kalends.broker.register.sqlite.broker_store import SCHEMA
from kalends.contract.calls import PlacedEnd, PlacedJob
from kalends.core.identifiers import request_id
from kalends.core.jobs import JobRequest
from kalends.core.requests import Alternative, Request, Term

REQUEST = Request(
    alternatives=(Alternative(terms=(Term(resource="sdsc/sp2"),)),),
    duration_s=3_600,
    not_before=1_800_000_000,
)
T0 = 1_800_000_000
RIDS = tuple(request_id(T0 * 1_000 + number, number) for number in range(4))
KEYS = ("key-one!", "key-two!")
OWNERS = ("npaci-1:1", "npaci-2:2")
TOLD = ("commit", "cancelled")
"""States whose sites are told: the only ones that are finished or adopted."""


def record_of(rid: str, key: str, owner: str = OWNERS[0], *, reservation: str = "") -> Record:
    return Record(
        rid=rid,
        user="anna",
        key=key,
        digest="d",
        stamp=1,
        owner=owner,
        reservation=reservation or rid,
        created_ms=1_800_000_000_000,
        spec=Spec(request=REQUEST),
    )


class Twin:
    """The table of `kalends.broker.coordination.record.decision_record`, word for word, on a dictionary."""

    def __init__(self) -> None:
        self.rows: dict[str, Record | None] = {}
        """None: a tombstone that `Ask` has written."""
        self.keys: dict[str, str] = {}
        """By which a request began, whatever is written of it later."""

    def apply(self, op: r.Operation) -> Registered:
        return getattr(self, f"do_{type(op).__name__.lower()}")(op)

    def answer(self, op: Any, won: bool) -> Registered:
        return Registered(op, won, None if won else copy.copy(self.rows.get(op.rid)))

    def body(self, op: Any, **changes: Any) -> None:
        row = self.rows[op.rid]
        assert row is not None
        new = r.decode_record(op.body) if hasattr(op, "body") else row
        started = changes.pop("started", row.job.started)
        job = msgspec.structs.replace(new.job, started=started, ended=row.job.ended)
        kept = {name: getattr(row, name) for name in ("att", "state", "owner", "done")}
        self.rows[op.rid] = msgspec.structs.replace(new, job=job, **{**kept, **changes})

    def note(self, row: Record, **facts: Any) -> None:
        row.job = msgspec.structs.replace(row.job, **facts)

    def open_at(self, op: Any) -> bool:
        row = self.rows.get(op.rid)
        return row is not None and row.state == "open" and row.att == op.att

    def do_begin(self, op: r.Begin) -> Registered:
        new = op.record
        of_key = [self.rows[rid] for rid, key in self.keys.items() if key == new.key]
        if of_key:
            return Registered(op, False, copy.copy(of_key[0]))
        if new.rid in self.rows:
            return Registered(op, False, copy.copy(self.rows[new.rid]))
        self.rows[new.rid] = msgspec.structs.replace(new, done=False)
        self.keys[new.rid] = new.key
        return Registered(op, True)

    def do_note(self, op: r.Note) -> Registered:
        won = self.open_at(op)
        if won:
            self.body(op)
        return self.answer(op, won)

    def do_raise(self, op: r.Raise) -> Registered:
        won = self.open_at(op)
        if won:
            self.body(op, att=op.att + 1, owner=op.owner)
        return self.answer(op, won)

    def do_commit(self, op: r.Commit) -> Registered:
        won, old, new = self.open_at(op), self.rows.get(op.replaces), self.rows.get(op.rid)
        if won and op.replaces:
            won = old is not None and old.state == "commit"
            if won and old is not None:
                won = self.may_leave(old, op) if op.elsewhere else old.done
        if won and old is not None and new is not None:
            old.state = "replaced"
            if op.elsewhere:
                old.told, old.done, old.owner = old.done, False, new.owner
                self.note(old, started=old.job.started or None)
        if won:
            self.body(op, state="commit", started="" if op.places else None)
        return self.answer(op, won)

    def may_leave(self, old: Record, op: r.Commit) -> bool:
        if op.running:
            if old.spec.placement is None or not old.spec.placement.job.rerun:
                return False
            return old.job.started not in (None, "", r.FORGOTTEN) and old.job.ended is None
        return old.job.started == "" and old.job.ended is None

    def do_close(self, op: r.Close) -> Registered:
        won = self.open_at(op)
        if won:
            self.body(op, state="closed", done=True)
        return self.answer(op, won)

    def do_cancel(self, op: r.Cancel) -> Registered:
        row = self.rows.get(op.rid)
        won = row is not None and row.state == "commit"
        if won and row is not None:
            started = row.job.started or None
            self.body(op, state="cancelled", done=False, owner=op.owner, started=started)
        return self.answer(op, won)

    def do_finish(self, op: r.Finish) -> Registered:
        row = self.rows.get(op.rid)
        won = row is not None and row.state == op.state
        if won:
            self.body(op, done=True)
        return self.answer(op, won)

    def do_adopt(self, op: r.Adopt) -> Registered:
        row = self.rows.get(op.rid)
        won = row is not None and row.state == op.state and not row.done
        if won:
            self.body(op, owner=op.owner)
        return self.answer(op, won)

    def do_read(self, op: r.Read) -> Registered:
        return Registered(op, True, copy.copy(self.rows.get(op.rid)))

    def do_ask(self, op: r.Ask) -> Registered:
        if op.proved:
            self.rows.setdefault(op.rid, None)
        standing = copy.copy(self.rows.get(op.rid))
        return Registered(op, True, standing)

    def do_permit(self, op: r.Permit) -> Registered:
        row = self.rows.get(op.rid)
        if not op.proved:
            return Registered(op, False)
        taken = row is not None and (row.state, row.att) == ("commit", op.att)
        if row is None or not taken or op.site not in row.chosen:
            return self.answer(op, False)
        if not row.job.started and (row.job.ended is not None or self.must_wait(row, op)):
            return self.answer(op, False)
        if row.job.started is None:
            before = self.rows.get(row.replaces)
            known = not row.replaces or (before is not None and before.spec.placement is not None)
            sure = len(row.chosen) == 1 and known
            self.note(row, started=op.site if sure else r.FORGOTTEN)
        self.note(row, started=row.job.started or op.site)
        return Registered(op, row.job.started == op.site, copy.copy(row))

    def must_wait(self, row: Record, op: r.Permit) -> bool:
        job = row.spec.placement.job if row.spec.placement is not None else None
        lost = op.lost if job is not None and job.rerun and not job.at_most_once else ()
        return bool(row.replaces) and any(
            each is not None
            and each.reservation == row.reservation
            and each.state == "replaced"
            and each.job.started
            and each.job.ended is None
            and each.job.started not in lost
            for each in self.rows.values()
        )

    def do_noteend(self, op: r.NoteEnd) -> Registered:
        row = self.rows.get(op.rid)
        if row is None or row.state not in r.COMMITTED or row.att != op.att:
            return self.answer(op, False)
        started = row.job.started
        waits = row.job.placed is None or (row.state == "commit" and started == "")
        left = row.state == "replaced"
        if op.site not in row.chosen or waits or started not in (None, op.site, r.FORGOTTEN):
            return self.answer(op, False)
        if left and not started:
            return self.answer(op, False)
        since_s = op.end.at - (T0 - 60)
        if since_s < 0 and not left:
            return self.answer(op, False)
        end = msgspec.structs.replace(op.end, ran_s=min(op.end.ran_s, since_s))
        if since_s < 0:
            end = msgspec.structs.replace(op.end, at=T0, ran_s=0)
        won = row.job.ended is None
        self.note(row, ended=row.job.ended or end)
        if won and left and end.end in ("exit", "limit"):
            for each in self.rows.values():
                waits = each is not None and each.state == "commit" and each.job.started == ""
                if waits and each.reservation == row.reservation:
                    self.note(each, ended=each.job.ended or end)
        return Registered(op, won, copy.copy(row))


attempts = st.integers(1, 3)
sites = st.sampled_from(("east", "west"))
places = st.sampled_from(((), ("east",), ("east", "west")))
losses = st.sampled_from(((), ("east",), ("east", "west")))
jobs = st.sampled_from(
    (
        None,
        r.Placement(JobRequest(machine="", limit_s=60, command=("true",), rerun=True)),
        r.Placement(
            JobRequest(machine="", limit_s=60, command=("true",), rerun=True, at_most_once=True)
        ),
    )
)
ends = st.builds(
    PlacedEnd,
    at=st.sampled_from((0, T0 - 61, T0 - 60, T0)),
    end=st.sampled_from(("exit", "limit", "killed")),
    ran_s=st.sampled_from((0, 60, 61)),
)
rids = st.sampled_from(RIDS)
owners = st.sampled_from(OWNERS)


@st.composite
def operations(draw: st.DrawFn) -> r.Operation:
    rid = draw(rids)
    att = draw(attempts)
    owner = draw(owners)
    key = KEYS[RIDS.index(rid) % 2] if draw(st.booleans()) else f"own-key-{rid}"
    reservation = rid if rid == RIDS[-1] else RIDS[0]
    written = record_of(rid, key, owner, reservation=reservation)
    written.spec = msgspec.structs.replace(written.spec, what=draw(jobs))
    written.problem = None
    written.stamp = draw(st.integers(1, 9))
    written.chosen = dict.fromkeys(draw(places), (1,))
    placed = draw(st.sampled_from((None, PlacedJob(machine="east/m", number=1))))
    written.job = r.JobFacts(placed=placed)
    replaces = draw(st.sampled_from(("", *(other for other in RIDS if other != rid))))
    written.replaces = replaces
    body = encode_record(written)
    state = draw(st.sampled_from(TOLD))
    return draw(
        st.sampled_from(
            (
                r.Begin(written),
                r.Note(rid, att, body),
                r.Raise(rid, att, owner, body),
                r.Commit(
                    rid,
                    att,
                    replaces,
                    body,
                    draw(st.sampled_from(((), tuple(written.chosen)))),
                    elsewhere=draw(st.booleans()),
                    running=draw(st.booleans()),
                    again=draw(st.booleans()),
                ),
                r.Permit(rid, att, draw(sites), "site", draw(st.booleans()), draw(losses)),
                r.NoteEnd(rid, att, draw(sites), draw(ends), "site"),
                r.Close(rid, att, body),
                r.Cancel(rid, owner, body),
                r.Finish(rid, state),  # type: ignore[arg-type]  # one of TOLD
                r.Adopt(rid, state, owner),  # type: ignore[arg-type]  # as above
                r.Read(rid),
                r.Ask(rid, att, "s" * 16, "site", "here", proved=True),
                r.Ask(rid, att, "s" * 16, "site", "here"),
            )
        )
    )


class RegisterMachine(RuleBasedStateMachine):
    """Two replicas take turns on one file; each answer and the whole table are the twin's."""

    @initialize()
    def open(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        path = Path(self.directory.name) / "register.sqlite"
        self.replicas = [sqlite3.connect(path, isolation_level=None, timeout=5) for _ in range(2)]
        self.replicas[0].execute("pragma journal_mode = wal")
        for replica in self.replicas:
            replica.execute("pragma synchronous = off")
        self.replicas[0].executescript(SCHEMA)
        self.twin = Twin()

    @rule(replica=st.integers(0, 1), batch=st.lists(operations(), min_size=1, max_size=6))
    def apply(self, replica: int, batch: list[r.Operation]) -> None:
        connection = self.replicas[replica]
        connection.execute("begin immediate")
        results = request_writes.apply(connection, batch)
        connection.execute("commit")
        assert results == [self.twin.apply(operation) for operation in batch]

    @rule(replica=st.integers(0, 1), batch=st.lists(operations(), min_size=1, max_size=3))
    def fail(self, replica: int, batch: list[r.Operation]) -> None:
        """A transaction that is rolled back leaves nothing behind."""
        connection = self.replicas[replica]
        connection.execute("begin immediate")
        request_writes.apply(connection, batch)
        connection.rollback()

    @invariant()
    def tables_agree(self) -> None:
        for connection in self.replicas:
            for rid in RIDS:
                assert request_rows.row(connection, rid) == self.twin.rows.get(rid)
            page = request_reads.page(connection, "", 10)
            assert page == [row for _, row in sorted(self.twin.rows.items()) if row is not None]

    def teardown(self) -> None:
        for connection in self.replicas:
            connection.close()
        self.directory.cleanup()


TestRegister = RegisterMachine.TestCase
TestRegister.settings = settings(max_examples=25, stateful_step_count=20)


@pytest.fixture
def connection() -> sqlite3.Connection:
    made = sqlite3.connect(":memory:", isolation_level=None)
    made.executescript(SCHEMA)
    return made


def test_a_request_without_a_living_owner_is_an_orphan_until_it_is_done(
    connection: sqlite3.Connection,
) -> None:
    mine, theirs = (record_of(RIDS[0], KEYS[0], OWNERS[0]), record_of(RIDS[1], KEYS[1], OWNERS[1]))
    request_writes.apply(connection, [r.Begin(mine), r.Begin(theirs)])
    assert request_reads.orphans(connection, OWNERS[:2], 10) == []
    assert request_reads.orphans(connection, OWNERS[:1], 10) == [theirs]
    assert len(request_reads.orphans(connection, (), 10)) == 2
    assert request_reads.open_requests(connection) == {
        mine.owner: {mine.user: 1},
        theirs.owner: {theirs.user: 1},
    }
    request_writes.apply(connection, [r.Close(theirs.rid, 1, encode_record(theirs))])
    assert request_reads.orphans(connection, OWNERS[:1], 10) == []


def test_what_is_cancelled_belongs_to_the_canceller(connection: sqlite3.Connection) -> None:
    record = record_of(RIDS[0], KEYS[0], OWNERS[0])
    body = encode_record(record)
    request_writes.apply(
        connection,
        [r.Begin(record), r.Commit(record.rid, 1, "", body), r.Finish(record.rid, "commit"),
         r.Cancel(record.rid, OWNERS[1], body)],
    )  # fmt: skip
    assert [row.rid for row in request_reads.orphans(connection, OWNERS[:1], 10)] == [record.rid]
    assert request_reads.orphans(connection, OWNERS[:2], 10) == []


def test_the_current_record_of_a_reservation_is_the_committed_one_and_a_change_shows(
    connection: sqlite3.Connection,
) -> None:
    first = record_of(RIDS[0], KEYS[0])
    change = record_of(RIDS[1], KEYS[1], reservation=first.rid)
    body = encode_record(first)
    request_writes.apply(
        connection,
        [r.Begin(first), r.Commit(first.rid, 1, "", body), r.Finish(first.rid, "commit")],
    )
    request_writes.apply(connection, [r.Begin(change)])
    found = request_reads.reservation(connection, first.rid)
    assert found is not None
    assert (found.current.rid, found.changing) == (first.rid, change.rid)
    commit = r.Commit(change.rid, 1, first.rid, encode_record(change))
    assert request_writes.apply(connection, [commit])[0].won
    found = request_reads.reservation(connection, first.rid)
    assert found is not None
    assert (found.current.rid, found.changing) == (change.rid, "")
    assert [row.state for row in request_rows.history(connection, first.rid)] == [
        "replaced",
        "commit",
    ]
    assert request_reads.listed(connection, "anna", "", "", 10) == [found]


@pytest.mark.parametrize("user", ["", "anna"])
@pytest.mark.parametrize("state", ["open", "held"])
def test_undecided_requests_are_found_among_millions_by_an_index(
    connection: sqlite3.Connection, user: str, state: str
) -> None:
    asked: list[str] = []
    connection.set_trace_callback(asked.append)
    request_reads.listed(connection, user, "", state, 10)
    connection.set_trace_callback(None)
    plan = str(connection.execute(f"explain query plan {asked[0]}").fetchall())
    assert ("request_pending" in plan) or (user and "request_client" in plan), plan


def test_due_reminders_are_found_among_millions_of_requests_by_indexes(
    connection: sqlite3.Connection,
) -> None:
    asked: list[str] = []
    connection.set_trace_callback(asked.append)
    notice_table.due_reminders(connection, 1_800_000_000, 10)
    connection.set_trace_callback(None)
    plan = str(connection.execute(f"explain query plan {asked[0]}").fetchall())
    assert "notice_remind" in plan, plan
    assert "request_begins (client=? AND begins>? AND begins<?)" in plan, plan

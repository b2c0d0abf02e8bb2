"""Of a register and a site that differ, the one that is further is right: the whole table."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.disks import _memory

from kalends.broker import register
from kalends.broker.comparing import compare
from kalends.broker.reconciling import Reconciling
from kalends.broker.record import Begin, Cancel, Record, Recover, Spec
from kalends.broker.store import KIND
from kalends.core import messages as m
from kalends.core.identifiers import request_id
from kalends.core.requests import Alternative, Request, Term

RID = request_id(1_800_000_000_000, 1)
ANN = m.Principal("ann", ("staff",))
KEY = "the key of the site"
SECRET = "a secret of the request"
HERE = m.Want("here/one", 1_800_000_600, 1_800_001_200, 1)
THERE = m.Want("there/one", 1_800_000_600, 1_800_001_200, 1)
CHOSEN = {"here": (7,), "there": (9,)}
SPEC = Spec(
    Request(
        alternatives=(Alternative(terms=(Term(resource="here/one"),)),),
        duration_s=600, not_before=1_800_000_600,
    )
)  # fmt: skip


def row(state: str, **changes: Any) -> Record:
    fields: dict[str, Any] = {
        "rid": RID, "user": "ann", "key": "the-key", "digest": "", "stamp": 5, "owner": "a:1",
        "reservation": RID, "secret": SECRET, "created_ms": 1, "spec": SPEC, "groups": ("staff",),
        "state": state, "wants": (HERE, THERE), "chosen": CHOSEN, "done": True, **changes,
    }  # fmt: skip
    return Record(**fields)


def kept(state: str, **changes: Any) -> m.Kept:
    fields: dict[str, Any] = {
        "rid": RID, "att": 1, "state": state, "principal": ANN, "secret": SECRET, "stamp": 5,
        "wants": (HERE,), "chosen": CHOSEN if state == "locked" else {}, **changes,
    }  # fmt: skip
    return m.Kept(**fields)


def found(here: m.Kept | None, *rows: Record, horizon: int = 0) -> list[Any]:
    page = m.Compared(horizon=horizon, kept=(here,) if here else ())
    findings = compare("here", page, rows, {"here": "http://here"}, (), KEY, 1)
    return [*findings.messages, *findings.operations, *(["waits"] if findings.waits else [])]


def test_what_the_site_forgot_is_locked_again_with_what_was_chosen_there() -> None:
    (relock,) = found(None, row("commit"))
    assert isinstance(relock, m.Relock)
    assert (relock.wants, relock.chosen, relock.principal) == ((HERE,), CHOSEN, ANN)
    assert (relock.secret, relock.stamp, relock.need) == (SECRET, 5, 2)


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("locked", "commit"), ("cancelled", "cancelled"), ("replaced", "replaced"),
        ("promised", "open"), ("promised", "closed"), (None, "cancelled"), (None, "replaced"),
        (None, "closed"), (None, "open"),
    ],
)  # fmt: skip
def test_what_agrees_or_is_on_its_way_is_left_alone(here: str | None, there: str) -> None:
    assert found(kept(here) if here else None, row(there)) == []


def test_what_has_ended_and_may_be_dropped_is_not_missed() -> None:
    assert found(None, row("commit"), horizon=HERE.end) == []
    assert found(None, row("commit", chosen={"there": (9,)})) == []


@pytest.mark.parametrize("state", ["cancelled", "replaced"])
def test_a_ghost_is_freed(state: str) -> None:
    assert found(kept("locked"), row(state)) == [m.Cancel(rid=RID, att=1, secret=SECRET)]


def test_a_reservation_whose_change_is_under_way_is_no_ghost() -> None:
    change = row("commit", rid=request_id(1_800_000_000_000, 2), replaces=RID, done=False)
    change.chosen = {"there": (9,)}
    assert found(kept("locked"), row("replaced"), change) == ["waits"]


def test_what_the_register_forgot_to_cancel_is_cancelled_everywhere() -> None:
    (cancel,) = found(kept("cancelled"), row("commit"))
    assert isinstance(cancel, Cancel)
    assert (cancel.rid, cancel.owner) == (RID, "")


@pytest.mark.parametrize("state", ["open", "closed", None])
def test_a_commit_that_the_register_forgot_is_written_down_and_told_again(
    state: str | None,
) -> None:
    connection = _memory()
    connection.executescript(KIND.schema)
    if state is not None:
        register.apply(connection, [Begin(row("open", wants=(), chosen={}))])
        connection.execute("update request set state = ?", (state,))
    rows = [each for each in [register.read(connection, RID)] if isinstance(each, Record)]
    (recover,) = found(kept("locked", att=3), *rows)
    assert isinstance(recover, Recover)
    (done,) = register.apply(connection, [recover])
    assert done.won
    recovered = register.read(connection, RID)
    assert isinstance(recovered, Record)
    assert (recovered.state, recovered.att, recovered.done) == ("commit", 3, False)
    assert (recovered.user, recovered.chosen, recovered.wants) == ("ann", CHOSEN, (HERE,))
    assert [each.rid for each in register.orphans(connection, ("b:1",), 10)] == [RID]
    (again,) = compare(
        "there",
        m.Compared(kept=(kept("locked", att=3, wants=(THERE,)),)),
        [recovered],
        {},
        (),
        KEY,
        1,
    ).operations
    register.apply(connection, [again])
    whole = register.read(connection, RID)
    assert isinstance(whole, Record)
    assert whole.wants == (HERE, THERE)


def test_passes_go_on_until_one_finds_nothing_and_what_has_no_room_is_named() -> None:
    rows = [row("commit"), row("cancelled", rid=request_id(1_800_000_000_000, 2))]
    reconciling = Reconciling(lambda *page: list(rows), {}, (), lambda site: KEY)
    reconciling.begin("here")
    assert reconciling.take() == ([("here", m.Compare())], [])
    ghost = kept("locked", rid=rows[1].rid)
    reconciling.receive("here", m.Compared(kept=(ghost,)), 1)
    (_, relock), (_, cancel) = sorted(reconciling.take()[0], key=lambda each: each[1].rid)  # type: ignore[attr-defined]
    assert isinstance(relock, m.Relock)
    assert isinstance(cancel, m.Cancel)
    reconciling.receive("here", m.Relocked(rid=RID, blockers=("another",)), 1)
    assert reconciling.running("here")
    reconciling.beat()
    assert reconciling.take() == ([("here", m.Compare())], [])
    reconciling.receive("here", m.Compared(), 1)
    reconciling.receive("here", m.Relocked(rid=RID, blockers=("another",)), 1)
    assert reconciling.take()[0][-1] == ("here", m.Settled())
    report = reconciling.reports["here"]
    assert (report.compared, report.cancelled, report.relocked) == (2, 1, 0)
    (lost,) = report.lost
    assert (lost.id, lost.user, lost.wants, lost.blockers) == (RID, "ann", (HERE,), ("another",))

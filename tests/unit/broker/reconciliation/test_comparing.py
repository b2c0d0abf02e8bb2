"""Of a register and a site that differ, the one that is further is right: the whole table."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.simulation.disks import _memory

from kalends.broker.coordination.record.decision_record import Begin, Cancel, Record, Recover, Spec
from kalends.broker.coordination.trust import warrants
from kalends.broker.reconciliation.audit import Audits
from kalends.broker.reconciliation.comparison import Ours, compare
from kalends.broker.reconciliation.reconciler import ComparedRows, Reconciler
from kalends.broker.register.sqlite import request_reads, request_rows, request_writes
from kalends.broker.register.sqlite.broker_store import KIND
from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.contract.calls import Event, LostReservation
from kalends.contract.costs import Cost, PaidPiece, SlotCost
from kalends.core.identifiers import request_id
from kalends.core.principals import Principal
from kalends.core.requests import Alternative, Request, Term

RID = request_id(1_800_000_000_000, 1)
ANN = Principal("ann", ("staff",))
REGISTER_SECRET = "the secret of the register"
OURS = Ours(REGISTER_SECRET, {"here": "http://here"}, ())
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
        "reservation": RID, "created_ms": 1, "spec": SPEC, "groups": ("staff",),
        "state": state, "wants": (HERE, THERE), "chosen": CHOSEN, "done": True, **changes,
    }  # fmt: skip
    return Record(**fields)


def secret(site: str, rid: str = RID) -> str:
    return proofs.of_request(proofs.site_key(REGISTER_SECRET, site), rid)


def kept(state: str, *, site: str = "here", **changes: Any) -> m.Kept:
    """What an honest `site` keeps: with the register's word for what it was told."""
    fields: dict[str, Any] = {
        "rid": RID, "att": 1, "state": state, "principal": ANN, "stamp": 5, "wants": (HERE,),
        "chosen": CHOSEN if state == "locked" else {}, **changes,
    }  # fmt: skip
    fields.setdefault("secret", secret(site, fields["rid"]))
    changes = fields.pop("changes", 0)
    told = row(
        "commit", reservation=RID if changes else fields["rid"], changes=changes,
        replaces=fields.get("replaces", ""),
        **{name: fields[name] for name in ("rid", "att", "chosen")},
    )  # fmt: skip
    if state == "locked":
        fields.setdefault("warrant", warrants.of_commit(REGISTER_SECRET, site, told))
    elif state == "cancelled":
        cancelled = warrants.of_cancel(REGISTER_SECRET, site, told)
        fields.setdefault("warrant", cancelled)
    return m.Kept(**fields)


def found(here: m.Kept | None, *rows: Record, horizon: int = 0) -> list[Any]:
    page = m.Compared(horizon=horizon, kept=(here,) if here else ())
    findings = compare("here", page, rows, OURS, 1)
    waits = ["waits"] if findings.waits else []
    return [*findings.messages, *findings.operations, *findings.unproved, *waits]


def test_what_the_site_forgot_is_locked_again_with_what_was_chosen_there() -> None:
    (relock,) = found(None, row("commit"))
    assert isinstance(relock, m.Relock)
    assert (relock.wants, relock.chosen, relock.principal) == ((HERE,), CHOSEN, ANN)
    assert (relock.secret, relock.stamp, relock.need) == (secret("here"), 5, 2)
    assert relock.warrant == kept("locked").warrant
    assert list(relock.proofs) == ["there"]


def test_a_promise_that_came_back_with_a_copy_is_told_that_it_has_ended() -> None:
    (abort,) = found(kept("promised"), row("closed"))
    assert isinstance(abort, m.Decide)
    assert (abort.outcome, abort.att) == ("abort", 1)


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("locked", "commit"), ("cancelled", "cancelled"), ("replaced", "replaced"),
        ("promised", "open"), (None, "cancelled"), (None, "replaced"),
        (None, "closed"), (None, "open"),
    ],
)  # fmt: skip
def test_what_agrees_or_is_on_its_way_is_left_alone(here: str | None, there: str) -> None:
    assert found(kept(here) if here else None, row(there)) == []


def test_what_has_ended_and_may_be_dropped_is_not_missed() -> None:
    assert found(None, row("commit"), horizon=HERE.end) == []
    assert found(None, row("commit", chosen={"there": (9,)})) == []


def cancelled_after(used_s: int) -> Record:
    event = Event(number=1, at_ms=(HERE.start + used_s) * 1_000, id=RID, kind="cancelled")
    return row("cancelled", trail=(event,))


def test_what_was_used_before_it_was_cancelled_is_locked_again_and_no_more() -> None:
    (relock,) = found(None, cancelled_after(300))
    assert relock.wants == (replace(HERE, end=HERE.start + 300),)
    assert found(None, cancelled_after(300), horizon=HERE.start + 300) == []
    assert found(None, cancelled_after(0)) == []


def test_used_time_that_cannot_be_locked_again_is_let_go() -> None:
    reconciler = Reconciler({}, (), lambda: REGISTER_SECRET)
    reconciler.begin("here")
    reconciler.receive("here", m.Compared(), ComparedRows([cancelled_after(300)], {}), 1)
    reconciler.receive("here", m.Relocked(rid=RID, blockers=("another",)), ComparedRows((), {}), 1)
    assert reconciler.take()[0][-1] == ("here", m.Settled())
    assert reconciler.reports["here"].lost == ()


def test_what_both_have_forgotten_is_named() -> None:
    (named,) = found(None, row("commit", wants=(THERE,)))
    assert isinstance(named, LostReservation)
    assert (named.id, named.user, named.wants) == (RID, "ann", ())
    assert "both forgotten" in named.blockers[0]


@pytest.mark.parametrize("state", ["cancelled", "replaced"])
def test_a_ghost_is_freed(state: str) -> None:
    warrant = kept("cancelled").warrant
    cancel = m.Cancel(rid=RID, att=1, secret=secret("here"), warrant=warrant)
    assert found(kept("locked"), row(state)) == [cancel]


@pytest.mark.parametrize(("told", "expected"), [(False, m.Relock), (True, None)])
def test_what_was_cancelled_before_the_site_had_locked_it_is_locked_first(
    told: bool, expected: type[m.Message] | None
) -> None:
    """Otherwise the cancel, and all that comes after it, would wait for ever for a site that forgot it."""
    messages = found(None, row("cancelled", done=False, told=told))
    assert [type(each) for each in messages] == ([expected] if expected else [])


@pytest.mark.parametrize("state", ["commit", "cancelled"])
def test_what_was_replaced_waits_for_no_change_that_the_site_has_forgotten(state: str) -> None:
    change = row(state, rid=FIRST_CHANGE, replaces=RID, done=False)
    cancel, relock = found(kept("locked"), row("replaced"), change)
    assert isinstance(cancel, m.Cancel)
    assert isinstance(relock, m.Relock)
    assert (cancel.rid, relock.rid) == (RID, FIRST_CHANGE)


@pytest.mark.parametrize("state", ["commit", "cancelled", "replaced"])
def test_a_site_that_has_no_part_in_it_learns_nothing_by_saying_that_it_is_locked(
    state: str,
) -> None:
    elsewhere = row(state, chosen={"there": (9,)}, wants=(THERE,))
    (named,) = found(kept("locked"), elsewhere)
    assert isinstance(named, LostReservation)


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
        request_writes.apply(connection, [Begin(row("open", wants=(), chosen={}))])
        connection.execute("update request set state = ?", (state,))
    rows = [each for each in [request_rows.row(connection, RID)] if isinstance(each, Record)]
    (recover,) = found(kept("locked", att=3), *rows)
    assert isinstance(recover, Recover)
    (done,) = request_writes.apply(connection, [recover])
    assert done.won
    recovered = request_rows.row(connection, RID)
    assert isinstance(recovered, Record)
    assert (recovered.state, recovered.att, recovered.done) == ("commit", 3, False)
    assert (recovered.user, recovered.chosen, recovered.wants) == ("ann", CHOSEN, (HERE,))
    assert [each.rid for each in request_reads.orphans(connection, ("b:1",), 10)] == [RID]
    (again,) = compare(
        "there",
        m.Compared(kept=(kept("locked", site="there", att=3, wants=(THERE,)),)),
        [recovered],
        OURS,
        1,
    ).operations
    request_writes.apply(connection, [again])
    whole = request_rows.row(connection, RID)
    assert isinstance(whole, Record)
    assert whole.wants == (HERE, THERE)


def cost_of(want: m.Want, rate: int = 10, **more: Any) -> Cost:
    piece = PaidPiece(want.start, want.end, want.units, rate)
    return Cost("user:ann", (SlotCost(want, (piece,)),), proof="p" * 32, **more)


def test_a_commit_that_the_register_forgot_comes_back_with_what_the_site_has_charged() -> None:
    (recover,) = found(kept("locked", cost=cost_of(HERE)))
    assert recover.record.costs == {"here": cost_of(HERE)}
    there = kept("locked", site="there", wants=(THERE,), cost=cost_of(THERE, 20))
    page = m.Compared(kept=(there,))
    (again,) = compare("there", page, [recover.record], OURS, 1).operations
    assert isinstance(again, Recover)
    assert again.record.costs == {"here": cost_of(HERE), "there": cost_of(THERE, 20)}
    again.record.state, again.record.done = "commit", True
    (relock,) = found(None, again.record)
    assert relock.cost == cost_of(HERE)


def test_a_cancel_that_the_register_forgot_comes_back_with_what_was_paid_back() -> None:
    (recover,) = found(changed("cancelled", 1, cost=cost_of(HERE), refund=5))
    assert (recover.record.costs, recover.record.refunds) == ({"here": cost_of(HERE)}, {"here": 5})


@pytest.mark.parametrize(
    "lie",
    [
        cost_of(THERE), cost_of(HERE, back=1), cost_of(replace(HERE, units=2)),
        replace(cost_of(HERE), slots=cost_of(HERE).slots * 2),
    ],
)  # fmt: skip
def test_a_cost_of_anything_but_the_slots_that_were_committed_is_left_out(lie: Cost) -> None:
    (recover,) = found(kept("locked", cost=lie))
    assert isinstance(recover, Recover)
    assert recover.record.costs == {}


FIRST_CHANGE = request_id(1_800_000_000_000, 2)
SECOND_CHANGE = request_id(1_700_000_000_000, 3)
"""By a clock that was set back meanwhile: ids do not tell which change came first."""


def changed(state: str, number: int, **more: Any) -> m.Kept:
    """A change of `RID`, as a site keeps it."""
    rid, replaces = ((FIRST_CHANGE, RID), (SECOND_CHANGE, FIRST_CHANGE))[number - 1]
    return kept(state, rid=rid, replaces=replaces, changes=number, **more)


def put_back_and_shown(*of_site: m.Kept, state: str | None = "commit") -> dict[str, str]:
    """States by id, in a register that knew nothing but `RID` (`state`), and what users see of it."""
    connection = _memory()
    connection.executescript(KIND.schema)
    if state is not None:
        request_writes.apply(connection, [Begin(row("open", done=False))])
        connection.execute("update request set state = ?, done = 1", (state,))
    for here in of_site:
        rows = [each for each in request_reads.every(connection) if each.rid == here.rid]
        for operation in found(here, *[each for each in rows if isinstance(each, Record)]):
            assert isinstance(operation, Recover)
            request_writes.apply(connection, [operation])
    shown = request_reads.reservation(connection, RID)
    states = {each.rid: each.state for each in request_reads.every(connection)}
    return states | {"shown": shown.current.rid if shown is not None else ""}


@pytest.mark.parametrize("state", ["commit", None])
def test_a_change_that_the_register_forgot_is_found_by_the_id_that_its_user_knows(
    state: str | None,
) -> None:
    before = {} if state is None else {RID: "replaced"}
    assert put_back_and_shown(changed("locked", 1), state=state) == {
        **before, FIRST_CHANGE: "commit", "shown": FIRST_CHANGE,
    }  # fmt: skip


@pytest.mark.parametrize("state", ["commit", "open", "closed", None])
def test_what_was_changed_and_then_cancelled_is_reserved_no_more(state: str | None) -> None:
    states = put_back_and_shown(changed("cancelled", 1), state=state)
    assert (states[FIRST_CHANGE], states["shown"]) == ("cancelled", FIRST_CHANGE)
    assert "commit" not in states.values()


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
@pytest.mark.parametrize("end", ["locked", "cancelled"])
def test_of_several_changes_the_last_one_stands_in_whichever_order_they_are_found(
    order: tuple[int, int], end: str
) -> None:
    both = {1: changed("locked", 1), 2: changed(end, 2)}
    assert put_back_and_shown(*(both[number] for number in order)) == {
        RID: "replaced",
        FIRST_CHANGE: "replaced",
        SECOND_CHANGE: "commit" if end == "locked" else "cancelled",
        "shown": SECOND_CHANGE,
    }


@pytest.mark.parametrize("state", ["locked", "cancelled"])
@pytest.mark.parametrize(
    "line", ["", f"/{SECOND_CHANGE}/1", f"/{RID}/2", f"/{RID}/x", f"/{RID}", "/"]
)
def test_no_site_can_say_which_reservation_a_change_is_of(state: str, line: str) -> None:
    proof = changed(state, 1).warrant.partition("/")[0]
    said = found(changed(state, 1, warrant=proof + line))
    assert not any(isinstance(each, Recover) for each in said)


@pytest.mark.parametrize("state", ["open", "closed", "commit", None])
@pytest.mark.parametrize(
    "lie",
    [
        {"warrant": ""}, {"warrant": "0" * 32}, {"att": 2}, {"stamp": 6}, {"secret": "x" * 16},
        {"principal": Principal("eve", ("staff",))}, {"replaces": request_id(1, 1)},
        {"chosen": {"here": (7,), "there": (10,)}}, {"chosen": {"here": (7,)}},
        {"wants": (THERE,)}, {"wants": (HERE, THERE)}, {"wants": ()},
        {"wants": (m.Want("here/one", HERE.end, HERE.start, 1),)},
    ],
)  # fmt: skip
def test_a_site_that_says_locked_makes_no_reservation(
    lie: dict[str, Any], state: str | None
) -> None:
    """Whatever it claims: only the register's own word, whole, lets it write down what it forgot."""
    changes = {"wants": (THERE,)} if state == "commit" else {"wants": (), "chosen": {}}
    rows = [row(state, **changes)] if state else []
    lying = kept("locked", **{"warrant": kept("locked").warrant, **lie})
    (named,) = found(lying, *rows)
    assert isinstance(named, LostReservation)
    assert "cannot prove it" in named.blockers[0]


@pytest.mark.parametrize("warrant", ["", "0" * 32, "that of the commit"])
def test_a_site_that_says_cancelled_ends_no_reservation(warrant: str) -> None:
    if warrant == "that of the commit":
        warrant = kept("locked").warrant
    (named,) = found(kept("cancelled", warrant=warrant), row("commit"))
    assert isinstance(named, LostReservation)
    assert (named.id, named.user, named.wants) == (RID, "ann", (HERE,))


def test_a_reservation_that_the_register_knows_is_not_changed_by_what_a_site_says_of_it() -> None:
    other = m.Want("here/one", HERE.start, HERE.end + 600, 1)
    assert found(kept("locked", wants=(other,)), row("commit")) == []


@pytest.mark.parametrize(
    "page",
    [m.Compared(after=RID), m.Compared(after="", until=""), m.Compared(after=RID, until=RID)],
)
def test_a_page_that_nobody_asked_for_is_let_go(page: m.Compared) -> None:
    reconciler = Reconciler({}, (), lambda: REGISTER_SECRET)
    reconciler.begin("here")
    later = request_id(1_800_000_000_000, 9)
    reconciler.receive("here", m.Compared(until=later), ComparedRows((), {}), 1)
    assert [message for _, message in reconciler.take()[0]] == [
        m.Compare(), m.Compare(after=later),
    ]  # fmt: skip
    reconciler.receive("here", page, ComparedRows((), {}), 1)
    assert (reconciler.take(), reconciler.running("here")) == (([], []), True)


@pytest.mark.parametrize(
    ("here", "there", "words"),
    [
        (None, "commit", "is reserved, but not locked at here"),
        ("locked", "cancelled", "still locked at here"),
        ("locked", None, "the register has forgotten it"),
        ("cancelled", "commit", "the register has forgotten it"),
    ],
)
def test_an_audit_tells_what_differs_and_mends_nothing(
    here: str | None, there: str | None, words: str
) -> None:
    page = m.Compared(kept=(kept(here),) if here else ())
    audits = Audits(lambda: REGISTER_SECRET)
    audits.begin("here")
    for _ in range(2):
        assert audits.take() == [("here", m.Compare())]
        audits.receive("here", page, ComparedRows([row(there)] if there else [], {}), 1)
    assert (audits.take(), audits.running("here")) == ([], False)
    (difference,) = audits.differences["here"]
    assert words in difference


def test_what_was_paid_for_and_cancelled_on_both_sides_is_no_difference() -> None:
    ended = row("cancelled", costs={"here": cost_of(HERE)}, refunds={"here": 5})
    audits = Audits(lambda: REGISTER_SECRET)
    audits.begin("here")
    audits.receive("here", m.Compared(kept=(kept("cancelled"),)), ComparedRows([ended], {}), 1)
    assert audits.differences == {"here": ()}


def test_what_is_found_once_or_is_on_its_way_is_no_difference() -> None:
    rows = [row("commit")]
    audits = Audits(lambda: REGISTER_SECRET)
    audits.begin("here")
    audits.receive("here", m.Compared(), ComparedRows(rows, {}), 1)
    audits.receive("here", m.Compared(kept=(kept("locked"),)), ComparedRows(rows, {}), 1)
    assert audits.differences == {"here": ()}
    rows[0].done = False
    audits.begin("here")
    audits.receive("here", m.Compared(), ComparedRows(rows, {}), 1)
    assert audits.differences == {"here": ()}


def test_passes_go_on_until_one_finds_nothing_and_what_has_no_room_is_named() -> None:
    rows = [row("commit"), row("cancelled", rid=request_id(1_800_000_000_000, 2))]
    reconciler = Reconciler({}, (), lambda: REGISTER_SECRET)
    reconciler.begin("here")
    assert reconciler.take() == ([("here", m.Compare())], [])
    ghost = kept("locked", rid=rows[1].rid)
    reconciler.receive("here", m.Compared(kept=(ghost,)), ComparedRows(rows, {}), 1)
    (_, relock), (_, cancel) = sorted(reconciler.take()[0], key=lambda each: each[1].rid)  # type: ignore[attr-defined]
    assert isinstance(relock, m.Relock)
    assert isinstance(cancel, m.Cancel)
    reconciler.receive("here", m.Relocked(rid=RID, blockers=("another",)), ComparedRows((), {}), 1)
    assert reconciler.running("here")
    assert reconciler.compared("here") == 2
    reconciler.beat()
    assert reconciler.take() == ([("here", m.Compare())], [])
    reconciler.receive("here", m.Compared(), ComparedRows(rows, {}), 1)
    reconciler.receive("here", m.Relocked(rid=RID, blockers=("another",)), ComparedRows((), {}), 1)
    assert reconciler.take()[0][-1] == ("here", m.Settled())
    report = reconciler.reports["here"]
    assert (report.compared, report.cancelled, report.relocked) == (2, 1, 0)
    (lost,) = report.lost
    assert (lost.id, lost.user, lost.wants, lost.blockers) == (RID, "ann", (HERE,), ("another",))


def test_a_comparison_ends_though_something_new_is_on_its_way_in_every_page() -> None:
    """A busy broker books all the time: what has come since then, the site has not forgotten."""
    rows: list[Record] = []
    reconciler = Reconciler({}, (), lambda: REGISTER_SECRET)
    reconciler.begin("here", again=True)
    passes = 0
    while reconciler.running("here") and passes < 10:
        passes += 1
        rid = request_id(1_800_000_000_000, 10 + passes)
        rows.append(row("commit", rid=rid, reservation=rid))
        # The page was made before this one was promised: it is there when it is asked for.
        there = tuple(kept("locked", rid=each.rid) for each in rows[:-1])
        reconciler.receive("here", m.Compared(kept=there), ComparedRows(rows, {}), 1)
        reconciler.receive("here", m.Relocked(rid=rid), ComparedRows((), {}), 1)
        reconciler.beat()
    assert passes == 3, "the third pass finds only what is newer than the first two"
    assert reconciler.take()[0][-1] == ("here", m.Settled())


@pytest.mark.parametrize(
    ("there", "then"),
    [("commit", "locked"), ("cancelled", "cancelled"), ("replaced", "replaced")],
)
def test_what_the_first_passes_have_found_is_looked_at_until_it_is_settled(
    there: str, then: str
) -> None:
    rows = [row(there)]
    reconciler = Reconciler({}, (), lambda: REGISTER_SECRET)
    reconciler.begin("here")
    for _ in range(6):
        reconciler.receive("here", m.Compared(kept=(kept("promised"),)), ComparedRows(rows, {}), 1)
        assert reconciler.running("here"), "its promise is still to become a lock"
        reconciler.beat()
    reconciler.receive("here", m.Compared(kept=(kept(then),)), ComparedRows(rows, {}), 1)
    assert not reconciler.running("here")


def test_a_site_that_has_forgotten_once_more_is_compared_from_the_beginning() -> None:
    first, second = (request_id(1_800_000_000_000, number) for number in (1, 2))
    rows = [row("commit", rid=first, reservation=first)]
    reconciler = Reconciler({}, (), lambda: REGISTER_SECRET)
    reconciler.begin("here", again=True)
    there = [kept("locked", rid=first)]
    for _ in range(2):
        reconciler.receive("here", m.Compared(kept=tuple(there)), ComparedRows(rows, {}), 1)
        reconciler.beat()
    rows.append(row("commit", rid=second, reservation=second))
    reconciler.begin("here", again=True)
    for _ in range(2):
        reconciler.receive("here", m.Compared(kept=tuple(there)), ComparedRows(rows, {}), 1)
        reconciler.receive("here", m.Relocked(rid=second), ComparedRows((), {}), 1)
        assert reconciler.running("here")
        reconciler.beat()

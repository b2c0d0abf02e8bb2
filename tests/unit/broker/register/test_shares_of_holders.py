"""Whose shares of a reservation are kept, once it was handed over."""

from __future__ import annotations

from conftest import Write
from msgspec import structs
from test_register import KEYS, RIDS, T0, record_of

from kalends.broker.coordination.record import decision_record as r
from kalends.broker.register import writes as w


def share(party: str, user: str, may: str = "look") -> w.ShareRow:
    return w.ShareRow(RIDS[0], party, may, user, T0)  # type: ignore[arg-type]  # words of a test


def recovered(rid: str, user: str, changes: int) -> r.Recover:
    record = record_of(rid, KEYS[0], reservation=RIDS[0])
    return r.Recover(structs.replace(record, user=user, state="commit", changes=changes, done=True))


def test_a_share_that_its_former_holder_made_too_late_is_not_kept(write: Write) -> None:
    write([recovered(RIDS[0], "ann", 0), w.KeepShare(share("user:eve", "ann"), 2)])
    write([recovered(RIDS[1], "bob", 1)])
    for late in (share("heir:eve", "ann", "take"), share("link:0", "ann", "read")):
        assert write([w.KeepShare(late, 2)]) == [-1]
    assert write([w.KeepShare(share("user:carl", "bob"), 2)]) == [1]


def test_who_has_it_back_is_its_holder_also_where_that_was_forgotten(write: Write) -> None:
    write([recovered(RIDS[0], "ann", 0), recovered(RIDS[1], "bob", 1)])
    write([w.KeepShare(share("user:eve", "bob"), 2), recovered(RIDS[2], "ann", 2)])
    assert write([w.KeepShare(share("user:carl", "ann"), 2)]) == [1]
    assert write([w.KeepShare(share("user:carl", "bob"), 2)]) == [-1]
    assert write([w.ForgetShare(RIDS[0], "user:eve")]) == [0]

"""The auditor finds each kind of broken promise: otherwise its silence would mean nothing."""

from __future__ import annotations

import pytest

from kalends.contract.calls import AuditClaim, AuditRecord

from .auditing import Seen, as_told, broken_promises, load, overbooked, unrest

RESERVED = AuditRecord(id="r1", att=2, state="commit", chosen={"site0": (7,), "site1": (8,)})


def claim(
    site: str, *, id: str = "r1", att: int = 2, units: int = 3, state: str = "locked"
) -> AuditClaim:
    assert state in ("held", "prepared", "locked", "cancelled")
    return AuditClaim(
        id=id, att=att, resource=f"{site}/cluster", start=600, end=1200, units=units,
        state=state,  # type: ignore[arg-type]  # one of the four, as just asserted
    )  # fmt: skip


def seen(site0: list[AuditClaim], site1: list[AuditClaim], *records: AuditRecord) -> Seen:
    return Seen({"site0": site0, "site1": site1}, {"broker1": list(records)}, [])


WHOLE = seen([claim("site0")], [claim("site1")], RESERVED)
TOLD = [("site0/cluster", 600, 1200, 3), ("site1/cluster", 600, 1200, 3)]


def test_where_every_promise_is_kept_nothing_is_found() -> None:
    assert unrest(WHOLE) == []
    assert as_told(WHOLE, TOLD) == []
    assert overbooked(WHOLE, capacity=3) == []


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (seen([claim("site0")], [], RESERVED), "site1 has not locked r1"),
        (seen([claim("site0")], [claim("site1")]), "r1, which is not there"),
        (
            seen([claim("site0")], [], AuditRecord(id="r1", att=2, state="closed")),
            "site0 has locked r1, which is closed",
        ),
        (seen([claim("site0", att=1)], [claim("site1")], RESERVED), "attempt 1"),
        (seen([claim("site0")] * 2, [claim("site1")], RESERVED), "2 claims of r1"),
        (seen([claim("site0")], [claim("site1")], RESERVED, RESERVED), "twice"),
    ],
)
def test_half_a_reservation_is_found(broken: Seen, told: str) -> None:
    assert any(told in problem for problem in broken_promises(broken))


@pytest.mark.parametrize("state", ["held", "prepared"])
def test_what_is_left_behind_is_found(state: str) -> None:
    assert unrest(seen([claim("site0", state=state)], []))
    assert unrest(seen([], [], AuditRecord(id="r1", att=1, state="open")))


def test_lost_and_extra_reservations_are_found() -> None:
    lost = as_told(seen([], [claim("site1")]), TOLD)
    assert [problem.partition(":")[0] for problem in lost] == ["LOST"]
    extra = as_told(WHOLE, TOLD[:1])
    assert [problem.partition(":")[0] for problem in extra] == ["EXTRA"]


def test_overbooking_is_found() -> None:
    twice = seen([claim("site0"), claim("site0", id="r2")], [])
    assert overbooked(twice, capacity=5)
    assert overbooked(twice, capacity=6) == []


def test_the_load_is_told_at_each_change_only() -> None:
    assert load([(0, 10, 2), (10, 20, 2), (5, 15, 1)]) == {0: 2, 5: 3, 15: 2, 20: 0}
    assert load([]) == {}

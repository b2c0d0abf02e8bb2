"""A resource is made smaller, or taken away: nothing booked breaks, and who is in the way is named."""

from __future__ import annotations

import pytest
from tests.protocol_support import (
    BOB,
    DAY,
    HERE,
    T0,
    Site,
    line_up,
    lock,
    resource,
    rid,
    visit,
    vote,
    want,
)

from kalends.contract import messages as m
from kalends.contract import owner_calls
from kalends.core.errors import Conflict, RefusalCode
from kalends.core.identifiers import short_id

HOUR = 3_600
POOL = f"{HERE}/pool"


def with_pool(units: int) -> dict[str, int]:
    return {"one": 1, "two": 1} | ({"pool": units} if units else {})


def reload(site: Site, capacities: dict[str, int]) -> None:
    """What a reload does: check, and then apply."""
    changed = {f"{HERE}/{name}": resource(f"{HERE}/{name}", n) for name, n in capacities.items()}
    site.participant.book.check_carries(changed, site.now.wall_s)
    limits = site.participant.admission.limits
    site.call(lambda participant, now: participant.take_rules(changed, limits, now))
    site.capacities = capacities


def restart(site: Site, capacities: dict[str, int]) -> None:
    before, site.capacities = site.capacities, capacities
    try:
        site.restart()
    except Conflict:
        site.capacities = before
        site.restart()
        raise


WAYS = pytest.mark.parametrize("change", [reload, restart])


@WAYS
def test_the_reservation_in_the_way_is_named_with_its_user_time_and_units(change) -> None:  # type: ignore[no-untyped-def]
    site = Site()
    lock(site, 1, want("pool", 0, HOUR, 2))
    lock(site, 2, want("pool", 0, HOUR, 1))
    lock(site, 3, want("pool", HOUR, 2 * HOUR, 1))
    with pytest.raises(Conflict) as refused:
        change(site, with_pool(1))
    assert refused.value.detail.startswith(
        f"{POOL} cannot have 1 units yet: {short_id(rid(1))} of ann"
    )
    assert "locked, 2 units from" in refused.value.detail
    assert short_id(rid(2)) not in refused.value.detail
    assert refused.value.where == "site.resources.pool.capacity"
    assert "kalends admin reclaim here/pool --units N" in refused.value.remedy
    assert site.free("pool", 0, HOUR) == 0
    assert site.states(1) == ["locked"]


@WAYS
def test_where_there_is_room_it_is_smaller_at_once_and_nobody_hears_of_it(change) -> None:  # type: ignore[no-untyped-def]
    site = Site()
    lock(site, 1, want("pool", 0, HOUR, 2))
    change(site, with_pool(2))
    assert (site.free("pool", 0, HOUR), site.free("pool", HOUR, 2 * HOUR)) == (0, 2)
    assert site.states(1) == ["locked"]
    refused = site.answer(visit(2, want("pool", HOUR, 2 * HOUR, 3)))
    assert isinstance(refused, m.Visited)
    assert [each.code for each in refused.refusals] == [RefusalCode.TOO_MUCH]
    change(site, with_pool(4))
    assert site.free("pool", 0, HOUR) == 2


@WAYS
def test_what_is_over_is_in_nobodys_way_and_forgotten_in_its_time(change) -> None:  # type: ignore[no-untyped-def]
    site = Site()
    for number in (1, 2):
        lock(site, number, want("pool", (number - 1) * HOUR, number * HOUR, 3))
    site.ms += (DAY + HOUR) * 1_000
    with pytest.raises(Conflict) as refused:
        change(site, with_pool(1))
    assert short_id(rid(2)) in refused.value.detail
    assert short_id(rid(1)) not in refused.value.detail
    site.ms += HOUR * 1_000
    change(site, with_pool(1))
    assert site.states(1) == ["locked"]
    for number in (1, 2):
        site.receive(m.Forget(rid=rid(number), att=1))
    for _ in range(12):
        site.advance(DAY * 1_000)
    assert site.states(1) == []
    assert site.stored == {}


@WAYS
def test_a_resource_that_is_taken_away_is_nobodys_and_one_that_is_booked_stays(change) -> None:  # type: ignore[no-untyped-def]
    site = Site()
    lock(site, 1, want("pool", 0, HOUR, 1))
    with pytest.raises(Conflict, match="here/pool is still booked") as refused:
        change(site, with_pool(0))
    assert short_id(rid(1)) in refused.value.detail
    assert "kalends admin reclaim here/pool --at TIME" in refused.value.remedy
    site.ms += (DAY + HOUR) * 1_000
    change(site, with_pool(0))
    assert POOL not in {info.name for info in site.participant.hello().resources}
    unknown = site.answer(visit(2, want("pool", 2 * HOUR, 3 * HOUR)))
    assert isinstance(unknown, m.Visited)
    assert [each.code for each in unknown.refusals] == [RefusalCode.UNKNOWN_RESOURCE]
    change(site, with_pool(5))
    assert site.free("pool", 2 * HOUR, 3 * HOUR) == 5
    assert POOL in {info.name for info in site.participant.hello().resources}


@WAYS
def test_a_promise_is_in_the_way_as_well(change) -> None:  # type: ignore[no-untyped-def]
    site = Site()
    site.receive(vote(1, want("pool", 0, HOUR, 2)))
    with pytest.raises(Conflict, match="prepared, 2 units"):
        change(site, with_pool(1))


@WAYS
def test_after_a_reclaim_of_as_much_it_can_be_made_smaller_and_nothing_more_is_taken_back(
    site: Site,
    change,
) -> None:  # type: ignore[no-untyped-def]
    lock(site, 1, want("pool", 0, HOUR, 1))
    body = owner_calls.Reclaim(
        key="smaller", resource=POOL, start=T0, end=T0 + 300 * DAY, units=2, reason="sold"
    )
    site.call(lambda participant, now: site.reminders.reclaim(body, now))
    assert (site.free("pool", 0, HOUR), site.free("pool", HOUR, 2 * HOUR)) == (0, 1)
    change(site, with_pool(1))
    assert (site.free("pool", 0, HOUR), site.free("pool", HOUR, 2 * HOUR)) == (0, 1)
    (view,) = site.reminders.views()
    assert (view.waiting, view.lacking) == ((), ())


@WAYS
def test_a_reservation_that_is_being_changed_is_in_the_way_with_what_it_is_to_be(change) -> None:  # type: ignore[no-untyped-def]
    site = Site()
    lock(site, 1, want("pool", 0, HOUR, 1))
    site.receive(vote(2, want("pool", 0, HOUR, 3), replaces=1))
    with pytest.raises(Conflict, match="cannot have 1 units yet"):
        change(site, with_pool(1))


@WAYS
def test_owners_see_a_moved_reservation_by_the_id_that_its_user_knows(change) -> None:  # type: ignore[no-untyped-def]
    site = Site()
    lock(site, 1, want("pool", 0, HOUR, 2))
    for number in (2, 3):
        lock(site, number, want("pool", number * HOUR, (number + 1) * HOUR, 2), replaces=number - 1)
    with pytest.raises(Conflict, match=f"cannot have 1 units yet: {short_id(rid(1))} of ann"):
        change(site, with_pool(1))
    body = owner_calls.Reclaim(key="repair", resource=POOL, start=T0, end=T0 + 2 * DAY)
    site.call(lambda participant, now: site.reminders.reclaim(body, now))
    lock(site, 4, want("pool", 2 * DAY, 2 * DAY + HOUR, 2), replaces=3)
    (view,) = site.reminders.views()
    assert (view.gone, [each.id for each in view.reservations]) == ((rid(1),), [rid(1)])


def test_of_many_in_the_way_some_are_named_and_the_others_counted(site: Site) -> None:
    for number in range(1, 14):
        lock(site, number, want("pool", number * HOUR, (number + 1) * HOUR, 3))
    with pytest.raises(Conflict, match="and 3 more"):
        restart(site, with_pool(2))


def test_a_hold_is_in_the_way_while_it_lasts(site: Site) -> None:
    site.receive(visit(1, want("pool", 0, HOUR, 2), principal=BOB))
    with pytest.raises(Conflict, match="of bob \\(held"):
        reload(site, with_pool(1))
    site.advance(31_000)
    reload(site, with_pool(1))
    assert site.free("pool", 0, HOUR) == 1


def test_who_waits_gets_the_room_of_a_resource_that_was_made_larger(site: Site) -> None:
    site.receive(visit(1, want("pool", 0, HOUR, 3), principal=BOB, hold_ms=3_000_000))
    site.receive(line_up(2, want("pool", 0, HOUR, 2)))
    assert site.states(2) == []
    reload(site, with_pool(5))
    assert site.states(2) == ["held"]

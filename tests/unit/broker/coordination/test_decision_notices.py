"""Of what users are told: what others make of their requests, and what they have waited for; nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from kalends.broker.coordination.record import decision_notices as notices
from kalends.broker.coordination.record.decision_record import (
    JobFacts,
    OwnerFacts,
    Placement,
    Record,
    Spec,
    decode_record,
    encode_record,
)
from kalends.broker.coordination.record.views import view_of
from kalends.broker.jobs.parts.places_elsewhere import elsewhere
from kalends.contract.calls import PlacedJob
from kalends.contract.fields import Want
from kalends.contract.notice_calls import ChangeByOthers
from kalends.core.errors import Expired
from kalends.core.intervals import Moment
from kalends.core.jobs import JobRequest
from kalends.core.requests import Alternative, Request, Term

NOW = Moment(1_800_000_000_000, 5_000)
START = NOW.wall_s + 3_600
WAS = (Want("sdsc/sp2", START, START + 7_200, 8), Want("ncsa/cave", START, START + 7_200, 1))
REQUEST = Request(
    alternatives=(Alternative(terms=(Term(resource="sdsc/sp2"),)),), duration_s=7_200, not_before=0,
    note="run 7",
)  # fmt: skip
BY = ChangeByOthers(made="moved", by="sdsc", at=NOW.wall_s, reason="a new pump", was=WAS)


def record(*, spec: Spec | None = None, **fields: Any) -> Record:
    given = {"wants": WAS, "replaces": "the-old-one", **fields}
    return Record(
        rid="the-change", user="ann", key="key", digest="d", stamp=1, owner="a:1",
        reservation="the-reservation", created_ms=0, spec=spec or Spec(REQUEST, "sdsc/sp2"), **given,
    )  # fmt: skip


def occasion_of(notices: tuple[Any, ...]) -> list[str]:
    return [notice.occasion for notice in notices]


@pytest.mark.parametrize(
    ("slots", "made"),
    [
        (tuple(Want(w.resource, w.start + 600, w.end + 600, w.units) for w in WAS), "moved"),
        (tuple(Want(w.resource, w.start, w.end - 600, w.units) for w in WAS), "shortened"),
        ((Want("sdsc/sp2", START, START + 7_200, 4), WAS[1]), "shortened"),
        ((Want("sdsc/sp3", START, START + 7_200, 8), WAS[1]), "moved"),
    ],
)
def test_a_change_that_only_takes_away_is_called_shortened(
    slots: tuple[Want, ...], made: str
) -> None:
    assert notices.change_of_slots(WAS, slots, "sdsc", "", NOW).made == made


def test_a_change_for_an_owner_is_told_with_both_times_and_one_of_its_user_is_not() -> None:
    moved = record(spec=Spec(REQUEST, "sdsc/sp2", by_others=BY))
    (notice,) = notices.on_commit(moved, NOW)
    assert (notice.occasion, notice.user, notice.request) == ("moved", "ann", "the-reservation")
    assert (notice.by, notice.reason, notice.note) == ("sdsc", "a new pump", "run 7")
    assert notice.was == notice.slots == WAS
    assert notices.on_commit(record(), NOW) == ()


def test_what_was_waited_for_on_lists_is_told_when_it_comes_or_does_not() -> None:
    listed = record(listed=True, held_until_ms=NOW.wall_ms + 60_000)
    assert occasion_of(notices.on_commit(listed, NOW)) == ["came"]
    (held,) = notices.on_hold(listed, NOW)
    assert (held.occasion, held.until) == ("came", NOW.wall_s + 60)
    listed.problem = Expired("nobody has cancelled").to_problem()
    (gave_up,) = notices.on_close(listed, NOW, released=False)
    assert (gave_up.occasion, gave_up.reason, gave_up.slots) == (
        "gave-up",
        "nobody has cancelled",
        (),
    )
    assert notices.on_close(listed, NOW, released=True) == (), "its user has given it up"
    assert notices.on_hold(record(), NOW) == ()
    assert notices.on_close(record(), NOW, released=False) == (), "its caller is there"


def test_a_hand_over_is_told_to_its_giver_and_after_an_approval_to_the_new_holder_too() -> None:
    spec = Spec(REQUEST, "sdsc/sp2", heir_of="bob")
    (taken,) = notices.on_commit(record(spec=spec), NOW)
    assert (taken.occasion, taken.user, taken.by) == ("taken", "bob", "ann")
    waited = record(spec=spec, listed=True, owners=OwnerFacts(asked_at=1))
    told = notices.on_commit(waited, NOW)
    assert [(each.occasion, each.user) for each in told] == [("taken", "bob"), ("approved", "ann")]


def test_a_recall_is_told_with_its_end() -> None:
    (notice,) = notices.on_recall(record(recalled_until=NOW.wall_s + 60), NOW)
    assert (notice.occasion, notice.until) == ("recalled", NOW.wall_s + 60)


def test_what_another_cancels_or_releases_is_told_and_what_its_user_does_is_not() -> None:
    ended = record(ended_by=ChangeByOthers(made="cancelled", by="root", at=1, was=WAS))
    for told in (notices.on_cancel(ended), notices.on_close(ended, NOW, released=True)):
        (notice,) = told
        assert (notice.occasion, notice.by) == ("cancelled", "root")
        assert (notice.was, notice.slots) == (WAS, ())
    assert notices.on_cancel(record()) == ()


def test_a_job_that_leaves_its_site_is_told_of_its_new_place_or_that_there_is_none() -> None:
    job = JobRequest(machine="", limit_s=60, command=("true",), at_most_once=True)
    before = record(spec=Spec(REQUEST, "job", what=Placement(job)), chosen={"sdsc": (1,)})
    by = ChangeByOthers(made="placed-elsewhere", by="sdsc", at=1, reason="it is drained", was=WAS)
    placed = PlacedJob(machine="ncsa/t3e", number=7)
    after = record(spec=elsewhere(before, by_others=by), job=JobFacts(placed=placed))
    (notice,) = notices.on_commit(after, NOW)
    assert (notice.occasion, notice.place, notice.reason) == (
        "placed-elsewhere", "ncsa/t3e/7", "it is drained",
    )  # fmt: skip
    (none,) = notices.on_close(after, NOW, released=False)
    assert (none.occasion, none.id) == ("not-placed", "the-old-one-not-placed")
    assert notices.on_commit(record(spec=elsewhere(before)), NOW) == (), "its user has asked"


def test_the_mark_is_kept_with_the_request_and_shown_once_it_stands() -> None:
    moved = record(spec=Spec(REQUEST, "sdsc/sp2", by_others=BY), state="commit")
    read = decode_record(encode_record(moved))
    assert view_of(read).changed == BY
    read.state = "open"
    assert view_of(read).changed is None, "it is not changed yet"

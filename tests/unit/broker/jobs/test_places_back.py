"""Jobs that have left a site that was silent go back when it answers, if they start sooner there."""

from __future__ import annotations

from tests.unit.broker.jobs.test_solicitation import (
    Rig,
    bid,
    of_kind,
    offer,
    placed_at_b,
    voted,
)

from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.jobs.parts.places_elsewhere import GAIN_S, SILENT, submit_elsewhere
from kalends.broker.register.sqlite import job_reads
from kalends.contract import messages as m

IN_S = 1_000
"""When the job starts at `c`, where it went while `b` was silent."""


def moved_to_c() -> tuple[Rig, Record]:
    rig, rid = placed_at_b()
    calls = rig.coordinator.calls
    new = submit_elsewhere(calls, rig.row(rid), 1, rig.now, by="b", why=SILENT, lost=True)
    for site, _ in of_kind(rig.settle(), m.Solicit):
        rig.hear(site, bid(new, offer(site, IN_S if site == "c" else 9_000)))
    rig.hear("c", voted(new))
    rig.hear("b", m.Done(rid=rid, att=1, of="cancel"))
    rig.hear("c", m.Done(rid=new, att=1, of="commit"))
    return rig, rig.row(new)


def back(rig: Rig, record: Record, in_s: int) -> str:
    """Let `b` answer again, and offer a start in `in_s`; return the request that asks for it."""
    calls = rig.coordinator.calls
    new = submit_elsewhere(calls, record, 2, rig.now, by="b", why="it is back", back_to="b")
    asked = [site for site, _ in of_kind(rig.settle(), m.Solicit)]
    assert "b" in asked
    assert "c" not in asked
    for site in asked:
        sent = rig.hear(site, bid(new, offer(site, in_s if site == "b" else 9_000)))
    if of_kind(sent, m.Prepare):
        rig.hear("b", voted(new))
    return new


def test_only_jobs_that_left_the_site_because_it_was_silent_and_still_wait_are_found() -> None:
    rig, record = moved_to_c()
    found = job_reads.left(rig.connection, "b", SILENT, 10)
    assert [each.rid for each in found] == [record.rid]
    assert job_reads.left(rig.connection, "a", SILENT, 10) == []
    assert job_reads.left(rig.connection, "b", "its site is drained", 10) == []


def test_a_job_goes_back_where_it_starts_sooner() -> None:
    rig, record = moved_to_c()
    new = back(rig, record, IN_S - GAIN_S - 1)
    assert (rig.row(record.rid).state, rig.row(new).state) == ("replaced", "commit")
    placed = rig.row(new).job.placed
    assert placed is not None
    assert placed.machine == "b/m"
    assert job_reads.left(rig.connection, "b", SILENT, 10) == []


def test_a_job_keeps_the_better_place_and_its_user_hears_nothing_of_it() -> None:
    rig, record = moved_to_c()
    new = back(rig, record, IN_S - GAIN_S + 1)
    assert (rig.row(record.rid).state, rig.row(new).state) == ("commit", "closed")
    assert job_reads.left(rig.connection, "b", SILENT, 10), "it is asked for at the next return"

"""Ends of placed jobs at a broker: who may say them, what is written down, and what is made of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec import structs
from tests.unit.broker.jobs.test_solicitation import (
    LARGE,
    SMALL,
    T0,
    Rig,
    at_two_sites,
    bid,
    light_job,
    of_kind,
    offer,
    offer_for,
    placed_at_b,
    start_ask,
    verdicts,
    voted,
)

from kalends.broker.coordination.record.views import view_of
from kalends.broker.coordination.trust.answer_checks import CLOCKS_DIFFER_S
from kalends.broker.jobs.parts import job_ends
from kalends.broker.jobs.parts.job_ends import JobEnds
from kalends.broker.register.sqlite import job_reads, request_writes
from kalends.contract import messages as m
from kalends.contract.calls import PlacedEnd
from kalends.core.identifiers import minted_ms
from kalends.core.principals import Principal
from kalends.federation.bid_tally import BidTally
from kalends.federation.learned_runs import JobRun, LearnedRuns, LearnedShare

OVER = T0 + 1_000
"""When jobs have ended; they were asked for at `T0`, and a second."""


def ended(
    rid: str, ran_s: int = 60, end: m.EndWord = "exit", at: int = OVER, status: int = 0
) -> m.EndOfJob:
    return m.EndOfJob(rid=rid, att=1, end=end, at=at, ran_s=ran_s, status=status)


def run_at_b() -> tuple[Rig, str]:
    """The job has its place at `b`, and time enough to run."""
    rig, rid = placed_at_b(at_most_once=False)
    rig.ms += 2_000_000
    return rig, rid


def hear_of(rig: Rig, site: str, message: m.EndOfJob) -> tuple[list[str], list[str]]:
    """Let the site say it; return who is answered, and what the operator hears."""
    rig.coordinator.receive(site, message, rig.now)
    (result,) = request_writes.apply(rig.connection, rig.coordinator.take_effects().operations)
    rig.coordinator.registered(result, rig.now)
    effects = rig.coordinator.take_effects()
    return noted([(send.to, send.message) for send in effects.sends]), list(effects.alarms)


def noted(sent: list[tuple[str, m.Message]]) -> list[str]:
    return [site for site, _ in of_kind(sent, m.EndNoted)]


def learned(rig: Rig, site: str = "b") -> LearnedShare:
    return rig.jobs.bids.candidates.learned.learned("ann", site)


def test_what_the_site_of_a_job_says_is_written_down_told_and_learned_once() -> None:
    rig, rid = run_at_b()
    tally = rig.jobs.bids.tally.of("b")
    assert tally.there(T0) == 1
    assert noted(rig.hear("b", ended(rid))) == ["b"]
    assert noted(rig.hear("b", ended(rid, ran_s=600))) == ["b"], "it has not heard the answer"
    placed = view_of(rig.row(rid)).placed
    assert placed is not None
    assert placed.ended == PlacedEnd(at=OVER, end="exit", ran_s=60), "the first word stands"
    assert learned(rig) == (0.1, 1)
    assert tally.there(T0) == 0


@pytest.mark.parametrize("site", ["a", "c"])
def test_of_a_job_that_is_not_at_a_site_it_is_told_nothing_and_its_operator_hears_of_it(
    site: str,
) -> None:
    rig, rid = run_at_b()
    assert hear_of(rig, site, ended(rid)) == (
        [],
        [f"{site} reports the end of a job that it never had"],
    )
    assert rig.row(rid).job.ended is None
    assert learned(rig, site).jobs == 0


def test_of_what_is_not_decided_or_of_another_attempt_nothing_is_written(rig: Rig) -> None:
    rid = rig.submit()
    assert noted(rig.hear("a", ended(rid))) == []
    rig.hear("a", bid(rid, offer("a", 10)))
    rig.pass_time(1_000)
    rig.hear("a", voted(rid))
    rig.hear("a", structs.replace(ended(rid), att=2))
    assert rig.row(rid).job.ended is None


def test_no_end_lies_ahead_whatever_the_clock_of_a_site_says() -> None:
    rig, rid = run_at_b()
    rig.hear("b", ended(rid, at=T0 + 1_000_000))
    end = rig.row(rid).job.ended
    assert end is not None
    assert end.at == rig.now.wall_s


@pytest.mark.parametrize("set_right", [True, False])
def test_a_broker_whose_clock_was_ahead_blames_no_site_for_its_bid_or_for_the_end(
    rig: Rig,
    set_right: bool,
) -> None:
    rig.ahead_ms = 7_200_000
    rig.hear_clocks()
    rid = rig.submit()
    for site, in_s in (("a", 300), ("c", 200), ("b", 100)):
        rig.coordinator.receive(site, bid(rid, offer(site, in_s)), rig.now)
        assert rig.coordinator.outbox.effects.alarms == []
        rig.settle()
    (winner,) = rig.coordinator.cases[rid].parts
    rig.hear(winner, voted(rid))
    rig.hear(winner, m.Done(rid=rid, att=1, of="commit"))
    assert rig.row(rid).state == "commit"
    rig.ms += 2_000_000
    if set_right:
        rig.ahead_ms = 0
        rig.hear_clocks()
    assert hear_of(rig, winner, ended(rid)) == ([winner], [])
    end = rig.row(rid).job.ended
    assert end is not None
    assert end.ran_s == 60


def test_a_place_in_the_past_by_the_clock_of_its_own_site_makes_no_sense(rig: Rig) -> None:
    rig.hear_clocks()
    rid = rig.submit()
    rig.coordinator.receive("b", bid(rid, offer("b", -100)), rig.now)
    assert rig.coordinator.outbox.effects.alarms == ["b offers a place in the past"]


def test_no_job_ends_before_it_was_asked_for_by_more_than_clocks_differ() -> None:
    rig, rid = run_at_b()
    asked_s = minted_ms(rid) // 1_000
    for at in (0, asked_s - CLOCKS_DIFFER_S - 1):
        answered, alarms = hear_of(rig, "b", ended(rid, at=at))
        assert answered == ["b"], "it has not to say it again"
        assert [each for each in alarms if "before its request" in each] == alarms
        assert rig.row(rid).job.ended is None
        assert learned(rig).jobs == 0
    assert hear_of(rig, "b", ended(rid, at=asked_s - CLOCKS_DIFFER_S)) == (["b"], [])
    end = rig.row(rid).job.ended
    assert end is not None
    assert (end.at, end.ran_s) == (asked_s - CLOCKS_DIFFER_S, 0)


@pytest.mark.parametrize(
    ("at", "said_s", "ran_s"),
    [
        (T0 + 101, 160, 160),
        (T0 + 101, 161, 160),
        (OVER, 660, 660),
        (OVER, 2**20, 660),
    ],
)
def test_no_job_runs_for_longer_than_since_it_was_asked_for_nor_than_its_limit(
    at: int, said_s: int, ran_s: int
) -> None:
    rig, rid = run_at_b()
    assert hear_of(rig, "b", ended(rid, said_s, at=at)) == (["b"], [])
    end = rig.row(rid).job.ended
    assert end is not None
    assert end.ran_s == ran_s


def test_a_job_that_starts_at_most_once_ends_where_it_has_started_and_only_there() -> None:
    rig, rid = at_two_sites()
    rig.hear("b", voted(rid))
    rig.hear("c", voted(rid))
    rig.ms += 2_000_000
    assert noted(rig.hear("b", ended(rid, end="withdrawn"))) == [], "its start is asked for first"
    start_ask(rig, rid, "c")
    assert noted(rig.hear("b", ended(rid, end="withdrawn"))) == ["b"]
    assert rig.row(rid).job.ended is None
    assert noted(rig.hear("c", ended(rid, ran_s=300))) == ["c"]
    assert learned(rig, "c") == (0.5, 1)
    placed = view_of(rig.row(rid)).placed
    assert placed is not None
    assert (placed.machine, placed.ended and placed.ended.ran_s) == ("c/m", 300)


def test_who_cancels_a_job_that_has_ended_changes_nothing() -> None:
    rig, rid = run_at_b()
    rig.hear("b", ended(rid))
    before = view_of(rig.row(rid))
    rig.coordinator.calls.cancel(rig.row(rid), 9, rig.now)
    assert of_kind(rig.settle(), m.Cancel) == []
    assert rig.answers[9] == before == view_of(rig.row(rid))
    assert before.state == "reserved"


def test_how_a_cancelled_job_ended_is_told_as_well() -> None:
    rig, rid = run_at_b()
    rig.coordinator.calls.cancel(rig.row(rid), 2, rig.now)
    rig.settle()
    assert noted(rig.hear("b", ended(rid, end="killed"))) == ["b"]
    view = view_of(rig.row(rid))
    assert view.state == "cancelled"
    assert view.placed is not None
    assert view.placed.ended is not None
    assert learned(rig).jobs == 0, "it would have run for at least as long, and that was known"


@pytest.mark.parametrize("end", ["withdrawn", "not-started"])
def test_what_never_ran_shows_nothing(end: m.EndWord) -> None:
    rig, rid = run_at_b()
    rig.hear("b", ended(rid, end=end, ran_s=600))
    assert learned(rig).jobs == 0


def test_a_job_that_was_ended_at_its_limit_or_has_failed_never_counts_as_a_short_one() -> None:
    rig, rid = run_at_b()
    rig.hear("b", ended(rid, ran_s=1, status=1))
    assert learned(rig).jobs == 0
    rig.jobs.bids.candidates.learned = rig.jobs.ends.learned = LearnedRuns()
    other = rig.submit(key="another-key")
    rig.hear("b", bid(other, offer("b", 10)))
    for site in "ac":
        rig.hear(site, bid(other, offer(site, 500)))
    rig.hear("b", voted(other))
    rig.ms += 2_000_000
    rig.hear("b", ended(other, end="limit", ran_s=3, at=OVER + 2_000))
    assert learned(rig).share == 1.0


def test_a_start_of_the_broker_learns_from_what_is_written_down() -> None:
    rig, rid = run_at_b()
    rig.hear("b", ended(rid, ran_s=150))
    again = Rig()
    again.jobs.ends.recall(job_reads.newest_ends(rig.connection, 10), 10)
    assert learned(again) == (0.25, 1)
    assert job_reads.newest_ends(rig.connection, 0) == []


def with_ends(shares: Sequence[float]) -> tuple[Rig, list[str]]:
    """So many jobs, one after another, ran for these shares of their limits."""
    rig, rids = Rig(), []
    for number, share in enumerate(shares):
        rid = rig.submit(key=f"key-{number}")
        for site, in_s in (("a", 600), ("c", 500), ("b", 0)):
            rig.hear(site, bid(rid, offer(site, number * 2_000 + in_s)))
        rig.hear("b", voted(rid))
        rig.ms += 2_000_000
        rig.hear("b", ended(rid, int(share * 600), at=rig.now.wall_s))
        rids.append(rid)
    return rig, rids


def tell_again(rig: Rig, rids: Sequence[str]) -> list[str]:
    """The site has started anew; return who is answered."""
    return [to for rid in rids for to in noted(rig.hear("b", ended(rid, at=OVER)))]


def test_what_a_site_that_starts_anew_tells_again_counts_once_however_few_ends_were_recalled() -> (
    None
):
    rig, rids = with_ends((*[0.9] * 12, *[0.1] * 6))
    assert learned(rig).share == 0.9
    ends = rig.jobs.ends
    ends.learned = rig.jobs.bids.candidates.learned = LearnedRuns()
    again = JobEnds(ends.ground, ends.learned, BidTally())
    rig.jobs.ends = again
    again.recall(job_reads.newest_ends(rig.connection, 6), 6)
    assert learned(rig) == (0.1, 6)
    assert tell_again(rig, rids[:12]) == ["b"] * 12
    assert learned(rig) == (0.1, 6), "the old ones are known, or too old"


def test_what_a_site_tells_again_counts_once_however_many_have_ended_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_ends, "REMEMBERED", 6)
    rig, rids = with_ends((*[0.9] * 12, *[0.1] * 9))
    assert learned(rig) == (0.1, 15)
    assert tell_again(rig, rids[:12]) == ["b"] * 12
    assert learned(rig) == (0.1, 15)


def test_each_replica_learns_of_each_end_once_whoever_has_written_it_down() -> None:
    rig, rids = with_ends((0.5, 0.5))
    other = Rig()
    other.connection = rig.connection
    other.ms = rig.ms
    other.jobs.ends.recall(job_reads.newest_ends(rig.connection, 1), 1)
    rid = rig.submit(key="another-key")
    for site, in_s in (("a", 600), ("c", 500), ("b", 0)):
        rig.hear(site, bid(rid, offer(site, 4_000 + in_s)))
    rig.hear("b", voted(rid))
    rig.ms = other.ms = rig.ms + 2_000_000
    for replica in (rig, other, other, rig):
        replica.hear("b", ended(rid, 300, at=rig.now.wall_s))
    assert (learned(rig).jobs, learned(other).jobs) == (3, 2)
    assert tell_again(other, rids) == ["b", "b"]
    assert learned(other).jobs == 2


def test_rows_that_cannot_be_read_leave_room_for_others_that_a_start_learns_from() -> None:
    rig, rids = with_ends((0.5, 0.5, 0.5))
    rig.connection.execute("update request set body = x'00' where rid = ?", (rids[2],))
    assert [each.rid for each in job_reads.newest_ends(rig.connection, 2)] == rids[:2]


# What is compared


def learn(rig: Rig, site: str, share: float, implementation: str = "") -> None:
    run = JobRun("ann", implementation, site, share, whole=True)
    rig.jobs.bids.candidates.learned.note(run)


def with_bids(rig: Rig, rid: str) -> list[str]:
    """`b` would end first by limits, then `a`; return who is asked to promise."""
    for site, in_s in (("a", 200), ("c", 400)):
        rig.hear(site, bid(rid, offer(site, in_s)))
    sent = rig.hear("b", bid(rid, offer("b", 100)))
    return [site for site, _ in of_kind(sent, m.Prepare)]


def test_where_ones_jobs_end_early_a_later_start_wins_and_it_is_said_why(rig: Rig) -> None:
    learn(rig, "a", 0.1)
    learn(rig, "b", 0.5)
    learn(rig, "c", 0.9)
    rid = rig.submit()
    assert with_bids(rig, rid) == ["a"]
    rig.hear("a", voted(rid))
    (story,) = [each for each in rig.told if "sites have bid" in each]
    assert story.startswith("a/m (expected to run 1m of 10m, by your last job) starts by")
    assert "b/m (expected to run 5m of 10m, by your last job) ends 2m20s later" in story
    want = rig.row(rid).wants[0]
    assert want.end - want.start == 600, "what is promised is the limit"


def test_by_limits_what_was_learned_is_left_out(rig: Rig) -> None:
    learn(rig, "a", 0.1)
    learn(rig, "b", 0.5)
    rid = rig.submit(by_limits=True)
    assert with_bids(rig, rid) == ["b"]
    rig.hear("b", voted(rid))
    assert not any("expected" in each for each in rig.told)


def test_what_was_learned_is_no_promise_to_end_in_time(rig: Rig) -> None:
    for site in "abc":
        learn(rig, site, 0.1)
    rid = rig.submit(end_by=T0 + 750)
    assert with_bids(rig, rid) == ["b"]
    assert len(rig.coordinator.cases[rid].parts) == 1
    assert rig.jobs.bids.rounds[rid].reserve == "", "all others may end too late"


def test_of_several_implementations_a_machine_is_asked_for_the_one_that_is_expected_to_end_first(
    rig: Rig,
) -> None:
    way = structs.replace(LARGE, name="other", needs=(), sizes=(1,), limits_s=(400,))
    learn(rig, "b", 0.9, "large")
    learn(rig, "b", 0.5, "other")
    rid = rig.submit(implementations=(LARGE, way, SMALL))
    (b,) = [each for site, each in of_kind(rig.sent, m.Solicit) if site == "b"]
    assert isinstance(b, m.Solicit)
    assert [(job.implementation, job.limit_s) for job in b.jobs.values()] == [("other", 400)]
    rig.hear("b", bid(rid, offer_for("b", 100, 400, 1)))
    assert rig.row(rid).state == "open"


def test_what_one_user_has_learned_changes_nothing_for_others(rig: Rig) -> None:
    rig.jobs.bids.candidates.learned.note(JobRun("bob", "", "a", 0.01, whole=True))
    assert with_bids(rig, rig.submit()) == ["b"]


def test_a_site_where_ones_jobs_end_early_is_always_asked(rig: Rig) -> None:
    learn(rig, "c", 0.01)
    for site in "ab":
        learn(rig, site, 1.0)
    for number in range(12):
        key, spec = f"light-key-{number}", light_job(())
        rid = rig.coordinator.calls.submit(Principal("ann"), key, key, spec, 1, rig.now)
        asked = [site for site, each in of_kind(rig.settle(), m.Solicit) if each.rid == rid]  # type: ignore[attr-defined]
        assert "c" in asked
        assert len(asked) == 2


# A job that could not be started


def not_started(rid: str) -> m.EndOfJob:
    return ended(rid, ran_s=0, end="not-started", at=T0 + 2_000)


def placed_again(rig: Rig, sent: list[tuple[str, m.Message]], first: str) -> str:
    """Let all who are asked for the next place bid, `first` first; return the request that has it."""
    asked = dict(of_kind(sent, m.Solicit))
    rid: str = asked[first].rid  # type: ignore[attr-defined]
    for number, site in enumerate(sorted(asked, key=lambda each: each != first)):
        rig.hear(site, bid(rid, offer(site, 2_100 + 100 * number)))
    rig.hear(first, voted(rid))
    return rid


@pytest.mark.parametrize("at_most_once", [False, True])
def test_a_job_that_its_site_could_not_start_goes_to_the_next_bid(*, at_most_once: bool) -> None:
    rig, rid = placed_at_b(at_most_once=at_most_once)
    rig.ms += 2_000_000
    if at_most_once:
        start_ask(rig, rid, "b")
    sent = rig.hear("b", not_started(rid))
    assert sorted(site for site, _ in of_kind(sent, m.Solicit)) == ["a", "c"], "not at its site"
    assert noted(sent) == ["b"], "the next place is on its way"
    moved = rig.row(placed_again(rig, sent, "c"))
    assert rig.row(rid).state == "replaced"
    assert (moved.state, moved.reservation, moved.job.ended) == ("commit", rid, None)
    assert moved.job.placed is not None
    assert moved.job.placed.machine == "c/m"
    if at_most_once:
        assert verdicts(start_ask(rig, moved.rid, "c")) == [("asker", "start", "")]


def test_every_site_has_one_try_and_then_the_job_stays_as_it_ended() -> None:
    rig, rid = placed_at_b(at_most_once=False)
    rig.ms += 2_000_000
    second = placed_again(rig, rig.hear("b", not_started(rid)), "c")
    sent = rig.hear("c", not_started(second))
    assert [site for site, _ in of_kind(sent, m.Solicit)] == ["a"]
    third = placed_again(rig, sent, "a")
    assert of_kind(rig.hear("a", not_started(third)), m.Solicit) == []
    row = rig.row(third)
    assert row.state == "commit"
    assert row.job.ended is not None
    assert row.job.ended.end == "not-started"
    again = rig.hear("a", not_started(third))
    assert (noted(again), of_kind(again, m.Solicit)) == (["a"], []), "nor is it asked for again"


def test_a_job_that_ended_in_another_way_or_was_cancelled_goes_nowhere() -> None:
    rig, rid = run_at_b()
    assert of_kind(rig.hear("b", ended(rid, status=1)), m.Solicit) == []
    assert of_kind(rig.hear("b", not_started(rid)), m.Solicit) == [], "the first word stands"

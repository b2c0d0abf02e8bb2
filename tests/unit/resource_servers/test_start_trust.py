"""A machine that cannot start jobs bids for none, until it has shown that it can."""

from __future__ import annotations

from kalends.resource_servers.jobs.start_trust import PAUSE_MS, PAUSE_MS_MAX, TRIAL_MS, StartTrust


def test_one_users_account_keeps_the_machine_from_bidding_for_that_user_alone() -> None:
    trust = StartTrust()
    trust.could_not_start("ann", "there is no user ann", 0)
    assert trust.why_not("ann", PAUSE_MS - 1) == "there is no user ann"
    assert trust.why_not("bob", 0) == ""


def test_two_users_in_a_row_show_that_it_is_the_machine() -> None:
    trust = StartTrust()
    trust.could_not_start("ann", "", 0)
    trust.could_not_start("bob", "no room", 1)
    assert trust.why_not("eve", 2) == "no room"
    assert trust.why_not("ann", 2)


def test_after_the_pause_there_is_one_trial_and_each_failure_doubles_the_pause() -> None:
    trust, now_ms, pause_ms = StartTrust(), 0, PAUSE_MS
    for _ in range(10):
        trust.could_not_start("ann", "no room", now_ms)
        assert trust.why_not("ann", now_ms + pause_ms - 1)
        now_ms += pause_ms
        assert not trust.why_not("ann", now_ms), "a trial"
        assert trust.why_not("ann", now_ms + TRIAL_MS - 1), "one at a time"
        assert not trust.why_not("ann", now_ms + TRIAL_MS), "the trial was placed elsewhere, say"
        now_ms += TRIAL_MS
        pause_ms = min(2 * pause_ms, PAUSE_MS_MAX)


def test_a_program_that_runs_ends_all_doubt_about_its_user_and_the_machine() -> None:
    trust = StartTrust()
    for user in ("ann", "bob"):
        trust.could_not_start(user, "no room", 0)
    trust.began("bob")
    assert trust.doubted
    assert [trust.why_not(user, 1) for user in ("ann", "bob", "eve")] == ["no room", "", ""]
    trust.could_not_start("eve", "no room", 2)
    assert not trust.why_not("bob", 3), "not two in a row since a program ran"
    trust.began("ann")
    trust.began("eve")
    assert not trust.doubted

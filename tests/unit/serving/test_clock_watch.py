"""A wall clock that jumps or disagrees is noticed, told once, and not followed until others agree."""

from __future__ import annotations

import time

import pytest

from kalends.core.intervals import Moment
from kalends.serving.clock_watch import APART_MS, JUMP_MS, ClockWatch
from kalends.serving.clocks import moment

TRUE_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
WRONG_MS = [-4_000 * 24 * HOUR_MS, -HOUR_MS, JUMP_MS + 1, 40 * 24 * HOUR_MS]


class Host:
    """A host whose clock is `wrong_ms` ahead."""

    def __init__(self, wrong_ms: int = 0) -> None:
        self.passed_ms = 0
        self.wrong_ms = wrong_ms
        self.told: list[str] = []
        self.watch = ClockWatch(self.read, self.told.append)

    def read(self) -> Moment:
        return Moment(5_000 + self.passed_ms, TRUE_MS + self.passed_ms + self.wrong_ms)

    def hear(self, who: str = "red", wrong_ms: int = 0) -> None:
        self.watch.heard(who, TRUE_MS + self.passed_ms + wrong_ms)

    @property
    def believed_wrong_ms(self) -> int:
        return self.watch.now().wall_ms - TRUE_MS - self.passed_ms


@pytest.fixture
def host() -> Host:
    return Host()


def test_a_clock_that_goes_on_is_followed_and_nothing_is_told(host: Host) -> None:
    for _ in range(100):
        host.passed_ms += 1_000
        host.wrong_ms += JUMP_MS // 2
        assert host.watch.now() == host.read()
    assert host.told == []
    assert host.watch.doubt == ""


@pytest.mark.parametrize("wrong_ms", WRONG_MS)
def test_a_jump_is_told_once_and_waited_out(host: Host, wrong_ms: int) -> None:
    host.wrong_ms = wrong_ms
    for _ in range(70):
        host.passed_ms += 1_000
        assert host.believed_wrong_ms == 0
    (told,) = host.told
    assert ("ahead" if wrong_ms > 0 else "behind") in told
    assert host.watch.doubt == told
    host.wrong_ms = 0
    assert host.believed_wrong_ms == 0
    assert host.watch.doubt == ""
    assert host.told == [told, ""]


@pytest.mark.parametrize("wrong_ms", WRONG_MS)
def test_a_clock_that_is_set_right_is_followed_when_another_agrees(wrong_ms: int) -> None:
    host = Host(wrong_ms)
    host.wrong_ms = 0
    assert host.believed_wrong_ms == wrong_ms
    host.hear()
    assert host.believed_wrong_ms == 0
    assert host.watch.doubt == ""


@pytest.mark.parametrize("wrong_ms", [APART_MS + 1, -APART_MS - 1, 40 * 24 * HOUR_MS])
def test_who_disagrees_with_another_says_so_and_goes_by_its_own_clock(wrong_ms: int) -> None:
    host = Host(wrong_ms)
    host.hear("red")
    assert "red" in host.watch.doubt
    assert host.believed_wrong_ms == wrong_ms
    host.watch.lost("red")
    host.watch.now()
    assert host.watch.doubt == ""
    assert [bool(each) for each in host.told] == [True, False]


def test_another_that_jumps_along_with_nobody_else_moves_nobody(host: Host) -> None:
    host.hear("red", wrong_ms=40 * 24 * HOUR_MS)
    assert host.believed_wrong_ms == 0
    assert "40d behind compared with that of red" in host.watch.doubt


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no such clock")
def test_a_sleep_of_the_host_is_no_jump_of_its_wall_clock() -> None:
    before_ms = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    found = moment()
    assert before_ms <= found.monotonic_ms
    assert found.monotonic_ms <= time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


@pytest.mark.parametrize("right_ms", [0, -APART_MS, 7 * 24 * HOUR_MS])
def test_a_clock_that_was_behind_what_the_store_knows_is_followed_when_it_is_set_right(
    right_ms: int,
) -> None:
    """The site may have been away for long: its last event says only what time it is at least."""
    host = Host(-2 * HOUR_MS)
    host.watch.passed(TRUE_MS // 1_000)
    assert host.believed_wrong_ms == -2 * HOUR_MS
    host.wrong_ms = right_ms
    assert host.believed_wrong_ms == right_ms
    assert host.told == []


@pytest.mark.parametrize("wrong_ms", [-3 * HOUR_MS, -HOUR_MS])
def test_a_clock_that_is_set_and_still_behind_what_the_store_knows_is_not_followed(
    wrong_ms: int,
) -> None:
    host = Host(-2 * HOUR_MS)
    host.watch.passed(TRUE_MS // 1_000)
    host.wrong_ms = wrong_ms
    assert host.believed_wrong_ms == -2 * HOUR_MS


def test_a_clock_that_is_not_behind_the_store_follows_no_jump_for_it(host: Host) -> None:
    host.watch.passed(TRUE_MS // 1_000)
    host.wrong_ms = 2 * HOUR_MS
    assert host.believed_wrong_ms == 0


def test_how_far_a_clock_was_set_is_told_to_the_second(host: Host) -> None:
    host.wrong_ms = -2 * HOUR_MS + 1
    host.watch.now()
    assert "was set 2h behind" in host.watch.doubt
    assert "restart this server" in host.watch.doubt


def test_of_several_clocks_the_odd_one_is_named_and_it_may_be_our_own() -> None:
    host = Host(2 * HOUR_MS)
    for who in ("argo", "bode", "cray"):
        host.hear(who)
    assert (
        "the clock of this host is 2h ahead compared with those of argo, bode, cray"
        in host.told[-1]
    )
    assert host.watch.doubt == host.told[-1]


def test_a_host_that_the_majority_agrees_with_does_not_doubt_itself(host: Host) -> None:
    host.hear("argo")
    host.hear("bode", wrong_ms=-2 * HOUR_MS)
    (told,) = host.told
    assert told.startswith(
        "the clock of this host is confirmed by argo, but that of bode is 2h behind"
    )
    assert host.watch.doubt == "", "nothing suggests that the clock of this host is wrong"


def test_without_a_majority_no_clock_is_called_wrong(host: Host) -> None:
    host.hear("argo", wrong_ms=2 * HOUR_MS)
    host.hear("bode", wrong_ms=-2 * HOUR_MS)
    assert "2h behind compared with that of argo" in host.watch.doubt
    assert "2h ahead compared with that of bode" in host.watch.doubt


def test_what_is_told_changes_with_what_is_heard_and_ends_with_its_cause() -> None:
    host = Host(2 * HOUR_MS)
    host.hear("argo")
    assert "argo" in host.told[-1]
    host.hear("bode")
    assert "argo, bode, which agree" in host.told[-1]
    host.watch.lost("bode")
    host.watch.now()
    assert "bode" not in host.told[-1]
    host.wrong_ms = 0
    host.hear("argo")
    assert (host.told[-1], host.watch.doubt) == ("", "")


def test_some_seconds_more_are_not_told_again() -> None:
    host = Host(2 * HOUR_MS)
    for seconds in range(JUMP_MS // 1_000):
        host.hear("argo", wrong_ms=seconds * 1_000)
    assert len(host.told) == 1
    host.hear("argo", wrong_ms=HOUR_MS)
    assert "1h ahead" in host.told[-1]


def test_clocks_that_agree_only_pairwise_are_no_surprise(host: Host) -> None:
    """Ours agrees with the nearest of a majority, and not with the others."""
    host.hear("argo", wrong_ms=APART_MS - 10_000)
    for who in ("bode", "cray"):
        host.hear(who, wrong_ms=2 * APART_MS - 10_000)
    assert "behind compared with those of argo, bode, cray" in host.watch.doubt

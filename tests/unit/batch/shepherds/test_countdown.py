"""When a program is warned, asked to end and killed."""

from __future__ import annotations

from signal import SIGCONT, SIGKILL, SIGTERM, SIGUSR1

from kalends.batch.shepherds.countdown import AGAIN_S, Countdown

ASK = (SIGTERM, SIGCONT)


def countdown(
    *, limit_s: float = 100, warn_s: float = 0, grace_s: float = 10, attach_s: float = 0
) -> Countdown:
    return Countdown(limit_s, warn_s, SIGUSR1, grace_s, attach_s)


def test_nothing_is_sent_before_its_time() -> None:
    one = countdown(warn_s=5)
    assert one.due(94.9) == ()
    assert one.wait_s(94) == 1


def test_it_is_warned_once() -> None:
    one = countdown(warn_s=5)
    assert one.due(95) == (SIGUSR1,)
    assert one.due(96) == ()
    assert one.wait_s(96) == 4


def test_at_its_limit_it_is_asked_and_after_the_grace_killed() -> None:
    one = countdown()
    assert one.due(100) == ASK
    assert one.due(109.9) == ()
    assert one.due(110) == (SIGKILL,)
    assert one.kind == "limit"
    assert one.detail == "its 100 s had passed"


def test_a_kill_is_repeated_while_the_program_is_there() -> None:
    one = countdown(grace_s=0)
    assert one.due(100) == (SIGKILL,)
    assert one.wait_s(100) == AGAIN_S
    assert one.due(100 + AGAIN_S) == (SIGKILL,)


def test_the_first_reason_is_the_one_that_is_told() -> None:
    one = countdown()
    one.ask(50, "killed", "ada")
    one.ask(51, "killed", "grace")
    assert one.due(200) == (SIGKILL,)
    assert (one.kind, one.detail) == ("killed", "ada")


def test_asking_again_brings_the_end_nearer_and_never_puts_it_off() -> None:
    one = countdown()
    one.ask(50, "killed", "ada", 10)
    assert one.due(50) == ASK
    one.ask(51, "killed", "ada", 100)
    assert one.wait_s(51) == 9
    one.ask(52, "killed", "ada", 0)
    assert one.due(52) == (SIGKILL,)


def test_a_prolonged_limit_counts_from_the_beginning() -> None:
    one = countdown()
    one.prolong(150)
    assert one.due(149) == ()
    assert one.due(150) == ASK


def test_no_longer_limit_saves_what_is_being_ended() -> None:
    one = countdown()
    one.due(100)
    one.prolong(1000)
    assert one.due(110) == (SIGKILL,)


def test_without_anybody_at_its_terminal_in_time_it_is_asked_to_end() -> None:
    one = countdown(attach_s=30)
    assert one.wait_s(10) == 20
    assert one.due(29.9) == ()
    assert one.due(30) == ASK
    assert (one.kind, one.detail) == ("killed", "no terminal was attached within 30 s")


def test_once_somebody_came_only_its_limit_ends_it() -> None:
    one = countdown(attach_s=30)
    one.came()
    assert one.wait_s(10) == 90
    assert one.due(99) == ()
    assert one.due(100) == ASK

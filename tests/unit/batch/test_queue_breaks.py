"""A queue that breaks again and again is disabled for a while."""

from __future__ import annotations

from kalends.batch.queue_breaks import BREAKS_MAX, WITHIN_MS, QueueBreaks, disabled_words


def test_a_queue_is_disabled_when_it_has_broken_too_often_within_a_while() -> None:
    breaks = QueueBreaks()
    for number in range(BREAKS_MAX):
        assert not breaks.too_many(number)
        breaks.add("lab/box", f"the {number}th", number)
    assert breaks.too_many(BREAKS_MAX) == {"lab/box": f"the {BREAKS_MAX - 1}th"}
    assert not breaks.too_many(WITHIN_MS + 1)


def test_breaks_of_one_machine_do_not_count_for_another() -> None:
    breaks = QueueBreaks()
    for number in range(BREAKS_MAX):
        breaks.add(f"lab/{number}", "it broke", 0)
    assert not breaks.too_many(0)


def test_an_operator_is_told_why_a_machine_is_disabled_and_what_goes_on() -> None:
    assert disabled_words("lab/box", "") == ""
    told = disabled_words("lab/box", "entry 7 cannot be")
    assert "lab/box is disabled: entry 7 cannot be." in told
    assert "Its running jobs continue" in told

"""The garbage collector rests while much is made that stays, and never looks at it again."""

from __future__ import annotations

import gc

import pytest

from kalends.serving.garbage_collection import not_collecting


def test_nothing_is_collected_meanwhile_and_what_was_made_is_never_looked_at_again() -> None:
    before = gc.get_freeze_count()
    with not_collecting():
        assert not gc.isenabled()
        made = [[number] for number in range(1_000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= before + len(made)


def test_a_failure_leaves_the_collector_at_work_as_it_was() -> None:
    with pytest.raises(KeyError), not_collecting():
        raise KeyError
    assert gc.isenabled()
    gc.disable()
    try:
        with not_collecting():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()

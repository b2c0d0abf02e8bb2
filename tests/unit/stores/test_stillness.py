"""An owner stands still if it has not beaten for long enough, by the clock of who looks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kalends.stores.postgres.stillness import StillOwners

STILL_S = 4.0


def test_an_owner_that_does_not_beat_stands_still_and_its_next_beat_ends_that() -> None:
    still_owners = StillOwners(STILL_S)
    assert still_owners.look({"one": 3}, 100.0) == {}
    assert still_owners.look({"one": 3}, 103.9) == {}
    assert still_owners.look({"one": 3}, 104.0) == {"one": 3}
    assert still_owners.look({"one": 4}, 104.1) == {}
    assert still_owners.look({"one": 4}, 108.1) == {"one": 4}


def test_an_owner_that_comes_again_is_seen_for_the_first_time() -> None:
    still_owners = StillOwners(STILL_S)
    still_owners.look({"one": 3}, 0.0)
    still_owners.look({}, 1.0)
    assert still_owners.look({"one": 3}, 5.0) == {}


LOOKS = st.lists(st.tuples(st.floats(0.01, 10.0), st.booleans()), min_size=1, max_size=30)


@given(LOOKS)
def test_only_who_made_no_beat_between_two_looks_so_far_apart_stands_still(
    looks: list[tuple[float, bool]],
) -> None:
    still_owners, now_s, beats = StillOwners(STILL_S), 0.0, 0
    first_seen: dict[int, float] = {}
    for passed_s, has_beaten in looks:
        now_s += passed_s
        beats += has_beaten
        first_seen.setdefault(beats, now_s)
        expected = {"one": beats} if now_s - first_seen[beats] >= STILL_S else {}
        assert still_owners.look({"one": beats}, now_s) == expected

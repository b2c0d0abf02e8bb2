"""A product that does nothing keeps every promise that it never gives: each play asks for more than that."""

from __future__ import annotations

import pytest

from tests.shells.running import seeds_to_catch


@pytest.mark.parametrize(
    "name",
    ["storm", "crowd", "owners", "approving", "half_promised", "repeat", "pause", "bids", "steps"],
)
def test_a_product_that_books_nothing_breaks_a_play(name: str) -> None:
    """The soak does so with all of them."""
    assert seeds_to_catch(name, "nothing_is_ever_booked", 1) is not None


@pytest.mark.parametrize("name", ["machine_room", "machine_restored", "going_round", "steps"])
def test_a_product_that_starts_no_job_breaks_a_play(name: str) -> None:
    """The same."""
    assert seeds_to_catch(name, "no_job_ever_starts", 1) is not None

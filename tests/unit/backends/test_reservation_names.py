"""Whose a reservation is, and whose an allocation, by its name."""

from __future__ import annotations

import pytest

from kalends.backends.names import (
    NO_LIFE,
    Allocated,
    OwnNames,
    allocated,
    allocation_name,
    name_of,
)

LIFE = "1f0c9a2e17aa"


def test_what_any_known_life_of_the_site_has_made_is_its_own() -> None:
    names = OwnNames("centre", [LIFE])
    assert name_of("centre", LIFE, 17) in names
    assert name_of("centre", NO_LIFE, 17) in names
    assert name_of("other", LIFE, 17) not in names
    assert "maintenance" not in names
    assert "" not in names


def test_what_a_namesake_has_made_is_neither_its_own_nor_a_strangers() -> None:
    names = OwnNames("centre", [LIFE])
    name = name_of("centre", "abcdef0123", 17)
    assert name not in names
    assert names.of_another(name)
    assert not names.of_another(name_of("centre", LIFE, 17))
    assert not names.of_another(name_of("other", LIFE, 17))


def test_a_life_that_was_forgotten_is_the_sites_own_again() -> None:
    names = OwnNames("centre", [LIFE])
    names.remember(["abcdef0123"])
    assert name_of("centre", "abcdef0123", 17) in names


def test_the_name_of_an_allocation_says_whose_it_is_and_for_which_attempt() -> None:
    name = allocation_name("centre/room", LIFE, "17.2")
    assert name == "kal.centre/room.1f0c9a2e-17.2"
    assert allocated("centre/room", name) == Allocated("1f0c9a2e", "17.2")
    assert allocated("centre/room", "kal.centre/room.17.2") == Allocated("", "17.2")


@pytest.mark.parametrize(
    "name",
    [
        "kal.centre/roomy.1f0c9a2e-17.2",
        "kal.other/room.17.2",
        "kal.centre/room.1F0C9A2E-17.2",
        "kal.centre/room.-17.2",
        "kal.centre/room.17",
        "my kal.centre/room.17.2",
        "kal.centre/room.17.2\n",
        "",
    ],
)
def test_whatever_else_is_named_is_no_allocation_of_that_machine(name: str) -> None:
    assert allocated("centre/room", name) is None

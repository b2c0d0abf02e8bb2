"""Whose a reservation is, by its name."""

from __future__ import annotations

from kalends.backends.names import NO_LIFE, OwnNames, name_of

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

"""What is measured does not take its caller's settings."""

from __future__ import annotations

import pytest
from benchmarks.facility import own_environment


def test_a_program_under_measurement_has_only_the_settings_that_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("BROKER", "USER", "TOKEN", "TOKEN_FILE", "ZONE", "PROFILE", "MACHINE", "CA"):
        monkeypatch.setenv(f"KALENDS_{name}", "of the caller")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/home/ann/.config")

    def settings(environment: dict[str, str]) -> dict[str, str]:
        return {name: text for name, text in environment.items() if name.startswith("KALENDS_")}

    assert settings(own_environment()) == {}
    given = own_environment("http://127.0.0.1:1", "eve")
    assert settings(given) == {"KALENDS_BROKER": "http://127.0.0.1:1", "KALENDS_USER": "eve"}
    assert "of the caller" not in given.values()
    assert not given["XDG_CONFIG_HOME"].startswith("/home")

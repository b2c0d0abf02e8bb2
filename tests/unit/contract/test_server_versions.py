"""What servers say of themselves in headers, and who is too old for whom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.contract import versions
from kalends.contract.versions import BASE, ServerVersion, agreed, own_version, version_in
from kalends.core.errors import Conflict, InvalidInput
from kalends.core.features import Feature

SHARES = Feature("shares", "shares of a project")

NAMES = st.sets(st.from_regex(r"[a-z][a-z0-9-]{0,39}", fullmatch=True), max_size=20)


@given(
    number=st.from_regex(r"[0-9]\.[0-9]{1,3}(\.dev1\+g[0-9a-f]{7})?", fullmatch=True), names=NAMES
)
def test_what_is_said_is_heard(number: str, names: set[str]) -> None:
    version = ServerVersion(number, frozenset(names))
    assert version_in(version.headers()) == version


def test_who_says_nothing_has_the_base_version() -> None:
    assert version_in({}) == BASE
    assert BASE.headers() == {}
    assert str(BASE) == "an older kalends"


@pytest.mark.parametrize(
    "headers",
    [
        {"Kalends-Version": "1.0 <b>"},
        {"Kalends-Version": "1" * 65},
        {"Kalends-Version": "1.0", "Kalends-Features": "shares, Pleas"},
        {"Kalends-Version": "1.0", "Kalends-Features": "shares,,pleas"},
        {"Kalends-Version": "1.0", "Kalends-Features": "a" * 41},
        {"Kalends-Version": "1.0", "Kalends-Features": ", ".join(f"f{n}" for n in range(257))},
    ],
)
def test_what_makes_no_sense_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        version_in(headers)
    assert refused.value.where.startswith("Kalends-")


@given(said=st.text(st.characters(codec="latin-1"), max_size=60), number=st.text(max_size=9))
def test_any_header_is_a_version_or_refused(said: str, number: str) -> None:
    try:
        version = version_in({"Kalends-Version": number, "Kalends-Features": said})
    except InvalidInput:
        return
    assert version_in(version.headers()) == version


@given(ours=NAMES, theirs=NAMES)
def test_only_what_both_know_is_agreed_on(ours: set[str], theirs: set[str]) -> None:
    found = agreed(
        ServerVersion("2.0", frozenset(ours)), ServerVersion("1.0", frozenset(theirs)), "a", "b"
    )
    assert found == ours & theirs


def test_a_peer_that_is_too_old_is_told_both_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "REQUIRED", (SHARES,))
    ours = own_version("2.0", frozenset({"shares"}))
    with pytest.raises(Conflict) as refused:
        agreed(ours, BASE, "site ctc", "broker npaci")
    assert str(refused.value) == (
        "broker npaci runs an older kalends, too old for site ctc, which runs kalends 2.0:"
        " it knows nothing of shares of a project (upgrade broker npaci)"
    )
    with pytest.raises(Conflict, match=r"runs kalends 1\.0"):
        agreed(ours, ServerVersion("1.0"), "site ctc", "broker npaci")
    assert agreed(ours, ServerVersion("3.0", frozenset({"shares"})), "a", "b") == {"shares"}


def test_a_number_that_no_header_can_carry_is_not_said() -> None:
    assert own_version("1.0\r\nSet-Cookie: x").number == "unknown"

"""Whom a key may name: its own realm by patterns, and other realms only where they are named."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.core.principals import ANYBODY, Principal, VouchedNames, in_realm, realm_of

LOCAL = st.text("ab@*?", min_size=1, max_size=4)
REALMS = st.sampled_from(["", "kit.edu", "cern.ch", "other.org"])
PATTERNS = st.lists(
    st.sampled_from(["*", "a*", "a", "*@kit.edu", "a@kit.edu", "*@cern.ch", "*@*", "*.edu"]),
    max_size=3,
).map(tuple)


@given(LOCAL, REALMS, LOCAL, REALMS)
def test_names_of_two_realms_are_never_the_same(
    one: str, realm: str, other: str, another: str
) -> None:
    same = in_realm(one, realm) == in_realm(other, another)
    if realm and another:
        assert same == ((one, realm) == (other, another))
        assert realm_of(in_realm(one, realm)) == realm


@given(LOCAL, REALMS, PATTERNS, REALMS, st.frozensets(REALMS.filter(bool)))
def test_a_key_speaks_for_its_own_realm_and_for_others_only_by_their_names(
    local: str, whose: str, patterns: tuple[str, ...], realm: str, realms: frozenset[str]
) -> None:
    name = in_realm(local, whose)
    key = VouchedNames(users=patterns, realm=realm, realms=realms | ({realm} - {""}))
    allowed = not key.beyond(Principal(name))
    if allowed:
        assert any(fnmatchcase(name, pattern) for pattern in patterns)
        spoken_for = realm_of(name)
        if spoken_for != realm and (realm or spoken_for in realms):
            assert any(pattern.endswith(f"@{spoken_for}") for pattern in patterns)
        assert spoken_for or not realm, "a realm's key names no plain users"


@given(st.text(max_size=6), PATTERNS)
def test_where_no_key_has_a_realm_patterns_alone_decide(
    name: str, patterns: tuple[str, ...]
) -> None:
    allowed = not VouchedNames(users=patterns).beyond(Principal(name))
    assert allowed == any(fnmatchcase(name, pattern) for pattern in patterns)


def test_anybody_is_anybody() -> None:
    assert ANYBODY.beyond(Principal("ada@anywhere.org", ("staff", "x@y"))) == ""


@pytest.mark.parametrize(
    ("principal", "beyond"),
    [
        (Principal("ada@kit.edu", ("staff@kit.edu",)), ""),
        (Principal("ada"), "the user 'ada'"),
        (Principal("ada@cern.ch"), "the user 'ada@cern.ch'"),
        (Principal("ada@KIT.edu"), ""),
        (Principal("ada@kit.edu", ("staff",)), "the group 'staff'"),
        (Principal("ada@kit.edu@cern.ch"), "the user 'ada@kit.edu@cern.ch'"),
    ],
)
def test_a_refusal_says_who_is_beyond_the_key(principal: Principal, beyond: str) -> None:
    key = VouchedNames(realm="kit.edu", realms=frozenset({"kit.edu", "cern.ch"}))
    assert key.beyond(principal) == beyond


def test_a_plain_key_does_not_take_the_names_of_a_realm_that_has_a_key_of_its_own() -> None:
    plain = VouchedNames(realms=frozenset({"kit.edu"}))
    assert plain.beyond(Principal("eve@kit.edu"))
    assert plain.beyond(Principal("eve@KIT.EDU")), "letters of another size make no other realm"
    assert not plain.beyond(Principal("eve@elsewhere.org"))
    listed = VouchedNames(users=("*", "*@kit.edu"), realms=frozenset({"kit.edu"}))
    assert not listed.beyond(Principal("eve@kit.edu"))

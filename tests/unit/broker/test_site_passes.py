"""Passes of a broker: good for one user at one site, and for nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving_support import ManualClock

from kalends.broker.sites.reached_sites import ReachedSite
from kalends.broker.sites.site_passes import PassTerms, SitePasses
from kalends.contract.server_calls import AskSitePass, SitePass
from kalends.core.errors import NotAuthenticated, NotFound
from kalends.core.principals import Principal, VouchedNames
from kalends.serving.auth.callers import Caller
from kalends.serving.auth.keys import load_private_key, write_key_pair
from kalends.serving.auth.public_keys import KeyTerms, TrustedKey, key_id
from kalends.serving.auth.tokens import KeyRing

SITES = (
    ReachedSite("sdsc", "https://sdsc.example", None),
    ReachedSite("caltech", "https://west.example/v1/members/caltech", None, "west", "caltech"),
    ReachedSite("ncsa", "https://ncsa.example", None, takes_passes=False),
)
LIFE_S = 3_600


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "npaci"
    write_key_pair(path)
    return path


def given_pass(
    key: Path | None, site: str = "sdsc", *, user: str = "ada", groups: tuple[str, ...] = ("staff",),
    left_s: int = 86_400, vouched_by: str = "people",
) -> SitePass:  # fmt: skip
    clock = ManualClock()
    passes = SitePasses(PassTerms("npaci", key, LIFE_S), {site.name: site for site in SITES}, clock)
    scopes = frozenset({"use", "audit", "admin"})
    caller = Caller(Principal(user, groups), scopes, "1", clock.wall_s() + left_s, vouched_by)
    return passes.give(caller, AskSitePass(site=site))


def believed(key: Path, token: str, *, at: str = "sdsc", **vouching: Any) -> Caller:
    """Whom a server called `at`, which lists the broker's key, takes the bearer of `token` for."""
    public = load_private_key(key).public_key()
    every = frozenset({"use", "audit", "admin", "broker"})
    terms = KeyTerms(scopes=every, vouching=VouchedNames(**vouching))
    return KeyRing([TrustedKey(public, key_id(public), terms)], at).verify(
        token, ManualClock().wall_s()
    )


def test_a_pass_names_its_user_at_its_site_and_allows_what_users_may(key: Path) -> None:
    got = given_pass(key)
    caller = believed(key, got.token)
    assert caller.principal == Principal("ada", ("staff",))
    assert (caller.scopes, caller.audiences) == ({"use"}, ("sdsc",))
    assert (got.url, got.id) == ("https://sdsc.example", caller.token_id)


@pytest.mark.parametrize("server", ["npaci", "caltech", "west", "ncsa"])
def test_a_pass_is_refused_everywhere_but_at_its_site_though_the_key_is_listed(
    key: Path, server: str
) -> None:
    with pytest.raises(NotAuthenticated, match=f"it is for 'sdsc', not for '{server}'"):
        believed(key, given_pass(key).token, at=server)


def test_a_site_behind_a_virtual_one_gets_passes_of_its_own(key: Path) -> None:
    got = given_pass(key, "caltech")
    assert got.url == "https://west.example/v1/members/caltech"
    assert believed(key, got.token, at="caltech").audiences == ("caltech",)


@given(left_s=st.integers(min_value=1, max_value=4 * LIFE_S))
def test_a_pass_ends_with_the_token_that_it_was_given_for_or_before(key: Path, left_s: int) -> None:
    got = given_pass(key, left_s=left_s)
    assert got.expires_at - got.now == min(left_s, LIFE_S)
    assert believed(key, got.token).expires_at == got.expires_at


def test_users_are_called_at_the_site_as_in_the_messages_of_the_broker(key: Path) -> None:
    realms = frozenset({"npaci.example", "kit.example"})
    patterns = ("*", "*@kit.example")
    vouching = {"realm": "npaci.example", "realms": realms, "users": patterns, "groups": patterns}
    for user in ("ada@npaci.example", "ada@kit.example"):
        token = given_pass(key, user=user, groups=()).token
        assert believed(key, token, **vouching).principal.user == user
    with pytest.raises(NotAuthenticated, match="may not vouch for the user 'ada'"):
        believed(key, given_pass(key, groups=()).token, **vouching)


def test_a_key_vouches_by_passes_for_nobody_beyond_those_that_the_site_lists(key: Path) -> None:
    with pytest.raises(NotAuthenticated, match="may not vouch for the user 'ada'"):
        believed(key, given_pass(key).token, users=("bob",))


@pytest.mark.parametrize(
    ("site", "vouched_by", "why"),
    [
        ("ncsa", "people", "ncsa accepts no passes"),
        ("sdsc", "open", "accepts calls without a token"),
    ],
)
def test_without_a_pass_the_address_comes_with_the_reason(
    key: Path, site: str, vouched_by: str, why: str
) -> None:
    got = given_pass(key, site, vouched_by=vouched_by)
    assert (got.token, got.url) == ("", f"https://{site}.example")
    assert why in got.why


def test_a_broker_without_a_key_gives_no_pass() -> None:
    assert "no key" in given_pass(None).why


def test_an_unknown_site_is_told_with_one_of_nearly_that_name(key: Path) -> None:
    with pytest.raises(NotFound, match="knows no site sdcs") as caught:
        given_pass(key, "sdcs")
    assert "sdsc" in caught.value.remedy


def test_a_pass_is_shown_without_its_token(key: Path) -> None:
    got = given_pass(key)
    assert got.token
    assert got.token not in repr(got)

"""When a token is renewed, and when a provider is asked again: no sooner than it wants, and not for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.client.logins.openid.device_grant import INTERVAL_S_MAX, LIFE_S_MAX, DeviceCode, Polls
from kalends.client.logins.token_lifetime import SOON_S, TokenLifetime, lifetime_of
from kalends.core.errors import Expired, KalendsError

ERRORS = st.sampled_from(["authorization_pending", "slow_down", ""])


def code(interval: int, expires_in: int) -> DeviceCode:
    return DeviceCode("device", "WDJB-MJHT", "https://a.example", expires_in, interval=interval)


@given(st.integers(-5, 500), st.integers(1, 10_000), st.lists(ERRORS, max_size=50))
def test_the_waits_never_shrink_and_grow_by_what_was_asked_for(
    interval: int, expires_in: int, errors: list[str]
) -> None:
    polls, now_s, before = Polls(code(interval, expires_in), 0.0), 0.0, 0.0
    for error in errors:
        try:
            wait_s = polls.wait_s(error, now_s, "there")
        except Expired:
            break
        assert min(max(interval, 1), INTERVAL_S_MAX) <= wait_s <= INTERVAL_S_MAX
        assert wait_s >= before
        if error == "slow_down" and before:
            assert wait_s == min(before + 5, INTERVAL_S_MAX)
        now_s, before = now_s + wait_s, wait_s
    assert now_s < min(expires_in, LIFE_S_MAX)


@given(st.integers(1, 500), st.integers(1, 100_000))
def test_every_login_ends(interval: int, expires_in: int) -> None:
    polls, now_s = Polls(code(interval, expires_in), 0.0), 0.0
    for _ in range(LIFE_S_MAX):
        try:
            now_s += polls.wait_s("authorization_pending", now_s, "there")
        except Expired:
            break
    else:
        raise AssertionError("it goes on")
    assert now_s <= LIFE_S_MAX


@given(
    st.text(max_size=300).filter(
        lambda text: text not in ("", "slow_down", "authorization_pending")
    )
)
def test_any_other_answer_ends_the_login_and_can_be_shown(error: str) -> None:
    with pytest.raises(KalendsError) as caught:
        Polls(code(1, 60), 0.0).wait_s(error, 0.0, "there")
    assert caught.value.detail.isprintable()


@given(st.integers(0, 2_000_000_000), st.integers(1, 40_000_000), st.integers(0, 50_000_000))
def test_a_token_is_renewed_before_it_runs_out_and_never_in_its_first_half(
    begins_at: int, life_s: int, later_s: int
) -> None:
    life, now_s = TokenLifetime(begins_at, begins_at + life_s), begins_at + later_s
    if later_s >= life_s:
        assert life.is_ending(now_s)
        assert life.left_s(now_s) == 0
    elif begins_at and 2 * later_s < life_s - 1:
        assert not life.is_ending(now_s)
    elif life_s - later_s <= min(SOON_S, life_s // 2):
        assert life.is_ending(now_s)


@given(st.text() | st.from_regex(r"[\w-]*\.[\w-]*\.[\w-]*", fullmatch=True))
def test_whatever_is_no_token_has_no_life(text: str) -> None:
    assert lifetime_of(text) is None

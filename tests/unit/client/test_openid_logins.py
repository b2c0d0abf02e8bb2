"""Logging in at a real OpenID provider, by a code that a person enters elsewhere; and renewing what came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from device_provider import CLIENT, DeviceProvider, device_provider

from kalends.client.logins.kept_logins import KeptLogin
from kalends.client.logins.openid.device_grant import DeviceCode
from kalends.client.logins.openid.exchange import Exchange
from kalends.client.logins.openid.logins import (
    Tokens,
    discovered,
    fresh_token,
    give_back,
    logged_in,
)
from kalends.client.logins.token_lifetime import lifetime_of
from kalends.core.errors import (
    Expired,
    InvalidInput,
    KalendsError,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    Unavailable,
)

HERE = Exchange()


@pytest.fixture
def provider() -> Iterator[DeviceProvider]:
    with device_provider() as provider:
        yield provider


class Person:
    """Who sees the code, and answers after so many questions of the program; a clock goes on meanwhile."""

    def __init__(self, provider: DeviceProvider, says: bool | None, after: int = 0) -> None:
        self.provider, self.says, self.after = provider, says, after
        self.seen: list[DeviceCode] = []
        self.waits: list[float] = []

    def show(self, code: DeviceCode) -> None:
        self.seen.append(code)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        if len(self.waits) > self.after and self.says is not None:
            self.provider.answers[self.seen[0].user_code] = self.says

    def clock(self) -> float:
        return sum(self.waits)

    async def log_in(self, client: str = CLIENT) -> Tokens:
        endpoints = await discovered(self.provider.url, HERE)
        return await logged_in(
            endpoints, client, HERE, self.show, clock=self.clock, sleep=self.sleep
        )


async def test_whoever_says_yes_is_logged_in_with_what_renews_the_token(
    provider: DeviceProvider,
) -> None:
    person = Person(provider, True, after=2)
    access, refresh = await person.log_in()
    life = lifetime_of(access)
    assert life is not None
    assert life.expires_at - life.begins_at == 3_600
    assert refresh in provider.refresh_tokens
    assert person.waits == [1, 1, 1]
    (code,) = person.seen
    assert code.verification_uri == f"{provider.url}/enter"
    assert code.user_code in code.verification_uri_complete


async def test_a_provider_that_is_asked_too_often_is_asked_five_seconds_later_from_then_on(
    provider: DeviceProvider,
) -> None:
    provider.hurried = 2
    person = Person(provider, True, after=0)
    await person.log_in()
    assert person.waits == [1, 6, 11]


async def test_whoever_says_no_is_not_logged_in(provider: DeviceProvider) -> None:
    with pytest.raises(NotAllowed):
        await Person(provider, False).log_in()


async def test_a_code_that_nobody_enters_runs_out(provider: DeviceProvider) -> None:
    provider.interval_s = 60
    person = Person(provider, None)
    with pytest.raises(Expired):
        await person.log_in()
    assert 1_680 <= person.clock() <= 1_800


async def test_a_program_that_the_provider_does_not_know_is_told_to_be_named(
    provider: DeviceProvider,
) -> None:
    with pytest.raises(NotAllowed) as caught:
        await Person(provider, True).log_in("stranger")
    assert "--client" in caught.value.remedy


async def test_a_provider_that_describes_itself_as_rfc_8414_says_is_found(
    provider: DeviceProvider,
) -> None:
    provider.lacks_openid = True
    assert (await discovered(provider.url, HERE)).token_endpoint == f"{provider.url}/token"


@pytest.mark.parametrize(
    "said",
    [
        {"issuer": "https://elsewhere.example"},
        {"token_endpoint": "http://elsewhere.example/token"},
        {"token_endpoint": "ftp://127.0.0.1/token"},
        {"device_authorization_endpoint": ""},
        {"revocation_endpoint": "http://elsewhere.example/revoke"},
        {"token_endpoint": 7},
    ],
)
async def test_a_description_that_would_lead_the_user_elsewhere_is_not_believed(
    provider: DeviceProvider, said: dict[str, object]
) -> None:
    provider.discovery = said
    with pytest.raises(InvalidInput):
        await discovered(provider.url, HERE)


async def test_a_provider_is_asked_over_https_or_on_this_host_only() -> None:
    for issuer in ("http://login.example", "login.example", "https://login.example?a=b"):
        with pytest.raises(InvalidInput):
            await discovered(issuer, HERE)


async def test_an_address_without_a_provider_says_so(provider: DeviceProvider) -> None:
    with pytest.raises(NotFound):
        await discovered(f"{provider.url}/elsewhere", HERE)
    with pytest.raises(Unavailable):
        await discovered("http://127.0.0.1:9", HERE)


def kept(provider: DeviceProvider, folder: Path, tokens: Tokens) -> KeptLogin:
    login = KeptLogin(folder / "tokens" / "default.token", provider.url, CLIENT)
    login.keep(*tokens)
    return login


async def ending(provider: DeviceProvider, folder: Path) -> tuple[KeptLogin, Callable[[], float]]:
    """A login, and a clock that is in the last minute of its token."""
    login = kept(provider, folder, await Person(provider, True).log_in())
    life = lifetime_of(login.token())
    assert life is not None
    return login, lambda: life.expires_at - 60


async def test_a_token_that_is_good_for_long_is_not_renewed(
    provider: DeviceProvider, tmp_path: Path
) -> None:
    login = kept(provider, tmp_path, await Person(provider, True).log_in())
    assert await fresh_token(login) == login.token()
    assert provider.renewals == 0


async def test_a_token_that_is_about_to_run_out_is_renewed_and_kept_for_its_user_only(
    provider: DeviceProvider, tmp_path: Path
) -> None:
    login, clock = await ending(provider, tmp_path)
    old, old_refresh = login.token(), login.refresh_token()
    new = await fresh_token(login, clock)
    assert new == login.token() != old
    assert login.refresh_token() != old_refresh
    assert {path.stat().st_mode & 0o777 for path in login.token_file.parent.iterdir()} == {0o600}
    assert login.token_file.parent.stat().st_mode & 0o777 == 0o700


async def test_of_many_at_once_one_renews_the_token_and_all_have_the_new_one(
    provider: DeviceProvider, tmp_path: Path
) -> None:
    login, clock = await ending(provider, tmp_path)
    found = await asyncio.gather(*(fresh_token(login, clock) for _ in range(8)))
    assert set(found) == {login.token()}
    assert provider.renewals == 1


async def test_a_token_that_is_still_good_does_where_the_provider_is_away(
    provider: DeviceProvider, tmp_path: Path
) -> None:
    login, clock = await ending(provider, tmp_path)
    away = KeptLogin(login.token_file, "http://127.0.0.1:9", CLIENT)
    assert await fresh_token(away, clock) == login.token()
    with pytest.raises(Unavailable):
        await fresh_token(away, lambda: clock() + 60)


async def test_a_login_that_the_provider_has_ended_says_to_log_in_again(
    provider: DeviceProvider, tmp_path: Path
) -> None:
    login, clock = await ending(provider, tmp_path)
    provider.refresh_tokens.clear()
    assert await fresh_token(login, clock) == login.token()
    with pytest.raises(NotAuthenticated) as caught:
        await fresh_token(login, lambda: clock() + 60)
    assert "kalends login" in caught.value.remedy
    assert not any(word in str(caught.value) for word in (login.token(), login.refresh_token()))


async def test_what_renews_a_token_is_given_back(provider: DeviceProvider, tmp_path: Path) -> None:
    login = kept(provider, tmp_path, await Person(provider, True).log_in())
    assert login.refresh_token() in provider.refresh_tokens
    assert await give_back(login)
    assert not provider.refresh_tokens


async def test_a_token_that_others_can_read_is_not_used(
    provider: DeviceProvider, tmp_path: Path
) -> None:
    login = kept(provider, tmp_path, await Person(provider, True).log_in())
    login.token_file.chmod(0o644)
    with pytest.raises(KalendsError):
        await fresh_token(login)

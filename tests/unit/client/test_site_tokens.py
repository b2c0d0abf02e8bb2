"""A site that the broker has named gets a pass, and never a token that it could use elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from client_broker import NOW_S, Broker, serving_broker
from hypothesis import given
from hypothesis import strategies as st

import kalends
from kalends.client.client import Client
from kalends.client.connection import in_surroundings
from kalends.client.logins.site_ways import token_for
from kalends.client.logins.token_lifetime import audiences_of
from kalends.client.transports.transport import Access
from kalends.contract.server_calls import SitePass
from kalends.core.errors import NotAuthenticated, Unavailable
from kalends.rim.web_addresses import is_guarded
from kalends.serving.auth.keys import generate_key
from kalends.serving.auth.tokens import mint

KEY = generate_key()


def token(*audience: str, now_s: int = NOW_S, life_s: int = 3_600) -> str:
    return mint(
        KEY, user="ada", groups=(), audience=audience, scopes=("use",), issuer="",
        lifetime_s=life_s, now_s=now_s,
    )  # fmt: skip


OWN = st.one_of(
    st.sampled_from(["", "opaque", "e30.e30.e30"]),
    st.sets(st.sampled_from(["npaci", "sdsc", "kalends"]), min_size=1).map(lambda to: token(*to)),
)


@given(
    own=OWN,
    given_token=st.sampled_from(["", "a-pass"]),
    url=st.sampled_from(["https://sdsc.example", "http://sdsc.example", "http://127.0.0.1:7101"]),
)
def test_the_own_token_goes_to_a_site_that_it_names_where_there_is_no_pass_and_nowhere_else(
    own: str, given_token: str, url: str
) -> None:
    site = SitePass(site="sdsc", url=url, token=given_token)
    if own and not given_token and not ("sdsc" in audiences_of(own) and is_guarded(url)):
        with pytest.raises(NotAuthenticated) as caught:
            token_for(site, own)
        assert own not in str(caught.value)
        assert f"--broker {url}" in caught.value.remedy
    else:
        assert token_for(site, own) == (given_token or own)


@pytest.mark.parametrize(
    ("said", "audiences"),
    [(token("a", "b"), ("a", "b")), ("", ()), ("no.token", ()), ("e30.e30.e30", ()),
     ("e30.eyJhdWQiOiJhIn0.e30", ("a",)), ("e30.eyJhdWQiOls1XX0.e30", ())],
    ids=["two audiences", "no text", "no token", "nothing said", "one audience", "a number"],
)  # fmt: skip
def test_for_whom_a_token_is_it_says_itself_or_it_is_for_nobody(
    said: str, audiences: tuple[str, ...]
) -> None:
    assert audiences_of(said) == audiences


@pytest.fixture
def site(broker: Broker) -> Iterator[Broker]:
    with serving_broker() as site:
        broker.site_urls["ctc"] = site.url
        yield site


class Clocks:
    now_s = float(NOW_S)

    def client(self, url: str, own: str) -> Client:
        around = {"clock": lambda: self.now_s, "wall_clock": lambda: self.now_s}
        made = in_surroundings(kalends.connect(url, token=own, transport="http"), **around)
        return Client(replace(made.settings, timeout_s=10.0))


async def test_a_site_sees_passes_alone_and_the_next_before_the_last_runs_out(
    broker: Broker, site: Broker
) -> None:
    clocks, broker.token = Clocks(), token("npaci", "ctc")
    broker.passes += [token("ctc"), token("ctc", now_s=NOW_S + 3_000)]
    site.token, second = broker.passes
    async with clocks.client(broker.url, broker.token) as client:
        there = await client.at_site("ctc")
    async with there:
        assert (await there.whoami()).user == "token-user"
        clocks.now_s += 2_000
        assert (await there.whoami()).user == "token-user"
        clocks.now_s += 1_100
        site.token = second
        assert (await there.whoami()).user == "token-user"
    assert not broker.passes


async def test_while_the_broker_is_away_a_pass_does_until_it_runs_out(
    broker: Broker, site: Broker
) -> None:
    clocks, broker.token = Clocks(), token("npaci")
    broker.passes.append(token("ctc"))
    site.token = broker.passes[0]
    async with clocks.client(broker.url, broker.token) as client:
        there = await client.at_site("ctc")
    async with there:
        clocks.now_s += 3_300
        broker.faults.append(Unavailable("the store is locked"))
        assert (await there.whoami()).user == "token-user"
        asked = len(broker.seen)
        assert (await there.whoami()).user == "token-user"
        assert len(broker.seen) == asked, "it is not asked again at once"
        clocks.now_s += 600
        with pytest.raises(NotAuthenticated, match="gives no pass for ctc"):
            await there.whoami()


async def test_without_a_pass_nothing_is_sent_to_a_site_that_the_token_does_not_name(
    broker: Broker, site: Broker
) -> None:
    broker.token = token("npaci")
    async with Clocks().client(broker.url, broker.token) as client:
        with pytest.raises(NotAuthenticated, match="your token, which is for npaci, is not sent"):
            await client.at_site("ctc")
    assert site.seen == []


async def test_without_a_pass_a_token_that_names_the_site_is_sent(
    broker: Broker, site: Broker
) -> None:
    broker.token = site.token = token("npaci", "ctc")
    async with (
        Clocks().client(broker.url, broker.token) as client,
        await client.at_site("ctc") as there,
    ):
        assert (await there.whoami()).user == "token-user"


def test_a_site_is_reached_by_the_synchronous_client_too(broker: Broker, site: Broker) -> None:
    broker.token, site.token = token("npaci"), token("ctc", now_s=NOW_S + 10**9)
    broker.passes.append(site.token)
    with (
        kalends.connect_sync(broker.url, token=broker.token) as client,
        client.at_site("ctc") as there,
    ):
        assert there.whoami().user == "token-user"
        assert there.settings.access == Access(site.url)

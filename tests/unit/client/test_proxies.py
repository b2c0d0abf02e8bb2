"""Proxies of the environment: which calls go through them, and that client and servers work behind one."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from certificates import Authority
from click.testing import CliRunner
from client_broker import serving_broker
from small_proxy import SmallProxy, small_proxy

import kalends
from kalends.cli import cli
from kalends.client.transports.retry import Backoff
from kalends.core.errors import InvalidInput, KalendsError, NotAllowed
from kalends.rim.proxies import check_proxies, proxy_for
from kalends.testing import LocalFacility

TRANSPORTS: tuple[Literal["session", "http"], ...] = ("session", "http")
PROXY = "http://proxy.example:3128"
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def proxy() -> Iterator[SmallProxy]:
    with small_proxy() as proxy:
        yield proxy


@pytest.mark.parametrize(
    ("said", "url", "through"),
    [
        ({"HTTPS_PROXY": PROXY}, "https://a.example", PROXY),
        ({"HTTPS_PROXY": PROXY}, "http://a.example", None),
        ({"HTTP_PROXY": PROXY}, "http://a.example", PROXY),
        ({"http_proxy": PROXY, "HTTP_PROXY": "http://other:1"}, "http://a.example", PROXY),
        ({"ALL_PROXY": PROXY}, "https://a.example", PROXY),
        ({"ALL_PROXY": "http://other:1", "HTTPS_PROXY": PROXY}, "https://a.example", PROXY),
        ({"HTTPS_PROXY": "proxy.example:3128"}, "https://a.example", PROXY),
        ({"HTTPS_PROXY": ""}, "https://a.example", None),
        ({"ALL_PROXY": PROXY}, "http://localhost:8080", None),
        ({"ALL_PROXY": PROXY}, "http://127.0.0.9:8080", None),
        ({"ALL_PROXY": PROXY}, "https://[::1]:8080", None),
        ({"ALL_PROXY": PROXY}, "https://site.localhost", None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "*"}, "https://a.example", None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "b.example, a.example"}, "https://a.example", None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": ".example"}, "https://a.example", None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "*.example"}, "https://a.example", None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "example"}, "https://a.example.", None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "ample"}, "https://a.example", PROXY),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "a.example:8443"}, "https://a.example", PROXY),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "a.example:443"}, "https://a.example", None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "A.Example"}, "https://a.example", None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, "https://10.3.2.1", None),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, "https://11.3.2.1", PROXY),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "[2001:db8::1]:443"}, "https://[2001:db8::1]", None),
        ({"ALL_PROXY": PROXY, "no_proxy": "a.example", "NO_PROXY": ""}, "https://a.example", None),
    ],
)
def test_the_environment_says_which_calls_go_through_which_proxy(
    said: dict[str, str], url: str, through: str | None
) -> None:
    found = proxy_for(url, said)
    assert (None if found is None else found.url) == through or (
        through is not None and found is not None and found.address.netloc in through
    )


@pytest.mark.parametrize(
    "named", ["socks5://127.0.0.1:1080", "http://", "http://p:0", "https://p:1"]
)
def test_a_proxy_that_cannot_be_used_is_refused_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", named)
    with pytest.raises(InvalidInput) as refused:
        check_proxies()
    assert refused.value.where == "ALL_PROXY"
    result = CliRunner().invoke(cli, ["--broker", "https://kalends.example", "list"])
    assert (result.exit_code, "ALL_PROXY: " in result.stderr) == (2, True)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_client_reaches_its_server_through_a_proxy(
    monkeypatch: pytest.MonkeyPatch, proxy: SmallProxy, transport: Literal["session", "http"]
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy.url.replace("//", "//ann:se%20cret@"))
    proxy.password = "ann:se cret"
    with serving_broker() as broker:
        elsewhere = broker.url.replace("127.0.0.1", "kalends.example")
        with kalends.connect_sync(elsewhere, user="ada", zone="UTC", transport=transport) as client:
            for _ in range(3):
                assert client.health().status == "ok"
            booked = client.book("sdsc/sp2", duration="2h", at="2027-01-15 09:00")
            assert client.show(booked.id).id == booked.id
    assert proxy.seen
    assert all(f"{elsewhere}/" in line for line in proxy.seen)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_client_speaks_tls_with_its_server_through_a_tunnel(
    monkeypatch: pytest.MonkeyPatch,
    proxy: SmallProxy,
    tmp_path: Path,
    transport: Literal["session", "http"],
) -> None:
    authority = Authority(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(authority.write("server", ["kalends.example"]))
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    with serving_broker(tls) as broker:
        elsewhere = broker.url.replace("127.0.0.1", "kalends.example")
        with kalends.connect_sync(
            elsewhere, user="ada", zone="UTC", ca=str(authority.path), transport=transport
        ) as client:
            assert client.health().status == "ok"
            assert client.whoami().user
    host = elsewhere.removeprefix("https://")
    assert set(proxy.seen) == {f"CONNECT {host} HTTP/1.1"}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_loopback_and_what_no_proxy_lists_are_reached_directly(
    monkeypatch: pytest.MonkeyPatch, proxy: SmallProxy, transport: Literal["session", "http"]
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy.url)
    with (
        serving_broker() as broker,
        kalends.connect_sync(broker.url, user="ada", zone="UTC", transport=transport) as client,
    ):
        assert client.health().status == "ok"
    assert proxy.seen == []


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_refuses_is_named_with_its_variable_to_change(
    monkeypatch: pytest.MonkeyPatch,
    proxy: SmallProxy,
    transport: Literal["session", "http"],
    scheme: str,
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy.url)
    proxy.password = "ann:secret"
    with (
        kalends.connect_sync(
            f"{scheme}://kalends.example", user="ada", zone="UTC", transport=transport
        ) as client,
        pytest.raises((InvalidInput, NotAllowed)) as refused,
    ):
        client.health()
    assert "proxy" in refused.value.detail
    assert "NO_PROXY" in refused.value.remedy


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_proxy_that_is_down_is_named(
    monkeypatch: pytest.MonkeyPatch, transport: Literal["session", "http"]
) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with (
        kalends.connect_sync(
            "https://kalends.example",
            user="ada",
            zone="UTC",
            transport=transport,
            backoff=Backoff(tries_max=1),
        ) as client,
        pytest.raises(KalendsError, match="the proxy"),
    ):
        client.health()


class Elsewhere(LocalFacility):
    """The same, with names that only the proxy knows: all are on this host."""

    def url(self, name: str) -> str:
        return super().url(name).replace("127.0.0.1", f"{name}.example")


def test_a_broker_reaches_its_sites_and_virtual_sites_theirs_through_a_proxy(
    monkeypatch: pytest.MonkeyPatch, proxy: SmallProxy
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    sites = {"lab": {"scope": 1}, "mill": {"saw": 1}}
    with (
        Elsewhere(sites, virtual={"union": ["mill"]}) as servers,
        servers.sync_client("ann") as client,
    ):
        booked = client.book("lab/scope + mill/saw", duration="1h", at="tomorrow 09:00")
        assert booked.state == "reserved"
        asked = {line.split("//")[1].partition(".example")[0] for line in proxy.seen}
        assert asked >= {"broker", "lab", "union", "mill"}

"""Certificates between servers: who shows none that the owner's authority has signed is no server here."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from certificates import Authority
from tests.support.ports import free_urls
from tests.support.tokens import token

import kalends
from kalends.cli.servers.server import RunningServers
from kalends.core.errors import InvalidInput
from kalends.serving.auth.keys import write_key_pair
from kalends.serving.auth.peer_auth import trust_in
from kalends.serving.configuration import Configuration, load_configuration
from kalends.serving.http.runner import Service, listen, tls_context

SITE = """
[site]
name = "sdsc"
store = "sdsc.sqlite"
listen = "{sdsc}"
[site.tls]
certificate = "site.pem"
key = "site.pem"
clients = "authority.pem"
[site.calls]
ca = "authority.pem"
certificate = "site.pem"
key = "site.pem"
[[site.keys]]
file = "npaci.pub"
scopes = ["use", "broker"]
hosts = {hosts}
[[site.keys]]
file = "people.pub"
scopes = ["use", "near"]
[[site.resources]]
name = "sp2"
"""
BROKER = """
[broker]
name = "npaci"
store = "npaci.sqlite"
listen = "{npaci}"
key = "npaci"
[broker.tls]
certificate = "broker.pem"
key = "broker.pem"
clients = "authority.pem"
[broker.calls]
ca = "authority.pem"
{shown}
[[broker.keys]]
file = "people.pub"
[[broker.sites]]
name = "sdsc"
url = "https://{sdsc}"
"""
SHOWN = 'certificate = "broker.pem"\nkey = "broker.pem"'
HOSTS = '["npaci.example"]'


class Facility:
    """A site and a broker over TLS, in `folder`; `trust` is what users believe."""

    def __init__(self, folder: Path, hosts: str = HOSTS, shown: str = SHOWN) -> None:
        self.folder = folder
        self.authority, self.stranger = Authority(folder), Authority(folder, "stranger")
        self.authority.write("site", ["sdsc.example"])
        self.authority.write("broker", ["npaci.example"])
        self.stranger.write("posing", ["npaci.example"])
        for name in ("npaci", "people"):
            write_key_pair(folder / name)
        self.sdsc, self.npaci = (url.partition("://")[2] for url in free_urls(2))
        text = (SITE + BROKER).format(sdsc=self.sdsc, npaci=self.npaci, hosts=hosts, shown=shown)
        self.configuration = load_configuration(text, folder)
        self.trust = trust_in(self.authority.path, "ca")

    def token(self, key: str, user: str, *scopes: str, audience: str = "sdsc") -> dict[str, str]:
        text = token(self.folder / key, user, (audience,), scopes, issuer="i")
        return {"Authorization": f"Bearer {text}"}

    def showing(self, name: str) -> ssl.SSLContext | bool:
        pem = self.folder / f"{name}.pem"
        return trust_in(self.authority.path, "ca", (pem, pem))

    async def asked(
        self, path: str, headers: dict[str, str], tls: Any, method: str = "GET"
    ) -> tuple[int, str]:
        """Return the status of the site's answer and where it sees a fault; 0 for no connection."""
        url = f"https://{self.sdsc}{path}"
        try:
            async with (
                aiohttp.ClientSession() as http,
                http.request(method, url, headers=headers, ssl=tls) as answer,
            ):
                body = await answer.json(content_type=None) if answer.status >= 400 else {}
                return answer.status, body.get("where", "")
        except aiohttp.ClientError:
            return 0, ""


async def services_of(configuration: Configuration) -> Sequence[Service]:
    return await RunningServers(Path("kalends.toml"), configuration).services()


@asynccontextmanager
async def running(facility: Facility) -> AsyncIterator[Facility]:
    listening = [await listen(each) for each in await services_of(facility.configuration)]
    try:
        yield facility
    finally:
        await asyncio.gather(*(each.stop() for each in listening))


async def test_a_broker_and_its_site_know_each_other_by_certificates(tmp_path: Path) -> None:
    """A whole booking, and the question of a site in doubt, over connections with two certificates."""
    async with running(Facility(tmp_path)) as place:
        header = place.token("people", "ada", "use", audience="npaci")["Authorization"]
        client = kalends.connect(
            f"https://{place.npaci}", token=header.split()[1], ca=str(place.authority.path)
        )
        async with client:
            while any(site.state == "down" for site in (await client.resources()).sites):
                pass
            booked = await client.book(
                "sdsc/sp2", duration="1h", at=(int(time.time()) // 3_600 + 24) * 3_600
            )
            assert booked.state == "reserved"
        question = await place.asked("/v1/peers", {}, place.showing("broker"), "POST")
        assert question[0] == 400, "it is let in, and is no question"


async def test_who_shows_no_certificate_is_no_server(tmp_path: Path) -> None:
    async with running(Facility(tmp_path)) as place:
        broker = place.token("npaci", "npaci-1", "broker")
        near = place.token("people", "caltech", "near")
        for path, headers, method in (
            ("/v1/session", broker, "GET"), ("/v1/visits", near, "POST"), ("/v1/peers", {}, "POST"),
        ):  # fmt: skip
            refused = await place.asked(path, headers, place.trust, method)
            assert refused == (401, "certificate"), path
            assert (await place.asked(path, headers, place.showing("posing"), method))[0] == 0
        assert (await place.asked("/v1/session", broker, place.showing("broker")))[0] == 426
        # The certificate of another server is not that of the host to which the key belongs.
        stolen = await place.asked("/v1/session", broker, place.showing("site"))
        assert stolen == (401, "certificate")
        # Users need none.
        ada = place.token("people", "ada", "use")
        assert (await place.asked("/v1/resources", ada, place.trust))[0] == 200


async def test_a_broker_without_a_certificate_is_not_let_in(tmp_path: Path) -> None:
    async with running(Facility(tmp_path, shown="")) as place:
        header = place.token("people", "ada", "use", audience="npaci")["Authorization"]
        client = kalends.connect(
            f"https://{place.npaci}", token=header.split()[1], ca=str(place.authority.path)
        )
        async with client:
            while "401" not in (await client.resources()).sites[0].detail:
                pass


@pytest.mark.parametrize(
    ("before", "after", "where"),
    [
        ('clients = "authority.pem"\n[site.calls]', "[site.calls]", "site.keys[0].hosts"),
        ('certificate = "broker.pem"\nkey = "broker.pem"\n\n[[', "[[", ""),
        (SHOWN + "\n[[broker.keys", 'key = "broker.pem"\n[[broker.keys', "broker.calls"),
    ],
)
def test_certificates_are_configured_whole(before: str, after: str, where: str) -> None:
    text = (SITE + BROKER).format(sdsc="127.0.0.1:1", npaci="127.0.0.1:2", hosts=HOSTS, shown=SHOWN)
    changed = text.replace(before, after)
    if not where:
        assert load_configuration(changed, Path())
        return
    assert changed != text
    with pytest.raises(InvalidInput) as caught:
        load_configuration(changed, Path())
    assert caught.value.where == where


def test_a_virtual_site_lends_its_certificate_to_nobody() -> None:
    text = (
        '[virtual]\nname = "v"\n[[virtual.members]]\nname = "s"\nurl = "https://s.example"\n'
        '[virtual.calls]\ncertificate = "v.pem"\nkey = "v.pem"\n'
        '[virtual.tls]\ncertificate = "v.pem"\nkey = "v.pem"\n'
    )
    with pytest.raises(InvalidInput, match="this certificate would let every caller"):
        load_configuration(text, Path())
    assert load_configuration(text + 'clients = "authority.pem"\n', Path())


async def test_servers_show_their_certificates_to_a_virtual_site_too(tmp_path: Path) -> None:
    place = Facility(tmp_path)
    place.authority.write("hall")
    hall = load_configuration(
        '[virtual]\nname = "hall"\nlisten = "127.0.0.1:0"\n[virtual.tls]\ncertificate = "hall.pem"\n'
        'key = "hall.pem"\nclients = "authority.pem"\n[virtual.calls]\nca = "authority.pem"\n'
        'certificate = "hall.pem"\nkey = "hall.pem"\n[[virtual.keys]]\nfile = "npaci.pub"\n'
        f'[[virtual.members]]\nname = "sdsc"\nurl = "https://{place.sdsc}"\n',
        tmp_path,
    )
    async with running(place):
        [way] = [await listen(each) for each in await services_of(hall)]
        place.sdsc = way.url.partition("://")[2]
        ada, members = place.token("people", "ada", "use"), "/v1/members/sdsc"
        assert (await place.asked(f"{members}/v1/resources", ada, place.trust))[0] == 200
        refused = (401, "certificate")
        for path in ("/v1/session", "/v1/peers", "/v1/visits"):
            assert await place.asked(members + path, {}, place.trust, "POST") == refused
            assert await place.asked(members + path, {}, place.showing("broker"), "POST") != refused
        await way.stop()


def test_files_that_are_no_certificates_are_an_error(tmp_path: Path) -> None:
    pem = Authority(tmp_path).write("site")
    (tmp_path / "none.pem").write_text("hello")
    with pytest.raises(InvalidInput) as caught:
        tls_context(pem, pem, tmp_path / "none.pem")
    assert caught.value.where == "tls.clients"
    with pytest.raises(InvalidInput, match="cannot use"):
        trust_in(None, "site.calls", (tmp_path / "none.pem", pem))

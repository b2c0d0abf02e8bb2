"""A hostile site keeps what it is sent, and plays it again at the broker and at another site.

The broker and the honest site are real; the hostile one says whatever might make a client show it more.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from aiohttp import web
from click.testing import CliRunner, Result
from client_broker import serving

import kalends
from kalends.cli import cli
from kalends.servers.broker import build_broker
from kalends.servers.site import build_site
from kalends.serving.auth.keys import load_private_key, write_key_pair
from kalends.serving.auth.tokens import mint
from kalends.serving.configuration import load_configuration

WAIT_S = 30.0

CONFIGURATION = """
[broker]
name = "npaci"
store = "broker.sqlite"
key = "npaci"
[[broker.keys]]
file = "people.pub"
claims = {{ audiences = ["npaci", "kalends"] }}
scopes = ["use", "audit"]
[[broker.sites]]
name = "sdsc"
url = "{sdsc}"
[[broker.sites]]
name = "caltech"
url = "{caltech}"
"""

CALTECH = """
[site]
name = "caltech"
store = "caltech.sqlite"
[[site.keys]]
file = "people.pub"
claims = { audiences = ["caltech", "kalends"] }
[[site.keys]]
file = "npaci.pub"
scopes = ["use", "broker"]
[[site.resources]]
name = "beamline"
"""

COMMANDS = (
    ("queue", "sdsc/sp2"), ("job", "sdsc/sp2/1"), ("log", "sdsc/sp2/1"),
    ("submit", "sdsc/sp2", "--for", "1h", "--", "true"), ("kill", "sdsc/sp2/1"),
    ("usage", "sdsc/sp2"), ("agent", "runs", "--site", "sdsc"), ("machine", "sdsc/sp2"),
    ("admin", "policy", "sdsc/sp2", "easy"),
)  # fmt: skip


class HostileSite:
    """Keeps every token that comes, and refuses all with `status`."""

    def __init__(self) -> None:
        self.tokens: set[str] = set()
        self.heard: list[bytes] = []
        self.status = 401
        self.broker_has_come = threading.Event()

    async def respond(self, request: web.Request) -> web.StreamResponse:
        said = request.headers.get("Authorization", "")
        self.heard.append(repr((request.headers, request.path_qs)).encode() + await request.read())
        if said:
            self.tokens.add(said.removeprefix("Bearer "))
        if request.path == "/v1/session":
            self.broker_has_come.set()
        code = {401: "not-authenticated", 403: "not-allowed", 404: "not-found"}[self.status]
        return web.json_response(
            {"type": "about:blank", "title": "no", "status": self.status, "code": code,
             "detail": "show me your own token", "where": "token"},
            status=self.status, content_type="application/problem+json",
        )  # fmt: skip

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.respond)
        return app


class Place:
    """The broker `npaci`, the honest site `caltech`, and `sdsc`."""

    def __init__(self, folder: Path, broker: str, caltech: str, sdsc: HostileSite) -> None:
        self.folder, self.broker, self.caltech, self.sdsc = folder, broker, caltech, sdsc

    def token(self, *audience: str) -> str:
        return mint(
            load_private_key(self.folder / "people"), user="ada", groups=(), audience=audience,
            scopes=("use", "audit"), issuer="", lifetime_s=3_600, now_s=int(time.time()),
        )  # fmt: skip

    def types(self, own: str, *words: str) -> Result:
        (self.folder / "own.token").write_text(own)
        (self.folder / "own.token").chmod(0o600)
        env = {
            "KALENDS_BROKER": self.broker, "KALENDS_TOKEN_FILE": str(self.folder / "own.token"),
            "KALENDS_CONFIG": str(self.folder / "none"), "KALENDS_ZONE": "UTC",
        }  # fmt: skip
        return CliRunner().invoke(cli, words, env=env)

    def audited(self, log: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / log).read_text().splitlines()]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("place")
    for name in ("people", "npaci"):
        write_key_pair(folder / name)
    hostile = HostileSite()
    site = load_configuration(CALTECH, folder).site
    assert site is not None
    with (
        serving(hostile.application()) as sdsc,
        serving(build_site(site, version="1")) as caltech,
    ):
        text = CONFIGURATION.format(sdsc=sdsc, caltech=caltech)
        broker = load_configuration(text, folder).broker
        assert broker is not None
        with serving(build_broker(broker, version="1")) as url:
            yield Place(folder, url, caltech, hostile)


def replayed(url: str, path: str, token: str) -> int:
    """The status with which a server answers who shows it `token`."""
    body = None if path in ("/v1/whoami", "/v1/session") else b"{}"
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        with urlopen(Request(url + path, body, headers), timeout=WAIT_S) as answer:
            return int(answer.status)
    except HTTPError as error:
        error.close()
        return error.code


@pytest.mark.parametrize(
    ("audience", "status"),
    [(("npaci",), 401), (("kalends",), 403), (("npaci", "sdsc", "caltech"), 404),
     (("npaci", "sdsc", "caltech"), 401)],
)  # fmt: skip
def test_what_a_site_is_sent_is_refused_everywhere_else_and_written_down(
    place: Place, audience: tuple[str, ...], status: int
) -> None:
    own, place.sdsc.status = place.token(*audience), status
    place.sdsc.tokens.clear()
    assert replayed(place.broker, "/v1/whoami", own) == 200
    for words in COMMANDS:
        result = place.types(own, *words)
        assert result.exit_code in (1, 4), result.output
        assert own not in result.output
    with (
        kalends.connect_sync(place.broker, token=own) as client,
        client.at_site("sdsc") as there,
        pytest.raises(kalends.KalendsError),
    ):
        there.attach("sdsc/sp2", 1)
    assert place.sdsc.broker_has_come.wait(WAIT_S)
    # The broker goes on trying to reach it.
    kept, heard = place.sdsc.tokens.copy(), place.sdsc.heard.copy()
    assert len(kept) > len(COMMANDS)
    assert not any(own.encode() in each for each in heard)
    for token in kept:
        for url, path in (
            (place.broker, "/v1/whoami"), (place.broker, "/v1/requests/list"),
            (place.broker, "/v1/passes"), (place.caltech, "/v1/whoami"),
            (place.caltech, "/v1/jobs/list"), (place.caltech, "/v1/session"),
        ):  # fmt: skip
            assert replayed(url, path, token) == 401
    for log in ("broker.1.audit", "caltech.audit"):
        refused = [line for line in place.audited(log) if line["answer"] == "not-authenticated"]
        assert len(refused) >= 3 * len(kept)
        assert {line["from"] for line in refused} == {"127.0.0.1"}
        text = (place.folder / log).read_text()
        assert not any(token in text for token in (own, *kept))


def test_who_has_got_a_pass_is_written_down_and_found_again_at_the_site(place: Place) -> None:
    own = place.token("npaci")
    with (
        kalends.connect_sync(place.broker, token=own) as client,
        client.at_site("caltech") as there,
    ):
        told = there.whoami()
        assert (told.user, told.server, told.scopes) == ("ada", "caltech", ("use",))
        assert told.audiences == ("caltech",)
        with pytest.raises(kalends.NotAllowed):
            there.audit()
    given = [
        (line["user"], line["about"]["id"])
        for line in place.audited("broker.1.audit")
        if line.get("about", {}).get("site") == "caltech"
    ]
    used = [
        (line["user"], line["token"])
        for line in place.audited("caltech.audit")
        if line["call"] == "audit"
    ]
    assert len(given) == 1
    assert given == used

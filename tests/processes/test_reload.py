"""Real servers read their configuration again at SIGHUP: sessions stay, and a bad file changes nothing."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

import kalends
from kalends.core.errors import NotAuthenticated
from kalends.serving.auth.keys import write_key_pair
from tests.support.ports import free_urls
from tests.support.tokens import token

from .facility import write
from .servers import Server, running, until

SITE = """
[site]
name = "sdsc"
listen = "{listen}"
store = "sdsc.sqlite"
[[site.keys]]
file = "people.pub"
scopes = [{scopes}]
{more}
[[site.resources]]
name = "sp2"
capacity = {capacity}
description = "{description}"
"""


class Owner:
    """A site whose configuration is written anew, with the keys of two issuers."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        (url,) = free_urls(1)
        for name in ("people", "guests"):
            write_key_pair(directory / name)
        self.server = Server("sdsc", directory / "sdsc.toml", url)
        self.configure()

    def configure(
        self, scopes: str = '"use"', description: str = "old", capacity: int = 8, more: str = ""
    ) -> None:
        listen = self.server.url.removeprefix("http://")
        text = SITE.format(
            listen=listen, scopes=scopes, description=description, capacity=capacity, more=more
        )
        write(self._directory / "sdsc.toml", text)

    def token(self, key: str, *scopes: str) -> str:
        return token(self._directory / key, "ada", ("sdsc",), scopes or ("use",), issuer="tests")

    async def reload(self, event: str) -> dict[str, object]:
        """Send SIGHUP, and return what the server says of it."""
        before = len(self.said(event))
        os.kill(self.server.pid, signal.SIGHUP)

        async def is_said() -> bool:
            return len(self.said(event)) > before

        await until(is_said, event)
        return self.said(event)[-1]

    def said(self, event: str) -> list[dict[str, object]]:
        lines = [json.loads(line) for line in self.server.log().splitlines() if line[:1] == "{"]
        return [line for line in lines if line["event"] == event]


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    return Owner(tmp_path)


GUESTS = '[[site.keys]]\nfile = "guests.pub"\n'


async def test_keys_and_rules_change_under_a_session_and_the_rest_is_named(owner: Owner) -> None:
    async with (
        running(owner.server),
        kalends.connect(owner.server.url, token=owner.token("people", "use", "audit")) as ada,
    ):
        assert (await ada.resources()).resources[0].description == "old"
        owner.configure(description="new", capacity=16, more=GUESTS)
        said = await owner.reload("reloaded")
        assert said["needs_restart"] == []
        seen = (await ada.resources()).resources[0]
        assert (seen.description, seen.capacity) == ("new", 16)
        async with kalends.connect(owner.server.url, token=owner.token("guests")) as guest:
            assert (await guest.resources()).resources


async def test_a_bad_file_changes_nothing_and_the_log_says_where_it_is_bad(owner: Owner) -> None:
    async with running(owner.server):
        owner.configure(scopes='"everything"', description="new")
        said = await owner.reload("reload_refused")
        assert "site.keys[0].scopes[0]" in str(said["detail"])
        async with kalends.connect(owner.server.url, token=owner.token("people")) as ada:
            assert (await ada.resources()).resources[0].description == "old"


async def test_who_has_come_by_a_key_that_is_gone_has_to_go(owner: Owner) -> None:
    owner.configure(more=GUESTS)
    async with running(owner.server):
        ada = kalends.connect(owner.server.url, token=owner.token("people"))
        guest = kalends.connect(owner.server.url, token=owner.token("guests"))
        async with ada, guest:
            await ada.resources()
            await guest.resources()
            owner.configure()
            await owner.reload("reloaded")
            await ada.resources()
            with pytest.raises(NotAuthenticated):
                await guest.resources()


def rights_of_others(directory: Path) -> dict[str, int]:
    """What others than their owner may do with the files that a site has made."""
    return {
        path.name: path.stat().st_mode & 0o077
        for path in directory.glob("sdsc.*")
        if path.suffix not in (".toml", ".log")
    }


async def test_files_of_a_server_are_its_users_alone_whatever_its_mask(
    owner: Owner, tmp_path: Path
) -> None:
    before = os.umask(0)
    try:
        async with running(owner.server):
            rights = rights_of_others(tmp_path)
    finally:
        os.umask(before)
    assert {"sdsc.sqlite", "sdsc.sqlite.epoch", "sdsc.sqlite.lock"} <= rights.keys()
    assert set(rights.values()) == {0}

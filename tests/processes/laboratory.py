"""A laboratory of one site, whose machine of four nodes runs real jobs: for tests."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import kalends
from kalends.contract.job_calls import JobView
from kalends.core.jobs import JobRequest
from kalends.serving.auth.keys import write_key_pair
from tests.support.job_folders import folder_of_jobs
from tests.support.ports import free_urls
from tests.support.tokens import token

from .facility import write
from .servers import Server, until

MACHINE = "lab/box"
USER = "ann"
UNIX_USER = "nobody" if os.geteuid() == 0 else ""
LIMIT_S = 600
"""No job that waits for its test is ended by its limit, however busy the host is."""


class Laboratory:
    """A site with a machine of four nodes, and a folder in which its jobs leave marks."""

    def __init__(
        self, directory: Path, *, name: str = "lab", keyed: bool = False, rules: str = "",
        path: str = "", store: str = "",
    ) -> None:  # fmt: skip
        """`rules` are further lines about the machine, `path` is for modules of its own, `store` a URL."""
        self._signer = directory / "people" if keyed else None
        keys = ""
        if self._signer is not None:
            write_key_pair(self._signer)
            keys = f'[[site.keys]]\nfile = "{self._signer}.pub"\nscopes = ["use", "admin"]'
        directory.chmod(0o711)
        self.marks = directory / "marks"
        self.marks.mkdir()
        if UNIX_USER:
            shutil.chown(self.marks, UNIX_USER)
        (url,) = free_urls(1)
        users = f'users = {{ {USER} = "{UNIX_USER}" }}' if UNIX_USER else ""
        text = f"""
[log]
form = "json"
[site]
name = "{name}"
listen = "{url.removeprefix("http://")}"
plain_http = true
url = "{url}"
store = "{store or name + ".sqlite"}"
{keys}
[[site.resources]]
name = "box"
capacity = 4
grain = "1s"
[[site.machines]]
resource = "box"
directory = "{directory}/jobs"
grace = "1s"
reserved_credits = 20
{users}
{rules}
"""
        searched = os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH", "")]))
        environment = {"PYTHONPATH": searched} if searched else {}
        configuration = write(directory / f"{name}.toml", text)
        self.site = Server(name, configuration, url, environment=environment)

    @contextlib.asynccontextmanager
    async def client(
        self, user: str = USER, scopes: tuple[str, ...] = ("use",), lifetime_s: int = 3_600
    ) -> AsyncIterator[kalends.Client]:
        token = self.token(user, scopes, lifetime_s) if self._signer is not None else ""
        named = "" if token else user
        async with kalends.connect(self.site.url, user=named, token=token, zone="UTC") as client:
            yield client

    def token(
        self, user: str = USER, scopes: tuple[str, ...] = ("use",), lifetime_s: int = 3_600
    ) -> str:
        """A token for the site, which is keyed."""
        assert self._signer is not None
        return token(self._signer, user, ("lab",), scopes, lifetime_s=lifetime_s)

    def job(self, text: str, **more: Any) -> JobRequest:
        fields = {"limit_s": LIMIT_S, "command": ("/bin/sh", "-c", text), **more}
        return JobRequest(machine=MACHINE, directory=str(self.marks), **fields)

    def marking(self, seconds: float, **more: Any) -> JobRequest:
        """A job that notes when it begins and when it ends."""
        text = f"echo begin $KALENDS_JOB >> marks; sleep {seconds}; echo end $KALENDS_JOB >> marks"
        return self.job(text, **more)

    def marked(self) -> Counter[str]:
        path = self.marks / "marks"
        return Counter(path.read_text().splitlines()) if path.exists() else Counter()

    async def over(self, client: kalends.Client, number: int) -> JobView:
        async def ended() -> JobView | None:
            view = await client.job(MACHINE, number)
            return view if view.end else None

        return await until(ended, f"job {number} is over")


async def opened(laboratory: Laboratory) -> AsyncIterator[Laboratory]:
    """Start its site; in the end no job is left, and the site is stopped."""
    await laboratory.site.start()
    try:
        yield laboratory
        async with laboratory.client() as client:
            for view in (await client.jobs(MACHINE, everyone=True)).jobs:
                await client.kill_job(MACHINE, view.job)
            for view in (await client.jobs(MACHINE, everyone=True)).jobs:
                await laboratory.over(client, view.job)
    finally:
        await laboratory.site.stop()


async def laboratories(**how: Any) -> AsyncIterator[Laboratory]:
    """One laboratory of `how`. It is not in pytest's own folder, which only root could enter."""
    with folder_of_jobs("kalends-jobs-") as directory:
        async for each in opened(Laboratory(Path(directory), **how)):
            yield each


@pytest.fixture
async def laboratory() -> AsyncIterator[Laboratory]:
    async for each in laboratories():
        yield each

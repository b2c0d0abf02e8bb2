"""Sites and a broker on loopback: configurations, keys, all running.

Those of `THREE_SITES` are the files of examples/facility. Ports are free ones; keys and tokens are real.
Tokens are in ``tokens/USER``, and the file ``environment`` makes a shell use the facility as `ada`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import stat
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Final

import kalends
from kalends.batch.shepherds.folders import PASSABLE, Folders
from kalends.core.errors import Conflict
from kalends.core.identifiers import split_resource
from kalends.demo import processes
from kalends.demo.processes import Server
from kalends.demo.together import all_of, until
from kalends.serving.auth.keys import load_private_key, write_key_pair
from kalends.serving.auth.tokens import mint

BROKER: Final = "npaci"
MACHINE: Final = "sdsc/sp2"
TEXT: Final = "sdsc/sp2:64 + caltech/beamline + ncsa/cave"
UNITS: Final = {MACHINE: 64, "caltech/beamline": 1, "ncsa/cave": 1}
DURATION: Final = "2h"
USER: Final = "ada"
SECOND_USER: Final = "bob"
OPERATOR: Final = "operator"
TOKEN_LIFETIME_S: Final = 4 * 86_400
"""A demo that is kept over a weekend can be used on Monday; one that is started again has new tokens."""

_LISTEN = re.compile(r'^listen = "127\.0\.0\.1:[0-9]+"$', re.MULTILINE)
_PEER = re.compile(r'^name = "([a-z]+)"\nurl = "[^"]*"$', re.MULTILINE)


@dataclass(frozen=True)
class FacilityPlan:
    """The parts of a facility: the configuration of each site, by name, and of the broker."""

    sites: Mapping[str, str]
    broker: str
    virtual: Mapping[str, str] = field(default_factory=dict)
    """The configurations of virtual sites, by their names."""


def packaged(*path: str) -> str:
    """Return a file of the demo's configurations."""
    return (resources.files("kalends.demo") / "data").joinpath(*path).read_text("utf-8")


THREE_SITES: Final = FacilityPlan(
    {name: packaged(f"site-{name}.toml") for name in ("sdsc", "caltech", "ncsa")},
    packaged("broker.toml"),
)


@dataclass(frozen=True)
class Facility:
    """The servers, by name, and the directory of all their files."""

    directory: Path
    servers: dict[str, Server]

    @property
    def broker_url(self) -> str:
        return self.servers[BROKER].url

    def site_url(self, resource: str) -> str:
        """Return the address of the site that owns `resource`."""
        return self.servers[split_resource(resource)[0]].url

    def token_file(self, user: str) -> Path:
        return self.directory / "tokens" / user

    def token(self, user: str) -> str:
        return self.token_file(user).read_text("ascii").strip()

    @contextlib.asynccontextmanager
    async def at_site(self, site: str) -> AsyncIterator[kalends.Client]:
        """Call `site` as `USER`, by a pass of the broker."""
        async with kalends.connect(self.broker_url, token=self.token(USER)) as broker:
            there = await broker.at_site(site)
        async with there:
            yield there

    def environment(self) -> dict[str, str]:
        """Return the environment in which `kalends` and the examples call this broker as `USER`."""
        return {
            "KALENDS_BROKER": self.broker_url,
            "KALENDS_TOKEN_FILE": str(self.token_file(USER)),
            "KALENDS_FACILITY": str(self.directory),
        }


@contextlib.asynccontextmanager
async def facility(
    directory: Path,
    now_s: int,
    said: Callable[[str], None] = lambda line: None,
    plan: FacilityPlan = THREE_SITES,
) -> AsyncIterator[Facility]:
    """Run a facility in `directory`, new or empty, or kept from an earlier time, until this context ends.

    Only one of `THREE_SITES` is started again. `said` is told what goes on. Raises `Conflict` for a directory
    with something else in it, and what
    `servers` and `all_sites_up` raise. However the context ends, no server is left running; the files stay.
    """
    if plan is THREE_SITES and is_kept(directory):
        said("making new tokens")
    else:
        make_directory(directory)
        said("writing configurations, making keys and tokens")
        write_configurations(directory, plan)
        make_keys(directory)
    make_tokens(directory, now_s, plan)
    async with servers(directory, said, plan) as running:
        made = Facility(directory, running)
        write_environment(made)
        await all_sites_up(made.broker_url, made.token(OPERATOR))
        yield made


def write_environment(running: Facility) -> None:
    """Write the file that makes a shell use the facility."""
    (running.directory / "environment").write_text(
        "".join(f"export {name}={shlex.quote(v)}\n" for name, v in running.environment().items())
    )


async def all_sites_up(url: str, token: str) -> None:
    """Wait until the broker at `url` hears all of its sites; raises `Unavailable` when it does not."""
    async with kalends.connect(url, token=token) as client:
        await until(
            client.resources,
            lambda answer: all(site.state == "up" for site in answer.sites),
            "the broker does not hear all of its sites",
        )


def is_kept(directory: Path) -> bool:
    """Return whether `directory` has all that a facility of `THREE_SITES` was started with."""
    names = [*(f"site-{site}" for site in THREE_SITES.sites), "broker"]
    files = [directory / f"{name}.toml" for name in names]
    keys = [directory / "keys" / name for name in ("people", BROKER)]
    return (directory / "environment").is_file() and all(each.is_file() for each in files + keys)


def make_directory(directory: Path) -> None:
    """Make `directory`, for its owner only; raises `Conflict` when there is something in it."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        empty = not any(directory.iterdir())
    except OSError as error:
        raise Conflict(
            f"cannot use this directory for the demo: {error.strerror}", where=str(directory)
        ) from error
    if not empty:
        raise Conflict(
            "the directory is not empty",
            where=str(directory),
            remedy="give a new directory, or that of a demo that was kept",
        )


def write_configurations(directory: Path, plan: FacilityPlan = THREE_SITES) -> None:
    for site, text in plan.sites.items():
        _write(directory / f"site-{site}.toml", text)
    for name, text in plan.virtual.items():
        _write(directory / f"virtual-{name}.toml", text)
    _write(directory / "broker.toml", plan.broker)


def make_keys(directory: Path) -> None:
    """Make the keys of examples/facility/make-keys.sh: for people and the broker."""
    keys = directory / "keys"
    keys.mkdir(mode=0o700)
    write_key_pair(keys / "people")
    write_key_pair(keys / BROKER)


def make_tokens(directory: Path, now_s: int, plan: FacilityPlan = THREE_SITES) -> None:
    """Make the tokens of examples/facility/make-keys.sh, replacing earlier ones.

    The users' tokens are good at the broker alone, whose passes lead to the sites.
    """
    tokens = directory / "tokens"
    tokens.mkdir(mode=0o700, exist_ok=True)
    people = load_private_key(directory / "keys" / "people")
    for user, group, audience, scopes in (
        (USER, "crystallography", [BROKER], ["use"]),
        (SECOND_USER, "crystallography", [BROKER], ["use"]),
        (OPERATOR, "operators", [BROKER, *plan.sites, *plan.virtual], ["use", "audit", "admin"]),
    ):
        token = mint(
            people, user=user, groups=[group], audience=audience, scopes=scopes,
            issuer="people", lifetime_s=TOKEN_LIFETIME_S, now_s=now_s,
        )  # fmt: skip
        (tokens / user).touch(mode=0o600)
        (tokens / user).write_text(f"{token}\n", "ascii")


@contextlib.asynccontextmanager
async def servers(
    directory: Path,
    said: Callable[[str], None] = lambda line: None,
    plan: FacilityPlan = THREE_SITES,
) -> AsyncIterator[dict[str, Server]]:
    """Run the servers configured in `directory` on free ports until this context ends.

    Raises `Unavailable` when one does not come up. However the context ends, all have ended too.
    """
    running: dict[str, Server] = {}

    async def begin(name: str, configuration: Path) -> None:
        running[name] = await processes.start(name, configuration)
        said(f"{name} listens at {running[name].url}")

    with _jobs_folder(directory, plan.sites) as jobs:
        try:
            said(f"starting the sites {', '.join(plan.sites)}")
            await all_of(begin(name, _on_free_port(directory, name, jobs)) for name in plan.sites)
            for name in plan.virtual:
                await begin(name, _with_peers(directory, f"virtual-{name}", running))
            said(f"starting the broker {BROKER}")
            await begin(BROKER, _with_peers(directory, "broker", running))
            yield running
        finally:
            await processes.stop(running.values())


@contextlib.contextmanager
def _jobs_folder(directory: Path, sites: Iterable[str]) -> Iterator[str]:
    """Provide the folder of all jobs: in `directory`, or elsewhere, until this context ends.

    Elsewhere if its path is too long for sockets, or closed to the Unix users of jobs.
    """
    own = directory / "jobs"
    shared = os.geteuid() == 0
    closed = shared and any(not each.stat().st_mode & stat.S_IXOTH for each in directory.parents)
    if not closed and not any(Folders(f"{own}/{site}").too_long for site in sites):
        own.mkdir(exist_ok=True)
        for each in (directory, own) if shared else ():
            os.chmod(each, PASSABLE)
        yield str(own)
        return
    with tempfile.TemporaryDirectory(prefix="kalends-jobs-", ignore_cleanup_errors=True) as jobs:
        os.chmod(jobs, PASSABLE)
        yield jobs


def _on_free_port(directory: Path, site: str, jobs: str) -> Path:
    text = (directory / f"site-{site}.toml").read_text("utf-8")
    text = _LISTEN.sub('listen = "127.0.0.1:0"', text)
    if "[[site.machines]]" in text and "batch_system =" not in text:
        text += f'directory = "{jobs}/{site}"\n'
        if os.geteuid() == 0 and "batch_systems" not in text:
            # Jobs never run as root: theirs is the Unix user who owns nothing.
            text += f'users = {{ {USER} = "nobody", {OPERATOR} = "nobody" }}\n'
    return _write(directory / f"running-{site}.toml", text)


def _with_peers(directory: Path, name: str, running: Mapping[str, Server]) -> Path:
    text = (directory / f"{name}.toml").read_text("utf-8")
    text = _LISTEN.sub('listen = "127.0.0.1:0"', text)
    text = _PEER.sub(lambda peer: f'name = "{peer[1]}"\nurl = "{running[peer[1]].url}"', text)
    return _write(directory / f"running-{name}.toml", text)


def _write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path

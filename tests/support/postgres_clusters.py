"""PostgreSQL clusters for tests: copied from a template in a fraction of a second, and broken.

They are those of the demo, in memory, with sessions that share no code with what is tested.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import psycopg

from kalends.demo.failover import postgres_cluster
from kalends.demo.failover.postgres_cluster import cluster_place, url_of
from kalends.stores.postgres.address import Address

__all__ = [
    "Cluster",
    "Pooler",
    "cluster",
    "in_a_schema",
    "pair",
    "place",
    "shared",
    "shared_template",
    "url_of",
]

POOLER: Final = Path("/usr/sbin/pgbouncer")

_MEMORY: Final = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
"""No cluster of a test outlives a loss of power: on a disk they would only hold up all other tests."""


def why_not() -> str:
    """Why no server can be run here, or "" when one can."""
    if why := postgres_cluster.why_not():
        return why
    if not POOLER.exists():
        return "they need a pooler before PostgreSQL: apt-get install pgbouncer"
    return ""


class Cluster(postgres_cluster.PostgresCluster):
    """A cluster, with plain sessions, and a way to freeze it."""

    def url(self, database: str = "postgres", schema: str = "", role: str = "") -> str:
        options = f"&options=-csearch_path%3D{schema}" if schema else ""
        return f"postgresql:///{database}?host={self.place}&user={role or self.role}{options}"

    def address(self, database: str = "postgres", schema: str = "", role: str = "") -> Address:
        return Address(self.url(database, schema, role))

    def connect(self, database: str = "postgres", schema: str = "") -> psycopg.Connection[Any]:
        """A plain session, which shares no code with what is tested; the caller closes it."""
        options = f"-csearch_path={schema}" if schema else ""
        return psycopg.connect(
            host=str(self.place), user=self.role, dbname=database, options=options, autocommit=True
        )

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """None of its processes runs meanwhile."""
        self.send(signal.SIGSTOP)
        try:
            yield
        finally:
            self.send(signal.SIGCONT)


class Pooler:
    """PgBouncer before a cluster, in the mode that gives a connection back after each transaction."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.place = cluster.place / "pooler"

    def __enter__(self) -> Pooler:
        self.place.mkdir()
        self._cluster.own(self.place)
        users = self.place / "users"
        users.write_text(f'"{self._cluster.role}" ""\n')
        configuration = self.place / "pgbouncer.ini"
        configuration.write_text(
            f"[databases]\n* = host={self._cluster.place} user={self._cluster.role}\n"
            f"[pgbouncer]\nunix_socket_dir = {self.place}\n"
            f"listen_port = 5432\nauth_type = any\nauth_file = {users}\npool_mode = transaction\n"
            "ignore_startup_parameters = options,extra_float_digits\n"
        )
        # Whatever mask a command has left in this process.
        for path in (users, configuration):
            self._cluster.own(path)
        said = self.place / "said"
        self._process = self._cluster.spawn(said, str(POOLER), str(configuration))
        with socket.socket(socket.AF_UNIX) as line:
            while line.connect_ex(str(self.place / ".s.PGSQL.5432")):
                assert self._process.poll() is None, f"the pooler ended: {said.read_text()}"
                time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def address(self) -> Address:
        return Address(f"postgresql:///postgres?host={self.place}&user={self._cluster.role}")


def place(*, on_disk: bool = False) -> contextlib.AbstractContextManager[Path]:
    """A folder for a cluster, removed at the end."""
    return cluster_place(None if on_disk else _MEMORY)


@contextlib.contextmanager
def cluster(template: Path, settings: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """A running copy of the cluster at `template` (`template`)."""
    with place() as folder:
        made = Cluster(folder)
        # As the server's user, whose files they have to be.
        subprocess.run(["cp", "-a", template / "data", folder], check=True)
        made.configure(settings or {})
        made.start()
        try:
            yield made
        finally:
            made.stop()


@contextlib.contextmanager
def pair(template: Path) -> Iterator[tuple[Cluster, Cluster]]:
    """A primary, and a standby that its commits wait for."""
    with cluster(template, {"synchronous_standby_names": "s1"}) as primary, place() as folder:
        standby = primary.standby(folder, "s1")
        try:
            primary.wait_for_standby("s1")
            yield primary, standby
        finally:
            standby.stop()


@contextlib.contextmanager
def template() -> Iterator[Path]:
    """A cluster to copy, which never runs."""
    with place() as folder:
        Cluster(folder).initialise()
        yield folder


_until_exit: Final = contextlib.ExitStack()
atexit.register(_until_exit.close)


@functools.cache
def shared_template() -> Path:
    """The template of all tests of this process."""
    return _until_exit.enter_context(template())


@functools.cache
def shared() -> Cluster:
    """The cluster of this process, for tests that break nothing; it runs until the process ends."""
    return _until_exit.enter_context(cluster(shared_template()))


_schemas: Final = itertools.count(1)


@contextlib.contextmanager
def in_a_schema() -> Iterator[Address]:
    """An empty schema of the shared cluster, removed at the end."""
    name = f"once_{next(_schemas)}"
    with shared().connect() as session:
        session.execute(f"create schema {name}".encode())
        try:
            yield shared().address(schema=name)
        finally:
            session.execute(f"drop schema {name} cascade".encode())

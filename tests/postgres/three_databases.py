"""A primary and two standbys, of which its commits wait for one: failed over, and made whole again."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.support import postgres_clusters
from tests.support.postgres_clusters import Cluster

NAMES: Final = ("db0", "db1", "db2")

SYNCHRONOUS: Final = f"ANY 1 ({', '.join(NAMES)})"

LOOK_EVERY_S: Final = 0.01

Way = Callable[[str, str], Path]
"""The folder with the socket by which the first one reaches the second."""


class Node(NamedTuple):
    """A database server, and what it calls itself."""

    name: str
    cluster: Cluster


class ThreeDatabases:
    """The nodes that run; `places` are the folders of all three."""

    def __init__(self, places: dict[str, Path], primary: Cluster, synchronous: str) -> None:
        self.places = places
        self.primary = Node(NAMES[0], primary)
        self.standbys: list[Node] = []
        self._synchronous = synchronous

    def join(self, name: str, way: Way) -> None:
        """Make a standby anew of the primary's data, whatever its place has held before."""
        place = self.places[name]
        shutil.rmtree(place / "data", ignore_errors=True)
        node = Node(name, self.primary.cluster.standby(place, name))
        self._follow(node, way)
        self.standbys.append(node)

    def fail_over(self, way: Way) -> Node:
        """Promote the standby that is further, let the other one follow it, and return the old primary."""
        old = self.primary
        self.primary = max(self.standbys, key=_received)
        self.standbys.remove(self.primary)
        self.primary.cluster.promote()
        for node in self.standbys:
            self._follow(node, way)
        return old

    def wait_for_standbys(self) -> None:
        """Return when both standbys follow the primary."""
        query = "select count(*) from pg_stat_replication where state = 'streaming'"
        with self.primary.cluster.connect() as session:
            while session.execute(query).fetchone() != (len(self.standbys),):
                time.sleep(LOOK_EVERY_S)

    def stop(self) -> None:
        for node in (*self.standbys, self.primary):
            node.cluster.stop()

    def _follow(self, node: Node, way: Way) -> None:
        source = f"host={way(node.name, self.primary.name)} user={node.cluster.role}"
        node.cluster.reload(
            {
                "primary_conninfo": f"{source} application_name={node.name}",
                # Once it is promoted.
                "synchronous_standby_names": self._synchronous,
            }
        )


def _received(node: Node) -> int:
    with node.cluster.connect() as session:
        row = session.execute(
            "select (greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0')::bigint"
        ).fetchone()
    assert row is not None
    return int(row[0])


@contextlib.contextmanager
def first_of_three(synchronous: str = SYNCHRONOUS) -> Iterator[ThreeDatabases]:
    """A primary that commits nothing yet: it waits for a standby to join."""
    settings = {"synchronous_standby_names": synchronous, "max_wal_senders": "10"}
    template = postgres_clusters.shared_template()
    with (
        postgres_clusters.cluster(template, settings) as primary,
        postgres_clusters.place() as second,
        postgres_clusters.place() as third,
    ):
        places = dict(zip(NAMES, (primary.place, second, third), strict=True))
        three = ThreeDatabases(places, primary, synchronous)
        try:
            yield three
        finally:
            three.stop()

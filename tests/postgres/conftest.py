"""One cluster for the tests of a process, and a schema for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import postgres_clusters
import psycopg
import pytest
from postgres_clusters import Cluster

from kalends.stores.postgres.address import Address


@pytest.fixture(scope="session")
def template() -> Path:
    return postgres_clusters.shared_template()


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    return postgres_clusters.shared()


_numbers = itertools.count(1)


@pytest.fixture
def schema(cluster: Cluster) -> str:
    """The name of an empty schema."""
    name = f"test_{next(_numbers)}"
    with cluster.connect() as session:
        session.execute(f"create schema {name}".encode())
    return name


@pytest.fixture
def address(cluster: Cluster, schema: str) -> Address:
    return cluster.address(schema=schema)


@pytest.fixture
def plain(cluster: Cluster, schema: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A session of somebody else's."""
    with cluster.connect(schema=schema) as session:
        yield session

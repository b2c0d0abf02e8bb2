"""Settings that lose what was committed are named, each with its remedy, and no server serves with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import postgres_clusters
import pytest
from postgres_clusters import Cluster, Pooler

from kalends.core.errors import Unavailable
from kalends.stores.postgres import settings
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.session import WriterSession

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]

GOOD = {
    "synchronous_standby_names": "ANY 1 (s1, s2)",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
}


@pytest.fixture(scope="module")
def own(template: Path) -> Iterator[Cluster]:
    """A cluster whose settings may be spoiled."""
    with postgres_clusters.cluster(template) as running:
        yield running


Spoil = Callable[..., Address]


@pytest.fixture
def spoil(own: Cluster) -> Iterator[Spoil]:
    """Gives the server these settings, and good ones else."""

    def change(**spoiled: str) -> Address:
        own.reload({**GOOD, **spoiled})
        return own.address()

    yield change
    own.reload(GOOD)


def check(address: Address) -> list[str]:
    session = WriterSession.open(address)
    try:
        return [fault.setting for fault in settings.check(session, address)]
    finally:
        session.close()


def faults(address: Address) -> list[str]:
    """What the doctor says, except of standbys, of which this cluster has none."""
    return [line for line in settings.doctor(address) if not line.startswith("pg_stat_replication")]


def test_a_database_that_is_right_has_no_faults(spoil: Spoil) -> None:
    address = spoil()
    assert check(address) == []
    assert faults(address) == []


@pytest.mark.parametrize("name", ["fsync", "full_page_writes"])
def test_what_a_failing_host_would_lose_is_refused(spoil: Spoil, name: str) -> None:
    address = spoil(**{name: "off"})
    with pytest.raises(Unavailable, match=f"{name}: it is off") as caught:
        check(address)
    assert f"{name} = on" in str(caught.value)
    assert caught.value.retry_after_s
    (line,) = faults(address)
    assert line.startswith(f"{name}: it is off")


def test_all_that_is_wrong_is_named_at_once(spoil: Spoil) -> None:
    address = spoil(fsync="off", full_page_writes="off", synchronous_standby_names="")
    with pytest.raises(Unavailable, match=r"fsync.*full_page_writes"):
        check(address)
    assert [line.partition(":")[0] for line in settings.doctor(address)] == [
        "fsync", "full_page_writes", "synchronous_standby_names",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ("", "it is empty"),
        ("s1", "when a standby fails, nothing can be booked"),
        ("FIRST 2 (s1, s2)", "when a standby fails, nothing can be booked"),
        ("ANY 1 (s1, s2)", None),
        ("s1, s2", None),
        ("2 (s1, s2, s3)", None),
        ("*", None),
    ],
)
def test_standbys_that_are_missing_or_too_few_are_named_and_served_with(
    spoil: Spoil, names: str, problem: str | None
) -> None:
    address = spoil(synchronous_standby_names=names)
    assert check(address) == (["synchronous_standby_names"] if problem else [])
    lines = faults(address)
    assert [problem in line for line in lines if problem] == [True] * bool(problem)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("synchronous_commit", "off"),
        ("synchronous_commit", "remote_write"),
        ("statement_timeout", "5s"),
        ("idle_in_transaction_session_timeout", "5s"),
        ("idle_session_timeout", "5s"),
    ],
)
def test_what_our_sessions_set_themselves_is_named_for_the_others(
    spoil: Spoil, name: str, value: str
) -> None:
    address = spoil(**{name: value})
    assert check(address) == [name]
    assert name in settings.doctor(address)[0]


@pytest.mark.parametrize(
    ("name", "value"), [("synchronous_commit", "off"), ("statement_timeout", "5s")]
)
def test_what_our_session_has_in_spite_of_that_is_refused(
    spoil: Spoil, name: str, value: str
) -> None:
    address = spoil()
    session = WriterSession.open(address, {name: value})
    with pytest.raises(Unavailable, match=name):
        settings.check(session, address)
    session.close()


def test_an_encoding_that_holds_not_all_names_is_refused(own: Cluster, spoil: Spoil) -> None:
    spoil(synchronous_standby_names="")  # To commit without a standby.
    with own.connect() as session:
        session.execute(
            "create database latin encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0"
        )
    with pytest.raises(Unavailable, match="server_encoding: it is LATIN1"):
        check(own.address("latin"))


@pytest.mark.parametrize(("ours_s", "told"), [(-3, "ahead of"), (3, "behind")])
def test_a_clock_that_is_off_is_refused(
    spoil: Spoil, monkeypatch: pytest.MonkeyPatch, ours_s: int, told: str
) -> None:
    address = spoil()
    now = settings.time.time
    monkeypatch.setattr(settings.time, "time", lambda: now() + ours_s)
    with pytest.raises(Unavailable, match=rf"clock: .* (3.0|2.9) s {told}"):
        check(address)
    monkeypatch.setattr(settings.time, "time", lambda: now() + ours_s / 2)
    assert check(address) == []


def test_an_old_server_is_refused(spoil: Spoil, monkeypatch: pytest.MonkeyPatch) -> None:
    address = spoil()
    monkeypatch.setattr(settings, "VERSION_MIN", 990_000)
    with pytest.raises(Unavailable, match=r"server_version: .*use PostgreSQL 99 or later"):
        check(address)


def test_a_pooler_in_between_is_refused(own: Cluster, spoil: Spoil) -> None:
    spoil()
    with Pooler(own) as pooler:
        with pytest.raises(Unavailable, match="a pooler stands in between"):
            check(pooler.address())
        assert "a pooler stands in between" in settings.doctor(pooler.address())[0]


def test_a_database_that_is_gone_is_the_one_fault(spoil: Spoil) -> None:
    (line,) = settings.doctor(Address("postgresql:///postgres?host=/nowhere"))
    assert "cannot be used" in line

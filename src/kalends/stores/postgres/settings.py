"""The settings that durability rests on: each wrong one by its name, with its remedy.

A server refuses a database where what is told to users as done could be lost, or where its own sessions
would not do what they are set to. The rest is advice of `doctor`: the store works, but less well than it
could.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kalends.core.errors import Unavailable
from kalends.stores.postgres import migrations
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.session import Statement, WriterSession, asked
from kalends.stores.postgres.standbys import NamedStandbys, missing, own_name

VERSION_MIN: Final = 150_000
CLOCK_MS_MAX: Final = 2_000
"""Holds end, and recalled slots are free, by the clocks of those who compare: they may differ by so much."""

RELOAD: Final = "set it in postgresql.conf and reload the server"

_SETTINGS: Final = Statement(
    "select name, setting, reset_val from pg_settings where name = any($1::text[])",
    (
        [
            "fsync",
            "full_page_writes",
            "synchronous_commit",
            "synchronous_standby_names",
            "cluster_name",
            "primary_conninfo",
            "server_version",
            "server_version_num",
            "server_encoding",
            "statement_timeout",
            "transaction_timeout",
            "idle_in_transaction_session_timeout",
            "idle_session_timeout",
        ],
    ),
)

_STATE: Final = Statement(
    "select pg_is_in_recovery(), (extract(epoch from clock_timestamp()) * 1000)::bigint"
)


class Fault(NamedTuple):
    """A wrong `setting`. `refused`: a server does not serve with it."""

    setting: str
    problem: str
    remedy: str
    refused: bool = True

    def __str__(self) -> str:
        return f"{self.setting}: {self.problem} ({self.remedy})"


def check(session: WriterSession, address: Address) -> list[Fault]:
    """Return the faults that a server can live with; raises `Unavailable` for the others, all by name."""
    with asked(address):
        faults = list(_faults(_asked(session)))
    refused = [fault for fault in faults if fault.refused]
    if refused:
        raise Unavailable(
            f"the database does not keep all that is committed: {'; '.join(map(str, refused))}",
            where=address.shown,
            remedy="repair these settings; the server then continues automatically",
            retry_after_s=1.0,
        )
    return faults


def examined(address: Address) -> list[Fault]:
    """Return the faults of the database at `address`, which may be a standby; writes nothing.

    Raises `Unavailable` where it cannot be asked.
    """
    try:
        session = WriterSession.open(address)
    except Unavailable as unusable:
        try:
            # A standby does not let writers in, but it answers.
            session = WriterSession.open(address, target_session_attrs="any")
        except Unavailable:
            raise unusable from None
    try:
        with asked(address):
            answers = _asked(session)
            # Nothing follows a standby here, and nobody writes to it.
            connected = () if answers.is_standby else _connected(session)
            return [*_faults(answers), *connected]
    finally:
        session.close()


def doctor(
    address: Address, schema: migrations.StoreSchema | None = None, owner: str = ""
) -> list[str]:
    """Return the faults of the database at `address`, one a line; none if it is right. Writes nothing.

    A store that a server of `schema` and `owner` would refuse is a fault, too (`migrations.problems_of`).
    """
    try:
        faults = examined(address)
        if not any(each.refused for each in faults):
            return [*map(str, faults), *migrations.problems_of(address, schema, owner)]
        return [*map(str, faults)]
    except Unavailable as error:
        return [str(error)]


class _ServerAnswers(NamedTuple):
    """The answers of a server; `own` settings are those of this session, and `usual` of new ones."""

    own: Mapping[str, str]
    usual: Mapping[str, str]
    is_standby: bool
    ahead_ms: float
    """By how much its clock is ahead of ours, whatever the line cost."""


def _asked(session: WriterSession) -> _ServerAnswers:
    settings = session.message([_SETTINGS])[0]
    sent_ms = time.time() * 1000
    is_standby, clock_ms = session.message([_STATE])[0][0]
    got_ms = time.time() * 1000
    return _ServerAnswers(
        {name: own for name, own, _ in settings},
        {name: usual for name, _, usual in settings},
        is_standby,
        min(clock_ms - sent_ms, 0) if clock_ms < sent_ms else max(clock_ms - got_ms, 0),
    )


def _faults(asked: _ServerAnswers) -> Iterator[Fault]:
    if int(asked.own["server_version_num"]) < VERSION_MIN:
        yield Fault(
            "server_version",
            f"it is {asked.own['server_version']}",
            f"use PostgreSQL {VERSION_MIN // 10_000} or later",
        )
    if asked.is_standby:
        yield Fault(
            "hot_standby",
            "this server is a standby, and takes no writes",
            "name the primary in the URL too, or promote this one if the primary is gone for good",
        )
    if asked.own["server_encoding"] != "UTF8":
        yield Fault(
            "server_encoding",
            f"it is {asked.own['server_encoding']}, which does not hold all names",
            "make the database anew: create database ... encoding 'UTF8' template template0",
        )
    for name, loss in (
        ("fsync", "what was committed is lost, or the whole database, when the host fails"),
        ("full_page_writes", "pages that were half written are lost when the host fails"),
    ):
        if asked.own[name] != "on":
            yield Fault(name, f"it is {asked.own[name]}: {loss}", f"{RELOAD}: {name} = on")
    yield from _clock(asked.ahead_ms)
    yield from _commits(asked)
    # Who may not read `primary_conninfo` gets no row of it.
    own = own_name(asked.own["cluster_name"], asked.own.get("primary_conninfo", ""))
    yield from _standbys(asked.own["synchronous_standby_names"], own)
    yield from _timeouts(asked)


def _clock(ahead_ms: float) -> Iterator[Fault]:
    if abs(ahead_ms) > CLOCK_MS_MAX:
        which = "ahead of" if ahead_ms > 0 else "behind"
        yield Fault(
            "clock",
            f"the database's clock is {abs(ahead_ms) / 1000:.1f} s {which} that of this host",
            "set both (NTP)",
        )


def _commits(asked: _ServerAnswers) -> Iterator[Fault]:
    name = "synchronous_commit"
    if asked.own[name] not in ("on", "remote_apply"):
        yield Fault(
            name,
            f"it is {asked.own[name]} though this session has set it: commits are told that may be lost",
            "let no role, pooler or extension change it",
        )
    elif asked.usual[name] not in ("on", "remote_apply"):
        yield Fault(
            name,
            f"new sessions have {asked.usual[name]}: kalends sets it for its own, but what others write there"
            " may be lost",
            f"{RELOAD}: {name} = on",
            refused=False,
        )


def _standbys(names: str, own: str) -> Iterator[Fault]:
    name = "synchronous_standby_names"
    example = "'ANY 1 (s1, s2)'"
    if not names.strip():
        yield Fault(
            name,
            "it is empty: after a failover what was told to users as done may be missing",
            f"have two standbys, and on each host {name} = {example}",
            refused=False,
        )
    elif NamedStandbys.read(names).without(own).to_spare < 1:
        yield Fault(
            name,
            f"it is {names!r}: when a standby fails, nothing can be booked",
            f"have one standby more than commits wait for: {name} = {example}",
            refused=False,
        )


def _connected(session: WriterSession) -> Iterator[Fault]:
    if problem := missing(session):
        yield Fault(
            "pg_stat_replication",
            problem,
            "start the others; their logs say why they cannot follow",
            refused=False,
        )


def _timeouts(asked: _ServerAnswers) -> Iterator[Fault]:
    for name in (
        "statement_timeout",
        "transaction_timeout",
        "idle_in_transaction_session_timeout",
        "idle_session_timeout",
    ):
        if asked.own.get(name, "0") != "0":
            yield Fault(
                name,
                f"it is {asked.own[name]} ms: a batch that it breaks may look like a success",
                f"take it away for the role of kalends: alter role ... set {name} = 0",
            )
        elif asked.usual.get(name, "0") != "0":
            yield Fault(
                name,
                f"new sessions have {asked.usual[name]} ms: kalends sets it to 0 for its own, but it may"
                " break a backup",
                f"take it away for the role of kalends: alter role ... set {name} = 0",
                refused=False,
            )

"""The fence of a batch: a row for each owner of writes, which its every batch counts up first.

Whoever takes over removes the row. From then on the earlier owner's batches divide by zero at their fence,
and the server passes over the rest of them. The count is the owner's beats as well: others see by it that
the owner lives. No row is written by all owners, for a row is locked until the standby has it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from kalends.core.clock import ASTRAY_MS
from kalends.stores.postgres.session import Statement

TABLE: Final = """
create table replica (
    owner text collate "C" primary key,
    beats bigint not null,
    position bigint not null,
    clock bigint not null,
    pid integer not null,
    session_began timestamptz not null
) with (fillfactor = 50);
"""
"""`pid` and `session_began` name the owner's session: another process may have its number later."""

_ENROL: Final = """
insert into replica
select $1, 1, $2, $3, pid, backend_start from pg_stat_activity where pid = pg_backend_pid()
"""

# A clock's bound goes back only where it lies so far ahead that a clock must have been wrong.
_FENCE: Final = f"""
with mine as (
    update replica set beats = beats + 1, position = greatest(position, $2::bigint),
        clock = case when clock > $3::bigint + {ASTRAY_MS} then $3 else greatest(clock, $3) end
    where owner = $1 returning 1
) select 1 / (select count(*)::integer from mine)
"""

_RETIRE: Final = (
    "delete from replica where owner = any($1::text[]) returning owner, position, clock"
)

# Whoever is stopped inside a batch lets its session wait for the rest of it. A session that waits for
# something else, such as the standby or a lock, belongs to somebody who is alive, or comes to its end.
_END_SESSIONS: Final = """
select pg_terminate_backend(session.pid)
from unnest($1::text[], $2::bigint[]) as seen (owner, beats)
join replica on replica.owner = seen.owner and replica.beats = seen.beats
join pg_stat_activity as session
    on session.pid = replica.pid and session.backend_start = replica.session_began
where session.pid <> pg_backend_pid() and session.xact_start is not null
    and session.wait_event_type = 'Client'
"""

_CONNECTED: Final = """
select owner, beats from replica join pg_stat_activity as session
    on session.pid = replica.pid and session.backend_start = replica.session_began
"""

CONNECTED: Final = Statement(_CONNECTED)
"""Gives the owners whose sessions are there, with their beats."""

_PRESENT: Final = f"{_CONNECTED} where starts_with(owner, $1::text || ':')"

BEATS: Final = Statement("select owner, beats from replica")


class OwnerMark(NamedTuple):
    """The progress of an owner with a batch; None leaves the stored value."""

    position: int | None = None
    clock: int | None = None
    """A bound above every logical time that it gives out."""


def enrol(owner: str, mark: OwnerMark) -> Statement:
    """The owner's row begins: its writes are let in until others remove it."""
    return Statement(_ENROL, (owner, mark.position or 0, mark.clock or 0))


def fence(owner: str, mark: OwnerMark) -> Statement:
    """Fails with a division by zero where `owner` has been retired."""
    return Statement(_FENCE, (owner, *mark))


def retire(owners: Collection[str]) -> Statement:
    """Nothing of these owners is added any more; gives their rows as ``(owner, position, clock)``."""
    return Statement(_RETIRE, (list(owners),))


def present(name: str) -> Statement:
    """Give the owners ``name:...`` whose sessions are there, with their beats."""
    return Statement(_PRESENT, (name,))


def end_sessions(still: Mapping[str, int]) -> Statement:
    """End batches that wait for owners whose beats stand still at these numbers; their locks come free."""
    return Statement(_END_SESSIONS, (list(still), list(still.values())))

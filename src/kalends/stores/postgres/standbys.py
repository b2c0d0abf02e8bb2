"""The standbys that commits wait for: which are named, and how many of them are connected."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from kalends.stores.postgres.address import Address
from kalends.stores.postgres.session import Statement, WriterSession, asked, committing

# Who may not read `primary_conninfo` gets no row of it.
_NAMES: Final = Statement(
    "select current_setting('synchronous_standby_names'), current_setting('cluster_name'),"
    " coalesce((select setting from pg_settings where name = 'primary_conninfo'), '')"
)

# A role without pg_monitor sees how many there are, and nothing else of them.
_CONNECTED: Final = Statement(
    "select application_name, sync_state from pg_stat_replication"
    " where coalesce(sync_state, '') <> 'async' and coalesce(state, 'streaming') = 'streaming'"
)


class NamedStandbys(NamedTuple):
    """`synchronous_standby_names`: commits wait for `needed` of those that are `listed`; "*" is any."""

    needed: int
    listed: tuple[str, ...]

    @classmethod
    def read(cls, names: str) -> NamedStandbys:
        """Read the setting, which is not empty."""
        match = re.fullmatch(r"\s*(?:(?:ANY|FIRST)\s+)?(\d+)\s*\((.*)\)\s*", names, re.I | re.S)
        needed, listed = (int(match[1]), match[2]) if match else (1, names)
        return cls(needed, tuple(each.strip().strip('"') for each in listed.split(",")))

    def without(self, own: str) -> NamedStandbys:
        """Return the others, where the server itself is called `own`: it does not wait for itself."""
        return self._replace(listed=tuple(each for each in self.listed if each.lower() != own))

    @property
    def to_spare(self) -> int:
        """The number of named standbys that may fail before commits wait."""
        return self.needed if "*" in self.listed else len(self.listed) - self.needed


def missing(session: WriterSession) -> str:
    """Return what is wrong with the standbys that are connected now, or ""; raises `psycopg.Error`."""
    (((names, cluster, source),), rows) = session.message([_NAMES, _CONNECTED])
    if not names.strip():
        return ""
    named, count = NamedStandbys.read(names).without(own_name(cluster, source)), len(rows)
    hidden = any(state is None for _, state in rows)
    # The server, too, compares these names without regard to case.
    there = {str(name).lower() for name, _ in rows}
    away = [each for each in named.listed if each.lower() not in there]
    who = f" (not connected: {', '.join(away)})" if away and not hidden and away != ["*"] else ""
    if count < named.needed:
        return (
            f"commits wait for {named.needed} of {names!r}, and {count} are connected{who}: nothing can be"
            " booked until one is back"
        )
    if count == named.needed and named.to_spare:
        return f"{count} standby is connected{who}: when it fails, nothing can be booked"
    return ""


def own_name(cluster: str, source: str) -> str:
    """Return what a server calls itself as a standby, in lower case; "" if that is not known.

    `source` is its `primary_conninfo`, which a promoted standby keeps, and `cluster` its `cluster_name`.
    """
    try:
        given = conninfo_to_dict(source).get("application_name")
    except ProgrammingError:
        given = None
    return str(given or cluster).lower()


def missing_at(address: Address) -> str:
    """Return the same for the database at `address`; raises `Unavailable`."""
    session = WriterSession.open(address)
    try:
        with asked(address), committing(session, address):
            return missing(session)
    finally:
        session.close()

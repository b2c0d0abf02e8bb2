"""Faults of connections to PostgreSQL: what libpq and the server say, once, and the remedy that helps.

A connection that could not be made has no code of its error, only a text: in English, unless the server's
`lc_messages` says otherwise. A text that is not known keeps its words, and gets the remedy for an address.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from psycopg import Error, errors

REACH: Final = "see that a host of the URL runs PostgreSQL, and that this host can reach it"

PASSWORD: Final = (
    "name a file with it in PGPASSFILE, which only the server's user can read (mode 0600), with the line"
    " *:*:*:USER:PASSWORD"
)

_REMEDIES: Final = (
    ("no password supplied", PASSWORD),
    ("password authentication failed", f"give the right password: {PASSWORD}"),
    (
        r'database "(?P<name>[^"]+)" does not exist',
        "make it: create database {name} owner {user} encoding 'UTF8' template template0",
    ),
    (r'role "(?P<name>[^"]+)" does not exist', "make it: create role {name} login password '...'"),
    (
        "no pg_hba.conf entry",
        "let this host in: add a line for it to pg_hba.conf on each host of the database, and reload",
    ),
    ("too many (clients|connections)", "raise max_connections at each host of the database"),
    (
        "session is read-only|server is in hot standby mode",
        "name the primary in the URL, too, or promote a standby if the primary is gone for good",
    ),
)

_EACH: Final = re.compile(r"^- host: (?P<host>.*), port: .*?, hostaddr: .*?: (?P<why>.*)$")

_TO: Final = re.compile(
    r"^(?:connection (?:failed|is bad): )?"
    r"(?:connection to server (?:at .*?, port \d+|on socket \".*?\") failed: )?(?:FATAL: +)?"
)


class ConnectionFault(NamedTuple):
    """The fault of a connection, in one line, and its remedy."""

    detail: str
    remedy: str


def fault_of(error: Exception, user: str = "") -> ConnectionFault:
    """Return what `error` says, of each host once; `user` is the role that the URL names."""
    if isinstance(error, errors.UndefinedTable):
        return ConnectionFault(
            f"there is no store in it, or one that is not complete: {_said(error)}",
            "name the database, and the schema, that holds the store; the first start of its server makes it",
        )
    if isinstance(error, errors.InsufficientPrivilege):
        role = user or "ROLE"
        return ConnectionFault(
            _said(error), f"let the database belong to its role: alter database ... owner to {role}"
        )
    detail = _said(error)
    for pattern, remedy in _REMEDIES:
        if found := re.search(pattern, detail):
            name = found.groupdict().get("name", "")
            return ConnectionFault(detail, remedy.format(name=name, user=user or "ROLE"))
    return ConnectionFault(detail, REACH)


def _said(error: Exception) -> str:
    """Return the words of the server, or the reason of each host; hosts with the same one are together."""
    if isinstance(error, Error) and error.diag.message_primary:
        return error.diag.message_primary
    hosts: dict[str, list[str]] = {}
    lines = str(error).splitlines()
    for line in lines:
        if match := _EACH.match(line):
            why = _TO.sub("", match["why"])
            named = hosts.setdefault(why, [])
            host = match["host"].strip("'")
            if host not in named:
                named.append(host)
    if hosts:
        return "; ".join(f"{', '.join(named)}: {why}" for why, named in hosts.items())
    # Behind the first line are guesses of libpq.
    return _TO.sub("", " ".join(lines[0].split())) if lines else repr(error)

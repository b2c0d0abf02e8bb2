"""The address of a store on PostgreSQL: a URL, checked and completed, that never shows its password."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from kalends.core.errors import InvalidInput
from kalends.stores.postgres.driver import SCHEMES

DEFAULTS: Final = {
    "application_name": "kalends",
    # For each host; a dead one must not keep us from the next.
    "connect_timeout": "2",
    # What is not acknowledged for so long is lost: milliseconds.
    "tcp_user_timeout": "4000",
    "keepalives_idle": "2",
    "keepalives_interval": "1",
    "keepalives_count": "2",
}
"""What a URL that does not say otherwise means."""

PORT_MAX: Final = 65_535

EXAMPLE: Final = "postgresql://kalends@db1,db2/kalends"

REMEDY: Final = (
    f"write it as {EXAMPLE}, with %40 for @, %2F for / and %3A for : in a password;"
    " a password may also stand in the file that PGPASSFILE names"
)


class Address:
    """A store on PostgreSQL; `shown` is what people may read of it.

    Writers and readers take the primary among its hosts, and never a standby.
    """

    def __init__(self, url: str) -> None:
        """Raises `InvalidInput`, which shows nothing of `url`, if the address cannot be used."""
        if not url.startswith(SCHEMES) or not url.isprintable():
            raise _refused("it is not a connection URL of PostgreSQL")
        before_options = url.partition("//")[2].partition("?")[0]
        if "@" in before_options.partition("@")[2] + before_options.partition("/")[2]:
            # The rest of a password would be taken for a host or a database, and shown.
            raise _refused("it has an @ in its password or in its name of a database")
        try:
            given = conninfo_to_dict(url)
        except (ProgrammingError, UnicodeError):
            # What the parser complains about may be a part of the password.
            if unknown := _unknown_parameter(url):
                raise _refused(
                    f"{unknown} is not a parameter of connections of PostgreSQL",
                    "correct its name, or leave it out",
                ) from None
            raise _refused("it cannot be read as a connection URL of PostgreSQL") from None
        self._given = {name: str(value) for name, value in given.items() if value not in (None, "")}
        hosts = self._given.get("host", "") or self._given.get("hostaddr", "")
        self.hosts = tuple(hosts.split(","))
        if "" in self.hosts:
            raise _refused("it names no host" if not hosts else "one of its hosts has no name")
        if not self._given.get("dbname"):
            raise _refused("it names no database")
        ports = self._given.get("port", "").split(",")
        if not all(
            each == "" or (each.isdecimal() and 0 < int(each) <= PORT_MAX) for each in ports
        ):
            # Where a host is left out, a password stands in its place.
            raise _refused("one of its ports is not a number from 1 to 65535")
        if self._given.get("target_session_attrs", "read-write") not in ("read-write", "primary"):
            raise _refused(
                "its target_session_attrs may lead to a standby, whose answers are of the past",
                "leave target_session_attrs away: kalends asks for the primary",
            )
        self._given["target_session_attrs"] = "read-write"
        self.user = self._given.get("user", "")
        self.shown = self._shown()

    def conninfo(self, **others: str) -> str:
        """Return what libpq connects with, the password included; `others` go before what the URL says."""
        return make_conninfo("", **{**DEFAULTS, **self._given, **others})

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    def _shown(self) -> str:
        ports = self._given.get("port", "").split(",")
        ports = ports * len(self.hosts) if len(ports) == 1 else ports
        hosts = ",".join(
            (f"[{host}]" if ":" in host else quote(host, safe="")) + (f":{port}" if port else "")
            for host, port in zip(self.hosts, ports, strict=False)
        )
        at = f"{quote(self.user, safe='')}@" if self.user else ""
        return f"postgresql://{at}{hosts}/{quote(self._given['dbname'], safe='')}"


def _unknown_parameter(url: str) -> str:
    """Return the first parameter of `url` that there is not; "" where it may be a part of a password."""
    place, _, parameters = url.partition("://")[2].partition("?")
    if "/" not in place or "@" in parameters:
        return ""
    known = {option.keyword.decode() for option in Conninfo.get_defaults()} | {"ssl"}
    names = (each.partition("=")[0] for each in parameters.split("&"))
    return next((name for name in names if name.isidentifier() and name not in known), "")


def _refused(detail: str, remedy: str = REMEDY) -> InvalidInput:
    return InvalidInput(detail, where="store", remedy=remedy)

"""Stores as arguments: the files of servers, and databases by their URLs, which no output shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kalends.core.errors import InvalidInput
from kalends.stores.postgres.driver import SCHEMES, need_driver

if TYPE_CHECKING:
    from kalends.stores.postgres.address import Address

CONFIGURATION: Final = ".toml"
"""The ending of configurations, which name stores."""

BACKUP: Final = (
    "back up the whole cluster (pg_basebackup, with archived WAL), or dump the database (pg_dump);"
    " see docs/postgresql.md"
)


class StoreArgument(click.Path):
    """An existing file, as a `Path`; raises `InvalidInput` for the URL of a database, without showing it."""

    def __init__(self, *, exists: bool = True) -> None:
        super().__init__(exists=exists, dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if str(value).startswith(SCHEMES):
            raise InvalidInput(
                "a store on PostgreSQL is not a file that can be copied",
                where=param.name or "" if param is not None else "",
                remedy=BACKUP,
            )
        return super().convert(value, param, ctx)


class AnyStoreArgument(StoreArgument):
    """A file, as a `Path`, or the URL of a database, as it was given; a file that `exists`, or may not."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if str(value).startswith(SCHEMES):
            return str(value)
        return super().convert(value, param, ctx)


def address_of(url: str) -> Address:
    """Return the address of the store at `url`; raises as `need_driver` and `Address`."""
    need_driver()
    from kalends.stores.postgres.address import Address

    return Address(url)

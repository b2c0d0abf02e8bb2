"""URLs of PostgreSQL, and its driver, which is an extra: this module can be imported without it."""

from __future__ import annotations

from typing import Final

from kalends.core.errors import KalendsError
from kalends.extras import install_command

SCHEMES: Final = ("postgresql://", "postgres://")
"""The beginnings of URLs of databases."""


def need_driver() -> None:
    """Raise `KalendsError` if stores on PostgreSQL cannot be used, because their driver is not installed."""
    try:
        import psycopg
    except ImportError as error:
        why = " ".join(str(error).split())
        raise KalendsError(
            f"a store on PostgreSQL needs its driver: {why}",
            where="store",
            remedy=f"install it: {install_command('postgres')}",
        ) from error
    assert psycopg

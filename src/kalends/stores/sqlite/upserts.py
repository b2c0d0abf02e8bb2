"""The statement that stores a row, or changes the one that has its key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def upsert(table: str, key: Iterable[str], others: Sequence[str]) -> str:
    """Return the statement for the columns of `key` and then `others`, of which at least one there is.

    A row that is there stays the same row, so that the order of rows is that in which each came first.
    """
    columns = (*key, *others)
    marks = ", ".join("?" * len(columns))
    changed = ", ".join(f"{each} = excluded.{each}" for each in others)
    return (
        f"insert into {table} ({', '.join(columns)}) values ({marks})"
        f" on conflict ({', '.join(key)}) do update set {changed}"
    )

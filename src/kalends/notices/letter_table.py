"""Letters that are neither sent nor given up, in the site's store: with what they tell of, or not at all."""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

import msgspec

from kalends.notices.letter import Letter

LETTERS: Final = """
create table letter (
    number integer primary key,
    id     text not null unique,
    body   blob not null
);
"""


class LettersDone(NamedTuple):
    """To be stored: the letters with these ids are sent, or given up."""

    ids: tuple[str, ...]


class StoredLetters(NamedTuple):
    letters: list[Letter]
    unreadable: list[str]
    """The ids of those that cannot be read."""


def store_letter(connection: sqlite3.Connection, letter: Letter) -> None:
    """Within the caller's transaction."""
    connection.execute(
        "insert or replace into letter (id, body) values (?, ?)",
        (letter.id, msgspec.msgpack.encode(letter)),
    )


def remove_letters(connection: sqlite3.Connection, done: LettersDone) -> None:
    """Within the caller's transaction."""
    connection.executemany("delete from letter where id = ?", [(each,) for each in done.ids])


def stored_letters(connection: sqlite3.Connection) -> StoredLetters:
    """Read all of them, oldest first."""
    rows = connection.execute("select id, cast(body as blob) from letter order by number")
    letters, unreadable = [], []
    for name, body in rows:
        try:
            letters.append(msgspec.msgpack.decode(body, type=Letter))
        except msgspec.DecodeError:
            unreadable.append(name)
    return StoredLetters(letters, unreadable)

"""Revoked tokens and keys in the database of a server, where all its processes follow them.

`kalends admin revoke` adds them. Every process of the server, on whatever host, looks each second. It has
read all of them before it serves. While the database cannot be read, those that are known stay revoked, and
there is an alarm: the server can book nothing then, and callers are to try again, not to look for another
token. Needs ``kalends[postgres]``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final

from kalends.core.errors import InvalidInput, Unavailable
from kalends.serving.auth.revocations import Revocation, check
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.migrations import CLUSTER
from kalends.stores.postgres.readers import Readers
from kalends.stores.postgres.session import BEGIN, Row, Statement, WriterSession, asked

LOOK_EVERY_S: Final = 1.0

PAGE: Final = 10_000

REVOKED_MAX: Final = 200_000
"""Some 50 MB in each process. Whoever has to revoke more revokes a key."""

_AFTER: Final = (
    "select number, kind, id from revoked where number > $1::bigint order by number"
    " limit $2::bigint"
)

# Numbers are in the order of commits: whoever follows them misses none.
_ALONE: Final = Statement("lock table revoked in share row exclusive mode")

_ADD: Final = (
    "insert into revoked (kind, id, note) select kind, id, $3"
    " from unnest($1::text[], $2::text[]) as new (kind, id) on conflict do nothing"
)

_COUNT: Final = Statement("select count(*) from revoked")


class StoredRevocations:
    """The revocations in the database at `address`; `trouble` gets faults of reading, and "" at their end.

    Nothing is revoked until `begin`.
    """

    def __init__(self, address: Address, trouble: Callable[[str], None]) -> None:
        self._address = address
        self._trouble = trouble
        self._revoked: set[Revocation] = set()
        self._last = 0
        self._cluster: Row = ()
        self._readers: Readers
        self._following: asyncio.Task[None] | None = None

    def __call__(self, token_id: str, key_id: str) -> bool:
        """Return whether the token, or the key that signed it, is revoked."""
        revoked = self._revoked
        return Revocation("token", token_id) in revoked or Revocation("key", key_id) in revoked

    async def begin(self) -> None:
        """Read all of them, and follow from now on; raises `Unavailable` where they cannot be read."""
        self._readers = Readers(self._address, connections=1)
        try:
            await self._look()
        except BaseException:
            await self._readers.close()
            raise
        self._following = asyncio.create_task(self._follow())

    async def end(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
            await self._readers.close()

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self._look()
            except Unavailable as error:
                self._trouble(f"revocations are not followed: {error}")
            else:
                self._trouble("")

    async def _look(self) -> None:
        more = True
        while more:
            statements = [CLUSTER, Statement(_AFTER, (self._last, PAGE))]
            (cluster,), rows = await self._readers.read(statements)
            if cluster != self._cluster:
                # A promoted standby may give a number once more that was given to what it has lost.
                more, self._cluster, self._last = True, cluster, 0
                continue
            self._revoked.update(Revocation(kind, id) for _, kind, id in rows)
            self._last = rows[-1][0] if rows else self._last
            more = len(rows) == PAGE


def revoke(address: Address, revoked: Sequence[Revocation], note: str = "") -> None:
    """Store these in the database at `address`; they are durable when this returns.

    Raises `InvalidInput` for an id that cannot be, or too many of them, and `Unavailable`.
    """
    check(revoked)
    session = WriterSession.open(address)
    with contextlib.closing(session), asked(address):
        kinds, ids = [each.kind for each in revoked], [each.id for each in revoked]
        add = Statement(_ADD, (kinds, ids, " ".join(note.split())))
        *_, ((count,),) = session.message([BEGIN, _ALONE, add, _COUNT])
        if count > REVOKED_MAX:
            raise InvalidInput(
                f"more than {REVOKED_MAX} tokens and keys would be revoked",
                where=address.shown,
                remedy="delete rows of tokens that have expired, or revoke the key that has signed them",
            )
        session.commit([])

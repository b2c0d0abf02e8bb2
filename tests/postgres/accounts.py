"""A small store on the ground: accounts that are never overdrawn, by decisions on locked rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kalends.stores.postgres import fence, migrations
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.batches import Batches, DecidedBatch, Rows
from kalends.stores.postgres.fence import OwnerMark
from kalends.stores.postgres.migrations import Migration, StoreSchema
from kalends.stores.postgres.session import Statement, WriterSession

SCHEMA = StoreSchema(
    "bank",
    (
        Migration(
            1,
            1,
            "create table account (id bigint primary key, balance bigint not null check (balance >= 0));"
            " create table told (id bigserial primary key, account bigint not null, xact bigint not null);",
        ),
    ),
)


class Add(NamedTuple):
    """Gives the new balance, or None and changes nothing where the account would be overdrawn."""

    account: int
    amount: int


class Note(NamedTuple):
    """Writes a row, and decides nothing by rows; gives None."""

    account: int


class Retire(NamedTuple):
    """Gives None."""

    owner: str


Op = Add | Note | Retire
LOCK = "select id, balance from account where id = any($1::bigint[]) order by id for update"
WRITE = (
    "insert into account select * from unnest($1::bigint[], $2::bigint[])"
    " on conflict (id) do update set balance = excluded.balance"
)
NOTE = "insert into told (account, xact) select a, txid_current() from unnest($1::bigint[]) as a"


class Accounts:
    """`before_deciding` is called between the two messages; `writes` are of every batch."""

    def __init__(self) -> None:
        self.before_deciding: Callable[[], None] = lambda: None
        self.writes: list[Statement] = []
        self.runs = 0

    def mark(self, operations: Sequence[Op]) -> OwnerMark:
        return OwnerMark(len(operations), None)

    def lock(self, operations: Sequence[Op]) -> list[Statement]:
        accounts = [op.account for op in operations if isinstance(op, Add)]
        retired = [op.owner for op in operations if isinstance(op, Retire)]
        return ([fence.retire(retired)] if retired else []) + (
            [Statement(LOCK, (accounts,))] if accounts else []
        )

    def decide(self, rows: Rows, operations: Sequence[Op]) -> DecidedBatch[int | None]:
        self.runs += 1
        self.before_deciding()
        is_about_accounts = any(isinstance(op, Add) for op in operations)
        balances: dict[int, int] = dict(rows[-1]) if is_about_accounts else {}
        results: list[int | None] = []
        changed: dict[int, int] = {}
        for op in operations:
            result = None
            if isinstance(op, Add):
                after = balances.get(op.account, 0) + op.amount
                if after >= 0:
                    result = balances[op.account] = changed[op.account] = after
            results.append(result)
        noted = [op.account for op in operations if isinstance(op, Note)]
        statements = list(self.writes)
        if changed:
            statements.append(Statement(WRITE, (list(changed), list(changed.values()))))
        if noted:
            statements.append(Statement(NOTE, (noted,)))
        return DecidedBatch(statements, lambda written: results)


def make(address: Address) -> None:
    migrations.open_store(address, SCHEMA, "bank of tests")


class Owner:
    """A writer of accounts, with a session of its own; `still` are owners whose beats stand still."""

    def __init__(self, address: Address, name: str) -> None:
        self.part = Accounts()
        self.session = WriterSession.open(address)
        self.still: Mapping[str, int] = {}
        self.closing = threading.Event()
        self.batches: Batches[Op, int | None] = Batches(
            self.session, name, self.part, lambda: self.still
        )
        self.batches.enrol(OwnerMark(0, 0))

    def do(self, *operations: Op) -> Sequence[int | None]:
        return self.batches.commit(operations, self.closing.is_set)

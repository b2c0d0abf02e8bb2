"""An owner, as a process, that stops itself in a batch: ``zombie URL NAME (inside|between)``.

It exits with 0 if it was told that its batch is stored, and with 3 if it was told that the store failed.
"""

from __future__ import annotations

import os
import signal
import sys

from psycopg import pq

from kalends.stores.group_commit import StoreFailed
from kalends.stores.postgres import fence
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.session import BEGIN
from tests.postgres.accounts import Accounts, Add, Owner, Statement


def main(url: str, name: str, where: str) -> int:
    owner = Owner(Address(url), name)
    owner.do(Add(1, 1))
    print("enrolled", flush=True)
    if where == "inside":
        stop_inside_a_message(owner, name)
    else:
        owner.part.before_deciding = lambda: os.kill(os.getpid(), signal.SIGSTOP)
    try:
        owner.do(Add(1, 1_000_000))
    except StoreFailed as error:
        print(error, flush=True)
        return 3
    return 0


def stop_inside_a_message(owner: Owner, name: str) -> None:
    """The first statements of a batch are with the server, and it waits for the rest of the message."""
    connection = owner.session.connection.pgconn
    connection.enter_pipeline_mode()
    part = Accounts()
    operations = [Add(1, 1_000_000)]
    mark = fence.fence(name, part.mark(operations))
    for statement in (BEGIN, mark, *part.lock(operations)):
        connection.send_query_params(statement.sql.encode(), _texts(statement))
    connection.send_flush_request()
    while connection.flush():
        pass
    os.kill(os.getpid(), signal.SIGSTOP)
    write = Statement("update account set balance = 1000000 where id = 1")
    for statement in (write, Statement("commit")):
        connection.send_query_params(statement.sql.encode(), _texts(statement))
    connection.pipeline_sync()
    while connection.status == pq.ConnStatus.OK and connection.flush():
        pass


def _texts(statement: Statement) -> list[bytes | None]:
    """The values in the form that plain libpq sends."""
    return [
        None
        if value is None
        else f"{{{','.join(map(str, value))}}}".encode()
        if isinstance(value, list)
        else str(value).encode()
        for value in statement.values
    ]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Reports of sites about nodes in reserved slots: the newest of each resource, and notices of it."""

from __future__ import annotations

import sqlite3
from typing import Final

from msgspec import structs

from kalends.broker.coordination.record.decision_record import (
    NoteNodes,
    Record,
    Registered,
    encode_record,
)
from kalends.broker.coordination.record.occasions import on_nodes
from kalends.stores.sqlite.notice_table import post_notice
from kalends.stores.sqlite.register.request_rows import registered, row

NOTICES_MAX: Final = 10
"""Notices of one resource of one reservation: of a node that fails again and again, its user has enough."""


def note_nodes(connection: sqlite3.Connection, op: NoteNodes) -> Registered:
    """Write down the report with the highest number, and a notice if the count has changed."""
    found = row(connection, op.rid)
    if not isinstance(found, Record) or (found.state, found.att) != ("commit", op.att):
        return registered(op, False, found)
    units = sum(want.units for want in found.wants if want.resource == op.resource)
    known = found.nodes_out.get(op.resource)
    if op.site not in found.chosen or not units:
        return Registered(op, False, found)
    if known is not None and op.lack.number <= known.number:
        return Registered(op, False, found)
    lack = structs.replace(
        op.lack, nodes=min(op.lack.nodes, units), told=known.told if known is not None else 0
    )
    if lack.nodes != (known.nodes if known is not None else 0) and lack.told < NOTICES_MAX:
        lack = structs.replace(lack, told=lack.told + 1)
        post_notice(connection, on_nodes(found, op.resource, lack))
    found.nodes_out = {**found.nodes_out, op.resource: lack}
    body = encode_record(structs.replace(found, started=None, ended=None))
    connection.execute(
        "update request set body = ? where rid = ? and state = 'commit'", (body, op.rid)
    )
    return Registered(op, True, found)

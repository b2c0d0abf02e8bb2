"""Scripts of users: sources by hash, names by user, and who still uses them.

A source is kept as long as a name stands for it or an open request uses it, and no longer. A deleted
name is remembered for a while, so that a repeated delete has the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kalends.broker.register.rows import KeptName, Rows
from kalends.broker.register.writes import ForgetScript, KeepScript, Named

DELETED_KEPT_MAX: Final = 100
"""Deleted names that are remembered of one user: as many as there may be names."""


def keep_script(rows: Rows, op: KeepScript) -> tuple[Named, ...]:
    """Forget the source that the name stood for before; the same one again changes nothing."""
    standing = {
        each.named.name: each.named for each in rows.names_of(op.client) if not each.deleted
    }
    old = standing.get(op.named.name)
    if old is not None and old.script == op.named.script:
        return (old,)
    if old is None and len(standing) >= op.names_max:
        return ()
    _keep_source(rows, op.named.script, op.source)
    rows.names[op.client, op.named.name] = KeptName(op.named, False)
    if old is not None:
        _purge(rows, [old.script])
    return (op.named,)


def forget_script(rows: Rows, op: ForgetScript) -> tuple[Named, ...]:
    """The result is what was deleted, now or before."""
    found = [
        each.named
        for each in rows.names_of(op.client)
        if op.reference in (each.named.name, each.named.script)
    ]
    for named in found:
        rows.names[op.client, named.name] = KeptName(named, True)
    deleted = [each.named for each in rows.names_of(op.client) if each.deleted]
    deleted.sort(key=lambda named: (-named.uploaded_ms, named.name))
    for named in deleted[DELETED_KEPT_MAX:]:
        rows.names.pop((op.client, named.name), None)
    _purge(rows, [named.script for named in found])
    return tuple(found)


def use(rows: Rows, rid: str, script: str, source: str) -> None:
    """The open request `rid` uses this source, whatever becomes of its names."""
    _keep_source(rows, script, source)
    rows.add_use(rid, script)


def release(rows: Rows, rid: str) -> None:
    """The request `rid` is decided: it uses no script any more."""
    _purge(rows, rows.end_uses(rid))


def _keep_source(rows: Rows, script: str, source: str) -> None:
    if rows.sources.get(script) is None:
        rows.sources[script] = source


def _purge(rows: Rows, scripts: Iterable[str]) -> None:
    for script in scripts:
        if not rows.is_wanted(script):
            rows.sources.pop(script, None)

"""The file of a register: whose it is, and how long it keeps the scripts of requests."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs
from tests.unit.broker.register.test_register import RIDS, record_of

from kalends.broker.coordination.record.decision_record import Begin, Commit, encode_record
from kalends.broker.register import lives, request_writes, script_table
from kalends.broker.register.broker_store import KIND
from kalends.contract import messages as m
from kalends.stores.sqlite.sqlite_file import open_store


def identity(path: Path) -> str:
    file = open_store(path, KIND, "npaci")
    try:
        return lives.identity(file.connection)
    finally:
        file.close()


def test_a_register_keeps_its_identity_and_no_other_has_it(tmp_path: Path) -> None:
    one, other = (identity(tmp_path / name) for name in ("one", "other"))
    assert one != other
    assert identity(tmp_path / "one") == one
    m.Welcome(register=one)


def test_who_begins_with_a_script_keeps_its_source_until_it_is_decided(tmp_path: Path) -> None:
    file = open_store(tmp_path / "npaci.sqlite", KIND, "npaci")
    script = "b" * 64
    begun = record_of(RIDS[0], "the-key")
    begun.spec = structs.replace(begun.spec, agent="mine", script=script)
    (result,) = request_writes.apply(file.connection, [Begin(begun, "the source")])
    assert result.won
    assert script_table.source_of(file.connection, script) == "the source"
    request_writes.apply(file.connection, [Commit(begun.rid, 1, "", encode_record(begun))])
    assert script_table.source_of(file.connection, script) == ""
    file.close()

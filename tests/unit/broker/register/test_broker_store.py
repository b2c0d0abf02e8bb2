"""The file of a register: whose it is, and how long it keeps the scripts of requests."""

from __future__ import annotations

from pathlib import Path

from kalends.broker.register.sqlite import lives
from kalends.broker.register.sqlite.broker_store import KIND
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

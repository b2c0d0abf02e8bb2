"""A host is known by its machine id, which nobody learns; where there is none, by its name."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kalends.core.hosts import Host
from kalends.serving import this_host

ID = "8f2b9c1d3e4f5a6b7c8d9e0f1a2b3c4d\n"


def read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None, name: str) -> Host:
    path = tmp_path / "machine-id"
    path.unlink(missing_ok=True)
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(this_host, "MACHINE_IDS", (tmp_path / "nowhere", path))
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    return this_host.this_host()


def test_a_host_keeps_its_id_under_another_name_and_shares_it_with_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = read(monkeypatch, tmp_path, ID, "node1")
    assert read(monkeypatch, tmp_path, ID, "renamed") == Host(first.id, "renamed")
    assert read(monkeypatch, tmp_path, ID.replace("8f", "9f"), "node1").id != first.id
    assert first.id not in ID
    assert ID.strip() not in first.id


@pytest.mark.parametrize("text", [None, "", "uninitialized\n"])
def test_where_there_is_no_machine_id_the_name_tells_hosts_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None
) -> None:
    first = read(monkeypatch, tmp_path, text, "node1")
    assert read(monkeypatch, tmp_path, text, "node1") == first
    assert read(monkeypatch, tmp_path, text, "node2").id != first.id

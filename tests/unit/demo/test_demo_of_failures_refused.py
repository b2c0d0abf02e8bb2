"""If no PostgreSQL can be run, the demo names what is missing and the command that installs it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kalends.cli import cli
from kalends.demo.failover import postgres_cluster
from kalends.extras import install_command


def refused(*options: str) -> str:
    result = CliRunner().invoke(cli, ["demo", "--postgres", *options])
    assert result.exit_code not in (0, 130), result.output
    return " ".join(result.output.split())


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(postgres_cluster, "INSTALLED", ())
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("no_server")
def test_a_missing_server_is_named_with_the_command_that_installs_it() -> None:
    said = refused()
    assert "no PostgreSQL server is installed: apt-get install postgresql" in said


def test_a_missing_driver_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert install_command("postgres") in refused()


def test_root_without_another_user_is_refused_with_the_command_that_makes_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres_cluster, "binaries", lambda: Path("/usr"))
    monkeypatch.setattr(postgres_cluster, "OTHER_USERS", ("not-a-user-of-this-host",))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "adduser --system postgres" in refused()


@pytest.mark.parametrize("other", ["--slurm", "--bids"])
def test_it_is_one_demo_of_several(other: str) -> None:
    assert "Give one of --slurm, --bids and --postgres." in refused(other)


def programs(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name in postgres_cluster.PROGRAMS:
        (folder / name).touch(0o755)
    return folder


@pytest.mark.usefixtures("no_server")
def test_the_newest_whole_package_of_a_server_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    top = tmp_path / "packages"
    monkeypatch.setattr(postgres_cluster, "INSTALLED", ((str(top), "*/bin"),))
    programs(top / "9" / "bin")
    newest = programs(top / "16" / "bin")
    (programs(top / "17" / "bin") / "postgres").unlink()
    assert postgres_cluster.binaries() == newest


@pytest.mark.usefixtures("no_server")
def test_a_server_elsewhere_is_found_by_pg_config_or_by_the_path(tmp_path: Path) -> None:
    elsewhere = programs(tmp_path / "elsewhere")
    assert postgres_cluster.binaries() is None
    (tmp_path / "initdb").symlink_to(elsewhere / "initdb")
    assert postgres_cluster.binaries() == elsewhere
    named = programs(tmp_path / "named")
    tool = tmp_path / "pg_config"
    tool.write_text(f"#!/bin/sh\necho {named}\n")
    tool.chmod(0o755)
    assert postgres_cluster.binaries() == named

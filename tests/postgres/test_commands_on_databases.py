"""Commands for owners, on a store that is a database: faults by name, and never a password."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import postgres_clusters
import psycopg
import pytest
from click.testing import CliRunner, Result
from postgres_clusters import Cluster

from kalends.broker.register.postgres.postgres_register import PostgresRegister
from kalends.broker.register.postgres.register_schema import REGISTER
from kalends.cli import cli
from kalends.extras import install_command
from kalends.resource_servers.journal.postgres.site_tables import SCHEMA
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.migrations import StoreSchema, open_store

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]

SECRET = "hunter2-of-the-broker"


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


@pytest.fixture
def url(cluster: Cluster, schema: str) -> str:
    """The password is not asked for, and has to stay unknown all the same."""
    return f"{cluster.url(schema=schema)}&password={SECRET}"


@pytest.fixture
def configuration(tmp_path: Path, url: str) -> Path:
    file = tmp_path / "broker.toml"
    file.write_text(f'[broker]\nname = "npaci"\nlisten = "127.0.0.1:0"\nstore = "{url}"\n')
    return file


def test_doctor_names_each_setting_of_a_database_by_its_url(url: str) -> None:
    found = run("admin", "doctor", url)
    assert found.exit_code == 1
    assert "synchronous_standby_names: it is empty" in found.stdout
    listed = json.loads(run("admin", "doctor", url, "--json").stdout)["data"]
    assert [each.partition(":")[0] for each in listed["problems"]] == ["synchronous_standby_names"]
    assert SECRET not in found.output + json.dumps(listed)


def test_doctor_of_a_configuration_looks_at_the_database_too(configuration: Path) -> None:
    found = run("admin", "doctor", str(configuration), "--json")
    assert found.exit_code == 1
    (database,) = json.loads(found.stdout)["data"]["databases"]
    assert database["name"].startswith("postgresql://")
    assert "synchronous_standby_names" in database["problems"][0]
    assert SECRET not in found.output


def test_a_check_before_a_start_warns_and_refuses_as_the_start_would(
    configuration: Path, url: str
) -> None:
    found = run("serve", "--check", str(configuration))
    assert found.exit_code == 0, found.output
    assert "synchronous_standby_names: it is empty" in found.output
    assert SECRET not in found.output
    configuration.write_text(configuration.read_text().replace("/postgres?", "/nothing?"))
    refused = run("serve", "--check", str(configuration))
    assert refused.exit_code != 0
    assert '"nothing" does not exist' in refused.output
    assert "make it: create database nothing owner" in " ".join(refused.output.split())
    assert SECRET not in refused.output


def refusals_of(configuration: Path) -> list[str]:
    """What a check before the start finds, the doctor, and the start itself, without breaks of lines."""
    words = (("serve", "--check"), ("admin", "doctor"), ("serve",))
    found = [run(*each, str(configuration)) for each in words]
    assert all(each.exit_code for each in found), [each.output for each in found]
    assert SECRET not in "".join(each.output for each in found)
    return [" ".join(each.output.split()) for each in found]


@pytest.mark.parametrize(
    ("kind", "owner", "why"),
    [
        (SCHEMA, "npaci", "it is the store of a site, not of a broker"),
        (REGISTER, "other", "it belongs to 'other', not to 'npaci'"),
    ],
)
def test_a_store_of_another_server_is_found_before_a_start_that_refuses_it(
    configuration: Path, url: str, kind: StoreSchema, owner: str, why: str
) -> None:
    open_store(Address(url), kind, owner)
    for refusal in refusals_of(configuration):
        assert why in refusal
        assert "name another database as `store`" in refusal


def test_tables_of_another_program_are_found_before_a_start_that_refuses_them(
    configuration: Path, url: str, plain: psycopg.Connection[tuple[object, ...]]
) -> None:
    plain.execute("create table facts (id bigint)")
    for refusal in (*refusals_of(configuration), run("admin", "doctor", url).output):
        assert "it has tables that are not of kalends: facts" in " ".join(refusal.split())


def test_a_schema_that_does_not_exist_is_found_and_named(
    configuration: Path, cluster: Cluster, url: str, schema: str
) -> None:
    configuration.write_text(configuration.read_text().replace(schema, "noschema"))
    nowhere = url.replace(schema, "noschema")
    refusals = refusals_of(configuration)
    refusals += [run("admin", *each, nowhere).output for each in (("doctor",), ("reconcile",))]
    for refusal in refusals:
        said = " ".join(refusal.split())
        assert "there is no schema for its tables: search_path is noschema" in said
        assert f"make it: create schema NAME authorization {cluster.role}" in said


def test_a_role_that_may_make_no_tables_is_told_so_before_the_start(
    configuration: Path, cluster: Cluster, schema: str
) -> None:
    with cluster.connect() as session:
        session.execute("create role reader login")
        session.execute(f"grant usage on schema {schema} to reader".encode())
    text = configuration.read_text().replace(f"user={cluster.role}", "user=reader")
    configuration.write_text(text)
    for refusal in refusals_of(configuration):
        assert f"the role reader may not make tables in the schema {schema}" in refusal


def test_a_folder_that_does_not_exist_is_found_and_refused(
    configuration: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "nowhere"
    configuration.write_text(f'{configuration.read_text()}folder = "{folder}"\n')
    for refusal in refusals_of(configuration):
        assert "broker.folder: the folder" in refusal
        assert "does not exist" in refusal


def test_a_database_without_a_store_is_not_accepted_and_the_reason_is_no_sql(url: str) -> None:
    refused = run("admin", "reconcile", url)
    assert "there is no store of kalends in it" in refused.stderr


@pytest.mark.parametrize("command", ["serve", "doctor"])
def test_a_missing_driver_is_named_with_the_command_that_installs_it(
    configuration: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    words = {"serve": ("serve",), "doctor": ("admin", "doctor")}[command]
    refused = run(*words, str(configuration))
    assert refused.exit_code != 0
    assert install_command("postgres") in " ".join(refused.output.split())
    assert SECRET not in refused.output


def test_a_database_is_not_copied_but_its_own_tools_are_named(url: str, tmp_path: Path) -> None:
    refused = run("admin", "backup", url, str(tmp_path / "copy"))
    assert refused.exit_code == 2
    assert "pg_basebackup" in refused.stderr
    assert SECRET not in refused.output


def test_a_register_that_was_brought_back_is_accepted_and_takes_nothing_new_until_it_is_compared(
    url: str, plain: psycopg.Connection[tuple[object, ...]]
) -> None:
    address = Address(url)
    known = open_store(address, REGISTER, "npaci").known
    plain.execute("update store set system_identifier = 'of-another-cluster'")
    accepted = run("admin", "reconcile", url)
    assert accepted.exit_code == 0, accepted.output
    assert SECRET not in accepted.output
    assert open_store(address, REGISTER, "npaci").known == known
    assert plain.execute("select put_back from register").fetchone() == (True,)


def test_a_site_that_was_brought_back_is_accepted(
    url: str, plain: psycopg.Connection[tuple[object, ...]]
) -> None:
    address = Address(url)
    known = open_store(address, SCHEMA, "sdsc").known
    plain.execute("update store set system_identifier = 'of-another-cluster'")
    accepted = run("admin", "reconcile", url)
    assert accepted.exit_code == 0, accepted.output
    assert open_store(address, SCHEMA, "sdsc").known == known


async def test_a_store_that_a_server_uses_is_not_accepted_as_brought_back(url: str) -> None:
    served = await PostgresRegister.open(
        Address(url), "npaci", "npaci-1", lambda committed: None, lease_s=60
    )
    try:
        refused = await asyncio.to_thread(run, "admin", "reconcile", url)
    finally:
        await served.close()
    assert "a server uses this store" in refused.stderr
    assert SECRET not in refused.output
    assert run("admin", "reconcile", url).exit_code == 0


@pytest.mark.parametrize("words", [("serve", "--check"), ("admin", "doctor")])
def test_a_site_on_a_database_is_checked_by_its_configuration(
    tmp_path: Path, url: str, words: tuple[str, ...]
) -> None:
    file = tmp_path / "sdsc.toml"
    file.write_text(
        f'[site]\nname = "sdsc"\nlisten = "127.0.0.1:0"\nstore = "{url}"\n'
        '[[site.resources]]\nname = "sp2"\n'
    )
    found = run(*words, str(file))
    assert "synchronous_standby_names: it is empty" in found.output
    assert SECRET not in found.output
    assert not list(tmp_path.glob("*.sqlite"))


def test_a_url_that_cannot_be_used_is_refused_without_being_shown() -> None:
    refused = run("admin", "doctor", f"postgresql://kalends:{SECRET}@/kalends")
    assert refused.exit_code == 2
    assert "it names no host" in refused.stderr
    assert SECRET not in refused.output


def test_a_server_that_asks_for_a_password_takes_the_right_one_and_names_the_user_of_a_wrong_one() -> (
    None
):
    with postgres_clusters.cluster(postgres_clusters.shared_template()) as own:
        with own.connect() as session:
            session.execute(f"create role kalends login password '{SECRET}'".encode())
        rules = own.data / "pg_hba.conf"
        rules.write_text("local all kalends scram-sha-256\n" + rules.read_text())
        with own.connect() as session:
            session.execute("select pg_reload_conf()")
        given = f"postgresql:///postgres?host={own.place}&user=kalends&password="
        assert "synchronous_standby_names" in run("admin", "doctor", given + SECRET).stdout
        wrong = run("admin", "doctor", given + SECRET[::-1])
        assert 'password authentication failed for user "kalends"' in wrong.stdout
        assert "give the right password" in wrong.stdout
        assert "continues automatically" not in wrong.stdout
        assert SECRET[::-1] not in wrong.output

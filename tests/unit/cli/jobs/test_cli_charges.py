"""``kalends usage --charges``: what each owner charged, as sums and as a statement, from real servers."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from command_line import Run
from store_support import store_facts

from kalends.cli import cli
from kalends.core.money import CREDIT
from kalends.resource_servers.journal.sqlite.site_store import SiteStore
from kalends.resource_servers.participation.credits.entries import stored_entry
from kalends.resource_servers.participation.credits.ledger import CreditLedger
from kalends.resource_servers.participation.effects import EntriesFolded
from kalends.testing import LocalFacility

PRICED = {
    "grain": "1h",
    "prices": [{"name": "all", "credits": 10}],
    "cancel": {"free_until": "1d", "fee": 50},
}


@pytest.fixture(scope="module")
def servers() -> Iterator[LocalFacility]:
    sites = {"lab": {"scope": PRICED}, "mill": {"saw": PRICED}, "free": {"room": 1}}
    with LocalFacility(sites, now="2027-03-01T09:00Z") as running:
        for site in ("lab", "mill"):
            owner = running.sync_client("owner", at=site)
            owner.grant_credits("user:ann", 50 * CREDIT)
            owner.grant_credits("user:bob", 7 * CREDIT)
        ann = running.sync_client("ann")
        ann.book("lab/scope + mill/saw", duration="1h", at="2027-03-03 12:00")
        gone = ann.book("lab/scope", duration="2h", at="2027-03-01 15:00")
        ann.cancel(gone.id)
        running.clock.advance(days=1)
        ann.book("mill/saw", duration="1h", at="2027-03-04 12:00")
        yield running


@pytest.fixture
def charges(servers: LocalFacility) -> Run:
    def run(*words: str, user: str = "ann") -> Result:
        env = {
            "KALENDS_BROKER": servers.url("broker"), "KALENDS_ZONE": "UTC", "KALENDS_USER": user,
            "KALENDS_MACHINE": "",
        }  # fmt: skip
        when = ("--from", "2027-03-01", "--to", "2027-03-02")
        return CliRunner().invoke(cli, ["usage", "--charges", *when, *words], env=env)

    return run


def test_each_owner_has_a_row_of_its_own_and_nothing_is_added_up(charges: Run) -> None:
    done = charges("--json")
    assert done.exit_code == 0, done.output
    found = {each["site"]: each for each in json.loads(done.stdout)["data"]["charges"]}
    assert {site: each["charged"] / CREDIT for site, each in found.items()} == {
        "free": 0, "lab": 30, "mill": 10,
    }  # fmt: skip
    assert {each["account"] for each in found.values()} == {"user:ann"}, "only the own accounts"
    assert found["lab"]["paid_back"] == 10 * CREDIT
    assert found["mill"]["balance"] == 30 * CREDIT, "as it is now"
    shown = charges()
    assert shown.exit_code == 0, shown.output
    (lab,) = [line.split() for line in shown.stdout.splitlines() if line.startswith("lab")]
    assert lab == ["lab", "user:ann", "30.00", "10.00", "50.00", "30.00", "0.00"]


def test_the_statement_has_a_row_for_each_entry_of_the_period(charges: Run) -> None:
    done = charges("--csv", "-")
    assert done.exit_code == 0, done.output
    rows = [*csv.DictReader(done.stdout.splitlines())]
    told = [(each["owner"], each["what"], each["credits"], each["balance"]) for each in rows]
    assert told == [
        ("lab", "grant", "50.00", "50.00"),
        ("lab", "charge", "-10.00", "40.00"),
        ("lab", "charge", "-20.00", "20.00"),
        ("lab", "refund", "10.00", "30.00"),
        ("mill", "grant", "50.00", "50.00"),
        ("mill", "charge", "-10.00", "40.00"),
    ]
    assert all(each["request"] for each in rows if each["what"] != "grant")


def test_a_project_that_no_owner_has_is_named(charges: Run) -> None:
    done = charges("--project", "dna")
    assert done.exit_code != 0
    assert "no owner lets you charge a project dna" in done.stderr


def test_an_owner_sees_all_accounts_and_exports_one_month(
    servers: LocalFacility, charges: Run
) -> None:
    done = charges("--everyone", "--json", user="owner")
    accounts = {
        (each["site"], each["account"]) for each in json.loads(done.stdout)["data"]["charges"]
    }
    assert {("lab", "user:ann"), ("lab", "user:bob")} <= accounts
    env = {"KALENDS_BROKER": servers.url("mill"), "KALENDS_ZONE": "UTC", "KALENDS_USER": "owner"}
    words = ["admin", "credits", "export", "user:ann", "--from", "2027-03-02"]
    exported = CliRunner().invoke(cli, words, env=env)
    assert exported.exit_code == 0, exported.output
    (row,) = csv.DictReader(exported.stdout.splitlines())
    assert (row["what"], row["balance"]) == ("charge", "30.00")


def test_an_owner_who_does_not_answer_hides_no_sums_of_the_others(
    servers: LocalFacility, charges: Run
) -> None:
    servers.stop("mill")
    try:
        sums, statement = charges(), charges("--csv", "-")
    finally:
        servers.start("mill")
    assert sums.exit_code == statement.exit_code == 75
    # The servers of this process may log between the rows.
    owners = [line.split()[0] for line in sums.stdout.splitlines() if "user:ann" in line]
    assert owners == ["free", "lab"]
    assert "site mill does not answer" in sums.stderr
    assert "credits" not in statement.stdout


def test_a_statement_says_since_when_it_is_complete(servers: LocalFacility, charges: Run) -> None:
    store = servers._configured["mill"].site
    assert store is not None
    servers.stop("mill")
    opened = SiteStore.open(Path(str(store.store)), "mill")
    ledger = CreditLedger(opened.load().credits)
    keys, carried = ledger.fold([*ledger.of("user:bob")], 1)
    store_facts(opened, [EntriesFolded(keys, tuple(map(stored_entry, carried)))], 1)
    opened.close()
    servers.start("mill")
    done = charges("--csv", "-", user="bob")
    assert done.exit_code == 0, done.output
    assert "kalends: entries of user:bob at mill before Mon 2027-03-01 09:0" in done.stderr
    assert "at lab" not in done.stderr
    rows = [each for each in csv.DictReader(done.stdout.splitlines()) if each["owner"] == "mill"]
    assert [(each["what"], each["balance"]) for each in rows] == [("carried", "7.00")]

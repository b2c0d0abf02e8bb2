"""What libpq says of connections that cannot be made: each host once, and a remedy that helps."""

from __future__ import annotations

import psycopg
import pytest

from kalends.stores.postgres.connection_faults import REACH, fault_of

RUNNING = "\n\tIs the server running on that host and accepting TCP/IP connections?"


def to(host: str, why: str) -> str:
    return f'connection failed: connection to server at "{host}", port 5432 failed: {why}'


def attempt(host: str, address: str, why: str) -> str:
    return f"- host: {host!r}, port: '5432', hostaddr: {address!r}: {to(address, why)}"


def test_each_host_is_named_once_and_hosts_with_the_same_fault_are_together() -> None:
    refused, is_standby = f"Connection refused{RUNNING}", "session is read-only"
    error = psycopg.OperationalError(
        "\n".join(
            [
                to("10.0.0.3", refused),
                "Multiple connection attempts failed. All failures were:",
                attempt("db1", "10.0.0.1", refused),
                attempt("db1", "fd00::1", refused),
                attempt("db2", "10.0.0.2", is_standby),
                attempt("db3", "10.0.0.3", refused),
            ]
        )
    )
    found = fault_of(error)
    assert found.detail == "db1, db3: Connection refused; db2: session is read-only"
    assert "promote a standby" in found.remedy


@pytest.mark.parametrize(
    ("says", "detail", "remedy"),
    [
        (
            "fe_sendauth: no password supplied",
            "no password supplied",
            "name a file with it in PGPASSFILE",
        ),
        (
            'FATAL:  password authentication failed for user "kal"',
            'password authentication failed for user "kal"',
            "give the right password: name a file with it in PGPASSFILE",
        ),
        (
            'FATAL:  database "ctc" does not exist',
            'database "ctc" does not exist',
            "make it: create database ctc owner kal encoding 'UTF8' template template0",
        ),
        (
            'FATAL:  role "kal" does not exist',
            'role "kal" does not exist',
            "make it: create role kal login",
        ),
        (
            'FATAL:  no pg_hba.conf entry for host "10.0.0.9", user "kal", database "ctc", no encryption',
            "no pg_hba.conf entry",
            "add a line for it to pg_hba.conf",
        ),
        (f"Connection refused{RUNNING}", "Connection refused", REACH),
        ("die Verbindung wurde abgelehnt", "die Verbindung wurde abgelehnt", REACH),
    ],
)
def test_a_connection_that_cannot_be_made_has_the_remedy_for_its_fault(
    says: str, detail: str, remedy: str
) -> None:
    found = fault_of(psycopg.OperationalError(to("10.0.0.1", says)), "kal")
    assert detail in found.detail
    assert "connection to server" not in found.detail
    assert "Is the server running" not in found.detail
    assert remedy in found.remedy
    assert "continues automatically" not in found.remedy

"""Addresses of stores on PostgreSQL: checked, completed, and shown without a password."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from kalends.core.errors import InvalidInput
from kalends.stores.postgres.address import Address


def test_an_address_means_the_primary_among_its_hosts_and_finds_a_dead_one_soon() -> None:
    address = Address("postgresql://kalends@db1:5433,db2:5434/kalends")
    assert conninfo_to_dict(address.conninfo()) == {
        "user": "kalends",
        "host": "db1,db2",
        "port": "5433,5434",
        "dbname": "kalends",
        "target_session_attrs": "read-write",
        "application_name": "kalends",
        "connect_timeout": "2",
        "tcp_user_timeout": "4000",
        "keepalives_idle": "2",
        "keepalives_interval": "1",
        "keepalives_count": "2",
    }
    assert address.hosts == ("db1", "db2")


def test_what_a_url_says_goes_before_what_we_would_say() -> None:
    address = Address("postgresql://db/kalends?connect_timeout=7&sslmode=verify-full")
    told = conninfo_to_dict(address.conninfo())
    assert (told["connect_timeout"], told["sslmode"]) == ("7", "verify-full")
    assert conninfo_to_dict(address.conninfo(connect_timeout="1"))["connect_timeout"] == "1"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://kal:secret@db1:5433,db2/a", "postgresql://kal@db1:5433,db2/a"),
        ("postgresql://db1,db2/a?password=secret&port=5", "postgresql://db1:5,db2:5/a"),
        ("postgresql:///a?host=/run/db&user=b", "postgresql://b@%2Frun%2Fdb/a"),
        ("postgres://[::1]:1/a", "postgresql://[::1]:1/a"),
    ],
)
def test_an_address_is_shown_as_a_url_without_its_password(url: str, shown: str) -> None:
    assert Address(url).shown == shown
    assert repr(Address(url)) == f"Address({shown!r})"
    assert Address(shown).shown == shown


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("mysql://db/kalends", "not a connection URL"),
        ("postgresql:///kalends", "names no host"),
        ("postgresql://db1,,db2/kalends", "no name"),
        ("postgresql://db", "names no database"),
        ("postgresql://db/kalends?sslmode=require&colour=red", "colour is not a parameter"),
        ("postgresql://kal:a/b?secret=c@db/kalends", "cannot be read"),
        ("postgresql://db:abc/kalends", "ports is not a number"),
        ("postgresql://kal:secret/kalends", "ports is not a number"),
        ("postgresql://db:5432,db2:70000/kalends", "ports is not a number"),
        ("postgresql://db/kalends?target_session_attrs=any", "standby"),
        ("postgresql://db/kalends?target_session_attrs=prefer-standby", "standby"),
        ("postgresql://kal:se@cret@db/kalends", "an @ in its password"),
        ("postgresql://kal:se/cret@db/kalends", "an @ in its password"),
        ("postgresql://kal:secret%@db/kalends", "cannot be read"),
    ],
)
def test_what_is_no_usable_address_is_refused_and_says_why(url: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as caught:
        Address(url)
    assert "cret" not in str(caught.value)
    assert caught.value.remedy


@given(password=st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=6))
def test_no_piece_of_a_password_is_ever_shown_whatever_is_in_it(password: str) -> None:
    secret = f"Zq{password}Zq"
    try:
        shown = str(Address(f"postgresql://kal:{secret}@db/kalends"))
    except InvalidInput as error:
        shown = str(error)
    assert "Zq" not in shown

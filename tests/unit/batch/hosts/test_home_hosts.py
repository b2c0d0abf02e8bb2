"""Machines belong to hosts: who is put aside where, and what an owner may give up."""

from __future__ import annotations

import pytest

from kalends.batch.hosts.home_hosts import aside_words, away, given_up, label_of, put_aside
from kalends.batch.journal.contract import StoredHost
from kalends.core.errors import Conflict, InvalidInput, KalendsError, NotFound
from kalends.core.hosts import Host

HERE, THERE, ELSEWHERE = Host("1a", "here"), Host("2b", "there"), Host("3c", "elsewhere")
OWN = ("lab/box", "lab/cube", "lab/new", "lab/ring")
ASIDE = {"lab/box": THERE, "lab/cube": THERE, "lab/ring": ELSEWHERE}


def stored(machine: str, host: Host) -> StoredHost:
    return StoredHost(machine, *host)


def test_a_machine_is_put_aside_exactly_if_its_processes_are_on_another_host() -> None:
    hosts = [stored("lab/box", THERE), stored("lab/cube", HERE), stored("lab/slurm", THERE)]
    assert put_aside(hosts, OWN, HERE) == {"lab/box": THERE}, "a batch system serves any host"
    assert put_aside(hosts, OWN, THERE) == {"lab/cube": HERE}


def test_a_host_that_has_got_another_name_is_the_same_host() -> None:
    assert put_aside([stored("lab/box", Host(HERE.id, "before"))], OWN, HERE) == {}


def test_an_owner_gives_up_all_machines_of_a_host_or_one_by_its_name_or_its_id() -> None:
    for asked in ("there", "2b"):
        assert given_up(asked, "", ASIDE, OWN, HERE) == ("lab/box", "lab/cube")
    assert given_up("there", "lab/cube", ASIDE, OWN, HERE) == ("lab/cube",)


@pytest.mark.parametrize(
    ("asked", "machine", "kind", "told"),
    [
        ("nowhere", "", NotFound, "elsewhere, there"),
        ("here", "", InvalidInput, "elsewhere, there"),
        ("1a", "", InvalidInput, "name the host that is lost"),
        ("there", "lab/ring", Conflict, "lab/box, lab/cube"),
        ("there", "lab/new", Conflict, "lab/box, lab/cube"),
        ("there", "lab/unknown", NotFound, "lab/box, lab/cube"),
    ],
)
def test_a_wrong_use_names_the_fault_and_what_can_be_given_up(
    asked: str, machine: str, kind: type[KalendsError], told: str
) -> None:
    with pytest.raises(kind) as raised:
        given_up(asked, machine, ASIDE, OWN, HERE)
    assert told in raised.value.remedy


def test_of_two_hosts_of_one_name_the_lost_one_is_named_by_its_id() -> None:
    twin = Host("4d", "here")
    assert label_of(twin, HERE) == "4d"
    with pytest.raises(InvalidInput) as raised:
        given_up("here", "", {"lab/box": twin}, OWN, HERE)
    assert raised.value.remedy == "give the id of the lost one: 4d"
    assert given_up("4d", "", {"lab/box": twin}, OWN, HERE) == ("lab/box",)


def test_owner_and_users_are_told_which_host_is_missing() -> None:
    words = aside_words("lab/box", THERE, HERE)
    assert "lab/box is put aside: it belongs to the host there" in words
    assert words.endswith("kalends admin host-lost there --machine lab/box")
    assert "lab/box belongs to the host there" in away("lab/box", "there").detail

"""Machines whose jobs are processes belong to a host, and to a folder of it if several share a store."""

from __future__ import annotations

from pathlib import Path

from kalends.core.hosts import Host
from kalends.servers.site_storage import home_of
from kalends.serving.configuration import SiteConfiguration
from kalends.serving.configuration.parser import load_configuration

HERE = Host("0123456789abcdef", "node1")
URL = "postgresql://kalends@db1/ctc"


def site(store: str, base: Path) -> SiteConfiguration:
    text = f'[site]\nname = "ctc"\nstore = "{store}"\n'
    made = load_configuration(text, base).site
    assert made is not None
    return made


def test_in_a_database_each_folder_of_a_host_has_machines_of_its_own(tmp_path: Path) -> None:
    one, other = (tmp_path / name for name in ("one", "other"))
    home = home_of(site(URL, one), HERE)
    assert home == home_of(site(URL, one), HERE)
    assert (home.name, len(home.id)) == (HERE.name, len(HERE.id))
    assert home.id != home_of(site(URL, other), HERE).id
    assert home.id != home_of(site(URL, one), Host("f" * 16, "node2")).id


def test_next_to_a_file_machines_belong_to_the_host_wherever_the_file_lies(tmp_path: Path) -> None:
    assert home_of(site("ctc.sqlite", tmp_path), HERE) == HERE

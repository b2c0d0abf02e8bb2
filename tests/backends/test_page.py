"""The page for owners of Slurm sites says what is so."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from kalends.backends.check_up import traits_in_words
from kalends.backends.slurm.adapter import TRAITS
from kalends.resource_servers.configured_backends import adapters_of, backends_of
from kalends.serving.configuration import (
    BatchSystemConfiguration,
    SiteConfiguration,
    load_configuration,
)

PAGE = Path(__file__).parents[2] / "docs" / "batch-systems.md"


def configured() -> SiteConfiguration:
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    site = load_configuration(re.sub(r"(?m)^   ", "", block), Path("/tmp")).site
    assert site is not None
    return site


def test_its_configuration_describes_a_site_before_a_slurm() -> None:
    site = configured()
    backend = backends_of(site, adapters_of(site))["centre/cluster"]
    assert (len(backend.nodes), backend.nodes[0]) == (64, "n1")
    assert backend.users == {"ann": "ann", "bob": "rmiller"}


def test_it_tells_what_the_doctor_tells_of_a_slurm() -> None:
    page = PAGE.read_text()
    for words in traits_in_words(TRAITS):
        assert f"slurm: {words}\n" in page


def test_it_tells_every_setting_and_its_default() -> None:
    rows = dict(re.findall(r"(?m)^\| `(\w+)` \| .* \| (.*) \|$", PAGE.read_text()))
    fields = {each.encode_name: each for each in msgspec.structs.fields(BatchSystemConfiguration)}
    assert rows.keys() >= fields.keys()
    defaults = {"look_every": 10, "repair": 86_400, "answer_s_max": 8.0, "kind": "slurm"}
    for name, default in defaults.items():
        assert fields[name].default == default

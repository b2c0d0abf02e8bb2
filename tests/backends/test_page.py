"""The page for owners of batch systems says what is so."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from kalends.backends.check_up import traits_in_words
from kalends.backends.oar import adapter as oar
from kalends.backends.records import Traits
from kalends.backends.slurm import adapter as slurm
from kalends.resource_servers.setup.configured_backends import adapters_of, backends_of
from kalends.resource_servers.setup.configured_hand_over import handed_over_of
from kalends.serving.configuration import (
    BatchSystemConfiguration,
    SiteConfiguration,
    load_configuration,
)
from kalends_psij_queues.kind import facts, settings_of

PAGE = Path(__file__).parents[2] / "docs" / "batch-systems.md"


def configured(kind: str) -> SiteConfiguration:
    blocks = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (block,) = [each for each in blocks if f'kind = "{kind}"' in each]
    site = load_configuration(re.sub(r"(?m)^   ", "", block), Path("/tmp")).site
    assert site is not None
    return site


def test_its_configuration_describes_a_site_before_a_slurm() -> None:
    site = configured("slurm")
    backend = backends_of(site, adapters_of(site))["centre/cluster"]
    assert (len(backend.nodes), backend.nodes[0]) == (64, "n1")
    assert backend.users == {"ann": "ann", "bob": "rmiller"}


def test_the_files_of_a_site_and_of_its_broker_fit_together() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    with_peers = [each for each in blocks if "[[broker.sites]]" in each or "[[site.keys]]" in each]
    loaded = [load_configuration(each, Path("/centre")) for each in with_peers]
    near, far = (each.broker for each in loaded if each.broker is not None)
    (site,) = (each.site for each in loaded if each.site is not None)
    assert [(each.name, each.url) for each in near.sites] == [
        (site.name, f"http://{configured('slurm').listen}")
    ]
    assert [(each.name, each.url) for each in far.sites] == [(site.name, site.url)]
    (of_broker,) = site.keys
    assert of_broker.file == Path(f"{far.key}.pub")
    assert (of_broker.brokers, of_broker.scopes) == ((far.name,), ("use", "broker"))


def test_its_configuration_of_cores_and_licences_describes_a_site() -> None:
    (block,) = [
        each
        for each in re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
        if "licences =" in each
    ]
    site = load_configuration(block, Path("/tmp")).site
    assert site is not None
    found = backends_of(site, adapters_of(site))
    assert (found["centre/cores"].unit, sum(found["centre/cores"].room.values())) == ("cores", 256)
    assert (found["centre/matlab"].unit, found["centre/matlab"].room) == (
        "licences",
        {"matlab": 10},
    )


def test_its_other_configuration_describes_a_site_before_an_oar() -> None:
    site = configured("oar")
    adapters = adapters_of(site)
    assert backends_of(site, adapters)["centre/cluster"].nodes == ("n1", "n2", "n3", "n4")
    (found,) = adapters.values()
    assert isinstance(found, oar.Oar)
    assert found.timeout_s == 30


def test_its_configuration_of_an_advisory_site_is_one() -> None:
    (handed,) = handed_over_of(configured("psij"))
    settings = settings_of(handed.access)
    assert (handed.resource, settings.executor, settings.queue) == ("lab/far", "pbs", "workq")
    page = PAGE.read_text()
    for said in facts(handed.access, "PSI/J 0.9.11"):
        assert f"\npbs: {said}\n" in page


@pytest.mark.parametrize(
    ("name", "traits"),
    [("slurm", slurm.TRAITS), ("oar", oar.TRAITS)],
)
def test_it_tells_what_the_doctor_tells(name: str, traits: Traits) -> None:
    page = PAGE.read_text()
    assert re.findall(rf"(?m)^ *{name}: (.*)$", page)[1:-1] == traits_in_words(traits)


def test_its_table_tells_the_traits() -> None:
    rows = dict(re.findall(r"(?m)^\| ([^|]*) \| (.*) \|$", PAGE.read_text()))
    systems = (slurm.TRAITS, oar.TRAITS)

    def row(text: str) -> list[str]:
        return [each.strip() for each in rows[text].split("|")]

    weak = [f"{each.weak_s} s" if each.weak_s else "never" for each in systems]
    assert row("a grant may be forgotten within") == weak
    assert row("the same name twice") == [
        "refused" if each.unique_names else "granted" for each in systems
    ]
    assert row("between two reservations of a node") == [f"{each.gap_s} s" for each in systems]
    assert row("a running job counts after its limit for") == [
        f"{each.job_offset_s} s" for each in systems
    ]
    assert [each == "one update" for each in row("a change")] == [
        each.changes_in_place for each in systems
    ]
    for text, declared in (
        ("jobs can be asked to end", [each.asks_jobs for each in systems]),
        ("it reports its clock", [each.tells_clock for each in systems]),
        ("cores of nodes can be reserved", [each.parts for each in systems]),
        ("licences can be reserved", [each.licences for each in systems]),
        ("it reports what jobs used in a reservation", [each.tells_use for each in systems]),
    ):
        assert row(text) == ["yes" if each else "no" for each in declared]


def test_it_tells_every_setting_and_its_default() -> None:
    rows = dict(re.findall(r"(?m)^\| `(\w+)` \| .* \| (.*) \|$", PAGE.read_text()))
    fields = {each.encode_name: each for each in msgspec.structs.fields(BatchSystemConfiguration)}
    assert rows.keys() >= fields.keys() - {"settings"}
    defaults = {
        "look_every": 10, "repair": 86_400, "answer_s_max": 8.0, "kind": "slurm",
    }  # fmt: skip
    for name, default in defaults.items():
        assert fields[name].default == default

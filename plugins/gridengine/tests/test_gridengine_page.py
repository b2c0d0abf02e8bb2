"""The page of the plug-in, and what a site configures, say what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kalends.backends.check_up import traits_in_words
from kalends.core.errors import InvalidInput
from kalends.resource_servers.setup.configured_backends import adapters_of, backends_of
from kalends.serving.configuration import SiteConfiguration, load_configuration
from kalends_gridengine.adapter import TRAITS, GridEngine

PAGE = (Path(__file__).parents[1] / "README.md").read_text()
(CENTRE,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def site(text: str) -> SiteConfiguration:
    found = load_configuration(text, Path("/tmp")).site
    assert found is not None
    return found


def nodes(text: str) -> tuple[str, ...]:
    configured = site(text)
    return backends_of(configured, adapters_of(configured))["centre/cluster"].nodes


def adapter(text: str) -> GridEngine:
    (found,) = adapters_of(site(text)).values()
    assert isinstance(found, GridEngine)
    return found


def test_its_configuration_describes_a_site_before_a_grid_engine() -> None:
    found = adapter(CENTRE)
    assert (found.queue, found.parallel_environment) == ("all.q", "kalends")
    assert (found.configuration, found.timeout_s) == (
        "/var/lib/gridengine/default/common/settings.sh", 6.0,
    )  # fmt: skip
    assert nodes(CENTRE) == ("n1", "n2", "n3", "n4")


def test_what_is_not_said_is_as_the_page_says() -> None:
    bare = re.sub(r"(?m)^(queue|parallel_environment) = .*\n", "", CENTRE)
    assert adapter(bare) == adapter(CENTRE)
    rows = dict(re.findall(r"(?m)^\| `(\w+)` \| .* \| `(.*)` \|$", PAGE))
    assert rows == {"queue": adapter(bare).queue, "parallel_environment": "kalends"}


@pytest.mark.parametrize(
    ("was", "becomes", "where", "said"),
    [
        ('queue = "all.q"', 'queue = "all q"', "queue", "names in batch systems"),
        ('queue = "all.q"', "queue = 5", "queue", "must be a text"),
        ('queue = "all.q"', 'executor = "pbs"', "executor", "gridengine has no such setting"),
        ('nodes = "n[1-4]"', 'nodes = "n[1-2]"\ncores_each = 2', "", "whole nodes only"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(
    was: str, becomes: str, where: str, said: str
) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        nodes(CENTRE.replace(was, becomes))
    place = f"site.batch_systems[0].{where}" if where else "site.resources[0].cores_each"
    assert refused.value.where == place


def test_it_tells_what_the_doctor_tells_and_the_traits() -> None:
    assert re.findall(r"(?m)^grid: (.*)$", PAGE)[1:-1] == traits_in_words(TRAITS)
    rows = dict(re.findall(r"(?m)^\| ([^|]*) \| ([^|]*) \|$", PAGE))
    assert rows["a running job counts after its limit for"] == f"{TRAITS.job_offset_s} s"
    assert rows["a write without an answer may come later within"] == f"{TRAITS.late_write_s} s"
    for text, declared in (
        ("jobs can be asked to end", TRAITS.asks_jobs),
        ("it reports its clock", TRAITS.tells_clock),
        ("cores of nodes can be reserved", TRAITS.parts),
        ("it reports what jobs used in a reservation", TRAITS.tells_use),
    ):
        assert rows[text] == ("yes" if declared else "no")

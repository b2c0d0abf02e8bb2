"""From the owner's configuration of a machine to the terms of its queue."""

from __future__ import annotations

from pathlib import Path

import pytest

from kalends.batch.queue.facts import FairShares
from kalends.batch.terms import terms_of_all
from kalends.core.errors import InvalidInput
from kalends.serving.configuration import SiteConfiguration, load_configuration

SITE = """
[site]
name = "lab"
store = "lab.sqlite"
[[site.resources]]
name = "box"
capacity = 8
[[site.machines]]
resource = "box"
policy = "fair-share:86400"
tariff = { high = 30 }
fair_share = { by = "project", shares = { dna = 3 } }
"""


def configured(text: str) -> SiteConfiguration:
    found = load_configuration(text, Path("/")).site
    assert found is not None
    return found


def test_tariff_and_shares_are_the_owners() -> None:
    terms = terms_of_all(configured(SITE))["lab/box"]
    assert (terms.policy, terms.tariff) == ("fair-share:86400", {"high": 30})
    assert terms.fair_share == FairShares(by="project", shares={"dna": 3})


def test_nodes_are_planned_for_the_time_that_ending_a_job_takes() -> None:
    assert terms_of_all(configured(SITE))["lab/box"].ending_s == 15
    slow = SITE.replace("policy", 'grace = "1m"\nclearing = "20s"\npolicy')
    assert terms_of_all(configured(slow))["lab/box"].ending_s == 80


@pytest.mark.parametrize(
    ("good", "bad", "where"),
    [
        ("{ high = 30 }", "{ royal = 30 }", r"site.machines\[0\].tariff"),
        ("{ high = 30 }", "{ high = 0.5 }", "tariff"),
        ("{ dna = 3 }", "{ dna = 0 }", "shares"),
        ('"project"', '"planet"', "by"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(good: str, bad: str, where: str) -> None:
    with pytest.raises(InvalidInput, match=where):
        terms_of_all(configured(SITE.replace(good, bad)))

"""How long the input of a job takes to a site, and amounts as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.core.errors import InvalidInput
from kalends.core.limits import DURATION_S_MAX
from kalends.core.transport import JobData, Rates, data_named


def test_amounts_are_read_as_people_write_them() -> None:
    assert data_named("sdsc:20GB") == JobData(site="sdsc", size_mb=20_000)
    assert data_named("sdsc:1.5 tb") == JobData(site="sdsc", size_mb=1_500_000)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sdsc",
        "sdsc:",
        "sdsc:20",
        "sdsc:GB",
        "sdsc:-1GB",
        "sdsc:nanGB",
        ":1GB",
        "a b:1GB",
        "sdsc:infMB",
    ],
)
def test_what_is_no_amount_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        data_named(text, "--data")
    assert refused.value.where == "--data"
    assert "sdsc:20GB" in refused.value.remedy


def test_a_link_counts_both_ways_and_other_pairs_have_the_other_rate_or_none() -> None:
    data = [JobData(site="a", size_mb=100), JobData(site="b", size_mb=50)]
    known = [(("a", "b"), 10.0)]
    assert Rates(known).transport_s(data, "a") == 5
    assert Rates(known).transport_s(data, "b") == 10
    assert Rates(known).transport_s(data, "c") == 0
    assert Rates(known, 1.0).transport_s(data, "c") == 150


@given(
    st.lists(st.builds(JobData, site=st.sampled_from("abc"), size_mb=st.floats(0, 1e12))),
    st.floats(1e-300, 1e9),
)
def test_every_time_is_finite_and_none_where_all_input_is(data: list[JobData], rate: float) -> None:
    rates = Rates([], rate)
    assert 0 <= rates.transport_s(data, "a") <= DURATION_S_MAX
    assert rates.transport_s([each for each in data if each.site == "a"], "a") == 0

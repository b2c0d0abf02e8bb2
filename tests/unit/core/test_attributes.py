"""Which resources a comparison means: strict about kinds of values."""

from __future__ import annotations

import pytest

from kalends.core.attributes import described, matches
from kalends.core.language import parse_alternatives
from kalends.core.requests import Attribute
from kalends.core.resources import AttributeValue, ResourceInfo

HAS: dict[str, AttributeValue] = {
    "kind": "sgi", "memory": 64, "clock": 1.5, "shared": True, "zero": 0, "one": 1, "empty": "",
}  # fmt: skip


def holds(text: str) -> bool:
    (alternative,) = parse_alternatives(f"{{{text}}}")
    return matches(HAS, alternative.terms[0].attributes)


@pytest.mark.parametrize(
    "text",
    [
        "kind=sgi", "kind!=pentium", "kind in (sun, sgi)", "kind<sgj", "kind>=sgi", "kind<=sgi",
        "kind>SGI", "memory=64", "memory=64.0", "memory>=64", "memory>63.5", "memory<65",
        "memory in (32, 64)", "clock<2", "clock=1.5", "shared=true", "shared!=false",
        "memory>=64, kind=sgi", 'memory!="64"', "kind!=64", "one!=true", "zero!=false",
        'empty=""', "zero>=-1",
    ],
)  # fmt: skip
def test_a_comparison_holds(text: str) -> None:
    assert holds(text)


@pytest.mark.parametrize(
    "text",
    [
        "kind=SGI", "kind=pentium", "kind!=sgi", "kind in (sun, pentium)", "memory>64",
        "memory<64", "memory!=64.0", "shared=false", "memory>=64, kind=sun",
    ],
)  # fmt: skip
def test_a_comparison_does_not_hold(text: str) -> None:
    assert not holds(text)


@pytest.mark.parametrize(
    "text",
    [
        'memory="64"', 'memory<"65"', 'memory>="0"', "kind<5", "kind>5", "kind>=0", "one=true",
        "zero=false", "shared=1", "shared>0", "shared<=1", 'shared="true"', "one in (true, yes)",
        "shared in (1, 0)", "shared>=a", "empty=0", "empty=false",
    ],
)  # fmt: skip
def test_values_of_different_kinds_are_never_equal_and_never_ordered(text: str) -> None:
    assert not holds(text)


@pytest.mark.parametrize(
    ("text", "reached"),
    [
        ("through=midwest", ["nested", "below"]), ("through=campus", ["nested"]),
        ("through in (campus, other)", ["nested"]), ("through!=campus", ["straight", "below"]),
        ("through!=midwest", ["straight"]), ("through>=midwest", ["nested", "below"]), ("through=1", []),
        ('through=""', []),
    ],
)  # fmt: skip
def test_a_resource_is_reached_through_each_of_several_virtual_sites_or_through_none(
    text: str, reached: list[str]
) -> None:
    ways = {"straight": (), "below": ("midwest",), "nested": ("midwest", "campus")}
    (alternative,) = parse_alternatives(f"{{{text}}}")
    wanted = alternative.terms[0].attributes
    infos = {way: ResourceInfo(name="ctc/sp2", through=names) for way, names in ways.items()}
    found = [way for way, info in infos.items() if matches(described(info), wanted)]
    assert sorted(found) == sorted(reached)


def test_no_owner_says_how_a_resource_is_reached() -> None:
    info = ResourceInfo(name="ctc/sp2", attributes={"through": "midwest"})
    assert described(info)["through"] == ()


@pytest.mark.parametrize("text", ["gpu=a100", "gpu!=a100", "gpu in (a100)", "gpu<1", "gpu=false"])
def test_a_resource_without_the_attribute_never_matches(text: str) -> None:
    assert not holds(text)


def test_without_comparisons_everything_matches() -> None:
    assert matches({}, ())


def test_site_and_name_are_the_halves_of_the_name_whatever_the_owner_listed() -> None:
    info = ResourceInfo(name="sdsc/sp2", attributes={"kind": "mpp", "site": "nasa", "name": "x"})
    assert described(info) == {"kind": "mpp", "site": "sdsc", "name": "sp2", "through": ()}


def test_a_tuple_without_in_and_in_without_a_tuple_hold_for_nothing() -> None:
    assert not matches(HAS, (Attribute(name="kind", operator="=", value=("sgi",)),))
    assert not matches(HAS, (Attribute(name="kind", operator="in", value="sgi"),))


def test_booleans_have_no_order_even_where_a_request_was_never_checked() -> None:
    assert not matches(HAS, (Attribute(name="shared", operator=">=", value=True),))

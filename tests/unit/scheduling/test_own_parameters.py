"""A user's own policy takes parameters from its name, by the types of its constructor."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from kalends.core.errors import InvalidInput
from kalends.scheduling import Cluster, QueuePolicy, policy_maker
from kalends.scheduling.own_parameters import OwnParameters
from kalends.scheduling.watched import WatchedPolicy


class Rules(QueuePolicy):
    def __init__(
        self,
        cluster: Any,
        most: int = 1,
        *,
        share: float = 0.5,
        fast: bool = False,
        kind: Literal["wide", "narrow"] = "wide",
        limit_s: int | None = None,
        bare: Any = None,
    ) -> None:
        super().__init__(cluster)
        self.given = (most, share, fast, kind, limit_s)

    def schedule(self, now: int) -> None: ...


class Bare(QueuePolicy):
    def __init__(self, cluster, hops, factor=1.5):  # type: ignore[no-untyped-def]
        super().__init__(cluster)
        self.given = (hops, factor)

    def schedule(self, now: int) -> None: ...


class Any_(QueuePolicy):  # noqa: N801
    def __init__(self, cluster: Any, *levels: int, **weights: float) -> None:
        super().__init__(cluster)
        self.given = (levels, weights)

    def schedule(self, now: int) -> None: ...


def given(rest: str) -> Any:
    policy = policy_maker(f"{__name__}:{rest}")(Cluster(4))
    assert isinstance(policy, WatchedPolicy)
    return policy._own.given


@pytest.mark.parametrize(
    ("rest", "values"),
    [
        ("Rules", (1, 0.5, False, "wide", None)),
        ("Rules:3", (3, 0.5, False, "wide", None)),
        ("Rules:most=3", (3, 0.5, False, "wide", None)),
        ("Rules:3:share=1:fast=true:kind=narrow:limit_s=60", (3, 1.0, True, "narrow", 60)),
        ("Rules:limit_s=null", (1, 0.5, False, "wide", None)),
        ("Bare:3", (3, 1.5)),
        ("Bare:3.5:2", (3.5, 2.0)),
        ("Bare:many", ("many", 1.5)),
        ("Bare:a=b", None),
        ("Any_:1:2:serial=0.5", ((1, 2), {"serial": 0.5})),
    ],
)
def test_parameters_come_as_the_constructor_says(rest: str, values: Any) -> None:
    if values is None:
        with pytest.raises(InvalidInput, match="has no parameter a"):
            given(rest)
        return
    assert given(rest) == values
    assert [type(each) for each in given(rest)] == [type(each) for each in values]


@pytest.mark.parametrize(
    ("rest", "detail"),
    [
        ("Rules:x", "'x' is not a whole number, for most"),
        ("Rules:", "'' is not a whole number, for most"),
        ("Rules:1.5", "'1.5' is not a whole number, for most"),
        ("Rules:share=much", "'much' is not a number, for share"),
        ("Rules:share=nan", "'nan' is not a finite number, for share"),
        ("Rules:share=-inf", "'-inf' is not a finite number, for share"),
        ("Rules:fast=maybe", "'maybe' is not true or false, for fast"),
        ("Rules:kind=tall", "'tall' is not one of wide, narrow, for kind"),
        ("Rules:1:2", "'2' is a parameter too many"),
        ("Rules:shar=1", "has no parameter shar; did you mean share?"),
        ("Rules:1:most=2", "most is given twice"),
        ("Rules:share=1:share=1", "share is given twice"),
        ("Rules:most=1:2", "'2' comes after a parameter with a name"),
        ("Rules:" + "9" * 5_000, "is not a whole number"),
        ("Bare", "needs hops"),
        ("Bare:factor=2", "needs hops"),
    ],
)
def test_what_a_class_does_not_take_is_refused_with_what_it_takes(rest: str, detail: str) -> None:
    with pytest.raises(InvalidInput, match=detail.replace("?", r"\?")) as caught:
        policy_maker(f"{__name__}:{rest}")
    takes = "most: int = 1, share: float = 0.5" if rest.startswith("Rules") else "hops: number"
    assert takes in (caught.value.remedy or "")
    assert len(str(caught.value)) < 600


def test_a_class_of_nearly_that_name_is_pointed_out() -> None:
    with pytest.raises(InvalidInput) as caught:
        policy_maker(f"{__name__}:Rulse:3")
    assert (caught.value.remedy or "").startswith("did you mean Rules?")


def test_parameters_are_listed_as_a_user_would_write_them() -> None:
    assert [each.shown for each in OwnParameters(Rules, "m:Rules").listed()] == [
        "most: int = 1",
        "share: float = 0.5",
        "fast: bool = false",
        "kind: Literal['wide', 'narrow'] = wide",
        "limit_s: int | None = null",
        "bare: Any = null",
    ]
    listed = OwnParameters(Any_, "m:Any_").listed()
    assert [each.shown for each in listed] == ["*levels: int", "**weights: float"]


def test_a_long_parameter_is_shown_whole_and_a_far_too_long_one_with_a_mark() -> None:
    for length, shown in ((150, "x" * 150), (10_000, "x" * 160 + "...")):
        with pytest.raises(InvalidInput, match=f"'{shown}' is not"):
            policy_maker(f"{__name__}:Rules:{'x' * length}")(Cluster(4))

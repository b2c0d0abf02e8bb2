"""Marks on fields, words and structs of a small contract: what each peer is told of it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
import pytest

from kalends.contract.agreement import features_in, fitted
from kalends.core.features import Feature, since

SHARES = Feature("shares", "shares of a project")
PLEAS = Feature("pleas", "pleas to owners")


class Plea(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag="plea"):
    text: str
    SINCE: ClassVar = PLEAS


class Wish(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag="wish"):
    units: int
    shared: Annotated[bool, since(SHARES)] = False
    note: Annotated[str, since(SHARES, hint=True)] = ""


class Letter(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    wishes: tuple[Wish | Plea, ...] = ()
    by_name: dict[str, Wish] = {}
    pair: tuple[int, Wish] | None = None
    answer: Literal["yes", "no"] | Annotated[Literal["later"], since(PLEAS, instead="no")] = "no"
    mode: Literal["hold"] | Annotated[Literal["ask"], since(PLEAS)] = "hold"
    reminders_s: Annotated[tuple[int, ...], since(PLEAS)] = (600,)


def said(letter: Letter, *known: Feature) -> Any:
    found = fitted(letter, {each.name for each in known})
    return found if isinstance(found, Feature) else on_the_wire(found)


def on_the_wire(letter: Letter) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(letter))


def test_features_are_found_however_deep_their_marks_lie() -> None:
    assert features_in(Letter) == {SHARES, PLEAS}
    assert features_in(Wish) == {SHARES}


def test_what_has_its_default_is_left_out_and_the_rest_is_said() -> None:
    assert said(Letter(wishes=(Wish(1),), reminders_s=(600,))) == {
        "wishes": [{"type": "wish", "units": 1}]
    }


@pytest.mark.parametrize(
    "letter",
    [
        Letter(wishes=(Wish(1), Wish(2, shared=True))),
        Letter(by_name={"a": Wish(2, shared=True)}),
        Letter(pair=(1, Wish(2, shared=True))),
    ],
    ids=["in a list", "in a map", "in a pair"],
)
def test_a_value_that_matters_is_not_said_to_whoever_does_not_know_it(letter: Letter) -> None:
    assert said(letter, PLEAS) == SHARES
    assert said(letter, SHARES, PLEAS) == on_the_wire(letter)


def test_a_hint_is_left_out_and_what_stands_beside_it_is_said() -> None:
    letter = Letter(wishes=(Wish(1, note="urgent"), Wish(2)), pair=(1, Wish(3, note="please")))
    assert said(letter) == {
        "wishes": [{"type": "wish", "units": 1}, {"type": "wish", "units": 2}],
        "pair": [1, {"type": "wish", "units": 3}],
    }


def test_a_word_that_is_not_known_is_another_that_is_or_is_not_said() -> None:
    assert said(Letter(answer="later")) == {}
    assert said(Letter(answer="later"), PLEAS) == {"answer": "later"}
    assert said(Letter(mode="ask")) == PLEAS
    assert said(Letter(answer="yes")) == {"answer": "yes"}


def test_a_struct_that_is_not_known_is_not_said() -> None:
    letter = Letter(wishes=(Wish(1), Plea("please")))
    assert said(letter, SHARES) == PLEAS
    assert said(letter, PLEAS) == on_the_wire(letter)

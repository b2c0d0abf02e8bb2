"""What Python shows of errors and of answers: all that the command line shows, and not more than is read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kalends
from kalends.cli.console.problems import lines
from kalends.contract.bodies import REPR_MAX
from kalends.core.errors import SHOWN_MAX, KalendsError, NoCommonTime, Refusal, RefusalCode
from kalends.testing import LocalFacility

LIMITS = [{"name": "students", "who": "everyone", "longest": "2h"}]


@pytest.fixture(scope="module")
def servers() -> Iterator[LocalFacility]:
    resources = {"scope": {"limits": LIMITS}, "saw": 4}
    with LocalFacility({"lab": resources}, now="2027-03-01T10:00Z") as servers:
        yield servers


@pytest.fixture
def ann(servers: LocalFacility) -> Iterator[kalends.SyncClient]:
    with servers.sync_client("ann") as client:
        yield client


def test_the_text_of_an_error_has_the_rule_the_numbers_and_the_remedy(
    ann: kalends.SyncClient,
) -> None:
    with pytest.raises(KalendsError) as refused:
        ann.book("lab/scope", duration="3h", at="tomorrow 09:00")
    text = str(refused.value)
    assert "rule students lets you book at most 2h" in text
    assert refused.value.remedy in text
    for line in lines(refused.value):
        for word in line.removeprefix("kalends: ").removeprefix("  try: ").split():
            assert word in text or word in {"REFUSED", "BY", "CODE", "WHY", RefusalCode.TOO_LONG}


def test_the_rule_of_a_refusal_is_named_once() -> None:
    named = Refusal(where="a/b", code="busy", detail="rule night says no", rule="night")
    other = Refusal(where="a/b", code="busy", detail="it is closed", rule="night")
    assert (named.why, other.why) == ("rule night says no", "it is closed (rule night)")


def test_the_text_of_an_error_with_many_refusals_says_how_many_more_there_are() -> None:
    refusals = tuple(
        Refusal(where=f"a/r{number}", code="busy", detail="it is taken") for number in range(100)
    )
    text = str(NoCommonTime("no common start", refusals=refusals))
    assert f"and {100 - SHOWN_MAX} more refusals" in text
    assert len(text) < 400


def test_answers_are_shown_in_a_few_lines(ann: kalends.SyncClient) -> None:
    booked = ann.book("lab/saw:2", duration="1h", at="tomorrow 09:00")
    for answer in (
        booked, ann.find("lab/saw", duration="1h"), ann.resources(), ann.why(booked.id), ann.whoami(),
        ann.calendar("lab/saw"), ann.health(), ann.why(booked.id).events[0],
    ):  # fmt: skip
        assert len(repr(answer)) <= REPR_MAX
        assert type(answer).__name__ in repr(answer)

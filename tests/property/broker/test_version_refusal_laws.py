"""What a site is too old for its broker refuses in its place, in words that the broker itself believes."""

from __future__ import annotations

from typing import Final, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples
from tests.support.generated_messages import values_of

from kalends.broker.coordination.trust.answer_checks import (
    SiteQuestion,
    complaint_about,
    complaint_about_view,
)
from kalends.broker.coordination.trust.version_refusals import refused_for
from kalends.broker.planning.directory import SiteEntry
from kalends.contract import agreement
from kalends.contract import messages as m
from kalends.contract.versions import ServerVersion
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.features import Feature
from kalends.core.refusals import error_of

SHARES: Final = Feature("shares", "shares of a project")
QUESTIONS: Final = (m.Query, m.Visit, m.Solicit, m.Dispatch, m.Prepare, m.Await)
ANSWERS: Final = (m.View, m.Visited, m.Bid, m.Report, m.Voted)
"""What a broker that gets none of them gives up, and may: nothing is decided by then."""


@pytest.mark.parametrize("kind", QUESTIONS, ids=[each.__name__ for each in QUESTIONS])
@settings(max_examples=examples(10))
@given(data=st.data())
def test_the_refusal_is_one_that_the_site_might_have_given(
    kind: type[m.Message], data: st.DataObject
) -> None:
    message = data.draw(values_of(kind))
    site = SiteEntry("ctc", "http://ctc", version=ServerVersion("1.0"))
    answer = refused_for(site, message, SHARES)
    assert answer is not None
    decoded = msgspec.msgpack.decode(msgspec.msgpack.encode(answer), type=type(answer))
    assert decoded == answer
    assert not complaint_about("ctc", answer)
    for field in {"rid", "att", "query_id"} & set(kind.__struct_fields__):
        assert getattr(answer, field) == getattr(message, field)
    refusals = _refusals(answer)
    if isinstance(answer, m.View) and isinstance(message, m.Query):
        asked = SiteQuestion("ctc", message.wants, message.needs)
        assert not complaint_about_view("ctc", answer, asked)
        assert len(refusals) == len(message.wants)
    else:
        assert refusals
    for each in refusals:
        assert (each.where, each.code) == ("ctc", RefusalCode.OLDER_VERSION)
        assert each.detail == "it runs kalends 1.0, which knows nothing of shares of a project"
        assert "older kalends" in error_of([each]).detail


def _refusals(answer: m.Message) -> list[Refusal]:
    if isinstance(answer, m.View):
        return [each.refusal for each in answer.views if each.refusal is not None]
    if isinstance(answer, m.Report):
        return list(answer.sites[0].refusals)
    return list(getattr(answer, "refusals", ()))


def test_what_has_no_refusal_can_be_said_to_every_version() -> None:
    """A message of the base version that must arrive, and a hint in it: never a field that matters."""
    may_fail = {*QUESTIONS, *ANSWERS}
    for union in (m.ToSite, m.ToBroker):
        for kind in set(get_args(union)) - may_fail:
            if agreement.since_of(kind) is None:
                assert not agreement.matter_in(kind), f"{kind.__name__} must be heard by everybody"

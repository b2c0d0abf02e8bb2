"""What a broker says of resources by attributes while it does not hear every site."""

from __future__ import annotations

import msgspec
import pytest

from kalends.broker.coordination.record.decision_record import Record, Spec
from kalends.broker.coordination.search.query_plan import QueryPlan, why_not
from kalends.broker.planning.directory import Directory
from kalends.calendars import unknown_resource
from kalends.contract.messages import Hello
from kalends.core import limits
from kalends.core.errors import NotFound, RefusalCode, Unavailable
from kalends.core.language import parse_request
from kalends.core.refusals import error_of
from kalends.core.requests import Alternative, Attribute, Request, Term
from kalends.core.resources import ResourceInfo

START = 1_800_000_000
TWO_CLUSTERS = Request(
    alternatives=(
        Alternative(
            terms=(
                Term(attributes=(Attribute(name="kind", operator="=", value="cluster"),), count=2),
            )
        ),
    ),
    duration_s=600,
    not_before=START,
    not_after=START + 600,
)
RECORD = Record(
    rid="r", user="ada", key="k", digest="d", stamp=1, owner="o", reservation="r",
    created_ms=0, spec=Spec(request=TWO_CLUSTERS),
)  # fmt: skip


def heard_of_one(*sites: str) -> Directory:
    """All `sites` are configured, and only the first has said what it has."""
    directory = Directory({site: f"http://{site}" for site in sites})
    info = ResourceInfo(name=f"{sites[0]}/cluster", attributes={"kind": "cluster"})
    directory.greet(Hello(site=sites[0], epoch=1, resources=(info,)))
    return directory


def refusals_at(directory: Directory) -> tuple[str, ...]:
    free = dict.fromkeys(directory.resources, ((START, START + 600, 1),))
    error = error_of(why_not(RECORD.spec.request, directory, free, ()))
    assert isinstance(error, Unavailable | NotFound)
    return (error.code, *(refusal.code for refusal in error.refusals))


def test_while_a_site_is_not_heard_nobody_is_told_that_a_resource_does_not_exist() -> None:
    assert refusals_at(heard_of_one("sdsc", "ncsa")) == ("unavailable", RefusalCode.SITE_DOWN)


def test_when_every_site_is_heard_what_nobody_has_is_not_found() -> None:
    assert refusals_at(heard_of_one("sdsc")) == ("not-found", RefusalCode.UNKNOWN_RESOURCE)


def two_ways(text: str) -> Record:
    request = parse_request(
        text, duration="10m", now_s=START, zone="UTC", not_before=START, not_after=START + 3_600
    )
    return msgspec.structs.replace(RECORD, spec=Spec(request=request))


def test_only_the_resources_of_alternatives_that_can_be_reached_are_asked_for() -> None:
    directory = heard_of_one("sdsc", "ncsa")
    record = two_ways("ncsa/x + sdsc/cluster | {kind=cluster}")
    assert [
        want.resource for want in QueryPlan.of(record, directory, (), START).by_site["sdsc"]
    ] == ["sdsc/cluster"]
    with pytest.raises(Unavailable):
        QueryPlan.of(two_ways("ncsa/x | ncsa/y"), directory, (), START)


@pytest.mark.parametrize(
    ("length_s", "first"), [(600, START), (3_600, START + 840 - limits.JUST_NOW_S)]
)
def test_only_a_fixed_start_may_be_in_the_past(length_s: int, first: int) -> None:
    window = msgspec.structs.replace(TWO_CLUSTERS, not_after=START + length_s)
    asked = QueryPlan.of_request(window, heard_of_one("sdsc"), (), START + 840)
    assert [want.start for want in asked.by_site["sdsc"]] == [first]


def test_a_hopeless_alternative_does_not_speak_for_one_that_is_only_taken() -> None:
    directory = heard_of_one("sdsc")
    request = two_ways("sdsc/nothing | sdsc/cluster").spec.request
    (busy,) = why_not(request, directory, {"sdsc/cluster": ()}, ())
    assert (busy.where, busy.code) == ("sdsc/cluster", RefusalCode.BUSY)
    both = why_not(request, directory, {"sdsc/cluster": ()}, (), hopeless=True)
    assert [each.code for each in both] == [RefusalCode.UNKNOWN_RESOURCE, RefusalCode.BUSY]
    assert [each.detail[:14] for each in both] == ["alternative 1:", "alternative 2:"]


def test_an_unseen_resource_reads_as_one_that_is_not_there_in_every_alternative() -> None:
    directory = heard_of_one("sdsc")
    unseen = (unknown_resource("sdsc/cluster"),)
    answers = [
        why_not(two_ways(text).spec.request, directory, {}, refusals, hopeless=True)
        for text, refusals in (
            ("sdsc/a | sdsc/cluster", unseen),
            ("sdsc/a | sdsc/missing", ()),
        )
    ]
    first, second = ([(each.code, each.detail) for each in answer] for answer in answers)
    assert str(first).replace("sdsc/cluster", "sdsc/missing") == str(second)

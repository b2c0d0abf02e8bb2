"""What a broker says of resources by attributes while it does not hear every site."""

from __future__ import annotations

from kalends.broker.directory import Directory
from kalends.broker.looking import Looking
from kalends.broker.record import Record, Spec
from kalends.broker.refusals import error_of
from kalends.core.errors import NotFound, RefusalCode, Unavailable
from kalends.core.messages import Hello
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
    rid="r", user="ada", key="k", digest="d", stamp=1, owner="o", reservation="r", secret="s",
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
    planned = Looking.planned(RECORD, directory, free, (), ())
    assert isinstance(planned, tuple)
    error = error_of(planned)
    assert isinstance(error, Unavailable | NotFound)
    return (error.code, *(refusal.code for refusal in error.refusals))


def test_while_a_site_is_not_heard_nobody_is_told_that_a_resource_does_not_exist() -> None:
    assert refusals_at(heard_of_one("sdsc", "ncsa")) == ("unavailable", RefusalCode.SITE_DOWN)


def test_when_every_site_is_heard_what_nobody_has_is_not_found() -> None:
    assert refusals_at(heard_of_one("sdsc")) == ("not-found", RefusalCode.UNKNOWN_RESOURCE)

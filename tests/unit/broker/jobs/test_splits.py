"""Splits as a broker takes them from the manager of a virtual site: an opinion, which it checks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest

from kalends.broker.jobs.splits import SplitRequests
from kalends.contract import calls
from kalends.contract import messages as m
from kalends.core import limits
from kalends.core.errors import InvalidInput, KalendsError, NotFound, Unavailable
from kalends.core.language import format_alternatives, parse_alternatives
from kalends.core.principals import Principal
from kalends.core.requests import Request
from kalends.core.resources import ResourceInfo
from kalends.serving.auth.callers import Caller
from kalends.serving.logs import get_logger

ANNA = Caller(Principal("anna"), frozenset({"use"}), "")
THROUGH = {"ncsa": ("midwest",), "psc": ("midwest", "campus"), "ctc": ()}


def machine(name: str, capacity: int, *, queue: bool = True, advisory: str = "") -> ResourceInfo:
    through = THROUGH[name.partition("/")[0]]
    return ResourceInfo(
        name=name, capacity=capacity, queue=queue, advisory=advisory, through=through
    )


SEEN = (
    machine("ncsa/sp2", 32),
    machine("ncsa/onyx", 8),
    machine("psc/t3d", 24),
    machine("psc/lamp", 100, queue=False),
    machine("ncsa/slurm", 100, advisory="slurm"),
    machine("ctc/sp2", 512),
)


def request(text: str, traffic: float = 0.0) -> Request:
    return Request(
        alternatives=parse_alternatives(text), duration_s=3_600, not_before=1_800_000_000,
        traffic_mb_per_s=traffic,
    )  # fmt: skip


def shares(text: str) -> tuple[m.NodeShare, ...]:
    """Read ``ncsa/sp2:32 + psc/t3d:16``."""
    (alternative,) = parse_alternatives(text)
    return tuple(m.NodeShare(term.resource, term.units) for term in alternative.terms)


class Manager:
    """Answers all questions with the same splits, or not at all."""

    def __init__(self, *splits: str, lack: m.LinkLack | None = None, silent: bool = False) -> None:
        self.answer = None if silent else m.Splits(splits=tuple(map(shares, splits)), lack=lack)
        self.asked: list[tuple[str, m.Split]] = []

    async def __call__(self, virtual: str, question: m.Split) -> m.Splits | None:
        self.asked.append((virtual, question))
        return self.answer


def split(
    asked: Request, manager: Manager, seen: Sequence[ResourceInfo] = SEEN, *jobs: str
) -> str | None:
    async def resources(caller: Caller, body: calls.ListResources) -> calls.Resources:
        assert caller is ANNA
        return calls.Resources(resources=tuple(seen))

    logger = get_logger(role="broker", name="npaci")
    splits = SplitRequests(("midwest",), resources, manager, logger)
    found = asyncio.run(splits.split(ANNA, asked, jobs))
    if found is None:
        return None
    assert found.traffic_mb_per_s == 0
    found.check()
    return format_alternatives(found.alternatives)


def refused(asked: Request, manager: Manager, *jobs: str) -> KalendsError:
    with pytest.raises(KalendsError) as error:
        split(asked, manager, SEEN, *jobs)
    return error.value


def test_the_manager_hears_of_machines_that_the_user_may_see_and_of_no_user() -> None:
    manager = Manager("ncsa/sp2:32 + psc/t3d:16", "psc/t3d:24 + ncsa/sp2:24")
    found = split(request("midwest/members:48", 20.0), manager)
    assert found == "ncsa/sp2:32 + psc/t3d:16 | psc/t3d:24 + ncsa/sp2:24"
    machines = (
        m.MemberMachine("ncsa", "ncsa/sp2", 32),
        m.MemberMachine("campus/psc", "psc/t3d", 24),
        m.MemberMachine("ncsa", "ncsa/onyx", 8),
    )
    asked = m.Split(nodes=48, traffic_mb_per_s=20.0, machines=machines)
    assert manager.asked == [("midwest", asked)]


def test_other_terms_alternatives_and_what_is_said_of_a_term_stay() -> None:
    manager = Manager("ncsa/sp2:32 + psc/t3d:8", "psc/t3d:24 + ncsa/sp2:16")
    found = split(request("ctc/sp2:8 + midwest/members:40 @+10m for 30m | ctc/sp2:40"), manager)
    assert found == (
        "ctc/sp2:8 + ncsa/sp2:32 @+10m for 30m + psc/t3d:8 @+10m for 30m"
        " | ctc/sp2:8 + psc/t3d:24 @+10m for 30m + ncsa/sp2:16 @+10m for 30m | ctc/sp2:40"
    )


def test_a_request_without_such_a_term_is_left_alone_and_no_manager_is_asked() -> None:
    manager = Manager()
    for text in ("ctc/sp2:8", "midwest/sp2:8", "ctc/members:8", "{through=midwest}:8"):
        assert split(request(text), manager) is None
    assert manager.asked == []


@pytest.mark.parametrize(
    "lie",
    [
        "ctc/sp2:48",
        "ncsa/sp2:33 + psc/t3d:15",
        "ncsa/sp2:24 + ncsa/sp2:24",
        "ncsa/sp2:32 + psc/t3d:17",
        "ncsa/sp2:32 + psc/lamp:16",
        "ncsa/sp2:32",
        "hidden/box:48",
    ],
)
def test_what_a_manager_must_not_name_counts_as_no_answer(lie: str) -> None:
    honest = "ncsa/sp2:32 + psc/t3d:16"
    error = refused(request("midwest/members:48"), Manager(honest, lie))
    assert isinstance(error, Unavailable)
    assert error.where == "midwest/members"
    # One machine alone needs no manager.
    assert split(request("midwest/members:20"), Manager(lie)) == "psc/t3d:20 | ncsa/sp2:20"


def test_without_an_answer_machines_that_are_large_enough_are_asked_alone() -> None:
    assert split(request("midwest/members:30"), Manager(silent=True)) == "ncsa/sp2:30"
    assert isinstance(refused(request("midwest/members:48"), Manager(silent=True)), Unavailable)


def test_no_split_names_the_pair_and_what_would_fit_and_that_fits() -> None:
    lack = m.LinkLack(("ncsa", "campus"), (32, 16), 100.0, 217.9, 9.17968)
    error = refused(request("midwest/members:48", 20.0), Manager(lack=lack))
    assert isinstance(error, InvalidInput)
    assert "32 nodes at ncsa and 16 at campus they exchange 217.9 MB/s" in error.detail
    assert error.remedy == (
        "give at most --traffic 9.13MB, or ask for at most 32 nodes, which one machine has"
    )
    unlinked = m.LinkLack(("ncsa", "campus"), (32, 16), 0.0, 217.9, 0.0)
    error = refused(request("midwest/members:48", 20.0), Manager(lack=unlinked))
    assert "the link between these is not known" in error.detail
    assert "--traffic" not in error.remedy
    assert isinstance(refused(request("midwest/members:48", 20.0), Manager()), InvalidInput)


def test_what_cannot_be_split_is_refused_before_anybody_is_asked() -> None:
    manager = Manager()
    assert "not fixed" in refused(request("midwest/members:2..8"), manager).detail
    error = refused(request("midwest/members:8"), manager, "midwest/members")
    assert "still to be chosen" in error.detail
    assert "64 together" in refused(request("midwest/members:65"), manager).detail
    with pytest.raises(NotFound, match="machine for you"):
        split(request("midwest/members:8"), manager, SEEN[3:])
    assert manager.asked == []


def test_many_splits_and_alternatives_never_make_more_than_a_request_may_have() -> None:
    seen = [machine(f"ncsa/m{number}", 1) for number in range(40)]
    names = [each.name for each in seen]
    lots = [" + ".join(names[number : number + 32]) for number in range(limits.SPLITS_MAX)]
    found = split(request("midwest/members:32"), Manager(*lots), seen)
    assert found == " | ".join(lots[: limits.TERMS_OF_ALL_MAX // 32])
    pairs = [f"{one} + {other}" for one, other in pairwise(names[: limits.SPLITS_MAX + 1])]
    text = " | ".join(f"midwest/members:2 + ctc/sp2:{number}" for number in range(1, 21))
    found = split(request(text), Manager(*pairs), seen)
    assert found is not None
    assert found.count("|") == 19


def test_traffic_without_a_split_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no part of the request is split"):
        request("ctc/sp2:8", 20.0).check()
    request("midwest/members:8", 20.0).check()

"""Sizes of jobs on the command line: what is left out, a limit for each, and how they are told."""

from __future__ import annotations

from typing import Any

import pytest

from kalends.cli.jobs import shown_jobs
from kalends.client.inputs.job_texts import job_from
from kalends.contract.job_calls import JobView
from kalends.core.errors import InvalidInput
from kalends.core.jobs import JobRequest
from kalends.core.times import zone_named


def job(limit: str, **options: Any) -> JobRequest:
    given = {
        "nodes": None, "sizes": "", "malleable": False, "change": "", "shape": "", "name": "", "project": "",
        "priority": "", "directory": "", "environment": (), "after": (), "held": False, "rerun": False,
        "warn": "", "notify": "", "notify_to": "", **options,
    }  # fmt: skip
    return job_from(
        "lab/box", ("true",), terminal=False, not_before=0, script="", limit=limit, options=given
    )


def test_a_job_of_several_sizes_begins_with_the_first_unless_another_is_named() -> None:
    assert (job("1h").nodes, job("1h", nodes=3).nodes) == (1, 3)
    assert (job("1h", sizes="2,4").nodes, job("1h", sizes="2,4", nodes=4).nodes) == (2, 4)


def test_one_limit_holds_on_each_size_and_several_belong_to_them() -> None:
    one = job("1h", sizes="1,2,4", malleable=True, change="2s")
    assert (one.limit_s, one.limits_s, one.limit_on(4), one.change_s) == (3_600, (), 3_600, 2)
    each = job("4h,2h30m,2h", sizes="1,2,4")
    assert (each.limit_s, each.limit_on(1), each.limit_on(2), each.limit_on(4)) == (
        14_400, 14_400, 9_000, 7_200,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("limit", "options", "where"),
    [
        ("2h,1h", {}, "--for"),
        ("2h,1h", {"sizes": "1,2,4"}, "--for"),
        ("2h", {"sizes": "0,2"}, "--sizes"),
        ("2h", {"shape": "0x2"}, "--shape"),
        ("1h", {"change": "2s"}, "--change"),
        ("1h", {"sizes": "1,2", "change": "2s"}, "--change"),
        ("2h,", {"sizes": "1,2"}, "--for"),
        ("1h", {"sizes": "4,2"}, "sizes"),
        ("1h", {"malleable": True}, "malleable"),
        ("1h", {"sizes": "1,2", "malleable": True, "change": "soon"}, "--change"),
        ("1h", {"warn": "KILL@60s"}, "--warn"),
        ("1h", {"warn": "USR1"}, "--warn"),
    ],
)
def test_sizes_and_limits_that_make_no_sense_are_refused_by_their_name(
    limit: str, options: dict[str, Any], where: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        job(limit, **options)
    assert raised.value.where == where
    assert raised.value.remedy


@pytest.mark.parametrize(
    ("sizes", "malleable", "said"),
    [
        ((), False, "asks for   2 nodes for 1h"),
        ((2, 4), False, "asks for   2 or 4 nodes for 1h"),
        ((1, 2, 4), True, "asks for   1, 2 or 4 nodes, changing while it runs, for 1h"),
    ],
)
def test_a_job_tells_the_sizes_that_it_can_have(
    sizes: tuple[int, ...], malleable: bool, said: str
) -> None:
    view = JobView(
        job=1, machine="lab/box", user="ann", phase="queued", nodes=2, limit_s=3_600, submitted=0,
        sizes=sizes, malleable=malleable,
    )  # fmt: skip
    assert said in shown_jobs.details(view, zone_named("UTC"))


def test_a_listing_shows_the_nodes_that_a_job_has_now() -> None:
    view = JobView(
        job=1, machine="lab/box", user="ann", phase="running", nodes=1, limit_s=3_600, submitted=0,
        sizes=(1, 2, 4), malleable=True, started=60, node_numbers=(0, 1, 2, 3),
    )  # fmt: skip
    header, row = shown_jobs.listing((view,), zone_named("UTC"))
    assert row[: header.index("NODES") + 5].split()[-1] == "4"

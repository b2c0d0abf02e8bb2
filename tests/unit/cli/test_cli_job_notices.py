"""Notices of jobs on the command line: when, where to, and what cannot be meant."""

from __future__ import annotations

from typing import Any

import click
import pytest

from kalends.cli import cli
from kalends.cli.jobs import shown_jobs
from kalends.cli.jobs.submission import submit
from kalends.client.inputs.job_texts import job_from
from kalends.contract.job_calls import JobView
from kalends.core.errors import InvalidInput
from kalends.core.jobs import Notify
from kalends.core.times import zone_named


def notify(*words: str) -> Notify | None:
    program = click.Context(cli, **cli.context_settings)
    arguments = ["lab/box", "--for", "1h", *words, "--", "true"]
    with submit.make_context("submit", arguments, parent=program) as context:
        options: dict[str, Any] = dict(context.params)
    machine, program_words = options.pop("machine"), options.pop("program")
    return job_from(
        machine, program_words, not_before=0, script="", limit=options.pop("limit"), options=options
    ).notify


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), None),
        (("--notify", "end"), Notify(when=("end",))),
        (("--notify", "fail, begin"), Notify(when=("begin", "fail"))),
        (("--notify=end,each"), Notify(when=("end",), each=True)),
        (
            ("--notify", "end", "--notify-to", "https://h.example/x"),
            Notify(when=("end",), to="https://h.example/x"),
        ),
    ],
)
def test_what_is_asked_for_is_understood(words: Any, expected: Notify | None) -> None:
    assert notify(*([words] if isinstance(words, str) else words)) == expected


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (("--notify", "start"), "--notify"),
        (("--notify", "each"), "--notify"),
        (("--notify", ""), "--notify"),
        (("--notify", "end", "--notify-to="), "--notify-to"),
        (("--sizes", ""), "--sizes"),
        (("--change", ""), "--change"),
        (("--notify", "end,"), "--notify"),
        (("--notify-to", "ann@example.org"), "--notify"),
        (("--notify", "end", "--notify-to", "an n@example.org"), "notify.to"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_write(words: Any, where: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        notify(*words)
    assert refused.value.where == where
    assert refused.value.remedy or where == "notify.to"


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        (Notify(when=("begin", "end")), "notifies   ann on begin, end"),
        (
            Notify(when=("fail",), to="a@b.example", each=True),
            "notifies   a@b.example on fail, for each job",
        ),
    ],
)
def test_a_job_shows_when_its_user_is_told(asked: Notify, line: str) -> None:
    view = JobView(
        job=1, machine="lab/box", user="ann", phase="queued", nodes=1, limit_s=60, submitted=0,
        notify=asked,
    )  # fmt: skip
    assert line in shown_jobs.details(view, zone_named("UTC"))

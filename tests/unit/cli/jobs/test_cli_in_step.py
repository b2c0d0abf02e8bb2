"""Jobs in step on the command line: what is understood of parts, and what is shown of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast
from zoneinfo import ZoneInfo

import click
import pytest
from click.testing import CliRunner

from kalends.cli import cli
from kalends.cli.console.settings import Settings
from kalends.cli.jobs import job_options
from kalends.cli.jobs.job_terminal import Told
from kalends.cli.jobs.run import run
from kalends.cli.jobs.run_in_step import _followed, _left, first_failed
from kalends.cli.jobs.submission import submit
from kalends.cli.requests.request_texts import claim_lines, listing, request_lines
from kalends.client.client import Client
from kalends.contract.calls import ClaimView, RequestView
from kalends.contract.job_calls import JobOutput, JobView
from kalends.core.errors import InvalidInput, Unavailable
from kalends.core.steps import StepPart

BOTH = "ctc/sp2:8 + sdsc/onyx:4"
ENDED = RequestView(id="019aa0f1-0d4c-7c31-a1d3-2f5d9e4c7712", state="cancelled", user="ann", text=BOTH,
                    created_at=0, parts_ended_at=1_800_000_600)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "is_request"),
    [
        ("ctc/sp2", False), ("", False), ("ctc/sp2:8", True), ("ctc/sp2+sdsc/onyx", True), (BOTH, True),
        ("2 of {kind=sgi}", True), ("ctc/sp2|sdsc/onyx", True),
    ],
)  # fmt: skip
def test_what_names_several_machines_or_how_many_nodes_is_a_request(
    text: str, is_request: bool
) -> None:
    assert job_options.is_request(text) == is_request


def refused(command: Any, *words: str) -> InvalidInput:
    # A command keeps the help option of the program that it is first called in, for all later tests.
    program = click.Context(cli, **cli.context_settings)
    ended = CliRunner().invoke(
        command, [*words, "--user", "ann"], standalone_mode=False, parent=program
    )
    assert isinstance(ended.exception, InvalidInput), ended.output
    return ended.exception


@pytest.mark.parametrize("option", sorted(job_options.OTHER_WORDS.values()))
def test_an_option_of_a_job_on_one_machine_is_refused(option: str, tmp_path: Any) -> None:
    script = tmp_path / "file"
    script.write_text("")
    value = {
        "--nodes": "2", "--sizes": "1,2", "--shape": "1x2", "--array": "1-2", "--after": "17",
        "--implementations": str(script), "--pick": str(script), "--rank": str(script),
        "--prefer": "site=ctc:1h",
    }  # fmt: skip
    flags = ("--malleable", "--held", "--rerun", "--at-most-once", "--redundant")
    words = [option] if option in flags else [option, value.get(option, "x")]
    error = refused(submit, BOTH, "--for", "1h", *words, "--", "true")
    assert error.where == option
    assert BOTH in error.detail


@pytest.mark.parametrize("text", ["sdsc/onyx", "sdsc/onyx=", "onyx=true", "sdsc/onyx='x"])
def test_a_part_says_what_runs_where(text: str) -> None:
    assert refused(submit, BOTH, "--for", "1h", "--part", text).where == "--part"


def test_parts_need_several_machines_and_something_to_run() -> None:
    assert refused(submit, "ctc/sp2", "--for", "1h", "--part", "ctc/sp2=true").where == "--part"
    assert refused(submit, BOTH, "--for", "1h").where == "command"
    assert refused(submit, BOTH, "--", "true").where == "--for"


@pytest.mark.parametrize("command", [run, submit])
@pytest.mark.parametrize(
    "words", [("--part", "ctc/sp2=true"), ("--wait-for-parts", "5m"), ("--keep-slots",)]
)
def test_what_is_said_of_parts_is_refused_for_one_machine(
    command: Any, words: tuple[str, ...]
) -> None:
    assert refused(command, "ctc/sp2", "--for", "1h", *words, "--", "true").where == words[0]


def test_all_parts_have_what_is_said_of_waiting_and_of_the_slots() -> None:
    ctx = submit.make_context("submit", [BOTH, "--for", "1h", "--wait-for-parts", "5m", "--keep-slots",
                                         "--part", "sdsc/onyx=./show", "--", "./solve"])  # fmt: skip
    step = job_options.step_from(BOTH, ("./solve",), script="", options=ctx.params)
    assert step.job is not None
    for job in (step.job, step.jobs["sdsc/onyx"]):
        assert (job.parts_wait_s, job.keep_slot) == (300, True)


def job(machine: str, end: str, status: int = 0, over: int = 0) -> JobView:
    return JobView(job=1, machine=machine, user="ann", phase="ended", nodes=1, limit_s=60, submitted=0,
                   end=end, status=status, over=over)  # fmt: skip


def test_the_exit_code_is_that_of_the_part_that_has_ended_the_others() -> None:
    well, failed = job("ctc/sp2", "exit", over=9), job("sdsc/onyx", "exit", 3, over=5)
    ended, late = job("ncsa/box", "killed", -15, over=5), job("psc/box", "exit", 4, over=6)
    assert first_failed([well]) is None
    for parts in ([well, ended, failed, late], [late, failed, well, ended]):
        assert first_failed(parts) is failed
    assert first_failed([well, ended]) is ended


def test_lines_of_parts_have_their_machine_in_front_also_when_they_come_in_pieces(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    class Site:
        """A site that is out of reach once, and then has more to tell."""

        pieces = deque([b"one\ntw", Unavailable("away"), b"o\n\nthr", b"ee", b""])

        async def job_output(
            self, machine: str, job: int, *, offset: int, wait_s: float
        ) -> JobOutput:
            piece = self.pieces.popleft()
            if isinstance(piece, Unavailable):
                raise piece
            return JobOutput(data=piece, offset=offset, ended=not piece)

        async def job(self, machine: str, number: int) -> JobView:
            return job(machine, "exit")

    part = StepPart("ctc/sp2", 1)
    ended = asyncio.run(_followed(cast(Client, Site()), part, b"ctc/sp2 | "))
    assert ended.end == "exit"
    assert capfdbinary.readouterr().out == b"".join(
        b"ctc/sp2 | %s\n" % line for line in (b"one", b"two", b"", b"three")
    )


@pytest.mark.parametrize("interrupted", [True, False])
def test_who_interrupts_ends_all_parts_and_who_leaves_none(
    interrupted: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broker:
        """A broker, and the settings that lead to it."""

        def __init__(self) -> None:
            self.cancelled: list[str] = []

        @asynccontextmanager
        async def connect_async(self) -> AsyncIterator[Broker]:
            yield self

        async def cancel(self, id: str) -> None:
            self.cancelled.append(id)

    broker = Broker()
    told = Told(interrupted=interrupted)
    code = asyncio.run(_left(cast(Settings, broker), ENDED, told))
    said = capsys.readouterr().err
    assert (code, broker.cancelled) == ((130, [ENDED.id]) if interrupted else (0, []))
    assert ("all its parts were ended" if interrupted else "kalends cancel 9e4c7712") in said


def test_a_job_in_step_whose_parts_have_ended_is_said_to_have_ended_and_when() -> None:
    lines = request_lines(ENDED, ZoneInfo("UTC"))
    assert lines[0] == "ended 9e4c7712"
    assert "  ended    Fri 2027-01-15 08:10:00 UTC (UTC+00:00)" in lines
    assert "ended" in listing([ENDED], ZoneInfo("UTC"))[1]


def test_each_claim_is_shown_with_the_job_that_runs_there() -> None:
    claims = [
        ClaimView(resource=name, start=1_800_000_000, end=1_800_003_600, units=4)
        for name in ("ctc/sp2", "caltech/beamline")
    ]
    lines = claim_lines(claims, ZoneInfo("UTC"), (StepPart("ctc/sp2", 412),))
    assert [line.split()[-1] for line in lines] == ["JOB", "ctc/sp2/412", "-"]
    assert "JOB" not in claim_lines(claims, ZoneInfo("UTC"))[0]

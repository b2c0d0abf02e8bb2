"""Jobs in step on the command line: what is understood of parts, and what is shown of them."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner

from kalends.cli import _in_step
from kalends.cli._words import claim_lines
from kalends.cli.run import command as run
from kalends.cli.submit import command as submit
from kalends.contract.calls import ClaimView
from kalends.core.errors import InvalidInput
from kalends.core.steps import StepPart

BOTH = "ctc/sp2:8 + sdsc/onyx:4"


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
    assert _in_step.is_request(text) == is_request


def refused(command: Any, *words: str) -> InvalidInput:
    ended = CliRunner().invoke(command, [*words, "--user", "ann"], standalone_mode=False)
    assert isinstance(ended.exception, InvalidInput), ended.output
    return ended.exception


@pytest.mark.parametrize("option", sorted(_in_step.OTHER_WORDS.values()))
def test_an_option_of_a_job_on_one_machine_is_refused(option: str, tmp_path: Any) -> None:
    script = tmp_path / "file"
    script.write_text("")
    value = {
        "--nodes": "2", "--sizes": "1,2", "--shape": "1x2", "--array": "1-2", "--after": "17",
        "--implementations": str(script), "--pick": str(script), "--prefer": "site=ctc:1h",
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


def test_a_terminal_is_one_of_one_machine() -> None:
    assert refused(run, BOTH, "--for", "1h", "--", "bash").where == "MACHINE"


def test_each_claim_is_shown_with_the_job_that_runs_there() -> None:
    claims = [
        ClaimView(resource=name, start=1_800_000_000, end=1_800_003_600, units=4)
        for name in ("ctc/sp2", "caltech/beamline")
    ]
    lines = claim_lines(claims, ZoneInfo("UTC"), (StepPart("ctc/sp2", 412),))
    assert [line.split()[-1] for line in lines] == ["JOB", "ctc/sp2/412", "-"]
    assert "JOB" not in claim_lines(claims, ZoneInfo("UTC"))[0]

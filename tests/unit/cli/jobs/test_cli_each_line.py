"""``kalends submit --each-line``: what is on a line, and what holds for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kalends.cli import cli
from kalends.cli.jobs import submission
from kalends.contract.job_calls import MadeJob
from kalends.core.errors import InvalidInput
from kalends.core.jobs import JobRequest


class Desk:
    """What the command has submitted; `refused` is the place of the job at which the site stops it."""

    def __init__(self) -> None:
        self.jobs: list[JobRequest] = []
        self.key = ""
        self.refused = 10**9

    def submit_many(self, jobs: Sequence[JobRequest], *, key: str) -> Iterator[MadeJob]:
        self.jobs, self.key = list(jobs), key
        for place, _ in enumerate(jobs):
            if place == self.refused:
                raise InvalidInput("too many", where=f"jobs[{place}].nodes", remedy="ask for fewer")
            yield MadeJob(machine="lab/box", job=place + 17)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    made = Desk()

    @contextmanager
    def client_at(settings: Any, machine: str) -> Iterator[Any]:
        yield SimpleNamespace(
            submit_many=made.submit_many, new_key=lambda: "a-new-key", time_s=int, start_s=int
        )

    monkeypatch.setattr(submission.site_calls, "client_at", client_at)
    return made


def submit(text: str, *words: str) -> Result:
    command = ["submit", "lab/box", *words, "--each-line", "-"]
    return CliRunner().invoke(cli, command, input=text, catch_exceptions=False)


def test_each_line_is_a_command_with_the_options_of_all_and_its_own(desk: Desk) -> None:
    done = submit(
        "# first the small one\n./solve 'a b'\n\n-n 4 --env N=2 -- ./solve -- -x\n",
        "--for", "1h", "-n", "2", "--env", "ALL=1", "--key", "the-key-1",
    )  # fmt: skip
    assert (done.exit_code, done.stdout) == (0, "lab/box/17\nlab/box/18\n")
    assert [(each.command, each.nodes, each.limit_s) for each in desk.jobs] == [
        (("./solve", "a b"), 2, 3_600),
        (("./solve", "--", "-x"), 4, 3_600),
    ]
    assert [each.environment for each in desk.jobs] == [{"ALL": "1"}, {"ALL": "1", "N": "2"}]
    assert desk.key == "the-key-1"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--bad -- true", "line 2: No such option"),
        ("--key another-key -- true", "line 2: --key is no option of a job"),
        ("--broker http://x -- true", "line 2: --broker is no option of a job"),
        ("other/box -- true", "line 2: 'other/box' is no option"),
        ("true 'open", "line 2: it cannot be read"),
        ("--for 0s -- true", "line 2"),
        ("--on '{kind=sp2}' -- true", "line 2"),
        ("-n 2 --", "line 2: command: neither a command nor a script"),
    ],
)
def test_a_line_that_cannot_be_read_is_named_and_nothing_is_submitted(
    desk: Desk, line: str, said: str
) -> None:
    done = submit(f"true\n{line}\n", "--for", "1h")
    assert done.exit_code == 2
    assert said in done.stderr
    assert desk.jobs == []


def test_a_refusal_names_its_line_and_the_key_with_which_to_go_on(desk: Desk) -> None:
    desk.refused = 1
    done = submit("true\n\n# and then\ntrue\ntrue\n", "--for", "1h")
    assert (done.exit_code, done.stdout) == (2, "lab/box/17\n")
    assert "line 4: --nodes: too many" in done.stderr
    assert "repeat the command with --key a-new-key" in done.stderr


@pytest.mark.parametrize("words", [("--script", "x.sh"), ("--pick", "x.py")])
def test_what_each_line_excludes_is_refused(desk: Desk, words: tuple[str, str]) -> None:
    assert submit("true\n", "--for", "1h", *words).exit_code == 2
    assert desk.jobs == []


def test_a_file_is_read_as_well_as_standard_input(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("true\n")
    words = ["submit", "lab/box", "--for", "1h", f"--each-line={tmp_path / 'runs'}"]
    assert CliRunner().invoke(cli, words).stdout == "lab/box/17\n"
    assert len(desk.jobs) == 1


def test_options_that_would_be_taken_for_a_command_or_a_comment_are_refused(desk: Desk) -> None:
    for text, said in (
        ("true\n#KALENDS -n 4\n", "line 2: #KALENDS lines are for scripts"),
        ("true\n-n 4 ./solve\n", "line 2: -n begins the line, and no -- follows its options"),
        ("true\n--output %x -- true\n", "line 2: --output: %x in '%x' is not a known sign"),
    ):
        done = submit(text, "--for", "1h")
        assert (done.exit_code, desk.jobs) == (2, [])
        assert said in done.stderr, done.stderr

"""Options of jobs: of the command line or a script, with what they mean; read or refused, never lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from kalends.cli import cli
from kalends.cli.jobs.job_options import booking, step_from
from kalends.cli.jobs.job_script import read_script, tell_unread
from kalends.cli.jobs.submission import submit
from kalends.client.inputs.job_texts import indices_in, job_from
from kalends.core.errors import InvalidInput
from kalends.core.jobs import JobRequest, Notify
from kalends.core.money import CREDIT, NO_CAP


def options_of(path: Path, script: str, *words: str) -> dict[str, Any]:
    """Return what is understood of a script and further words, as ``submit`` understands it."""
    path.write_text(script)
    return understood("lab/box", *words, "--script", str(path))


def understood(*words: str) -> dict[str, Any]:
    program = click.Context(cli, **cli.context_settings)
    with submit.make_context("submit", list(words), parent=program) as context:
        return context.params


def job(limit: str, *words: str) -> JobRequest:
    """Return the job that ``submit`` makes of these words."""
    options = understood("lab/box", "--for", limit, *words, "--", "true")
    machine, program = options.pop("machine"), options.pop("program")
    return job_from(
        machine, program, not_before=0, script="", limit=options.pop("limit"), options=options
    )


def sized(limit: str, **options: Any) -> JobRequest:
    """Return the same of options by their names."""
    words = [
        word
        for name, value in options.items()
        for word in ([f"--{name}"] if value is True else [f"--{name}", str(value)])
    ]
    return job(limit, *words)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "job.sh"


@pytest.mark.parametrize(
    "line",
    [
        "#KALENDS -n 4 --name run#3",
        "#KALENDS\t-n 4 --name 'run#3'",
        "  #KALENDS -n 4 --name=run#3   # four, for once",
        "#KALENDS -n 4\r\n#KALENDS --name run#3\r",
        "# a comment\n  # an indented one\n\n#KALENDS\n#KALENDS -n 4 --name run#3",
    ],
)
def test_a_line_is_read_however_it_is_spaced(file: Path, line: str) -> None:
    found = options_of(file, f"#!/bin/sh\n{line}\nexec true\n#KALENDS --name late\n")
    assert (found["nodes"], found["name"]) == (4, "run#3")


def test_the_command_line_wins(file: Path) -> None:
    found = options_of(file, "#!/bin/sh\n#KALENDS -n 4 --for 1h\n", "-n", "2")
    assert (found["nodes"], found["limit"]) == (2, "1h")


def test_the_file_may_be_named_in_one_word(file: Path) -> None:
    file.write_text("#!/bin/sh\n#KALENDS -n 4\n")
    found = understood(f"--script={file}", "lab/box")
    assert (found["nodes"], found["machine"]) == (4, "lab/box")


def test_what_stands_behind_two_hyphens_is_the_programs_own(file: Path) -> None:
    found = understood("lab/box", "--", "solve", "--script", str(file))
    assert found["program"] == ("solve", "--script", str(file))


def test_the_machine_of_the_environment_is_taken_where_none_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KALENDS_MACHINE", "lab/box")
    found = understood("-n", "2", "--", "solve", "it")
    assert (found["machine"], found["program"]) == ("lab/box", ("solve", "it"))


@pytest.mark.parametrize("wish", [("--on", "memory>=64"), ("--end-by", "tomorrow 9:00")])
def test_a_wish_puts_the_machine_of_the_environment_aside_and_none_that_is_named(
    monkeypatch: pytest.MonkeyPatch, wish: tuple[str, str]
) -> None:
    monkeypatch.setenv("KALENDS_MACHINE", "lab/box")
    assert understood(*wish, "--", "solve")["machine"] == ""
    assert understood("lab/box", *wish, "--", "solve")["machine"] == "lab/box"


def test_a_program_is_mistaken_for_no_machine() -> None:
    with pytest.raises(InvalidInput, match="'solve' is not a machine") as raised:
        understood("-n", "2", "solve")
    assert "write kalends submit sdsc/sp2" in raised.value.remedy
    assert understood("-n", "2", "--", "solve")["machine"] == ""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--nonsense", "--nonsense"),
        ("-n", "'-n' requires an argument"),
        ("--name 'open", "No closing quotation"),
        ("lab/other", "'lab/other' is no option"),
        ("-- echo", "'echo' is no option"),
        ("--script other.sh", "--script is no option of a job"),
        ("--help", "--help is no option of a job"),
        ("--token stolen", "--token is no option of a job"),
        ("--token-file stolen", "--token-file is no option of a job"),
        ("--broker http://elsewhere", "--broker is no option of a job"),
        ("--user eve", "--user is no option of a job"),
        ("--profile work", "--profile is no option of a job"),
        ("--profile=work", "--profile is no option of a job"),
        ("--group staff", "--group is no option of a job"),
        ("--ca mine.pem", "--ca is no option of a job"),
        ("--zone UTC", "--zone is no option of a job"),
        ("--color always", "--color is no option of a job"),
        ("--json", "--json is no option of a job"),
        ("--key k", "--key is no option of a job"),
        ("--bogus", "--bogus"),
    ],
)
def test_what_cannot_stand_in_a_script_is_refused_with_its_line(
    file: Path, line: str, said: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        options_of(file, f"#!/bin/sh\n#KALENDS --for 1h\n#KALENDS {line}\n")
    assert (raised.value.where, said in raised.value.detail) == ("#KALENDS, line 3", True)
    assert "Did you mean" not in raised.value.detail


def test_a_byte_order_mark_is_no_part_of_a_script(file: Path) -> None:
    found = options_of(file, "\ufeff#!/bin/sh\n#KALENDS -n 4\n")
    assert found["nodes"] == 4
    assert read_script(str(file)).startswith("#!/bin/sh")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("# KALENDS -n 4\ntrue", "line 2 is not read: options stand behind #KALENDS"),
        ("#kalends -n 4\ntrue", "line 2 is not read: options stand behind #KALENDS"),
        ("true\n#KALENDS -n 4", "line 3 is not read: #KALENDS stands before the first command"),
        ("# kalends lines:\n#KALENDS --name mine\ntrue", ""),
    ],
)
def test_a_line_that_looks_like_options_and_is_none_is_told(
    file: Path, capsys: pytest.CaptureFixture[str], script: str, said: str
) -> None:
    assert options_of(file, f"#!/bin/sh\n{script}\n")["nodes"] is None
    assert capsys.readouterr().err == (f"kalends: {said}\n" if said else "")


def test_an_array_without_an_end_is_no_single_job() -> None:
    with pytest.raises(InvalidInput, match="'1-' is not a list of indices"):
        indices_in("1-")


def test_an_array_that_runs_backwards_is_no_single_job() -> None:
    assert indices_in("1-3, 7") == (1, 2, 3, 7)
    for text in ("5-1", "1-2,9-8"):
        with pytest.raises(InvalidInput, match="ends before it begins"):
            indices_in(text)


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("#SBATCH -N 2", "-n 2"),
        ("#SBATCH -N2 --time=1-02:30:00", "-n 2 --for 1d2h30m"),
        ("#SBATCH --nodes 2 -t 90  # minutes", "-n 2 --for 1h30m"),
        ("#SBATCH --job-name='my run' -A dna", "--name 'my run' --project dna"),
        ("#SBATCH --output=out-%A_%a.txt", "--output out-%j_%a.txt"),
        ("#SBATCH --output=%x-%N.txt", "--output FILE"),
        ("#SBATCH --array=1-10", "--array 1-10"),
        ("#SBATCH --array=1-10%4", ""),
        ("#SBATCH --dependency=afterok:17:18,afterany:19", "--after 17 --after 18 --after 19:ended"),
        ("#SBATCH --mail-type=END,FAIL --signal=B:USR1@60", "--notify end,fail --warn USR1@60s"),
        ("#SBATCH --mem=4G --gres gpu:1", ""),
        ("#SBATCH --comment 'never closed", ""),
        ("#PBS -l nodes=2:ppn=8,walltime=01:30:00", "-n 2 --for 1h30m"),
        ("#PBS -l select=4:ncpus=8 -N solver -j oe", "-n 4 --name solver"),
        ("#PBS -m abe -W depend=afterok:17", "--notify begin,end,fail --after 17"),
        ("#$ -l h_rt=3600 -cwd -N solver -hold_jid 17", "--for 1h --name solver --after 17:ended"),
        ("#$ -o out.$JOB_ID -hard -q all.q", "--output out.%j"),
        ("#OAR -l /nodes=2/core=1,walltime=0:30:0 -O out.%jobid%", "-n 2 --for 30m --output out.%j"),
        ("#BSUB -n 4", ""),
    ],
)  # fmt: skip
def test_options_of_other_batch_systems_are_named_with_what_to_write(
    file: Path, capsys: pytest.CaptureFixture[str], line: str, ours: str
) -> None:
    assert options_of(file, f"#!/bin/sh\n{line}\n")["nodes"] is None
    said = capsys.readouterr().err
    assert said == f"kalends: line 2 is not read: {line}{f'; write #KALENDS {ours}' * bool(ours)}\n"
    if ours and "FILE" not in ours:
        options_of(file, f"#!/bin/sh\n#KALENDS {ours}\n")  # What is advised can be typed.


def test_lines_that_no_batch_system_reads_are_passed_over(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "#!/bin/sh\n# SBATCH -N 2\n##SBATCH -N 2\n#$HOME/bin\n#PBS\ntrue\n#SBATCH -N 2\n#$ -cwd\n"
    )
    options_of(file, text)
    assert capsys.readouterr().err == "kalends: line 8 is not read: #$ -cwd\n"


def test_many_unread_lines_are_counted(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options_of(file, "#!/bin/sh\n" + "#SBATCH --mem=4G\n" * 30)
    said = capsys.readouterr().err.splitlines()
    assert (len(said), said[-1]) == (21, "kalends: 10 more lines with options are not read")


def test_a_script_among_implementations_has_no_options_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell_unread("#!/bin/sh\n#KALENDS -n 4\n#SBATCH -N 2\n", options_are_read=False)
    assert capsys.readouterr().err.splitlines() == [
        "kalends: line 2 is not read: #KALENDS lines are read in the file of --script alone",
        "kalends: line 3 is not read: #SBATCH -N 2",
    ]


def test_a_job_of_several_sizes_begins_with_the_first_unless_another_is_named() -> None:
    assert (sized("1h").nodes, sized("1h", nodes=3).nodes) == (1, 3)
    assert (sized("1h", sizes="2,4").nodes, sized("1h", sizes="2,4", nodes=4).nodes) == (2, 4)


def test_one_limit_holds_on_each_size_and_several_belong_to_them() -> None:
    one = sized("1h", sizes="1,2,4", malleable=True, change="2s")
    assert (one.limit_s, one.limits_s, one.limit_on(4), one.change_s) == (3_600, (), 3_600, 2)
    each = sized("4h,2h30m,2h", sizes="1,2,4")
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
        sized(limit, **options)
    assert raised.value.where == where
    assert raised.value.remedy


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), None),
        (("--notify", "end"), Notify(when=("end",))),
        (("--notify", "fail, begin"), Notify(when=("begin", "fail"))),
        (("--notify=end,each",), Notify(when=("end",), each=True)),
        (
            ("--notify", "end", "--notify-to", "https://h.example/x"),
            Notify(when=("end",), to="https://h.example/x"),
        ),
    ],
)
def test_the_notices_that_are_asked_for_are_understood(
    words: tuple[str, ...], expected: Notify | None
) -> None:
    assert job("1h", *words).notify == expected


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
def test_notices_that_cannot_be_meant_are_refused_with_what_to_write(
    words: tuple[str, ...], where: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        job("1h", *words)
    assert refused.value.where == where
    assert refused.value.remedy or where == "notify.to"


def test_a_budget_is_in_credits_for_a_job_alone_and_for_the_slots_of_one_in_step() -> None:
    assert (job("1h", "--at-most", "2.5").at_most, job("1h").at_most) == (int(2.5 * CREDIT), NO_CAP)
    with pytest.raises(InvalidInput, match="--at-most"):
        job("1h", "--at-most", "lots")
    both = "ctc/sp2:8 + sdsc/onyx:4"
    options = understood(both, "--for", "1h", "--at-most", "ctc=4,sdsc=2", "--", "true")
    assert booking(options).at_most == "ctc=4,sdsc=2"
    step = step_from(both, ("true",), script="", options=options)
    assert step.job is not None
    assert step.job.at_most == NO_CAP

"""The workload log reader, and the excerpt in examples/data."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.core.errors import InvalidInput
from kalends.simulation.workloads.swf_fields import (
    FIELDS,
    SwfJob,
    header_number,
    read_header,
    read_jobs,
    whole_seconds,
)

ROOT = Path(__file__).parents[3]
EXCERPT = ROOT / "examples" / "data" / "sdsc-sp2-excerpt.swf"
CPU = SwfJob.__struct_fields__.index("cpu_s")
GOOD = "7 100 20 300 4 12.5 -1 8 600 -1 1 3 2 9 0 -1 -1 -1"

known = st.integers(0, 10**15 - 1)
unknown = st.just(-1)
row = st.tuples(
    *[
        known if index < 2 else unknown | known if index != CPU else unknown | st.integers(0, 10**9)
        for index in range(FIELDS)
    ]
)


@given(st.lists(row))
def test_reading_gives_back_every_number_that_was_written(rows: list[tuple[int, ...]]) -> None:
    lines = ["; Version: 2.2", "", *("  ".join(map(str, values)) for values in rows)]
    read = [
        tuple(
            -1 if (value := getattr(job, name)) is None else value
            for name in SwfJob.__struct_fields__
        )
        for job in read_jobs(lines)
    ]
    assert read == rows


def test_cpu_time_may_have_decimals_and_the_fields_stand_in_the_formats_order() -> None:
    job = next(read_jobs([GOOD]))
    assert (job.job, job.submit_s, job.wait_s, job.run_s) == (7, 100, 20, 300)
    assert (job.processors_allocated, job.cpu_s, job.memory_kb) == (4, 12.5, None)
    assert (job.processors_requested, job.time_requested_s) == (8, 600)
    assert (job.status, job.user, job.group, job.executable, job.queue) == (1, 3, 2, 9, 0)


@given(st.text(max_size=40), st.integers(0, len(GOOD)), st.integers(0, len(GOOD)))
def test_any_text_is_read_or_refused_with_its_line_number(text: str, start: int, end: int) -> None:
    line = GOOD[:start] + text + GOOD[end:]
    try:
        jobs = list(read_jobs(["; header", GOOD, line]))
    except InvalidInput as refused:
        error = refused
    else:
        assert len(jobs) == 2 or line.strip()[:1] in ("", ";")
        return
    assert error.where.startswith("line 3")
    assert error.detail
    assert error.remedy


@given(
    st.integers(0, FIELDS - 1),
    st.sampled_from(["-2", "x", "1e3", "1_0", "+1", "٣", "nan", "9" * 16]),
)
def test_a_damaged_number_is_refused_by_line_and_field(index: int, word: str) -> None:
    words = GOOD.split()
    words[index] = word
    with pytest.raises(InvalidInput) as caught:
        list(read_jobs([GOOD, " ".join(words)]))
    assert caught.value.where == f"line 2, {SwfJob.__struct_fields__[index]}"
    assert word in caught.value.detail


@pytest.mark.parametrize("index", [0, 1])
def test_a_job_without_number_or_submit_time_is_refused(index: int) -> None:
    words = GOOD.split()
    words[index] = "-1"
    with pytest.raises(InvalidInput, match="every job has one"):
        list(read_jobs([" ".join(words)]))


@pytest.mark.parametrize("words", [GOOD.split()[:-1], [*GOOD.split(), "1"], ["7"]])
def test_a_job_with_too_few_or_too_many_fields_is_refused(words: list[str]) -> None:
    with pytest.raises(InvalidInput, match=f"^line 1: {len(words)} fields"):
        list(read_jobs([" ".join(words)]))


def test_decimals_are_refused_where_whole_numbers_belong() -> None:
    for name in ("job", "memory_kb", "processors_allocated", "user"):
        words = GOOD.split()
        words[SwfJob.__struct_fields__.index(name)] = "7.5"
        with pytest.raises(InvalidInput, match=rf"line 1, {name}: '7\.5' is not a whole number"):
            list(read_jobs([" ".join(words)]))


def test_moments_with_decimals_are_rounded_down_and_lengths_up() -> None:
    words = GOOD.split()
    for name in ("submit_s", "wait_s", "run_s", "time_requested_s", "think_s"):
        words[SwfJob.__struct_fields__.index(name)] = "7.25"
    [job] = read_jobs([" ".join(words)])
    assert (job.submit_s, job.wait_s) == (7, 7)
    assert (job.run_s, job.time_requested_s, job.think_s) == (8, 8, 8)
    assert [whole_seconds("7.000", name) for name in ("submit_s", "run_s")] == [7, 7]


@pytest.mark.parametrize(
    ("value", "number"),
    [("1024", 1024), ("1,024", 1024), ("12,345,678 nodes", 12_345_678), ("128 of them", 128),
     ("64, then 128", 64), ("unknown", None), ("-1", None), ("", None)],
)  # fmt: skip
def test_a_number_in_a_header_may_have_commas_between_groups_of_three(
    value: str, number: int | None
) -> None:
    assert header_number({"MaxProcs": value}, "MaxProcs") == number


@pytest.mark.parametrize(
    "value",
    ["1.024", "1 024", "1'024", "1_024", "1,02", "10,24", "64.5", "about 64", "many"],
)
def test_a_number_in_a_header_with_other_separators_or_in_words_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput, match="is not a whole number"):
        header_number({"MaxProcs": value}, "MaxProcs")
    with pytest.raises(InvalidInput, match="'-64' is below 0"):
        header_number({"MaxProcs": "-64"}, "MaxProcs")


def test_the_header_joins_repeated_and_continued_fields_and_knows_addresses_from_names() -> None:
    header = read_header(
        [
            ";      MaxProcs: 64",
            "; Queue: 0 interactive",
            "; Information: http://one.example/",
            ";              http://two.example/",
            ";",
            "; only a remark",
            "; Queue: 1 batch",
            "; Note:",
            GOOD,
            "; MaxProcs: 1",
        ]
    )
    assert header == {
        "MaxProcs": "64",
        "Queue": "0 interactive\n1 batch",
        "Information": "http://one.example/\nhttp://two.example/",
        "Note": "",
    }


@given(st.lists(st.text(max_size=60)))
def test_no_header_is_too_odd_to_be_read(lines: list[str]) -> None:
    assert all(name.isalnum() for name in read_header(lines))


@pytest.mark.parametrize(
    ("wait_run_allocated_requested", "stretch"),
    [
        ("5 20 4 8", (15, 35, 4)),
        ("0 20 -1 8", (10, 30, 8)),
        ("-1 20 4 8", None),
        ("5 0 4 8", None),
        ("5 20 -1 -1", None),
    ],
)
def test_a_stretch_is_when_a_job_ran_and_on_how_many_processors(
    wait_run_allocated_requested: str, stretch: tuple[int, int, int] | None
) -> None:
    wait, run, allocated, requested = wait_run_allocated_requested.split()
    unused = "-1 -1 -1 -1 -1 -1 -1 -1 -1 -1"
    job = next(read_jobs([f"1 10 {wait} {run} {allocated} -1 -1 {requested} {unused}"]))
    assert job.stretch == stretch


def test_the_shipped_excerpt_is_of_a_full_machine_that_is_never_overbooked() -> None:
    lines = EXCERPT.read_text().splitlines()
    header, jobs = read_header(lines), list(read_jobs(lines))
    instant_s, processors = int(header["ExcerptInstant"]), int(header["MaxProcs"])
    assert len(jobs) == int(header["ExcerptRecords"])
    assert header["Acknowledge"] == "Victor Hazlewood"
    taken = [job.stretch for job in jobs if job.stretch is not None]
    assert sum(units for start, end, units in taken if start <= instant_s < end) == processors
    for moment, _, _ in taken:
        assert sum(units for start, end, units in taken if start <= moment < end) <= processors


def cut(log: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "tools" / "cut_swf.py", log, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_cutting_keeps_the_header_and_exactly_the_jobs_in_the_window(tmp_path: Path) -> None:
    rest = "1 -1 -1 1 -1 -1 1 1 1 -1 -1 -1 -1 -1"
    over, waiting, running, never_ran, later = (
        f"1 0 10 3589 {rest}",
        f"2 100 90000 60 {rest}",
        f"3 3000 10 5000 {rest}",
        f"4 3700 5 -1 {rest}",
        f"5 10800 0 60 {rest}",
    )
    log = tmp_path / "small.swf.gz"
    lines = ["; Version: 2.2", "; Acknowledge: Somebody", over, waiting, running, never_ran, later]
    log.write_bytes(gzip.compress("\n".join(lines).encode()))
    arguments = ("--instant", "7200", "--before-h", "1", "--after-h", "1")
    done = cut(log, *arguments)
    assert done.returncode == 0, done.stderr
    out = done.stdout.splitlines()
    assert out[:2] == lines[:2]
    assert out[-3:] == [waiting, running, never_ran]
    header = read_header(out)
    assert (header["ExcerptRecords"], header["ExcerptInstant"]) == ("3", "7200")
    assert "Somebody" in header["Excerpt"]
    assert cut(log, *arguments).stdout == done.stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no gzip", "cut_swf:"),
        (gzip.compress(b"1 2 3", mtime=0), "line 1"),
        (gzip.compress(b"", mtime=0), "no job"),
    ],
    ids=["no gzip", "damaged", "empty"],
)
def test_cutting_a_damaged_or_empty_log_says_what_is_wrong(
    tmp_path: Path, content: bytes, said: str
) -> None:
    log = tmp_path / "bad.swf.gz"
    log.write_bytes(content)
    done = cut(log, "--instant", "0")
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr

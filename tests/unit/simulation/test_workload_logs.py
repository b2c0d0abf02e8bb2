"""Workload logs as simulated jobs: the filter, and every way in which a log can be wrong."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from kalends.core.errors import InvalidInput
from kalends.simulation.checking.input import read_requests
from kalends.simulation.job import SimulatedJob
from kalends.simulation.workloads.swf import (
    NO_COUNT,
    NO_REQUESTED_TIME,
    NO_RUN_TIME,
    TOO_WIDE,
    ResultWriter,
    open_log,
)

EXCERPT = Path(__file__).parents[3] / "examples" / "data" / "sdsc-sp2-excerpt.swf"


def line(
    job: int,
    submit: int = 0,
    run: int = 60,
    allocated: int = 4,
    requested: int = 4,
    limit: int = 90,
) -> str:
    return f"{job} {submit} 5 {run} {allocated} -1 -1 {requested} {limit} -1 1 3 -1 -1 -1 -1 -1 -1"


def written(folder: Path, *lines: str) -> Path:
    path = folder / "log.swf"
    path.write_text("\n".join(lines) + "\n")
    return path


def facts(job: SimulatedJob) -> tuple[int, ...]:
    return job.id, job.submit_s, job.nodes, job.requested_s, job.run_s, job.user


def test_a_mark_of_the_encoding_before_the_first_line_is_no_part_of_it(tmp_path: Path) -> None:
    header, job = "; MaxProcs: 4\n", line(1) + "\n"
    for text in (header + job, job):
        (tmp_path / "log.swf").write_text(text, "utf-8-sig")
        log = open_log(tmp_path / "log.swf", nodes=4)
        assert [each.id for each in log] == [1]
        assert log.header == ({"MaxProcs": "4"} if text != job else {})
        assert len(read_requests(tmp_path / "log.swf", 4, "user")) == 1


def test_jobs_that_cannot_be_simulated_are_counted_and_named_by_reason(tmp_path: Path) -> None:
    log = open_log(
        written(
            tmp_path,
            line(1),
            line(2, allocated=9),
            line(3, requested=9),
            line(4, requested=-1),
            line(5, allocated=-1, requested=0),
            line(6, run=0),
            line(7, run=-1),
            line(8, limit=-1),
            line(9, run=100),
            line(10, allocated=0),
        ),
        nodes=8,
    )
    assert [facts(job) for job in log] == [
        (1, 0, 4, 90, 60, 3),
        (4, 0, 4, 90, 60, 3),
        (9, 0, 4, 90, 90, 3),
        (10, 0, 4, 90, 60, 3),
    ]
    assert {reason: (tally.count, tally.lines) for reason, tally in log.dropped.items()} == {
        TOO_WIDE: (2, [2, 3]),
        NO_COUNT: (1, [5]),
        NO_RUN_TIME: (2, [6, 7]),
        NO_REQUESTED_TIME: (1, [8]),
    }
    assert log.dropped[TOO_WIDE].said == ["line 2: job 2 with 9", "line 3: job 3 with 9"]
    assert (log.cut.count, log.cut.said) == (1, ["line 9: job 9 ran 100 s of 90 s"])


def test_exact_estimates_are_the_run_times_of_the_same_jobs(tmp_path: Path) -> None:
    path = written(tmp_path, line(1), line(2, limit=-1), line(3, run=100))
    exact = [facts(job)[3:5] for job in open_log(path, nodes=8, estimates="exact")]
    filled = [facts(job)[3:5] for job in open_log(path, nodes=8, estimates="filled")]
    assert exact == [(60, 60), (90, 90)]
    assert filled == [(90, 60), (60, 60), (90, 90)]


def test_a_log_is_read_anew_each_time_and_counts_anew(tmp_path: Path) -> None:
    log = open_log(written(tmp_path, "; MaxProcs: 8", line(1), line(2, run=0)), nodes=8)
    assert log.header == {"MaxProcs": "8"}
    for _ in range(2):
        assert [job.id for job in log] == [1]
        assert (log.jobs, log.dropped[NO_RUN_TIME].count) == (1, 1)


@pytest.mark.parametrize(
    ("lines", "where", "said"),
    [
        ([line(1), "1 2 3"], "line 2", "3 fields"),
        ([line(1), line(2) + " 7"], "line 2", "19 fields"),
        ([line(1).removesuffix(" -1"), line(2) + " 7"], "line 1", "17 fields"),
        ([line(1), line(2).replace(" 60 ", " x ")], "line 2, run_s", "'x' is not a number from 0"),
        (
            [line(1), line(2).replace(" 60 ", " nan ")],
            "line 2, run_s",
            "'nan' is not a number from",
        ),
        ([line(1), line(2).replace(" 3 ", " 1.5 ")], "line 2, user", "'1.5' is not a whole number"),
        ([line(1), line(2).replace(" 1 3 ", " 2 3 ")], "line 2, status", "a part of job 2"),
        ([line(1), line(2, run=10**11)], "line 2, run_s", "from 0 to 32503680000"),
        ([line(1), line(2, limit=-5)], "line 2, time_requested_s", "'-5'"),
        ([line(1), line(2, submit=-1)], "line 2, submit_s", "'-1' is not"),
        ([line(1), "; x", line(1)], "line 3, job", "job 1 occurs twice"),
        ([line(1, 7), line(2, 9), line(3, 8)], "line 3, submit_s", "before a job above it (9)"),
    ],
)
def test_a_damaged_line_is_refused_with_its_number_and_what_to_do(
    tmp_path: Path, lines: list[str], where: str, said: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        list(open_log(written(tmp_path, *lines), nodes=8))
    assert caught.value.where.endswith(f"log.swf, {where}")
    assert said in caught.value.detail
    assert caught.value.remedy


def test_times_with_decimals_are_simulated_in_whole_seconds_and_counted(tmp_path: Path) -> None:
    text = line(1).replace("1 0 5 60 ", "1 0.9 5 0.2 ").replace(" 90 ", " 90.5 ")
    log = open_log(
        written(tmp_path, text, line(2, 1), line(3, 2).replace(" 60 ", " 60.00 ")), nodes=8
    )
    assert [facts(job) for job in log] == [
        (1, 0, 4, 91, 1, 3), (2, 1, 4, 90, 60, 3), (3, 2, 4, 90, 60, 3),
    ]  # fmt: skip
    assert log.rounded.said == ["line 1: job 1"]


def part(job: int, status: int, run: int) -> str:
    return line(job, -1, run).replace(" 1 3 ", f" {status} 3 ")


def test_parts_of_a_job_that_was_swapped_out_are_passed_over_for_its_whole_line(
    tmp_path: Path,
) -> None:
    log = open_log(
        written(
            tmp_path, line(1, run=50), part(1, 2, 20), part(1, 3, 30), line(2, 7), part(2, 4, 60)
        ),
        nodes=8,
    )
    assert [facts(job)[::4] for job in log] == [(1, 50), (2, 60)]
    assert (log.parts.count, log.parts.lines) == (3, [2, 3, 5])
    assert len(read_requests(log.path, 8, "user")) == 2


def test_a_job_of_one_part_is_a_job(tmp_path: Path) -> None:
    lone = line(2, 3).replace(" 1 3 ", " 4 3 ")
    path = written(tmp_path, line(1), lone, part(3, 2, 5), part(3, 3, 5), line(4, 9))
    log = open_log(path, nodes=8, damaged="skip")
    assert [job.id for job in log] == [1, 2, 4]
    assert (log.parts.count, log.damaged.lines) == (0, [3, 4])


@pytest.mark.parametrize(
    ("lines", "at", "said"),
    [
        ([part(1, 2, 9), part(1, 3, 9)], 1, "part of job 1, which has no line for the whole job"),
        (
            [line(1), part(2, 2, 9), line(3)],
            2,
            "part of job 2, which has no line for the whole job",
        ),
        ([part(1, 3, 9), line(1)], 2, "line for the whole job 1 follows that for a part of it"),
        (
            [line(1), line(2), part(1, 2, 9)],
            3,
            "part of job 1, which has no line for the whole job",
        ),
        ([line(1), line(2), part(1, 3, 9)], 3, "part of job 1, which does not follow the line"),
        (
            [part(1, 3, 9), line(2), part(1, 4, 9)],
            3,
            "part of job 1, which does not follow the line",
        ),
    ],
)
def test_parts_in_a_wrong_place_are_named_as_parts_by_the_reader_and_by_the_checker(
    tmp_path: Path, lines: list[str], at: int, said: str
) -> None:
    path = written(tmp_path, *(text.replace(" -1 ", " 3 ", 1) for text in lines))
    for read in (lambda: list(open_log(path, nodes=8)), lambda: read_requests(path, 8, "user")):
        with pytest.raises(InvalidInput, match=said) as caught:
            read()
        assert f"log.swf, line {at}" in caught.value.where


def test_a_file_of_another_format_is_named_as_that(tmp_path: Path) -> None:
    path = written(tmp_path, "JobID|Submit|Start|NNodes", "101|2026-09-01T08:00:00|2026-09-01|4")
    for damaged in ("refuse", "skip"):
        with pytest.raises(InvalidInput) as caught:
            list(open_log(path, nodes=8, damaged=damaged))
        assert "Standard Workload Format: a line of 18 numbers" in caught.value.remedy
        assert "--damaged" not in caught.value.remedy


def test_the_partitions_that_jobs_name_are_counted(tmp_path: Path) -> None:
    lines = [line(number).removesuffix("-1 -1 -1") + f"{number % 3} -1 -1" for number in range(9)]
    log = open_log(written(tmp_path, *lines, line(9)), nodes=8)
    assert len(list(log)) == 10
    assert log.partitions == {"0", "1", "2"}


def test_damaged_lines_are_skipped_counted_and_named_if_one_wants(tmp_path: Path) -> None:
    log = open_log(
        written(tmp_path, line(1), "1 2 3", line(2), line(2), "what?"), nodes=8, damaged="skip"
    )
    assert [job.id for job in log] == [1, 2]
    assert (log.damaged.count, sorted(log.damaged.lines)) == (3, [2, 4, 5])
    assert any("job 2 occurs twice" in said for said in log.damaged.said)


def test_an_unsorted_log_is_sorted_stably_if_one_wants(tmp_path: Path) -> None:
    path = written(tmp_path, line(3, 7), line(1, 9), line(2, 7), line(9, 0))
    assert [job.id for job in open_log(path, nodes=8, unsorted="sort")] == [9, 3, 2, 1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has no job"),
        (b"; only a header\n\n", "has no job"),
        (gzip.compress(line(1).encode() * 50, mtime=0)[:-20], "ended before"),
        (gzip.compress(b"", mtime=0)[:5], "ended before"),
        (b"\x1f\x8b no gzip", "Unknown compression method"),
        (line(1).encode() + b"\n\0\1\2", "is not text"),
        (b"1 " * 5_000, "more than 4096 characters"),
        (line(1).encode() + b"\n" + b"1" * 5_000, "more than 4096 characters"),
        (b"; a\n" * (1 << 19), "first megabyte"),
    ],
    ids=["empty", "header only", "cut gzip", "cut gzip header", "no gzip", "binary", "long", "long later",
         "comments"],
)  # fmt: skip
@pytest.mark.parametrize("damaged", ["refuse", "skip"])
def test_what_is_no_log_is_refused_with_what_to_do(
    tmp_path: Path, content: bytes, said: str, damaged: Any
) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    with pytest.raises(InvalidInput) as caught:
        list(open_log(path, nodes=8, damaged=damaged))
    assert said in caught.value.detail
    assert caught.value.where.startswith(str(path))
    assert caught.value.remedy


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        open_log(tmp_path / "none", nodes=8)
    with pytest.raises(InvalidInput, match="not a regular file"):
        open_log(tmp_path, nodes=8)


@pytest.mark.parametrize(
    "options", [{"nodes": 0}, {"estimates": "x"}, {"damaged": "x"}, {"unsorted": "x"}]
)
def test_unknown_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(options))):
        open_log(EXCERPT, **{"nodes": 8, **options})


def test_a_log_of_which_every_job_is_dropped_is_refused_with_the_reasons(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"2 with no requested time.*estimates filled"):
        list(open_log(written(tmp_path, line(1, limit=-1), line(2, limit=0)), nodes=8))
    with pytest.raises(InvalidInput, match=r"1 with more processors.*more nodes"):
        list(open_log(written(tmp_path, line(1)), nodes=3))


def test_the_memory_for_reading_does_not_grow_with_the_log(tmp_path: Path) -> None:
    def peak(jobs: int) -> int:
        path = tmp_path / f"{jobs}.gz"
        text = "\n".join(line(job, submit=job) for job in range(jobs))
        path.write_bytes(gzip.compress(text.encode()))
        del text
        tracemalloc.start()
        try:
            assert sum(1 for _ in open_log(path, nodes=8)) == jobs
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # What the interpreter keeps of freed objects to use them again, it begins to keep in the first run.
    peak(4_000)
    assert peak(20_000) < peak(4_000) * 1.1


def test_results_are_written_in_order_of_submission_with_the_other_fields_kept() -> None:
    out = io.StringIO()
    writer = ResultWriter(out, {"Version": "2", "MaxProcs": "8", "Queue": "0 a\n1 b"})
    text = "7 10 99 98 97 12.5 64 96 300 65 0 3 4 5 6 7 8 9"
    late = SimulatedJob(7, 10, 4, 300, order=0, start_s=30, end_s=130, line=text)
    early = SimulatedJob(8, 11, 2, 50, 0, 3, order=1, start_s=11, end_s=40)
    writer.add(early)
    assert "\n8 " not in out.getvalue()
    writer.add(late)
    writer.close()
    assert out.getvalue().split("\n") == [
        "; Version: 2.2",
        "; MaxProcs: 8",
        "; Queue: 0 a",
        "; Queue: 1 b",
        "; Note: simulated by kalends: wait and run times and allocated processors",
        "7 10 20 100 4 12.5 64 4 300 65 0 3 4 5 6 7 8 9",
        "8 11 0 29 2 -1 -1 2 50 -1 1 3 -1 -1 -1 -1 -1 -1",
        "",
    ]


def test_closing_writes_what_waits_for_a_job_that_never_ended() -> None:
    out = io.StringIO()
    writer = ResultWriter(out, {})
    for order in (3, 1):
        writer.add(SimulatedJob(order, 0, 1, 9, order=order, start_s=0, end_s=1))
    writer.close()
    assert [row.split()[0] for row in out.getvalue().split("\n")[2:-1]] == ["1", "3"]


def test_the_shipped_excerpt_can_be_simulated() -> None:
    log = open_log(EXCERPT, nodes=128)
    assert all(job.nodes <= 128 and job.run_s <= job.requested_s for job in log)
    assert log.jobs > 100

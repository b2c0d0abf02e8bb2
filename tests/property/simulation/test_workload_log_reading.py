"""The block reader of workload logs against a slow twin, and results read back."""

from __future__ import annotations

import gzip
import io
import re
import tempfile
from pathlib import Path
from random import Random
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples, steps

from kalends.core.errors import InvalidInput
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.registry import policy_maker
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.kernel import replay
from kalends.simulation.workloads import log_file
from kalends.simulation.workloads.job_numbers import JobNumbers
from kalends.simulation.workloads.swf import Estimates, ResultWriter, WorkloadLog, open_log

NODES = 8

ODD_WORDS = ["", "x", "1_0", "+1", "-2", "-0", "007", "1.5", "2.0", "٣", "9" * 12, "1e3", "--", ";"]


def job_line(random: Random, count: int, submit: int) -> str:
    words = [str(random.randint(-1, 12)) for _ in range(18)]
    if random.random() < 0.97:
        words[:2] = [str(count), str(submit)]
    words[10] = random.choice(["0", "1", "5", "-1"])
    if random.random() < 0.1:
        words[0] = str(max(count - random.randrange(3), 0))
        words[10] = random.choice(["2", "2", "3", "4"])
        words[1] = random.choice(["-1", words[1]])
    if random.random() < 0.05:
        words[random.randrange(18)] = random.choice(ODD_WORDS)
    return random.choice(["", "  "]) + random.choice([" ", "\t", "  "]).join(words)


def log_of(random: Random) -> str:
    """Mostly right, with everything wrong that lines can have."""
    lines = ["; MaxProcs: 8"] * random.randrange(2)
    submit = 0
    for count in range(1, random.choice([0, 1, 5, 30])):
        submit += random.randrange(4)
        lines.append(job_line(random, count, submit))
        if random.random() < 0.03:
            lines.append(random.choice(["", "; a remark", "\r", "5 numbers"]))
    return "\n".join(lines) + random.choice(["", "\n"])


log_text = st.builds(log_of, st.builds(Random, st.integers(0, 1 << 40)))


def read_slowly(
    text: str, estimates: str, skips: bool
) -> tuple[list[tuple[int, ...]], set[int], set[int]]:
    """``(id, submit, nodes, requested, run)`` of each job, the lines skipped, and the lines to refuse."""
    whole = headless = ""
    jobs: list[tuple[int, ...]] = []
    seen: set[int] = set()
    damaged: set[int] = set()
    unsorted: set[int] = set()
    last = 0
    for line, words in enumerate((line.split() for line in text.split("\n")), 1):
        if not words or words[0].startswith(";"):
            continue
        if len(words) == 18 and words[10] in ("2", "3", "4"):
            if words[0] == whole:
                continue
            if words[10] == "2" or words[0] == headless:
                headless = words[0]
                damaged.add(line)
                continue
        values = []
        for at in (0, 1, 3, 4, 7, 8, 11):
            word = words[at] if len(words) == 18 else ""
            if at in (1, 3, 8) and word in ("1.5", "2.0"):
                word = "2" if word == "2.0" or at != 1 else "1"
            digits = word.removeprefix("-")
            if digits and all(digit in "0123456789" for digit in digits):
                value = int(word)
                if (0 if at < 2 else -1) <= value <= 32_503_680_000:
                    values.append(value)
        if len(values) == 7:
            whole = str(values[0])
        if len(values) < 7 or values[0] in seen:
            damaged.add(line)
            continue
        job, submit, run, allocated, nodes, requested, _ = values
        seen.add(job)
        if submit < last:
            unsorted.add(line)
        last = max(submit, last)
        wide = nodes > NODES or allocated > NODES
        nodes = nodes if nodes > 0 else allocated
        requested = run if estimates == "filled" and requested <= 0 else requested
        if wide or nodes <= 0 or run <= 0 or requested <= 0:
            continue
        run = min(run, requested)
        jobs.append((job, submit, nodes, run if estimates == "exact" else requested, run))
    return jobs, damaged if skips else set(), unsorted if skips else unsorted | damaged


@settings(max_examples=examples(300), deadline=None)
@given(log_text, st.sampled_from(["user", "exact", "filled"]), st.booleans(), st.integers(1, 400))
def test_blocks_are_read_as_lines_one_by_one_would_be(
    text: str, estimates: Estimates, skips: bool, block_bytes: int
) -> None:
    expected, damaged, refused = read_slowly(text, estimates, skips)
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(log_file, "BLOCK_BYTES", block_bytes),
    ):
        path = Path(folder) / "log"
        path.write_bytes(gzip.compress(text.encode()) if block_bytes % 2 else text.encode())
        log = open_log(
            path, nodes=NODES, estimates=estimates, damaged="skip" if skips else "refuse"
        )
        if refused:
            with pytest.raises(InvalidInput, match=r"line \d+[,:]") as caught:
                list(log)
            assert int(re.findall(r"line (\d+)", caught.value.where)[0]) in refused
            return
        if not expected:
            with pytest.raises(InvalidInput, match="has no job"):
                list(log)
            return
        jobs = list(log)
    read = [(job.id, job.submit_s, job.nodes, job.requested_s, job.run_s) for job in jobs]
    assert (read, log.damaged.count) == (expected, len(damaged))
    assert log.jobs == len(jobs)
    steps["log lines read"] += len(text.split("\n"))


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.lists(st.integers(0, 40), max_size=12), max_size=8))
def test_job_numbers_are_a_set_that_stops_at_the_first_repeat(blocks: list[list[int]]) -> None:
    numbers, seen = JobNumbers(), set[int]()
    for block in blocks:
        fresh = 0
        while fresh < len(block) and block[fresh] not in seen:
            seen.add(block[fresh])
            fresh += 1
        assert numbers.add(block) == fresh


def replayed(log: WorkloadLog, policy: str) -> str:
    out = io.StringIO()
    writer = ResultWriter(out, log.header)
    for job in replay(log, Scheduler(policy_maker(policy)(Cluster(NODES)))):
        writer.add(job)
    writer.close()
    return out.getvalue()


@settings(max_examples=examples(60), deadline=None)
@given(log_text, st.sampled_from(["fcfs", "easy"]), st.booleans())
def test_a_result_read_back_and_replayed_gives_the_same_result(
    text: str, policy: str, keep_lines: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.swf"
        path.write_text(text)
        log = open_log(path, nodes=NODES, estimates="filled", damaged="skip", unsorted="sort",
                       keep_lines=keep_lines)  # fmt: skip
        if not read_slowly(text, "filled", skips=True)[0]:
            return
        first = replayed(log, policy)
        path.write_text(first)
        second = replayed(open_log(path, nodes=NODES, keep_lines=True), policy)
    assert second.count("; Note:") == first.count("; Note:") == 1
    assert second == first

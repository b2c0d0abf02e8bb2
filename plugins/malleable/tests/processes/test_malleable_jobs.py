"""A program that changes its size, and the control of a real shepherd: both speak the same lines."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from test_malleable_control import Started
from test_malleable_programs import environment as environment
from tests.process_tree import descendants

from kalends.batch.shepherds.control import Control
from kalends.batch.shepherds.facts import ChangeAnswered, ChangeAsked
from kalends.batch.shepherds.poll_loop import PollLoop
from kalends.batch.shepherds.visitors import listening

CORES = tuple(sorted(os.sched_getaffinity(0)))


def test_a_job_grows_and_shrinks_as_its_shepherd_asks(
    environment: dict[str, str], tmp_path: Path
) -> None:
    answers: list[ChangeAnswered] = []
    wishes: list[int] = []
    loop = PollLoop()
    path = str(tmp_path / "control")
    control = Control(
        loop, listening(path), lambda answered, left: answers.append(answered), wishes.append
    )

    def until(there: Callable[[], bool]) -> None:
        while not there():
            loop.run_once(1.0)

    program = Started(tmp_path, environment, path, "4")
    until(lambda: control.sizes == (1, 2, 4))
    until(lambda: wishes == [4])
    for number, (to, cores) in enumerate([(4, CORES), (2, CORES[:1]), (1, CORES[:1])], 1):
        control.ask(ChangeAsked(number, to, cores, 0.0))
        until(lambda number=number: len(answers) == number)
        assert answers[-1]._replace(took_s=0.0) == ChangeAnswered(number, to, 0.0, "", 0.0)
        assert answers[-1].took_s > 0
        ranks = descendants(program.process.pid)
        assert len(ranks) == to
        assert set().union(*(os.sched_getaffinity(each) for each in ranks)) == set(cores)
    assert program.end().endswith("entered with 1\nended with 1\n")

"""A record is written once, by one at a time, and tells how its attempt stands."""

from __future__ import annotations

import json
import os
import resource
import signal
from pathlib import Path
from typing import NamedTuple

import pytest

from kalends.batch.shepherds import conclusion, record
from kalends.batch.shepherds.conclusion import State
from kalends.batch.shepherds.facts import (
    Begun,
    ChangeAnswered,
    ChangeAsked,
    Ended,
    Main,
    Void,
    decode,
    encode,
)
from kalends.batch.shepherds.linux import boot_id, start_ticks

BEGUN = Begun(1.5, 17, 4711, "a-boot")
ENDED = Ended("exit", 3, "", 9.0, 7.5, 0.25, 1 << 20, 0)
EVERY_FACT = [
    BEGUN,
    Main(18, 4712, 1000, ((1, 2), (1, 3))),
    ChangeAsked(1, 4, (0, 1, 2, 3), 2.0),
    ChangeAnswered(1, 4, 0.01, "", 2.1),
    ENDED,
    Void(1.0),
]

ODD = Ended("limit", -9, 'quoted "so",\n\té\udc80\\', 1e22, 1e-9, 0.1, 1 << 62, 7)


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = str(tmp_path / "17.1")
    record.create(made)
    return made


def written(path: str, *facts: object) -> record.AttemptRecord:
    taken = record.take(path)
    assert taken is not None
    for fact in facts:
        taken.append(fact)  # type: ignore[arg-type]  every one of them is a fact
    return taken


@pytest.mark.parametrize("fact", [*EVERY_FACT, ODD])
def test_every_line_is_an_object_of_json(fact: NamedTuple) -> None:
    told = json.loads(encode(fact))  # type: ignore[arg-type]  every one of them is a fact
    del told["fact"]
    assert told == json.loads(json.dumps(fact._asdict()))


@pytest.mark.parametrize("fact", [*EVERY_FACT, ODD])
def test_every_fact_is_read_as_it_was_written(fact: object) -> None:
    assert decode(encode(fact)) == fact  # type: ignore[arg-type]  every one of them is a fact


@pytest.mark.parametrize(
    "line",
    [
        b"\n", b"[]\n", b"{}\n", b'{"fact": "begin"}\n', b'{"fact": "void"}\n', b"\xff\n",
        b'{"fact": "void", "at": "now"}\n', b'{"fact": "void", "at": NaN}\n',
        b'{"fact": "void", "at": true}\n', b'{"fact": "void", "at": 1, "by": 2}\n',
        b"[" * 100_000 + b"\n",
    ],
)  # fmt: skip
def test_a_line_that_nobody_writes_is_no_fact(line: bytes) -> None:
    with pytest.raises(ValueError, match="not a line of a record"):
        decode(line)


def test_a_record_has_one_writer_at_a_time(path: str) -> None:
    first = record.take(path)
    assert first is not None
    assert record.take(path) is None
    first.close()
    assert record.take(path) is not None


def test_half_a_line_counts_as_none_and_is_replaced_by_the_next_whole_one(path: str) -> None:
    written(path, BEGUN).close()
    with open(path, "ab") as file:
        file.write(b'{"fact": "ended", "ki')
    assert record.read(path).facts == (BEGUN,)
    written(path, ENDED).close()
    assert record.read(path).facts == (BEGUN, ENDED)


def test_a_record_that_was_not_made_is_absent(tmp_path: Path) -> None:
    assert conclusion.look(str(tmp_path / "17.1")).state is State.ABSENT


def test_an_empty_record_is_undecided_and_starting_while_somebody_has_it(path: str) -> None:
    assert conclusion.look(path).state is State.UNDECIDED
    holder = record.take(path)
    assert holder is not None
    assert conclusion.look(path).state is State.STARTING


def test_begun_runs_while_its_lock_is_held_and_is_lost_after(path: str) -> None:
    holder = written(path, BEGUN)
    assert conclusion.look(path).state is State.RUNNING
    holder.close()
    assert conclusion.look(path).state is State.LOST


def test_ended_is_ended_whoever_has_the_lock(path: str) -> None:
    holder = written(path, BEGUN, ENDED)
    assert conclusion.look(path) == (State.ENDED, (BEGUN, ENDED))
    holder.close()
    assert conclusion.look(path).ended == ENDED


def test_what_is_void_stays_void(path: str) -> None:
    assert conclusion.make_void(path, 5.0).state is State.VOID
    assert conclusion.make_void(path, 6.0) == (State.VOID, (Void(5.0),))


def test_what_has_begun_is_never_made_void(path: str) -> None:
    written(path, BEGUN).close()
    assert conclusion.make_void(path, 5.0).state is State.LOST
    assert record.read(path).facts == (BEGUN,)


def test_what_is_about_to_begin_is_not_made_void(path: str) -> None:
    holder = record.take(path)
    assert holder is not None
    assert conclusion.make_void(path, 5.0).state is State.STARTING


def test_a_record_that_was_never_made_can_be_made_void(tmp_path: Path) -> None:
    path = str(tmp_path / "17.1")
    assert conclusion.make_void(path, 5.0).state is State.VOID
    assert conclusion.look(path).state is State.VOID


def test_a_damaged_record_counts_as_begun_so_that_nothing_runs_twice(path: str) -> None:
    Path(path).write_bytes(b"\0" * 30 + b"\n")
    assert conclusion.look(path).state is State.LOST
    assert conclusion.make_void(path, 5.0).state is State.LOST


def test_a_line_that_cannot_be_read_hides_nothing_of_what_follows_it(path: str) -> None:
    written(path, BEGUN).close()
    with open(path, "ab") as file:
        file.write(b'{"fact": "changed", "number": True}\n')
    written(path, ENDED).close()
    assert conclusion.look(path) == (State.ENDED, (BEGUN, ENDED))


@pytest.mark.parametrize(
    "fact",
    [
        ChangeAnswered(True, 4, 0.01, "", 2.1), ChangeAnswered(1, 4, float("nan"), "", 2.1),
        ChangeAsked(1, 4, (0, 1.0), 2.0), Void(float("inf")), Ended("exit", "3", "", 9.0, 7.5, 0.25, 1, 0),
        Main(18, 4712, 1000, ((1, None),)),
    ],
)  # fmt: skip
def test_what_could_not_be_read_again_is_not_written(path: str, fact: object) -> None:
    holder = written(path, BEGUN)
    with pytest.raises(ValueError):  # noqa: PT011  whichever value it is
        holder.append(fact)  # type: ignore[arg-type]  it is none, though it looks like one
    assert record.read(path).facts == (BEGUN,)


def test_a_line_that_finds_no_room_leaves_nothing_and_can_be_written_again(path: str) -> None:
    holder = written(path, BEGUN)
    size = os.path.getsize(path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            holder.append(ENDED)
        assert os.path.getsize(path) == size
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    holder.append(ENDED)
    assert record.read(path).facts == (BEGUN, ENDED)


def test_a_link_in_the_place_of_a_record_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "17.1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        record.create(str(tmp_path / "17.1"))


def test_a_shepherd_is_adopted_only_if_it_is_the_very_process() -> None:
    me = os.getpid()
    ticks = start_ticks(me)
    assert ticks is not None
    mine = conclusion.adopt(Begun(0.0, me, ticks, boot_id()))
    assert mine is not None
    os.close(mine)
    assert conclusion.adopt(Begun(0.0, me, ticks + 1, boot_id())) is None
    assert conclusion.adopt(Begun(0.0, me, ticks, "another-boot")) is None

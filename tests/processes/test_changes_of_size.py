"""Programs that change their size: asked through their shepherd, recorded, and never believed too much."""

from __future__ import annotations

import json
import os

import pytest

from kalends.batch.shepherds.facts import ChangeAnswered, ChangeAsked, Main
from kalends.batch.shepherds.order import JobOrder
from kalends.batch.shepherds.watch import Wanted
from kalends.core.errors import Conflict
from tests.processes.job_room import JobRoom

PROGRAM = """#!{python}
import json, os, socket, sys
def connect():
    line = socket.socket(socket.AF_UNIX)
    line.connect(os.environ["KALENDS_CONTROL"])
    return line, line.makefile("r")
def say(line, **what):
    line.sendall(json.dumps(what).encode() + b"\\n")
line, heard = connect()
say(line, sizes=[1, 2, 4])
{body}
"""

ANSWERING = """
print("ready", flush=True)
for each in heard:
    asked = json.loads(each)
    print(each, end="", flush=True)
    if asked["to"] == 4:
        say(line, refused=asked["change"], why="too many")
    else:
        say(line, changed=asked["change"], ranks=asked["to"], took_s=0.25)
"""


def malleable(room: JobRoom, body: str) -> JobOrder:
    return room.order(
        "1.1", script=PROGRAM.format(python="/usr/bin/env python3", body=body), output="said",
        malleable=True, environment={"PATH": os.environ["PATH"]},
    )  # fmt: skip


async def begun(room: JobRoom, body: str) -> None:
    await room.launch(malleable(room, body))
    await ready(room)


async def ready(room: JobRoom) -> None:
    await room.fact("1.1", Main)
    await room.until(lambda: (room.home / "said").read_text().startswith("ready"))


async def ask_first(room: JobRoom, body: str, to: int = 2, cores: tuple[int, ...] = ()) -> None:
    """Begin, and ask for the first change."""
    await begun(room, body)
    await room.launcher.change("1.1", 1, to, cores)


async def test_a_change_is_recorded_asked_and_its_answer_recorded(room: JobRoom) -> None:
    await ask_first(room, ANSWERING, cores=(0,))
    asked = await room.fact("1.1", ChangeAsked)
    assert (asked.number, asked.to, asked.cores) == (1, 2, (0,))
    answered = await room.fact("1.1", ChangeAnswered)
    assert answered._replace(at=0) == ChangeAnswered(1, 2, 0.25, "", 0)
    assert await room.launcher.change("1.1", 1, 2, (0,)) == (1, 2, 4)


async def test_a_refusal_is_recorded_with_its_reason(room: JobRoom) -> None:
    await ask_first(room, ANSWERING, to=4, cores=(0,))
    answered = await room.fact("1.1", ChangeAnswered)
    assert (answered.ranks, answered.refused) == (0, "too many")


async def test_a_repeated_change_is_asked_once_and_a_size_that_it_cannot_have_never(
    room: JobRoom,
) -> None:
    await begun(room, ANSWERING)
    for _ in range(3):
        await room.launcher.change("1.1", 1, 2, (0,))
    with pytest.raises(Conflict, match="the program can run on 1, 2, 4 ranks, not on 3"):
        await room.launcher.change("1.1", 2, 3, (0,))
    await room.fact("1.1", ChangeAnswered)
    await room.launcher.change("1.1", 3, 1, (0,))
    await room.fact("1.1", ChangeAnswered, 1)
    assert [each for each in room.kinds("1.1") if each.startswith("Change")] == [
        "ChangeAsked", "ChangeAnswered", "ChangeAsked", "ChangeAnswered",
    ]  # fmt: skip


async def test_an_answer_to_a_change_that_another_has_followed_is_recorded_too(
    room: JobRoom,
) -> None:
    body = """
print("ready", flush=True)
heard.readline(), heard.readline()
say(line, changed=1, ranks=2)
say(line, changed=2, ranks=1)
heard.readline()
"""
    await ask_first(room, body)
    await room.launcher.change("1.1", 2, 1, ())
    assert (await room.fact("1.1", ChangeAnswered, 0)).ranks == 2
    assert (await room.fact("1.1", ChangeAnswered, 1)).ranks == 1


async def test_an_unanswered_change_is_said_again_to_a_lead_that_connects_anew(
    room: JobRoom,
) -> None:
    body = """
print("ready", flush=True)
first = heard.readline()
line.close(); heard.close()
line, heard = connect()
assert heard.readline() == first
say(line, changed=1, ranks=2)
heard.readline()
"""
    await ask_first(room, body)
    assert (await room.fact("1.1", ChangeAnswered)).ranks == 2


async def test_a_change_from_before_a_restart_is_answered_after_it(room: JobRoom) -> None:
    body = """
print("ready", flush=True)
heard.readline()
while not os.path.exists("go"): pass
say(line, changed=1, ranks=2)
heard.readline()
"""
    await ask_first(room, body)
    await room.launcher.close()
    room.heard.clear()
    await room.open()
    await room.launcher.adopt(["1.1"])
    (room.home / "go").touch()
    await room.fact("1.1", ChangeAnswered)
    assert room.kinds("1.1")[:4] == ["Begun", "Main", "ChangeAsked", "ChangeAnswered"]


async def test_an_open_change_is_taken_back_and_the_program_may_not_begin_with_it_any_more(
    room: JobRoom,
) -> None:
    body = """
print("ready", flush=True)
while not os.path.exists("go"): pass
say(line, taking=1)
say(line, changed=1, ranks=2)
print(heard.readline() + heard.readline() + heard.readline(), end="", flush=True)
heard.readline()
say(line, changed=2, ranks=4)
heard.readline()
"""
    await ask_first(room, body)
    for _ in range(2):
        await room.launcher.withdraw("1.1", 1, 1, ())
    (room.home / "go").touch()
    refused = await room.fact("1.1", ChangeAnswered)
    assert (refused.number, refused.refused) == (1, "the change was withdrawn")
    await room.until(lambda: (room.home / "said").read_text().count("\n") == 4)
    told = [json.loads(each) for each in (room.home / "said").read_text().splitlines()[1:]]
    asked = {"change": 1, "to": 2, "cores": []}
    assert told == [asked, {"withdrawn": 1}, {"withdrawn": 1}], "once unasked, once asked"
    await room.launcher.change("1.1", 2, 4, ())
    next_one = await room.fact("1.1", ChangeAnswered, 1)
    assert (next_one.number, next_one.ranks) == (2, 4), "what it says of the first is too late"


@pytest.mark.parametrize("again", [False, True])
async def test_a_change_that_has_begun_is_not_taken_back_and_its_answer_counts(
    room: JobRoom, again: bool
) -> None:
    body = f"""
print("ready", flush=True)
heard.readline()
say(line, taking=1)
if {again}:
    line.close(); heard.close()
    line, heard = connect()
    heard.readline()
    say(line, taking=1)
print(heard.readline(), end="", flush=True)
while not os.path.exists("go"): pass
say(line, changed=1, ranks=2)
heard.readline()
"""
    await ask_first(room, body)
    await room.until(lambda: (room.home / "said").read_text() == 'ready\n{"go": 1}\n')
    await room.launcher.withdraw("1.1", 1, 1, ())
    (room.home / "go").touch()
    answered = await room.fact("1.1", ChangeAnswered)
    assert (answered.ranks, answered.refused) == (2, ""), "until then its nodes are its own"


async def test_a_shrink_whose_leavers_are_still_there_is_not_taken_back(room: JobRoom) -> None:
    body = """
print("ready", flush=True)
heard.readline()
child = os.fork()
while child == 0 and not os.path.exists("go"): pass
if child == 0: os._exit(0)
say(line, changed=1, ranks=1, left=[child])
print("said", flush=True)
os.waitpid(child, 0)
heard.readline()
"""
    await ask_first(room, body, to=1)
    await room.until(lambda: "said" in (room.home / "said").read_text())
    await room.launcher.withdraw("1.1", 1, 2, ())
    (room.home / "go").touch()
    answered = await room.fact("1.1", ChangeAnswered)
    assert (answered.ranks, answered.refused) == (1, "")


async def test_a_change_that_is_taken_back_first_is_never_asked_for(room: JobRoom) -> None:
    await begun(room, ANSWERING)
    await room.launcher.withdraw("1.1", 1, 1, ())
    await room.launcher.change("1.1", 1, 2, ())
    assert (await room.fact("1.1", ChangeAnswered)).refused == "the change was withdrawn"
    await room.launcher.change("1.1", 2, 1, ())
    assert (await room.fact("1.1", ChangeAnswered, 1)).number == 2


async def test_a_change_that_was_answered_is_not_taken_back(room: JobRoom) -> None:
    await ask_first(room, ANSWERING)
    assert (await room.fact("1.1", ChangeAnswered)).ranks == 2
    await room.launcher.withdraw("1.1", 1, 1, ())
    await room.launcher.change("1.1", 2, 1, ())
    assert (await room.fact("1.1", ChangeAnswered, 1)).number == 2


async def test_only_the_programs_own_processes_are_waited_for_when_it_names_leavers(
    room: JobRoom,
) -> None:
    body = """
print("ready", flush=True)
asked = json.loads(heard.readline())
say(line, changed=1, ranks=2, left=[1, os.getppid(), 2**22])
heard.readline()
"""
    await ask_first(room, body)
    assert (await room.fact("1.1", ChangeAnswered)).ranks == 2


async def test_a_program_may_ask_for_a_size_by_itself(room: JobRoom) -> None:
    await room.launch(malleable(room, "say(line, want=4); heard.readline()"))
    assert await room.fact("1.1", Wanted) == Wanted(4)


async def test_what_a_program_gives_back_none_of_its_processes_keeps(room: JobRoom) -> None:
    cores = sorted(os.sched_getaffinity(0))[:2]
    body = ANSWERING.replace('print("ready"', f'os.sched_setaffinity(0, {cores})\nprint("ready"')
    await room.launch(malleable(room, body)._replace(cores=tuple(cores)))
    await ready(room)
    main = await room.fact("1.1", Main)
    assert os.sched_getaffinity(main.pid) == set(cores)
    await room.launcher.change("1.1", 1, 1, (cores[0],))
    await room.fact("1.1", ChangeAnswered)
    assert os.sched_getaffinity(main.pid) == {cores[0]}


@pytest.mark.parametrize(
    "nonsense",
    [
        "line.sendall(b'x' * 100000)", "line.sendall(b'[]\\n')", "line.sendall(b'[' * 4000 + b'\\n')",
        "say(line, sizes=['a'])", "say(line, want=-1)", "say(line, want=10**30)", "say(line, want=True)",
        "say(line, changed=1, ranks=2, took_s=float('nan'))", "say(line, changed=1)",
        "say(line, changed=1, ranks=2, took_s='x')", "say(line, sizes=7)",
        "say(line, changed=True, ranks=2)", "say(line, refused=True)", "say(line, refused=1.0)",
    ],
)  # fmt: skip
async def test_nonsense_of_a_lead_ends_its_line_and_nothing_else(
    room: JobRoom, nonsense: str
) -> None:
    body = f"""
print("ready", flush=True)
heard.readline()
try:
    {nonsense}
    while heard.readline(): pass
except OSError: pass
line, heard = connect()
heard.readline()
say(line, changed=1, ranks=2)
heard.readline()
"""
    await ask_first(room, body)
    assert (await room.fact("1.1", ChangeAnswered))._replace(at=0) == ChangeAnswered(
        1, 2, 0.0, "", 0
    )


async def test_what_was_wrong_with_a_line_is_told_when_the_change_is_taken_back(
    room: JobRoom,
) -> None:
    body = """
print("ready", flush=True)
heard.readline()
say(line, changed=1)
heard.readline()
open("closed", "w").close()
time.sleep(1000)
"""
    await ask_first(room, "import time" + body)
    await room.until((room.home / "closed").exists)
    await room.launcher.withdraw("1.1", 1, 1, ())
    refused = (await room.fact("1.1", ChangeAnswered)).refused
    assert refused.startswith(
        "the change was withdrawn: a line of its program was wrong (KeyError('ranks')"
    )


async def test_others_than_malleable_programs_have_no_such_socket(room: JobRoom) -> None:
    await room.launch(room.order("1.1", "sleep", "1000"))
    await room.fact("1.1", Main)
    with pytest.raises(Conflict, match="cannot change its size"):
        await room.launcher.change("1.1", 1, 2, ())

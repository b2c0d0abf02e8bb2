"""The local process of a remote program: asks for its nodes, has it run there, ends as it does.

This process is the user's already. The signals that it gets are for the program, and go there by a command:
what runs the program from here would take them for itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from typing import Final, NoReturn

from kalends.backends.passage import Passage

KILL_THERE: Final = signal.SIGQUIT
"""Has the program killed where it runs. What runs it from here sees its end then, and ends as it has.

If its local process were killed instead, the batch system would search long before it freed the nodes.
"""

ENDING: Final = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGTERM, KILL_THERE})
HANDED_ON: Final = ENDING | {signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT}
HEARD: Final = HANDED_ON | {signal.SIGCHLD, signal.SIGWINCH}

AGAIN_S: Final = 1.0
SAID_BYTES_MAX: Final = 16 * 1024
NOTHING: Final = (
    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
)


class NotGiven(Exception):
    """The system gives the program no nodes, in its own words: nothing has begun."""


def run_remotely(
    passage: Passage, words: Sequence[str], environment: dict[str, str], *, quiet: bool = False
) -> NoReturn:
    """Run what `words` name at the other end of `passage`, once, and end as it does; raises `NotGiven`.

    With `quiet` nothing but the program's own words is written.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    given = _ask(passage, environment)
    runs = [each.replace("{id}", given) for each in passage.runs]
    aside = os.memfd_create("words") if quiet else -1
    streams = ((os.POSIX_SPAWN_DUP2, aside, 2),) if quiet else ()
    # In a session of its own: a signal for this one is the program's.
    program = os.posix_spawn(
        runs[0], [*runs, *words], environment, file_actions=streams, setsid=True, setsigmask=()
    )
    code = _ended(program, passage, given, environment)
    if code and quiet:
        said = os.pread(aside, SAID_BYTES_MAX, 0).decode(errors="replace")
        if any(each in said for each in passage.unstarted):
            raise NotGiven(" ".join(said.split()))
    if code == 0 and _was_taken_away(passage, given, environment):
        code = 128 + signal.SIGKILL
    os._exit(code)


def _was_taken_away(passage: Passage, given: str, environment: dict[str, str]) -> bool:
    """Whether the program ended because its nodes were taken from it; no answer says that it was not."""
    words = [each.replace("{id}", given) for each in passage.state]
    _, said = _said(words, environment)
    return passage.alive[0] not in said and not any(each in said for each in passage.away)


def _ended(program: int, passage: Passage, given: str, environment: dict[str, str]) -> int:
    """Return the exit code of what runs the program; until it has ended, hand signals on."""
    while True:
        number = signal.sigwait(HEARD)
        if number == signal.SIGCHLD:
            if (code := _reaped(program)) is not None:
                return code
        elif number == signal.SIGWINCH:
            os.kill(program, number)
        elif number == KILL_THERE:
            os.kill(program, getattr(signal, f"SIG{passage.kills[0]}"))
        else:
            _hand_on(passage, given, number, environment)


def _hand_on(passage: Passage, given: str, number: int, environment: dict[str, str]) -> None:
    name = signal.Signals(number).name.removeprefix("SIG")
    words = [each.replace("{id}", given).replace("{signal}", name) for each in passage.signals]
    with contextlib.suppress(OSError):
        os.posix_spawn(words[0], words, environment, file_actions=NOTHING, setsigmask=())


def _ask(passage: Passage, environment: dict[str, str]) -> str:
    """Return the id of what was given; waits as long as the system is away."""
    while True:
        code, said = _said(passage.asks, environment)
        given = said.partition(passage.given[0])[2].split()
        if code == 0 and given:
            return given[0]
        if not any(each in said for each in passage.away):
            raise NotGiven(" ".join(said.split()) or f"{passage.asks[0]} ended with {code}")
        # It may have granted nodes all the same, and only we can give those back.
        while True:
            _pause()
            if _said(passage.clears, environment)[0] == 0:
                break


def _said(words: Sequence[str], environment: dict[str, str]) -> tuple[int, str]:
    """Run a command; return its exit code and what it has printed. It ends with us, if we are to end."""
    reader, writer = os.pipe()
    try:
        streams = (NOTHING[0], (os.POSIX_SPAWN_DUP2, writer, 1), (os.POSIX_SPAWN_DUP2, writer, 2))
        child = os.posix_spawn(
            words[0], list(words), environment, file_actions=streams, setsigmask=()
        )
    finally:
        os.close(writer)
    asked_to_end = 0
    while (code := _reaped(child)) is None:
        number = signal.sigwait(HEARD)
        if number in ENDING:
            asked_to_end = number
            os.kill(child, signal.SIGTERM)
    said = os.read(reader, SAID_BYTES_MAX).decode(errors="replace")
    os.close(reader)
    if asked_to_end:
        os._exit(128 + asked_to_end)
    return code, said


def _pause() -> None:
    found = signal.sigtimedwait(ENDING, AGAIN_S)
    if found is not None:
        os._exit(128 + found.si_signo)


def _reaped(child: int) -> int | None:
    """Wait for all that have ended; return the exit code of `child` if it is among them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
                found = code if code >= 0 else 128 - code
    return found

"""Proof, before anything is run, that the wall stands: one worker must die, and one must work.

A filter that was built but never loaded looks like one that works, until the first attack.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Final

import msgpack

from kalends.agents.sandbox import worker
from kalends.agents.sandbox.frames import FrameTooLong, exchange
from kalends.agents.sandbox.results import CHECK_BYTES_MAX, BadRunResult, read_result
from kalends.agents.sandbox.zygote_process import ExitStatus, SandboxUnavailable, Worker

TRIAL_S_MAX: Final = 10.0

HONEST_SOURCE: Final = "def choose(view, request):\n    return []\n"
HONEST_JOB: Final = {"op": "check", "source": HONEST_SOURCE, "steps_max": 10_000}

REMEDY: Final = (
    "agents need Linux 5.9 or later on x86-64 or aarch64, and permission to load a seccomp filter;"
    " to try scripts without a sandbox set `language_only` in the configuration"
)


def expect_death(ending: ExitStatus | None) -> None:
    """Raise `SandboxUnavailable` unless the witness died of the call that is not let through."""
    if ending is None:
        raise SandboxUnavailable("the zygote ended before its witness", remedy=REMEDY)
    code = os.waitstatus_to_exitcode(ending.status)
    if code == -signal.SIGSYS:
        return
    if code == worker.EXIT_DONE:
        detail = "a forbidden system call went through: the filter is not in force"
    elif code == worker.EXIT_UNABLE:
        detail = "the kernel refused a step of locking a worker down"
    else:
        detail = f"the witness ended with {code}, not by the system call filter"
    raise SandboxUnavailable(detail, remedy=REMEDY)


async def expect_work(honest: Worker) -> None:
    """Raise `SandboxUnavailable` unless a harmless job comes back done: the wall lets work through."""
    try:
        async with asyncio.timeout(TRIAL_S_MAX):
            body = await exchange(honest.channel, msgpack.packb(HONEST_JOB), CHECK_BYTES_MAX)
            if body is None:
                ending = await honest.end()
                status = "with its zygote" if ending is None else f"with status {ending.status}"
                raise SandboxUnavailable(f"an honest job ended {status}", remedy=REMEDY)
            result = read_result(body)
    except TimeoutError:
        raise SandboxUnavailable("an honest job did not end", remedy=REMEDY) from None
    except (BadRunResult, FrameTooLong) as error:
        raise SandboxUnavailable(f"an honest job gave {error}", remedy=REMEDY) from None
    finally:
        honest.close()
    if result.code != "ok":
        raise SandboxUnavailable(f"an honest job was {result.code}: {result.detail}", remedy=REMEDY)

"""Functions as jobs on real machines: what they return, raise and print comes back, whoever restarts."""

from __future__ import annotations

import asyncio
import operator
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import kalends
from kalends.client.functions.job_executor import JobExecutor, RemoteTraceback
from kalends.core.jobs import JobRequest

from .laboratory import MACHINE, USER, Laboratory, laboratory
from .test_bids_live import Federation, federation

__all__ = ["federation", "laboratory"]


def job(at: Laboratory, machine: str = MACHINE, **more: Any) -> JobRequest:
    """What its functions run like: the machine's own Python finds cloudpickle in the folder of marks."""
    packages = at.marks / "packages"
    if not packages.exists():
        shutil.copytree(Path(cloudpickle.__file__).parent, packages / "cloudpickle")
    environment = {"PYTHONPATH": str(packages)}
    fields = {"limit_s": 60, "directory": str(at.marks), "environment": environment, **more}
    return JobRequest(machine=machine, **fields)


@contextmanager
def executor(at: Laboratory, **options: Any) -> Iterator[JobExecutor]:
    with kalends.connect_sync(at.site.url, user=USER, zone="UTC") as client:
        yield JobExecutor(client, job(at), **options)


async def in_thread(
    laboratory: Laboratory, work: Callable[[JobExecutor], Any], **options: Any
) -> Any:
    """Do `work` with an executor, beside the event loop of the test's servers."""

    def done() -> Any:
        with executor(laboratory, **options) as functions:
            return work(functions)

    return await asyncio.to_thread(done)


async def test_what_a_function_returns_and_prints_comes_back_from_a_process_of_its_own(
    laboratory: Laboratory,
) -> None:
    def work(functions: JobExecutor) -> None:
        pid = functions.submit(os.getpid)
        printed = functions.submit(eval, "print('seen', end='') or [2 ** 70, 'ü']")
        assert printed.result() == [2**70, "ü"]
        assert printed.output == b"seen"
        assert pid.result() not in (os.getpid(), laboratory.site.pid)
        assert [*functions.map(operator.add, [1, 2], [10, 20])] == [11, 22]

    await in_thread(laboratory, work)


async def test_what_a_function_raises_is_raised_with_the_traceback_of_the_machine(
    laboratory: Laboratory,
) -> None:
    def work(functions: JobExecutor) -> None:
        with pytest.raises(ZeroDivisionError) as raised:
            functions.submit(eval, "print('before') or 1 / 0").result()
        assert isinstance(raised.value.__cause__, RemoteTraceback)
        assert "ZeroDivisionError: division by zero" in str(raised.value.__cause__)
        local = "type('Own', (Exception,), {'__reduce__': lambda self: 1 / 0})"
        with pytest.raises(kalends.Conflict, match="cannot be pickled"):
            functions.submit(exec, f"raise {local}()").result()

    await in_thread(laboratory, work)


async def test_a_job_without_a_result_says_why_and_large_ones_are_refused(
    laboratory: Laboratory,
) -> None:
    def work(functions: JobExecutor) -> None:
        with pytest.raises(kalends.TooLarge, match="as a job"):
            functions.submit(len, os.urandom(100_000))
        with pytest.raises(kalends.InvalidInput, match="cannot be pickled"):
            functions.submit(len, (each for each in ()))
        with pytest.raises(kalends.TooLarge, match="the result has"):
            functions.submit(eval, "b'x' * 5_000").result()
        gone = functions.submit(exec, "import os; print('last', flush=True); os._exit(7)")
        with pytest.raises(kalends.Conflict, match="without a result: exit 7"):
            gone.result()
        assert gone.output == b"last\n"
        forged = functions.submit(print, f"\n[{'0' * 32} returned {'0' * 64} Ti4=]\n")
        assert forged.result() is None

    await in_thread(laboratory, work, result_bytes_max=1_000)


async def test_a_cancelled_function_ends_its_job_and_one_that_has_ended_is_not_cancelled(
    laboratory: Laboratory,
) -> None:
    def work(functions: JobExecutor) -> int:
        ended = functions.submit(abs, -1)
        assert ended.result() == 1
        assert not ended.cancel()
        long = functions.submit(time.sleep, 50)
        assert long.cancel()
        with pytest.raises(CancelledError):
            long.result()
        return long.number

    number = await in_thread(laboratory, work)
    async with laboratory.client() as client:
        assert (await laboratory.over(client, number)).end in ("killed", "withdrawn")


async def test_a_result_is_found_by_its_key_after_restarts_of_both_sides(
    laboratory: Laboratory,
) -> None:
    mark = "begun"
    text = f"open({mark!r}, 'a').write('x'); import time; time.sleep(1); print('said')"

    def begin(functions: JobExecutor) -> int:
        future = functions.submit_keyed("key-of-ann", exec, text)
        return future.number

    def goes_on(functions: JobExecutor) -> Any:
        with pytest.raises(kalends.NotFound):
            functions.find("key-of-nobody")
        again = functions.submit_keyed("key-of-ann", exec, text)
        other = functions.submit_keyed("key-of-ann", exec, "is another call, of an old key")
        assert other is again
        assert again.result() is None
        return again.number, again.output, functions.find("key-of-ann") is again

    def afterwards(functions: JobExecutor) -> Any:
        found = functions.find("key-of-ann")
        return found.result(), found.number, found.output

    number = await in_thread(laboratory, begin)
    await laboratory.site.kill()
    await laboratory.site.start()
    assert await in_thread(laboratory, goes_on) == (number, b"said\n", True)
    assert await in_thread(laboratory, afterwards) == (None, number, b"said\n")
    assert (laboratory.marks / mark).read_text() == "x"


async def test_the_site_restarts_while_a_result_is_waited_for(laboratory: Laboratory) -> None:
    with executor(laboratory) as functions:
        future = await asyncio.to_thread(functions.submit, eval, "__import__('time').sleep(2) or 5")
        await laboratory.site.kill()
        await laboratory.site.start()
        assert await asyncio.to_thread(future.result) == 5


async def test_a_broker_finds_the_machine_and_the_result_comes_back_from_there(
    federation: Federation,
) -> None:
    east, west = federation.sites["east"], federation.sites["west"]
    async with kalends.connect(federation.broker.url, user=USER, zone="UTC") as client:
        await federation.connected(client)
    packages = str(job(east).environment["PYTHONPATH"])
    where = {"environment": {"PYTHONPATH": packages}, "directory": "/"}

    def work() -> None:
        with kalends.connect_sync(federation.broker.url, user=USER, zone="UTC") as client:
            functions = JobExecutor(client, JobRequest(machine="", limit_s=60, **where))
            results = [functions.submit(pow, 2, number) for number in range(3)]
            assert [each.result() for each in results] == [1, 2, 4]
            assert {each.machine for each in results} <= {"east/box", "west/box"}
            found = functions.find(results[2].key)
            assert found.result() == 4
            long = functions.submit(time.sleep, 50)
            assert long.cancel()
            functions.shutdown()

    await asyncio.to_thread(work)
    assert west.site.running


async def test_a_function_of_ones_own_goes_to_a_python_of_the_same_version(
    laboratory: Laboratory,
) -> None:
    def work(functions: JobExecutor) -> None:
        there = functions.submit(eval, "__import__('sys').version_info[:2]").result()
        own = functions.submit(eval("lambda n, times=2: [n] * times"), 3, times=3)
        if there == sys.version_info[:2]:
            assert own.result() == [3, 3, 3]
        else:
            # Code of another version may be refused, or run wrong: it never ends the client.
            assert own.exception() is not None or own.result() != [3, 3, 3]

    await in_thread(laboratory, work)

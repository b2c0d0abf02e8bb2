"""Terminals of jobs over a real site: lost lines, a killed server, onlookers, and those who may not."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator

import pytest

import kalends
from kalends.client.terminals.job_terminal import JobTerminal
from kalends.core.errors import Conflict, InvalidInput, NotAllowed, NotAuthenticated, NotFound
from tests.support.patience import PATIENCE_S

from .cut_line import CutLine, cut_line
from .laboratory import MACHINE, USER, Laboratory, laboratories, laboratory
from .servers import is_true, until

__all__ = ["laboratory"]

ECHO = 'stty -echo; echo ready; while read line; do echo "<$line>"; done; exit 5'


@pytest.fixture
async def guarded() -> AsyncIterator[Laboratory]:
    async for each in laboratories(keyed=True):
        yield each


class Screen:
    """A terminal, and all that it has shown here."""

    def __init__(self, terminal: JobTerminal) -> None:
        self.terminal = terminal
        self.seen = b""

    async def sees(self, text: bytes) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while text not in self.seen:
                data = await self.terminal.read()
                assert data, self.seen[-200:]
                self.seen += data

    async def sees_the_end(self) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            while data := await self.terminal.read():
                self.seen += data
        return self.seen


async def started(laboratory: Laboratory, client: kalends.Client, text: str, **more: object) -> int:
    """Submit an interactive job, and wait until it runs."""
    request = laboratory.job(text, terminal=True, limit_s=600, **more)
    number = (await client.submit(request)).job.job
    await runs(client, number)
    return number


async def runs(client: kalends.Client, number: int) -> None:
    async def is_running() -> bool:
        view = await client.job(MACHINE, number)
        assert not view.end, view
        return view.phase == "running"

    await until(is_running, f"job {number} runs")


@contextlib.asynccontextmanager
async def over(line: CutLine, user: str = USER) -> AsyncIterator[kalends.Client]:
    async with kalends.connect(line.url, user=user, zone="UTC") as client:
        yield client


async def test_a_lost_line_is_joined_again_and_nothing_is_shown_or_typed_twice(
    laboratory: Laboratory,
) -> None:
    async with cut_line(laboratory.site.url) as line, over(line) as client:
        number = await started(laboratory, client, ECHO)
        screen = Screen(await client.attach(MACHINE, number))
        await screen.sees(b"ready\r\n")
        for count in range(20):
            await screen.terminal.write(b"line %d\n" % count)
            if count % 3 == 0:
                line.cut()
            await screen.sees(b"<line %d>\r\n" % count)
        await screen.terminal.write(b"\x04")
        said = await screen.sees_the_end()
        assert said == b"ready\r\n" + b"".join(b"<line %d>\r\n" % count for count in range(20))
        assert (await laboratory.over(client, number)).status == 5


async def test_a_lost_line_is_joined_again_at_another_address_of_the_site(
    laboratory: Laboratory,
) -> None:
    async with (
        cut_line(laboratory.site.url) as line,
        kalends.connect([line.url, laboratory.site.url], user=USER, zone="UTC") as client,
    ):
        number = await started(laboratory, client, ECHO)
        screen = Screen(await client.attach(MACHINE, number))
        await screen.sees(b"ready\r\n")
        await line.close()
        await screen.terminal.write(b"one\n")
        await screen.sees(b"<one>\r\n")
        await screen.terminal.write(b"\x04")
        assert await screen.sees_the_end() == b"ready\r\n<one>\r\n"


async def test_whoever_attaches_later_begins_with_what_was_shown_last(
    laboratory: Laboratory,
) -> None:
    async with laboratory.client() as client:
        number = await started(laboratory, client, ECHO)
        screen = Screen(await client.attach(MACHINE, number))
        await screen.sees(b"ready\r\n")
        await screen.terminal.write(b"one\n")
        await screen.sees(b"<one>")
        await screen.terminal.detach()
        assert await screen.terminal.read() == b""
    async with laboratory.client() as elsewhere, await elsewhere.attach(MACHINE, number) as again:
        screen = Screen(again)
        await screen.sees(b"ready\r\n<one>\r\n")
        await again.write(b"two\n")
        await screen.sees(b"<two>")


async def test_a_job_and_its_terminal_outlive_the_site_and_the_line_is_joined_again(
    laboratory: Laboratory,
) -> None:
    async with laboratory.client() as client:
        number = await started(laboratory, client, ECHO)
        screen = Screen(await client.attach(MACHINE, number))
        await screen.sees(b"ready\r\n")
        reading = asyncio.create_task(screen.sees(b"<after>"))
        await laboratory.site.kill()
        await laboratory.site.start()
        await screen.terminal.write(b"after\n")
        await reading
        assert screen.seen == b"ready\r\n<after>\r\n"
        await laboratory.site.stop()
        await laboratory.site.start()
        await screen.terminal.write(b"again\n")
        await screen.sees(b"<again>")


async def test_one_is_at_the_keys_and_the_others_look_on(laboratory: Laboratory) -> None:
    async with laboratory.client() as client, laboratory.client() as other:
        number = await started(laboratory, client, ECHO)
        ada = Screen(await client.attach(MACHINE, number))
        onlooker = Screen(await other.attach(MACHINE, number, keys=False))
        await ada.terminal.write(b"one\n")
        for each in (ada, onlooker):
            await each.sees(b"<one>")
        with pytest.raises(Conflict, match="another terminal has the keyboard"):
            await onlooker.terminal.write(b"not heard\n")
        grace = Screen(await other.attach(MACHINE, number))
        await grace.terminal.write(b"two\n")
        for each in (ada, onlooker, grace):
            await each.sees(b"<two>")
        assert [each.terminal.at_keys for each in (ada, onlooker, grace)] == [False, False, True]
        with pytest.raises(Conflict, match="another terminal has the keyboard"):
            await ada.terminal.write(b"not heard\n")
        assert grace.terminal.attached == 3
        await grace.terminal.write(b"\x04")
        for each in (ada, onlooker, grace):
            assert b"not heard" not in await each.sees_the_end()


async def test_whose_line_was_lost_does_not_take_the_keys_back_from_another(
    laboratory: Laboratory,
) -> None:
    async with cut_line(laboratory.site.url) as line, over(line) as client:
        number = await started(laboratory, client, ECHO)
        ada = Screen(await client.attach(MACHINE, number))
        await ada.sees(b"ready")
        line.cut()
        async with laboratory.client() as other:
            grace = Screen(await other.attach(MACHINE, number))
            await grace.terminal.write(b"mine\n")
            await ada.sees(b"<mine>")
            assert not ada.terminal.at_keys
            assert grace.terminal.at_keys


async def test_a_window_keeps_its_size_over_lost_lines(laboratory: Laboratory) -> None:
    async with cut_line(laboratory.site.url) as line, over(line) as client:
        text = "echo ready; while read line; do stty size; done"
        number = await started(laboratory, client, text)
        screen = Screen(await client.attach(MACHINE, number, size=(30, 90)))
        await screen.sees(b"ready")

        async def has(size: bytes) -> None:
            """Ask until the program has drawn its window anew."""
            async with asyncio.timeout(PATIENCE_S):
                while size not in screen.seen:
                    screen.seen = b""
                    await screen.terminal.write(b"\n")
                    await screen.sees(b" ")

        await has(b"30 90\r\n")
        await screen.terminal.resize(40, 100)
        await has(b"40 100\r\n")
        line.cut()
        await has(b"40 100\r\n")


async def test_a_stranger_may_not_attach_and_an_operator_may(guarded: Laboratory) -> None:
    async with guarded.client() as client, guarded.client("eve") as stranger:
        number = await started(guarded, client, ECHO)
        for keys in (True, False):
            with pytest.raises(NotAllowed, match=f"job {number} belongs to another user"):
                await stranger.attach(MACHINE, number, keys=keys)
        async with guarded.client("root", scopes=("use", "admin")) as operator:
            screen = Screen(await operator.attach(MACHINE, number))
            await screen.terminal.write(b"hello\n")
            await screen.sees(b"<hello>")


async def test_a_session_ends_with_the_right_of_its_caller_and_the_job_goes_on(
    guarded: Laboratory,
) -> None:
    async with guarded.client() as client:
        number = await started(guarded, client, ECHO)
        for lifetime_s in (3, 30):
            async with guarded.client(lifetime_s=lifetime_s) as hasty:
                try:
                    terminal = await hasty.attach(MACHINE, number)
                except NotAuthenticated:
                    continue  # This machine was too slow to come in time.
                with pytest.raises(NotAuthenticated):
                    await Screen(terminal).sees_the_end()
                break
        async with await client.attach(MACHINE, number) as again:
            await again.write(b"one\n")
            await Screen(again).sees(b"<one>")


async def test_what_cannot_be_attached_to_says_so(laboratory: Laboratory) -> None:
    async with laboratory.client() as client:
        with pytest.raises(NotFound):
            await client.attach(MACHINE, 77)
        with pytest.raises(NotFound):
            await client.attach("lab/nothing", 1)
        batch = (await client.submit(laboratory.job("sleep 60"))).job.job
        with pytest.raises(InvalidInput, match=f"job {batch} has no terminal"):
            await client.attach(MACHINE, batch)
        with pytest.raises(InvalidInput, match="pipes need a terminal"):
            await client.submit(laboratory.job("true", piped=True))
        held = laboratory.job("true", terminal=True, held=True)
        waiting = (await client.submit(held)).job.job
        with pytest.raises(Conflict, match=f"job {waiting} is held, not running"):
            await client.attach(MACHINE, waiting)


async def test_all_bytes_go_through_pipes_both_ways_over_lines_that_break(
    laboratory: Laboratory,
) -> None:
    every = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(60_000))
    async with cut_line(laboratory.site.url) as line, over(line) as client:
        number = await started(laboratory, client, "cat; exit 4", piped=True)
        terminal = await client.attach(MACHINE, number, whole=True)
        screen = Screen(terminal)

        async def type_all() -> None:
            for start in range(0, len(every), 100_000):
                await terminal.write(every[start : start + 100_000])
                if start % 300_000 == 0:
                    line.cut()
            await terminal.end_input()

        typing = asyncio.create_task(type_all())
        assert await screen.sees_the_end() == every
        await typing
        assert terminal.missed_bytes == 0
        assert (await laboratory.over(client, number)).status == 4
        assert line.passed > 5


async def test_one_who_reads_slowly_gets_everything_and_the_program_does_not_wait(
    laboratory: Laboratory,
) -> None:
    async with laboratory.client() as client:
        text = "read go; seq 1000000; echo end >> marks"
        number = await started(laboratory, client, text, piped=True)
        terminal = await client.attach(MACHINE, number, whole=True)
        await terminal.write(b"go\n")
        await until(lambda: is_true(laboratory.marked()["end"]), "it has written all")
        expected = b"".join(b"%d\n" % count for count in range(1, 1_000_001))
        assert await Screen(terminal).sees_the_end() == expected


async def test_what_a_terminal_has_shown_is_in_the_log(laboratory: Laboratory) -> None:
    async with laboratory.client() as client:
        number = await started(laboratory, client, "echo one; read x; echo two; exit 3")
        async with await client.attach(MACHINE, number) as terminal:
            pieces = client.follow_output(MACHINE, number)
            assert await anext(pieces) == b"one\r\n"
            await terminal.write(b"\n")
            log = b"one\r\n" + b"".join([piece async for piece in pieces])
        assert log == b"one\r\n\r\ntwo\r\n"


async def test_a_job_to_whose_terminal_nobody_comes_in_the_owners_time_ends() -> None:
    async for each in laboratories(rules='attach = "1s"'):
        async with each.client() as client:
            request = each.job("sleep 600", terminal=True, limit_s=600)
            number = (await client.submit(request)).job.job
            view = await each.over(client, number)
            assert (view.end, view.detail) == (
                "killed", "no terminal was attached within 1 s",
            )  # fmt: skip


async def test_the_same_without_an_event_loop(laboratory: Laboratory) -> None:
    def talk() -> bytes:
        seen = b""
        with (
            kalends.connect_sync(laboratory.site.url, user=USER) as client,
            client.attach(MACHINE, number) as terminal,
        ):
            terminal.resize(30, 90)
            terminal.write(b"one\n")
            terminal.write(b"\x04")
            while data := terminal.read():
                seen += data
        return seen

    async with laboratory.client() as client:
        number = await started(laboratory, client, ECHO)
    assert (await asyncio.to_thread(talk)).endswith(b"<one>\r\n")

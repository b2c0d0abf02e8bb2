"""A small mail relay on loopback, and a receiver of webhooks: both real, both as bad as a test wants them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import NamedTuple, cast

from aiohttp import web


class Mail(NamedTuple):
    sender: str
    to: str
    message: EmailMessage
    login: str
    encrypted: bool


class MailRelay:
    """Takes mail, or answers a command (``RCPT``; ``MESSAGE`` for its end) with what `answers` says.

    An answer of "" is none: it hangs, until the relay is closed.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.answers: dict[str, str] = {}
        self.mails: list[Mail] = []
        self.heard: list[Mail] = []
        """All that was sent, also what was not taken."""
        self.connections = 0
        self.arrived = asyncio.Condition()
        self._tls = tls
        self._closing = asyncio.Event()
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._server: asyncio.Server | None = None
        self.port = 0

    async def open(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self._closing.set()
        for writer in self._open.values():
            writer.close()
        await asyncio.gather(*self._open)

    async def mail(self, number: int = 1) -> list[Mail]:
        """Return all mails once there are so many."""
        async with asyncio.timeout(60), self.arrived:
            await self.arrived.wait_for(lambda: len(self.mails) >= number)
        return self.mails

    async def different(self, number: int = 1) -> list[Mail]:
        """Return the mails once there are so many: one that was sent during a stop may have come twice."""

        def by_id() -> list[Mail]:
            return [*{mail.message["Message-ID"]: mail for mail in self.mails}.values()]

        async with asyncio.timeout(60), self.arrived:
            await self.arrived.wait_for(lambda: len(by_id()) >= number)
        return by_id()

    async def hears(self, number: int = 1) -> list[Mail]:
        """Return all mails, also those that were not taken, once there are so many."""
        async with asyncio.timeout(60), self.arrived:
            await self.arrived.wait_for(lambda: len(self.heard) >= number)
        return self.heard

    async def connected(self, number: int) -> None:
        """Return once somebody has connected so many times."""
        async with asyncio.timeout(60), self.arrived:
            await self.arrived.wait_for(lambda: self.connections >= number)

    async def _keep(self, where: list[Mail], mail: Mail) -> None:
        async with self.arrived:
            where.append(mail)
            self.arrived.notify_all()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        self.connections += 1
        async with self.arrived:
            self.arrived.notify_all()
        with contextlib.suppress(ConnectionError, EOFError):
            await self._talk(reader, writer)
        writer.close()
        del self._open[task]

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        login = sender = to = ""
        encrypted = False
        await self._answer(writer, "HELLO", "220 relay")
        while line := await reader.readline():
            word, _, rest = line.decode().rstrip("\r\n").partition(" ")
            if word == "EHLO":
                more = "250-STARTTLS\r\n" if self._tls is not None and not encrypted else ""
                await self._answer(writer, word, f"250-relay\r\n{more}250 AUTH PLAIN LOGIN")
            elif word == "STARTTLS":
                await self._answer(writer, word, "220 go ahead")
                await writer.start_tls(self._tls)  # type: ignore[arg-type]  # it was offered
                encrypted = True
            elif word == "AUTH":
                login = base64.b64decode(rest.split()[1]).decode()
                await self._answer(writer, word, "235 welcome")
            elif word == "MAIL":
                sender = rest
                await self._answer(writer, word, "250 ok")
            elif word == "RCPT":
                to = rest
                await self._answer(writer, word, "250 ok")
            elif word == "DATA":
                await self._answer(writer, word, "354 go on")
                lines = []
                while (part := await reader.readline()) != b".\r\n":
                    lines.append(part.removeprefix(b".") if part.startswith(b"..") else part)
                message = message_from_bytes(b"".join(lines), policy=default)
                mail = Mail(sender, to, cast(EmailMessage, message), login, encrypted)
                await self._keep(self.heard, mail)
                if await self._answer(writer, "MESSAGE", "250 taken"):
                    await self._keep(self.mails, mail)
            elif word in ("HELO", "RSET"):
                await self._answer(writer, word, "250 ok")
            elif word == "QUIT":
                await self._answer(writer, word, "221 bye")
                return

    async def _answer(self, writer: asyncio.StreamWriter, word: str, usual: str) -> bool:
        """Answer, and return whether with good news."""
        text = self.answers.get(word, usual)
        if not text:
            await self._closing.wait()
            raise EOFError
        writer.write(text.encode() + b"\r\n")
        await writer.drain()
        return text == usual


@contextlib.asynccontextmanager
async def mail_relay(tls: ssl.SSLContext | None = None) -> AsyncIterator[MailRelay]:
    relay = MailRelay(tls)
    await relay.open()
    try:
        yield relay
    finally:
        await relay.close()


class Call(NamedTuple):
    headers: dict[str, str]
    body: bytes


class WebhookReceiver:
    """Keeps what it is called with at ``/jobs``, and answers with `status`; ``/elsewhere`` counts strays."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.strays = 0
        self.status = 204
        self.hangs = False
        self.url = ""
        self.arrived = asyncio.Condition()

    @property
    def place(self) -> str:
        return self.url.removeprefix("http://")

    async def calls_made(self, number: int = 1) -> list[Call]:
        """Return all calls once there are so many."""
        async with asyncio.timeout(60), self.arrived:
            await self.arrived.wait_for(lambda: len(self.calls) >= number)
        return self.calls

    async def take(self, request: web.Request) -> web.Response:
        call = Call(dict(request.headers), await request.read())
        async with self.arrived:
            self.calls.append(call)
            self.arrived.notify_all()
        if self.hangs:
            await asyncio.Event().wait()
        return web.Response(status=self.status, headers={"Location": "/elsewhere"})

    async def stray(self, request: web.Request) -> web.Response:
        self.strays += 1
        return web.Response()


@contextlib.asynccontextmanager
async def webhook_receiver() -> AsyncIterator[WebhookReceiver]:
    receiver = WebhookReceiver()
    application = web.Application()
    application.router.add_post("/jobs", receiver.take)
    application.router.add_route("*", "/elsewhere", receiver.stray)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield receiver
    finally:
        await runner.cleanup()

"""One connection to a mail relay (RFC 5321): a greeting, encryption, a login, and one message."""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
from typing import Final

LINE_BYTES_MAX: Final = 4_096
REPLY_LINES_MAX: Final = 100
TEXT_MAX: Final = 200
"""As much of what a relay says is told to people."""


class RelayRefusal(Exception):
    """A relay has answered with a `code` that was not hoped for."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}".strip())
        self.code = code


class SmtpLine:
    """Every method raises `RelayRefusal`, and `OSError`, `EOFError` or `ValueError` for a bad line."""

    def __init__(self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._host = host
        self._reader = reader
        self._writer = writer
        self._plain: asyncio.StreamWriter | None = None
        """The writer from before `encrypt`, which would close the line if it were collected."""
        self._able: dict[str, str] = {}

    @classmethod
    async def open(cls, host: str, port: int, tls: ssl.SSLContext | None) -> SmtpLine:
        """Connect, with `tls` encrypted from the first byte on, and exchange greetings."""
        reader, writer = await asyncio.open_connection(host, port, ssl=tls, limit=LINE_BYTES_MAX)
        line = cls(host, reader, writer)
        try:
            await line._expect(220)
            await line._greet()
        except BaseException:
            line.cut()
            raise
        return line

    async def encrypt(self, tls: ssl.SSLContext) -> None:
        """Go on encrypted (STARTTLS). What was said before in clear is forgotten, as RFC 3207 asks."""
        if "STARTTLS" not in self._able:
            raise RelayRefusal(0, "it offers no STARTTLS")
        await self._say("STARTTLS", 220)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
        protocol = asyncio.StreamReaderProtocol(reader)
        self._plain = self._writer
        transport = await loop.start_tls(
            self._plain.transport, protocol, tls, server_hostname=self._host
        )
        assert transport is not None
        protocol.connection_made(transport)
        self._reader = reader
        self._writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        await self._greet()

    async def log_in(self, user: str, password: str) -> None:
        offered = self._able.get("AUTH", "").upper().split()
        if "PLAIN" in offered:
            await self._say("AUTH PLAIN " + _base64(f"\0{user}\0{password}"), 235)
        elif "LOGIN" in offered:
            await self._say("AUTH LOGIN", 334)
            await self._say(_base64(user), 334)
            await self._say(_base64(password), 235)
        else:
            raise RelayRefusal(0, "it offers no login by name and password")

    async def begin_mail(self, sender: str) -> None:
        await self._say(f"MAIL FROM:<{sender}>", 250)

    async def send(self, to: str, message: bytes) -> None:
        """Hand over a message, with lines that end in CR LF; when this returns, the relay has it."""
        await self._say(f"RCPT TO:<{to}>", 250, 251)
        await self._say("DATA", 354)
        stuffed = re.sub(rb"(?m)^\.", b"..", message)
        self._writer.write(stuffed + b".\r\n")
        await self._writer.drain()
        await self._expect(250)

    def leave(self) -> None:
        """End the connection politely; nobody waits for the answer."""
        self._writer.write(b"QUIT\r\n")
        self._writer.close()

    def cut(self) -> None:
        """End the connection at once."""
        self._writer.transport.abort()

    async def _greet(self) -> None:
        """Say who we are, and hear what the relay can do."""
        own: str = self._writer.get_extra_info("sockname")[0]
        said = await self._say(f"EHLO [{'IPv6:' if ':' in own else ''}{own}]", 250)
        words = (each.partition(" ") for each in said[1:])
        self._able = {name.upper(): more for name, _, more in words}

    async def _say(self, command: str, *hoped_for: int) -> list[str]:
        self._writer.write(command.encode("ascii") + b"\r\n")
        await self._writer.drain()
        return await self._expect(*hoped_for)

    async def _expect(self, *hoped_for: int) -> list[str]:
        lines: list[str] = []
        while len(lines) < REPLY_LINES_MAX:
            line = await self._reader.readline()
            if not line.endswith(b"\n"):
                raise EOFError("the relay has hung up")
            text = line.decode("ascii", "replace").rstrip()
            if not re.match(r"[2-5][0-9]{2}(?:[ -]|$)", text):
                raise ValueError("what it says is no SMTP")
            lines.append(text[4:])
            if text[3:4] != "-":
                code = int(text[:3])
                if code not in hoped_for:
                    said = " ".join(lines)[:TEXT_MAX]
                    raise RelayRefusal(code, "".join(c if c.isprintable() else "?" for c in said))
                return lines
        raise ValueError("its reply has no end")


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()

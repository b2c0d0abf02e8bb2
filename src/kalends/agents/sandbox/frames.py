"""Frames between the host and a worker: a length of four bytes, big-endian, and that many bytes.

The worker may be in a stranger's hands, so its length is checked before anything is kept for it.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from kalends.agents.sandbox.worker import HEADER_BYTES

CHUNK_BYTES: Final = 1 << 16


class FrameTooLong(Exception):
    """The worker wants to send more than it may: `length_bytes`."""

    def __init__(self, length_bytes: int) -> None:
        super().__init__(f"a frame of {length_bytes} bytes")
        self.length_bytes = length_bytes


async def exchange(channel: socket.socket, body: bytes, answer_bytes_max: int) -> bytes | None:
    """Send `body` as a frame and return the body of the first frame that comes back.

    Returns None when the other side ends before its frame does; raises `FrameTooLong`. `channel` must
    not block. Whatever comes after the frame is not read.
    """
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_sendall(channel, len(body).to_bytes(HEADER_BYTES, "big") + body)
        received = bytearray()
        while (length := missing_bytes(received, answer_bytes_max)) > 0:
            chunk = await loop.sock_recv(channel, min(length, CHUNK_BYTES))
            if not chunk:
                return None
            received += chunk
    except ConnectionError:
        return None
    return bytes(received[HEADER_BYTES:])


def missing_bytes(received: bytes | bytearray, body_bytes_max: int) -> int:
    """Return how many bytes may be read next: 0 if the frame is complete; raises `FrameTooLong`."""
    if len(received) < HEADER_BYTES:
        return HEADER_BYTES - len(received)
    length = int.from_bytes(received[:HEADER_BYTES], "big")
    if length > body_bytes_max:
        raise FrameTooLong(length)
    return HEADER_BYTES + length - len(received)

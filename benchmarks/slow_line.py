"""A line of a given one-way delay between two processes: a TCP relay that holds every byte back.

Run as ``python -m benchmarks.slow_line TARGET_PORT DELAY_MS``; prints the port that it listens on, and
one where every connection is answered with what has passed so far, as JSON (see `Passed`).
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field

import msgspec

from benchmarks.traffic import Counts, Direction


@dataclass
class Passed:
    """What has passed over the line: `there` to the target, `back` from it."""

    there: Counts = field(default_factory=Counts)
    back: Counts = field(default_factory=Counts)

    def __add__(self, other: Passed) -> Passed:
        return Passed(self.there + other.there, self.back + other.back)

    def __sub__(self, earlier: Passed) -> Passed:
        return Passed(self.there - earlier.there, self.back - earlier.back)


async def _carry(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    delay_s: float,
    direction: Direction,
) -> None:
    loop = asyncio.get_running_loop()
    while data := await reader.read(65_536):
        direction.feed(data)
        loop.call_later(delay_s, writer.write, data)
    loop.call_later(delay_s, writer.close)


async def main(target_port: int, delay_s: float) -> None:
    passed = Passed()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target_port)
        except OSError:  # The server is gone; so is this connection.
            writer.close()
            return
        await asyncio.gather(
            _carry(reader, far_writer, delay_s, Direction(passed.there)),
            _carry(far_reader, writer, delay_s, Direction(passed.back)),
        )

    async def tell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(msgspec.json.encode(passed))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    teller = await asyncio.start_server(tell, "127.0.0.1", 0)
    print(*(each.sockets[0].getsockname()[1] for each in (server, teller)), flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]) / 1e3))

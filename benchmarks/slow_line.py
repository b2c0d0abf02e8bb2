"""A line of a given one-way delay between two processes: a TCP relay that holds every byte back.

Run as ``python -m benchmarks.slow_line TARGET_PORT DELAY_MS``; prints the port that it listens on.
"""

from __future__ import annotations

import asyncio
import sys


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float
) -> None:
    loop = asyncio.get_running_loop()
    while data := await reader.read(65_536):
        loop.call_later(delay_s, writer.write, data)
    loop.call_later(delay_s, writer.close)


async def main(target_port: int, delay_s: float) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target_port)
        except OSError:  # The server is gone; so is this connection.
            writer.close()
            return
        await asyncio.gather(
            _carry(reader, far_writer, delay_s), _carry(far_reader, writer, delay_s)
        )

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]) / 1e3))

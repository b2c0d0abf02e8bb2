"""A small HTTP proxy on loopback: tunnels (CONNECT), and requests with a whole address, to servers there."""

from __future__ import annotations

import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

PIECE_BYTES = 64 * 1024


class SmallProxy:
    """It takes every host for this one. `seen` are the first lines of what it was asked.

    With `password` it wants that of a user; with `refusal` it answers every request with that status.
    """

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.password = ""
        self.refusal = ""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def serve(self) -> None:
        """Serve until `close`."""
        while True:
            try:
                caller, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def close(self) -> None:
        # `shutdown` wakes `accept`; `close` alone would not.
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _serve(self, caller: socket.socket) -> None:
        with caller, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                piece = caller.recv(PIECE_BYTES)
                if not piece:
                    return
                head += piece
            lines, _, rest = head.partition(b"\r\n\r\n")
            first, *headers = lines.decode("latin-1").split("\r\n")
            self.seen.append(first)
            if status := self._refused(headers):
                caller.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
                return
            method, target, version = first.split(" ")
            if method == "CONNECT":
                port = int(target.rpartition(":")[2])
                with socket.create_connection(("127.0.0.1", port)) as server:
                    caller.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    self._join(caller, server)
                return
            parts = urlsplit(target)
            path = parts._replace(scheme="", netloc="").geturl()
            # One request a connection: the next may be for another server.
            passed = [each for each in headers if not each.lower().startswith(("proxy-", "host:"))]
            # Servers without tokens take nothing that was meant for another host.
            passed.append(f"Host: 127.0.0.1:{parts.port or 80}")
            if not any(each.lower().startswith("upgrade:") for each in headers):
                passed = [each for each in passed if not each.lower().startswith("connection:")]
                passed.append("Connection: close")
            with socket.create_connection(("127.0.0.1", parts.port or 80)) as server:
                said = "\r\n".join([f"{method} {path} {version}", *passed, "", ""])
                server.sendall(said.encode("latin-1") + rest)
                self._join(caller, server)

    def _refused(self, headers: list[str]) -> str:
        wanted = f"Basic {b64encode(self.password.encode()).decode()}"
        named = any(
            each.lower().startswith("proxy-authorization:") and each.endswith(wanted)
            for each in headers
        )
        if self.password and not named:
            return "407 Proxy Authentication Required"
        return self.refusal

    def _join(self, one: socket.socket, other: socket.socket) -> None:
        back = threading.Thread(target=_pump, args=(other, one), daemon=True)
        back.start()
        _pump(one, other)
        back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(PIECE_BYTES):
            sink.sendall(piece)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def small_proxy() -> Iterator[SmallProxy]:
    proxy = SmallProxy()
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join()

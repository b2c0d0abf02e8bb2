"""Who has seen an attempt to its end takes another; who has gone, or waits for too long, does not."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from kalends.batch.shepherds import spares
from kalends.batch.shepherds.spares import FREE, SPARES_MAX, Spares


class Zygote:
    """The spares of a zygote, and the other ends of its lines; nobody is forked."""

    def __init__(self) -> None:
        self.server, self._requests = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.spares = Spares(self._requests)
        self.order = os.memfd_create("order")

    def shepherd(self) -> socket.socket:
        line = self.spares.open_line()
        assert line is not None
        return line

    def serve(self) -> bool:
        """Take a request; return whether somebody was free for it."""
        self.server.send(b"1.1")
        self.spares.until_request()
        return self.spares.hand_over(self._requests.recv(64), [self.order])

    def close(self) -> None:
        for each in (self.server, self._requests):
            each.close()
        os.close(self.order)


@pytest.fixture
def zygote() -> Iterator[Zygote]:
    made = Zygote()
    yield made
    made.close()


def handed(line: socket.socket) -> bytes:
    name, (descriptor,), _, _ = socket.recv_fds(line, 64, 1)
    os.close(descriptor)
    return name


def test_an_order_goes_to_a_shepherd_that_has_said_that_it_is_free_and_to_it_once(
    zygote: Zygote,
) -> None:
    busy, free = zygote.shepherd(), zygote.shepherd()
    assert not zygote.serve()
    free.send(FREE)
    assert zygote.serve()
    assert handed(free) == b"1.1"
    assert not zygote.serve()
    busy.send(FREE)
    assert zygote.serve()
    assert handed(busy) == b"1.1"


def test_a_shepherd_that_died_while_it_was_free_is_passed_over(zygote: Zygote) -> None:
    dead, free = zygote.shepherd(), zygote.shepherd()
    free.send(FREE)
    dead.send(FREE)
    zygote.server.send(b"1.1")
    zygote.spares.until_request()
    dead.close()
    assert zygote.spares.hand_over(b"1.1", [zygote.order])
    assert handed(free) == b"1.1"


def test_so_many_have_a_line_and_another_one_when_one_has_gone(zygote: Zygote) -> None:
    lines = [zygote.shepherd() for _ in range(SPARES_MAX)]
    assert zygote.spares.open_line() is None
    lines.pop().close()
    assert not zygote.serve()
    assert zygote.spares.open_line() is not None


def test_who_is_free_and_not_needed_is_let_go(
    zygote: Zygote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spares, "IDLE_S", 0.01)
    free = zygote.shepherd()
    free.send(FREE)
    waiting = threading.Thread(target=zygote.spares.until_request)
    waiting.start()
    assert free.recv(64) == b"", "its line has ended"
    zygote.server.send(b"1.1")
    waiting.join()
    assert not zygote.spares.hand_over(b"1.1", [zygote.order])

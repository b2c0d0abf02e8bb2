"""Keyboard input that may not have arrived: each byte reaches its program once, over any connections."""

from __future__ import annotations

from kalends.contract.terminal_frames import KEYS_BYTES_MAX


class TypedStream:
    """The keyboard input of one client for one attempt. The site counts all input, and reports the count.

    While no other terminal takes the keyboard, all growth of the count is input of this client.
    """

    def __init__(self, *, settled: bool = False) -> None:
        self.settled = settled
        """Whether the count was reported on the present connection; input is sent only after that."""
        self.ended = False
        self._unheard = bytearray()
        self._pending = 0
        self._before: int | None = None
        self._typed = 0

    @property
    def room(self) -> int:
        """Return how many bytes may be typed now."""
        return KEYS_BYTES_MAX - len(self._unheard) - self._pending

    def type(self, keys: bytes) -> bool:
        """Take `keys`; return whether to send them now."""
        self._unheard += keys
        self._typed += len(keys)
        return self.settled

    def end(self) -> bool:
        """End the input; return whether to send the end now."""
        self.ended = True
        return self.settled

    def hear(self, typed: int, pending: int) -> tuple[bytes, bool]:
        """Take the site's counts; return the input to send again, and whether to send the end again."""
        fresh, self.settled = not self.settled, True
        if self._before is None:
            self._before = typed
        heard = typed - self._before
        self._pending = pending
        self._unheard = self._unheard[len(self._unheard) - max(self._typed - heard, 0) :]
        if not fresh:
            return b"", False
        return bytes(self._unheard), self.ended and heard <= self._typed

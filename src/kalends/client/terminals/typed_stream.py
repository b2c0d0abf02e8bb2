"""What was typed and may not have come yet: each byte reaches its program once, over any number of lines."""

from __future__ import annotations

from kalends.contract.terminal_frames import KEYS_BYTES_MAX


class TypedStream:
    """The keys of one client for one attempt. The site counts all that was ever typed, and tells it.

    While nobody else takes the keys, what the count has grown by since this client took them is its own.
    """

    def __init__(self, *, settled: bool = False) -> None:
        self.settled = settled
        """Whether the count has been told on the present line: what is typed before is sent after that."""
        self.ended = False
        self._unheard = bytearray()
        self._pending = 0
        self._before: int | None = None
        self._typed = 0

    @property
    def room(self) -> int:
        """Bytes that may be typed now."""
        return KEYS_BYTES_MAX - len(self._unheard) - self._pending

    def type(self, keys: bytes) -> bool:
        """Take `keys`; return whether they are to be sent now."""
        self._unheard += keys
        self._typed += len(keys)
        return self.settled

    def end(self) -> bool:
        """Nothing more is typed; return whether that is to be said now."""
        self.ended = True
        return self.settled

    def hear(self, typed: int, pending: int) -> tuple[bytes, bool]:
        """Take the site's counts; return what is to be sent once more, and whether the end is."""
        fresh, self.settled = not self.settled, True
        if self._before is None:
            self._before = typed
        heard = typed - self._before
        self._pending = pending
        self._unheard = self._unheard[len(self._unheard) - max(self._typed - heard, 0) :]
        if not fresh:
            return b"", False
        return bytes(self._unheard), self.ended and heard <= self._typed

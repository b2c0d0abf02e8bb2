"""Budgets of users: processor seconds per minute, crashes, and a ban after an attack.

Pure: `now` is seconds of one clock that does not run backwards. What has grown back to full is
forgotten, so both remember only users who have run something lately.
"""

from __future__ import annotations

from typing import Final

MINUTE_S: Final = 60.0
ENOUGH: Final = 0.01
"""The share of a budget that is worth coming back for."""
SWEEP_EVERY: Final = 1_024
"""Charges between two looks for what can be forgotten."""


class Budgets:
    """Processor time of every user: up to `cpu_s_per_minute`, which grow back evenly within a minute.

    The last run before it is used up may overdraw it; what is owed has to grow back, too.
    """

    def __init__(self, cpu_s_per_minute: float) -> None:
        self._full_s = cpu_s_per_minute
        self._rate = cpu_s_per_minute / MINUTE_S
        self._spent: dict[str, tuple[float, float]] = {}
        self._charges = 0

    def __len__(self) -> int:
        """Return the number of users remembered."""
        return len(self._spent)

    def left_s(self, user: str, now: float) -> float:
        """Return the processor seconds that `user` has left; negative when overdrawn."""
        return self._full_s - self.used_s(user, now)

    def wait_s(self, user: str, now: float) -> float:
        """Return 0 if `user` may run something now, else the seconds until there is enough."""
        left_s = self.left_s(user, now)
        return 0.0 if left_s > 0 else (ENOUGH * self._full_s - left_s) / self._rate

    def charge(self, user: str, cpu_s: float, now: float) -> None:
        """Charge `user` with `cpu_s`."""
        self._spent[user] = (self.used_s(user, now) + cpu_s, now)
        self._charges += 1
        if self._charges % SWEEP_EVERY == 0:
            self._spent = {
                name: spent for name, spent in self._spent.items() if self.used_s(name, now) > 0
            }

    def used_s(self, user: str, now: float) -> float:
        """Return the processor seconds that `user` has used and that have not grown back."""
        spent_s, since = self._spent.get(user, (0.0, now))
        return max(0.0, spent_s - (now - since) * self._rate)


class Suspensions:
    """Users whose scripts are not run for `length_s`, because one of them attacked the host."""

    def __init__(self, length_s: float) -> None:
        self._length_s = length_s
        self._until: dict[str, float] = {}

    def __len__(self) -> int:
        """Return the number of users remembered."""
        return len(self._until)

    def suspend(self, user: str, now: float) -> None:
        """Suspend `user` from `now` on; a second attack counts from then."""
        self._until = {name: until for name, until in self._until.items() if until > now}
        self._until[user] = now + self._length_s

    def wait_s(self, user: str, now: float) -> float:
        """Return 0 if `user` may run something now, else the seconds until then."""
        return max(0.0, self._until.get(user, now) - now)


class Crashes:
    """The number of crashed workers of each user, until none has crashed for `length_s`.

    No script makes its interpreter crash by an oversight; who does it again and again tries something.
    """

    def __init__(self, length_s: float) -> None:
        self._length_s = length_s
        self._counted: dict[str, tuple[int, float]] = {}

    def __len__(self) -> int:
        """Return the number of users remembered."""
        return len(self._counted)

    def count(self, user: str, now: float) -> int:
        """Count another one of `user`, and return how many there have been."""
        self._counted = {
            name: seen for name, seen in self._counted.items() if seen[1] + self._length_s > now
        }
        number = self._counted.get(user, (0, now))[0] + 1
        self._counted[user] = number, now
        return number

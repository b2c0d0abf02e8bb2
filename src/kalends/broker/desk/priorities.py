"""Limits of the priority that users may give their requests.

A request of priority p counts in every line as if it had been made p minutes earlier (later, where p
is negative). So priority orders those who ask at about the same time, and nobody waits for ever for
others of higher priority: who asked long enough ago is first.
"""

from __future__ import annotations

from collections.abc import Sequence

from kalends.calendars import is_meant
from kalends.core.principals import Principal
from kalends.serving.auth.callers import Authenticator
from kalends.serving.configuration import BrokerConfiguration, GrantConfiguration
from kalends.serving.http.reload import RulesChange


class PriorityGrants:
    """Priorities that each user may ask for; the owner of the broker can change that at any time."""

    def __init__(self, configured: Sequence[GrantConfiguration] = ()) -> None:
        self._configured = tuple(configured)

    def granted(self, principal: Principal, asked: int) -> int:
        """Return `asked`, or the most that `principal` may have: by the first grant that means them, else 0.

        To stand back is always allowed.
        """
        most = (each.max for each in self._configured if is_meant(each.who, principal))
        return min(asked, next(most, 0))

    def prepared(self, section: BrokerConfiguration, _: Authenticator) -> RulesChange:
        """Return what lets the grants of `section` hold."""

        def apply() -> None:
            self._configured = section.priority

        return RulesChange(lambda: None, apply)

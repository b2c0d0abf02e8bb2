"""An owner's change of the configuration of a running site."""

from __future__ import annotations

from collections.abc import Callable

from kalends.core.intervals import Moment
from kalends.resource_servers.participation.credits.credits import Credits
from kalends.resource_servers.service import SiteEngine
from kalends.resource_servers.setup.assembly import accounts_of, calendars_of, limits_of
from kalends.serving.configuration import SiteConfiguration
from kalends.serving.http.reload import RulesChange


def rules_change(
    changed: SiteConfiguration,
    engine: Callable[[], SiteEngine | None],
    moment: Callable[[], Moment],
    hold: Callable[[], None],
) -> RulesChange:
    """Return what lets the resources and rules of `changed` hold, and calls `hold`.

    Raises `InvalidInput` for rules that cannot be. Its check raises `Conflict` for resources that do not
    carry what is booked.
    """
    calendars, limits = calendars_of(changed), limits_of(changed)
    accounts = accounts_of(changed)

    def check() -> None:
        if (running := engine()) is not None:
            running.participant.book.check_carries(calendars, moment().wall_s)

    def apply() -> None:
        if (running := engine()) is not None:
            running.apply(lambda participant, now: participant.take_rules(calendars, limits, now))
            running.participant.wing(Credits).take_accounts(accounts)
        hold()

    return RulesChange(check, apply)

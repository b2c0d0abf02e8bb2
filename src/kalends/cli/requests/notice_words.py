"""Addresses for notices, and changes by others, as lines of text."""

from __future__ import annotations

from collections.abc import Iterable
from zoneinfo import ZoneInfo

from kalends.cli.console.output import rows
from kalends.cli.console.short_time import short_time
from kalends.contract.calls import RequestView, UnitsOut
from kalends.contract.notice_calls import ChangeByOthers, NoticeAddressView
from kalends.contract.slot_words import slot_words
from kalends.core.times import format_time


def address_listing(views: Iterable[NoticeAddressView], zone: ZoneInfo) -> list[str]:
    """Return a row for each address; the last column gives the reason if no notice is sent there."""
    return rows(
        ("TO", "BY", "TIMES IN", f"SINCE ({zone.key})", "PROBLEM"),
        [
            (
                view.to or "-",
                view.kind,
                view.zone,
                short_time(view.added_at, zone),
                view.problem or "-",
            )
            for view in views
        ],
    )


def added_lines(view: NoticeAddressView) -> list[str]:
    """Describe a new address; the secret of a webhook is shown only here."""
    lines = [f"notices go to {view.to}, with times in {view.zone}"]
    if view.secret:
        lines += [f"  secret   {view.secret}", "keep it: it is not shown again"]
    return lines


def units_out_words(out: UnitsOut, view: RequestView, zone: ZoneInfo) -> str:
    """Describe units of a slot that cannot be used."""
    units = sum(each.units for each in view.claims if each.resource == out.resource)
    why = f": {out.detail}" if out.detail else ""
    return f"{out.units} of {units} units on {out.resource}, since {format_time(out.at, zone)}{why}"


def change_words(changed: ChangeByOthers, zone: ZoneInfo) -> str:
    """Return a change of a request: what, by whom, when and why."""
    reason = f": {changed.reason}" if changed.reason else ""
    made = changed.made.replace("-", " ")
    return f"{made} by {changed.by} on {format_time(changed.at, zone)}{reason}"


def before_words(changed: ChangeByOthers, zone: ZoneInfo) -> str:
    """Return the earlier slots of the request; "" if they are not known, or there were none."""
    return slot_words(changed.was, zone) if changed.was else ""

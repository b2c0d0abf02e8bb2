"""Suggestions of the next commands for a request."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from kalends.cli.requests.approval_words import approval_words, to_approve_lines
from kalends.cli.requests.words import recalled_words
from kalends.contract.calls import RequestView
from kalends.core.identifiers import short_id


def id_to_ask_by(view: RequestView) -> str:
    """Return the id to type for `view`: for an open change the id of the change, not of its reservation."""
    return view.changing if view.state == "open" and view.changing else view.id


def what_next(view: RequestView, zone: ZoneInfo) -> list[str]:
    """Suggest next commands after a booking, a hold or a change."""
    named = short_id(id_to_ask_by(view))
    if view.state == "open" and view.waiting is not None:
        how = "on waiting lists" if view.waiting.listed else "still waiting"
        if view.waiting.approval:
            how = approval_words(view.waiting, zone)
        what = "the change" if view.changing else "it"
        return [
            f"{how}: kalends show {named} --follow to wait on, kalends cancel {named} to give {what} up"
        ]
    if view.state == "open":
        return [f"still being decided: kalends show {named}, or kalends watch {named}"]
    if view.state == "held" and view.recalled_until:
        return [recalled_words(view, zone)]
    if view.state == "held" and view.needs_approval:
        return to_approve_lines(view.needs_approval, named)
    if view.state == "held":
        return [f"held: kalends lock {named} to keep it, kalends release {named} to give it up"]
    return []

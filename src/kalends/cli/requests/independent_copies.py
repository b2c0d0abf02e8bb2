"""``kalends book --copies``: several independent bookings of one request."""

from __future__ import annotations

from kalends.cli.console import output
from kalends.cli.console.settings import Settings
from kalends.cli.requests import booking_options, next_steps, wait_options, words
from kalends.client.methods.request_calls import PROMPT_S
from kalends.client.sync import SyncClient
from kalends.contract.calls import RequestView
from kalends.core.errors import KalendsError, error_from_problem


def run(settings: Settings, text: str, options: booking_options.BookingOptions, copies: int) -> int:
    """Book them all, print each, and return the exit code of the first that failed, or 0."""
    with settings.connect() as client:
        asked = booking_options.Asked(settings, client, text, options, copies)
        views = client.book_copies(
            asked.wanted, copies, agent=asked.agent, patience=asked.patience,
            give_up_at=asked.give_up_at, key=asked.key, wait_s=PROMPT_S,
        )  # fmt: skip
        views = [_settled(settings, client, asked, view) for view in views]
    zone = settings.time_zone()
    output.answer(
        settings, "requests", views,
        lambda: [line for view in views for line in words.request_lines(view, zone)],
    )  # fmt: skip
    for view in views:
        for line in next_steps.what_next(view, zone):
            output.say(line, error=True)
    failed = [view.problem for view in views if view.problem is not None]
    return error_from_problem(failed[0]).exit_code if failed else 0


def _settled(
    settings: Settings, client: SyncClient, asked: booking_options.Asked, view: RequestView
) -> RequestView:
    """Return a copy once it is settled; a failed copy is shown, because the others remain booked."""
    if view.state != "open":
        return view
    try:
        return wait_options.settled(settings, client, asked.waits, asked.key, lambda _: view)
    except KalendsError:
        return client.show(view.id)

"""The common part of `move`, `extend` and `shrink`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from kalends.cli.console import output
from kalends.cli.console.settings import Settings
from kalends.cli.requests import request_options
from kalends.client.sync import SyncClient
from kalends.contract.calls import RequestView
from kalends.core.durations import format_duration, parse_duration

F = TypeVar("F", bound=Callable[..., Any])


def change_options(function: F) -> F:
    """Add ``--key`` and ``--wait``."""
    key = click.option(
        "--key",
        default="",
        metavar="KEY",
        help="Idempotency key: a repeated call with the same key changes once.  [default: a new one]",
    )
    return key(request_options.wait_option(function))


def send(
    settings: Settings,
    client: SyncClient,
    id: str,
    key: str,
    asked: str,
    change: Callable[[str, str], RequestView],
) -> None:
    """Echo the change and its key, `change` the request of this id, and print it."""
    full, key = client.full_id(id), key or client.new_key()
    output.say(f"{'change':8} {full} {asked}", error=True)
    output.say(f"{'key':8} {key}", error=True)
    request_options.answer(settings, change(full, key))


def length_words(comparative: str, by: str | None, duration: str | None) -> str:
    """Describe ``--by`` or ``--for``, of which exactly one must be given."""
    if (by is None) == (duration is None):
        raise click.UsageError("Give one of --by and --for.")
    if by is not None:
        return f"{comparative} by {format_duration(parse_duration(by, where='--by'))}"
    return f"{comparative}: {format_duration(parse_duration(str(duration), where='--for'))} in all"


def units_kept(pairs: Iterable[str]) -> dict[str, int]:
    """Parse ``site/name=N`` into a map."""
    kept = {}
    for pair in pairs:
        resource, _, count = pair.rpartition("=")
        if not resource or not count.isdecimal() or int(count) < 1:
            raise click.BadParameter(
                f"{pair!r} is not RES=N, e.g. sdsc/sp2=32.", param_hint="--units"
            )
        kept[resource] = int(count)
    return kept

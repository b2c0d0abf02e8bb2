"""Completion of arguments and options in a shell, with names that the server knows.

A shell waits at every key. So calls to the server are short, answers are cached for some seconds, and an
error completes nothing and prints nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click
import msgspec
from click.shell_completion import CompletionItem

from kalends.cli.console import output
from kalends.cli.console.settings import Settings

if TYPE_CHECKING:
    from kalends.client.sync import SyncClient

FRESH_S: Final = 10.0
"""Lifetime of a cached answer, also of a failed one, in seconds."""

COUNT_MAX: Final = 50
"""Maximum number of suggestions, the newest: more would not fit on a screen."""

_HARMLESS: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@+,-]*")
"""Values without special characters of a shell, because they become part of a command line."""

STATES: Final = {
    "lock": {"held"},
    "release": {"held", "open"},
    "cancel": {"reserved", "held", "open"},
    "move": {"reserved"},
    "extend": {"reserved"},
    "shrink": {"reserved"},
}
"""The states of the requests that a command can use; other commands can use all."""


class Suggestion(NamedTuple):
    """A value, a short description, and the kind or state by which commands choose."""

    value: str
    words: str = ""
    kind: str = ""


def completed(ctx: click.Context, name: str, incomplete: str) -> list[CompletionItem]:
    """Return the completions of `incomplete`, a value of the parameter `name`; raises nothing."""
    try:
        settings = ctx.ensure_object(Settings)
        settings.settle()
        found = VALUES[name](settings, ctx.info_name or "", incomplete)
        return [
            CompletionItem(each.value, help=output.plain_line(each.words))
            for each in found
            if each.value.startswith(incomplete) and _HARMLESS.fullmatch(each.value)
        ]
    except Exception:
        # A traceback must not appear at the prompt; the command itself reports the error.
        return []


def _resources(settings: Settings, command: str, incomplete: str) -> Iterable[Suggestion]:
    return [each for each in _known(settings, "resources", _ask_resources) if each.kind != "site"]


def _request(settings: Settings, command: str, incomplete: str) -> Iterable[Suggestion]:
    """Suggest resources for the first word of a request."""
    return [] if set(" +|{").intersection(incomplete) else _resources(settings, command, incomplete)


def _machines(settings: Settings, command: str, incomplete: str) -> Iterable[Suggestion]:
    return [
        each for each in _known(settings, "resources", _ask_resources) if each.kind == "machine"
    ]


def _sites(settings: Settings, command: str, incomplete: str) -> Iterable[Suggestion]:
    return [each for each in _known(settings, "resources", _ask_resources) if each.kind == "site"]


def _ids(settings: Settings, command: str, incomplete: str) -> Iterable[Suggestion]:
    """Suggest requests that need approval to an owner who decides, and else the user's own requests."""
    if command in ("approve", "decline"):
        return _known(settings, "approvals", _ask_approvals)
    found = _known(settings, "requests", _ask_requests)
    return [each for each in found if each.kind in STATES.get(command, {each.kind})]


def _jobs(settings: Settings, command: str, incomplete: str) -> Iterable[Suggestion]:
    """Suggest jobs of the machine that is named, or of the default one; else machines."""
    machine, slash, _ = incomplete.rpartition("/")
    if "/" in machine or (settings.machine and not slash):
        named = machine or settings.machine
        before = f"{machine}/" if machine else ""
        found = _known(settings, f"jobs of {named}", lambda client: _ask_jobs(settings, named))
        return [each._replace(value=before + each.value) for each in found]
    return [each._replace(value=f"{each.value}/") for each in _machines(settings, command, "")]


def _agents(settings: Settings, command: str, incomplete: str) -> Iterable[Suggestion]:
    return _known(
        settings, "agents", lambda client: [Suggestion(each.name) for each in client.agents()]
    )


def _profiles(settings: Settings, command: str, incomplete: str) -> Iterable[Suggestion]:
    from kalends.client.logins.profiles import config_path, read_profiles

    found = read_profiles(config_path(os.environ))
    return [Suggestion(name, profile.broker) for name, profile in sorted(found.items())]


def _addresses(settings: Settings, command: str, incomplete: str) -> Iterable[Suggestion]:
    """Suggest addresses of notices; in other commands the parameter is a time."""
    return _known(settings, "notices", _ask_addresses) if command in ("remove", "test") else []


def _reclaims(settings: Settings, command: str, incomplete: str) -> Iterable[Suggestion]:
    return _known(settings, "reclaims", _ask_reclaims) if command == "reclaim" else []


def _policies(settings: Settings, command: str, incomplete: str) -> Iterable[Suggestion]:
    """Complete the last of several names, separated by commas."""
    from kalends.scheduling.registry import POLICIES

    before = incomplete[: incomplete.rfind(",") + 1]
    return [Suggestion(before + each.name, each.summary) for each in POLICIES]


def _zones(settings: Settings, command: str, incomplete: str) -> Iterable[Suggestion]:
    from zoneinfo import available_timezones

    return [Suggestion(name) for name in sorted(available_timezones())]


VALUES: Final[dict[str, Callable[[Settings, str, str], Iterable[Suggestion]]]] = {
    "end": _reclaims,
    "id": _ids,
    "job": _jobs,
    "jobs": _jobs,
    "machine": _machines,
    "name": _agents,
    "policies": _policies,
    "policy": _policies,
    "profile": _profiles,
    "request": _request,
    "resource": _resources,
    "site": _sites,
    "to": _addresses,
    "zone": _zones,
}
"""Suggestions by parameter names, which mean the same in all commands that call a server."""


def _ask_resources(client: SyncClient) -> list[Suggestion]:
    answer = client.resources()
    found = [
        Suggestion(each.name, f"{each.capacity} units", "machine" if each.queue else "resource")
        for each in answer.resources
    ]
    return found + [Suggestion(each.site, each.state, "site") for each in answer.sites]


def _ask_requests(client: SyncClient) -> list[Suggestion]:
    from kalends.core.identifiers import short_id

    return [
        Suggestion(short_id(view.id), f"{view.state}: {view.text}", view.state)
        for view in client.list(count=COUNT_MAX)
    ]


def _ask_approvals(client: SyncClient) -> list[Suggestion]:
    from kalends.contract.owner_texts import approval_id
    from kalends.contract.slots_text import slots_text

    return [
        Suggestion(approval_id(each), f"{each.user}: {slots_text(each.slots)}")
        for each in client.approvals()
    ]


def _ask_addresses(client: SyncClient) -> list[Suggestion]:
    return [Suggestion(each.to, each.kind) for each in client.notice_addresses()]


def _ask_reclaims(client: SyncClient) -> list[Suggestion]:
    return [Suggestion(each.key, f"{each.resource}: {each.reason}") for each in client.reclaims()]


def _ask_jobs(settings: Settings, machine: str) -> list[Suggestion]:
    from kalends.cli.console.site_calls import client_at

    with client_at(settings, machine) as client:
        found = client.jobs(machine, everyone=False, count=COUNT_MAX)
        over = client.jobs(machine, state="over", everyone=False, count=COUNT_MAX)
    return [
        Suggestion(str(job.job), f"{job.phase}: {job.name or ' '.join(job.command)}", job.phase)
        for job in (*found.jobs, *over.jobs)
    ]


def _known(
    settings: Settings, kind: str, ask: Callable[[SyncClient], list[Suggestion]]
) -> list[Suggestion]:
    """Return a cached answer, or ask the server; nothing if there is no answer."""
    path = _kept_at(settings, kind)
    if (kept := _kept(path)) is not None:
        return kept
    settings.hurried, found = True, list[Suggestion]()
    try:
        with settings.connect() as client:
            found = ask(client)
    finally:
        # Also if no answer came, so that the user does not wait again at the next key.
        _keep(path, found)
    return found


def _kept_at(settings: Settings, kind: str) -> Path:
    """Return the cache file of an answer: one for each server, caller and kind."""
    from kalends.client.logins.profiles import users_folder

    who = (settings.user, *settings.group, settings.token_file, settings.token)
    name = hashlib.sha256("\n".join((settings.broker, *who, kind)).encode()).hexdigest()[:32]
    return users_folder("XDG_CACHE_HOME", "~/.cache", os.environ) / name


def _kept(path: Path) -> list[Suggestion] | None:
    """Return the cached answer; None if there is none, or if it is too old."""
    try:
        if not 0 <= time.time() - path.stat().st_mtime < FRESH_S:
            return None
        return msgspec.json.decode(path.read_bytes(), type=list[Suggestion])
    except (OSError, ValueError):
        return None


def _keep(path: Path, found: list[Suggestion]) -> None:
    from kalends.core.errors import InvalidInput
    from kalends.rim import private_files

    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        private_files.replace(path, msgspec.json.encode(found))
    except (OSError, InvalidInput):
        return

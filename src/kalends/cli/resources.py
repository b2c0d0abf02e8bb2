"""``kalends resources``: list the resources that can be booked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.client.sync import SyncClient
from kalends.contract.calls import CalendarView, Resources
from kalends.core.durations import format_duration
from kalends.core.resources import ResourceInfo


@click.command(
    "resources",
    cls=ServerCommand,
    examples=("kalends resources", "kalends resources sdsc/sp2"),
)
@click.argument("resource", required=False)
@pass_settings
def command(settings: Settings, resource: str | None) -> None:
    """List the resources that can be booked.

    Below the list are the owners' rules: limits, blackouts and head starts in wait queues. With RESOURCE,
    lists the rules that apply to you and how much you may book. Sites that do not answer are named; their
    resources are missing.
    """
    with settings.connect() as client:
        if resource is not None:
            _show_one(settings, client, resource)
            return
        answer = client.resources()
    output.answer(settings, "resources", answer, lambda: _lines(answer))
    if not settings.json:
        for line in _rules(answer):
            output.say(line)
    for site in answer.sites:
        if site.state == "down":
            output.say(f"kalends: site {site.site} does not answer: {site.detail}", error=True)


def _show_one(settings: Settings, client: SyncClient, resource: str) -> None:
    now_s = client.time_s("now")
    view = client.calendar(resource, start=now_s, end=now_s + 1)
    output.answer(settings, "calendar", view, lambda: _one(view))


def _one(view: CalendarView) -> Iterator[str]:
    info = view.resource
    yield from _lines(Resources(resources=(info,)))
    yield f"bookings end within {format_duration(info.horizon_s)} from now"
    yield from view.rules


def _lines(answer: Resources) -> Iterable[str]:
    return output.rows(
        ("RESOURCE", "UNITS", "GRAIN", "HOURS", "ATTRIBUTES", "DESCRIPTION"),
        [
            (
                resource.name,
                resource.capacity,
                format_duration(resource.grain_s),
                "advisory" if resource.advisory else resource.hours or "always",
                _attributes(resource),
                resource.description,
            )
            for resource in answer.resources
        ],
        right=("UNITS", "GRAIN"),
    )


def _attributes(resource: ResourceInfo) -> str:
    listed = [f"{name}={value}" for name, value in sorted(resource.attributes.items())]
    return " ".join([*listed, *(f"through={virtual}" for virtual in resource.through)])


def _rules(answer: Resources) -> Iterator[str]:
    """Yield every rule once, with its resources: most resources of a site share their rules."""
    resources_of: dict[str, list[str]] = {}
    for resource in answer.resources:
        for rule in resource.rules:
            resources_of.setdefault(rule, []).append(resource.name)
    for resource in answer.resources:
        if resource.advisory:
            yield (
                f"{resource.name}: advisory: {resource.advisory} alone schedules the jobs, and accepts no "
                f"reservations: submit jobs (kalends submit {resource.name})"
            )
    for rule, names in resources_of.items():
        yield f"{', '.join(names)}: {rule}"

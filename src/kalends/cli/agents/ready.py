"""``kalends agent ready``: list the ready-made agents, or print one."""

from __future__ import annotations

import click

from kalends.cli.console import output
from kalends.cli.console.commands import LocalCommand
from kalends.cli.console.server_parts import agent_parts
from kalends.cli.console.settings import Settings, pass_settings


@click.command(
    "ready",
    cls=LocalCommand,
    examples=(
        "kalends agent ready",
        "kalends agent ready time-of-day > mornings.py",
    ),
)
@click.argument("name", required=False)
@pass_settings
def command(settings: Settings, name: str | None) -> None:
    """List the ready-made agents, or print one.

    `kalends book --agent ready:NAME` uses one. Print one to start your own script.
    """
    with agent_parts():
        from kalends.agents import ready
    if name is None:
        listed = [{"name": known, "summary": ready.summary(known)} for known in ready.names()]
        output.answer(settings, "ready", listed, lambda: _listing(listed))
        return
    plain = name.removeprefix("ready:")
    source = ready.source(plain)
    if settings.json:
        found = {"name": plain, "summary": ready.summary(plain), "source": source}
        output.print_json("ready", found)
    else:
        output.say_script(source)


def _listing(listed: list[dict[str, str]]) -> list[str]:
    return output.rows(
        ("NAME", "WHAT IT PREFERS"), [(each["name"], each["summary"]) for each in listed]
    )

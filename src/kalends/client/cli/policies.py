"""``kalends policies``: by which rules jobs can be ordered and started."""

from __future__ import annotations

import click

from kalends.client.cli import _output
from kalends.client.cli._settings import LocalCommand, Settings, pass_settings


@click.command("policies", cls=LocalCommand)
@pass_settings
def command(settings: Settings) -> None:
    """List the scheduling policies.

    What stands in brackets may be left out. A policy of your own is named module:Class, with the
    module on PYTHONPATH: docs/policies.md has a template.
    """
    from kalends.scheduling.registry import POLICIES

    listed = [
        {
            "name": policy.name,
            "shown": policy.shown,
            "number": policy.number,
            "optional": policy.optional,
            "summary": policy.summary,
            "paper": policy.paper,
        }
        for policy in POLICIES
    ]
    _output.answer(settings, "policies", listed, lambda: _listing(listed))


def _listing(listed: list[dict[str, object]]) -> list[str]:
    return _output.rows(
        ("POLICY", "WHAT IT DOES", "FROM"),
        [(each["shown"], each["summary"], each["paper"]) for each in listed],
    )

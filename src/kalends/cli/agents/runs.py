"""``kalends agent runs``: list the runs of your scripts at a site."""

from __future__ import annotations

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.console.site_calls import SITE_HELP, site_client
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.cli.requests import agent_words

RUNS_MAX = 1_000


@click.command(
    "runs",
    cls=ServerCommand,
    examples=(
        "kalends agent runs --site sdsc",
        "kalends agent runs 5d0c1f2e --site sdsc --count 10",
    ),
)
@click.argument("id", required=False)
@click.option("--site", required=True, metavar="SITE", help=SITE_HELP)
@click.option("--count", default=50, show_default=True, type=WholeNumber(1, RUNS_MAX),
              metavar="N", help="Maximum number of rows.")  # fmt: skip
@pass_settings
def command(settings: Settings, id: str | None, site: str, count: int) -> None:
    """List the runs of your scripts at a site.

    Newest first; with an ID, for that request only. `kalends agent replay NUMBER --site SITE` repeats a
    run.
    """
    zone = settings.time_zone()
    full = ""
    if id:
        with settings.connect() as client:
            full = client.full_id(id)
    with site_client(settings, site) as client:
        found = client.agent_runs(full, count=min(count + 1, RUNS_MAX))
    runs = found[:count]
    output.answer(settings, "runs", runs, lambda: agent_words.run_listing(runs, zone))
    if len(found) > count:
        more = min(10 * count, RUNS_MAX)
        words = f"kalends agent runs {f'{id} ' if id else ''}--site {site} --count {more}"
        output.say(f"there are more: {words}", error=True)
    elif count == RUNS_MAX == len(found):
        output.say(f"only the newest {RUNS_MAX:,} runs are listed", error=True)

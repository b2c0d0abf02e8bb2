"""``kalends sites``: list the sites that a broker knows, and how they bid for jobs."""

from __future__ import annotations

from collections import Counter

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.contract.calls import Resources, SiteStatus
from kalends.core.durations import format_duration
from kalends.core.identifiers import split_resource


@click.command("sites", cls=ServerCommand, examples=("kalends sites", "kalends sites --json"))
@pass_settings
def command(settings: Settings) -> None:
    """List the sites that a broker knows, and how they bid for jobs.

    ANSWERS is the usual time to a site's bid. WAIT is the wait of a job there, from the last bids. YOURS RUN
    is the share of their limits that your last jobs used there (at other sites, if none ran there). A site
    that did not answer is asked again after a pause. VERSION is the version of kalends at the site. A site
    refuses requests that need features of later versions, and names the feature.
    """
    with settings.connect() as client:
        answer = client.resources()
    output.answer(settings, "sites", answer.sites, lambda: site_lines(answer))


def site_lines(answer: Resources) -> list[str]:
    machines = Counter(split_resource(each.name)[0] for each in answer.resources if each.queue)
    return output.rows(
        ("SITE", "STATE", "BIDS FOR", "ANSWERS", "WAIT", "YOURS RUN", "VERSION", "DETAIL"),
        [
            (
                site.site,
                site.state,
                f"{machines[site.site]} machine{'s' if machines[site.site] > 1 else ''}"
                if machines[site.site]
                else "-",
                f"{site.answer_ms} ms" if site.answer_ms else "-",
                format_duration(site.wait_s) if site.answer_ms else "-",
                f"{site.learned_share:.2g}" if site.learned_jobs else "-",
                site.version or "-",
                _detail(site),
            )
            for site in answer.sites
        ],
    )


def _detail(site: SiteStatus) -> str:
    resting = f"did not bid; asked again in {format_duration(site.rests_s)}"
    detail = resting if site.rests_s else site.detail
    lacks = f"lacks {', '.join(site.lacks)}" if site.lacks else ""
    return "; ".join(filter(None, (site.through and f"through {site.through}", lacks, detail)))

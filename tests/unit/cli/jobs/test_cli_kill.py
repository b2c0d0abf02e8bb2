"""``kalends kill`` of several jobs: what can be ended is, and what cannot is told."""

from __future__ import annotations

import json

from click.testing import CliRunner, Result
from past_site import MACHINE, past_job, past_site

from kalends.cli import cli


def kill(url: str, *words: str) -> Result:
    environment = {"KALENDS_BROKER": url, "KALENDS_USER": "ann"}
    return CliRunner().invoke(cli, ["kill", *words], env=environment)


def test_a_job_that_is_not_there_keeps_no_other_from_being_ended() -> None:
    jobs = [f"{MACHINE}/{number}" for number in (1, 98, 2, 99)]
    with past_site([past_job(1), past_job(2)]) as url:
        text, document = kill(url, *jobs), kill(url, "--json", *jobs)
        one = kill(url, jobs[1])
    assert text.stdout == "lab/box/1 ended\nlab/box/2 ended\n"
    assert text.exit_code == document.exit_code == one.exit_code == 1
    assert "2 of 4 jobs could not be ended; the others have ended" in text.stderr
    told = json.loads(document.stdout)["data"]["refusals"]
    assert [refusal["where"] for refusal in told] == ["lab/box/98", "lab/box/99"]
    assert one.stderr.splitlines()[0] == "kalends: job: lab/box has no job 98"

"""What a shepherd is told of the owner's rules, and what a program finds of its user's locale."""

from __future__ import annotations

from pathlib import Path

import pytest

from kalends.batch.host_locale import DEFAULT, locale_of_this_host
from kalends.batch.orders import OrderMaker
from kalends.batch.queue.effects import Start
from kalends.batch.queue.job import BatchJob
from kalends.batch.shepherds.exits import exit_words
from kalends.batch.shepherds.order import JobOrder
from kalends.core.errors import InvalidInput
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.serving.configuration import MachineConfiguration, load_configuration

TOO_LONG = "ended by SIGXFSZ: one of its files grew beyond 5 bytes, the owner's file_mb_max"
SITE = (
    '[site]\nname = "lab"\nstore = "s.db"\n[[site.resources]]\nname = "box"\n'
    '[[site.machines]]\nresource = "box"\n'
)


def rules(text: str = "") -> MachineConfiguration:
    site = load_configuration(SITE + text, Path("/")).site
    assert site is not None
    return site.machines[0]


def order(text: str = "", **job: str | dict[str, str]) -> JobOrder:
    request = JobRequest(machine="lab/box", limit_s=60, command=("true",), **job)  # type: ignore[arg-type]
    batch_job = BatchJob(1, Principal("ann"), request, 0, "key")
    maker = OrderMaker("lab/box", rules(text), (0,), False, locale={"LANG": "C.UTF-8"})
    return maker.order(Start(batch_job, 1, (0,), {}), "1.1")


def test_files_of_users_have_no_limit_unless_the_owner_sets_one() -> None:
    assert order().resources == {}
    assert order().kept_bytes_max == 1_024_000_000
    limited = order("output_mb_max = 0\nfile_mb_max = 5\ncore_mb_max = 2\n")
    assert limited.resources == {"FSIZE": 5_000_000, "CORE": 2_000_000}
    assert limited.kept_bytes_max == 0


def test_the_owner_says_with_which_umask_and_variables_jobs_run_and_a_job_overrides_them() -> None:
    text = 'umask = "027"\nenvironment = { PATH = "/opt/bin:/usr/bin", LANG = "de_DE.UTF-8" }\n'
    made = order(text, environment={"LANG": "en_GB.UTF-8"})
    assert (order().umask, made.umask) == (0o022, 0o027)
    assert order().environment["LANG"] == "C.UTF-8"
    assert (made.environment["PATH"], made.environment["LANG"]) == (
        "/opt/bin:/usr/bin",
        "en_GB.UTF-8",
    )


@pytest.mark.parametrize(
    "text",
    [
        'umask = "rwx"',
        'umask = "0888"',
        'environment = { "A B" = "" }',
        r'environment = { A = "\u0000" }',
    ],
)
def test_a_umask_or_a_variable_that_no_job_could_have_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"site\.machines\[0\]\.(umask|environment)"):
        rules(text)


def test_the_locale_is_the_hosts_as_a_login_has_it(tmp_path: Path) -> None:
    files = (tmp_path / "environment", tmp_path / "locale", tmp_path / "none")
    assert locale_of_this_host(files) == {"LANG": DEFAULT}
    files[0].write_text("# of this host\nPATH=/bin\nLANG='fr_FR.UTF-8' # ours\nnothing\n")
    files[1].write_text('export LANG="de_DE.UTF-8"\nLC_TIME=en_GB.UTF-8\nLC_ALL="odd\n')
    found = {"LANG": "de_DE.UTF-8", "LC_TIME": "en_GB.UTF-8", "LC_ALL": '"odd'}
    assert locale_of_this_host(files) == found


@pytest.mark.parametrize(
    ("status", "limits", "words"),
    [
        (0, {"FSIZE": 5}, ""),
        (-15, {}, "ended by SIGTERM"),
        (-77, {}, "ended by signal 77"),
        (-25, {}, "ended by SIGXFSZ"),
        (153, {}, ""),
        (-25, {"FSIZE": 5}, TOO_LONG),
        (153, {"FSIZE": 5}, TOO_LONG),
    ],
)  # fmt: skip
def test_the_words_of_an_exit_name_the_limit_that_was_met(
    status: int, limits: dict[str, int], words: str
) -> None:
    assert exit_words(status, limits) == words

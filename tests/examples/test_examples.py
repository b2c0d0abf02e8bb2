"""Every example runs against real servers, and prints what is stored in examples/output.

After a change on purpose, record again and read the difference:
KALENDS_RECORD=1 pytest tests/examples
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import cloudpickle
import pytest
from machine_room import Machine, machine_room, without_times
from transcripts import (
    EXAMPLES,
    OUTPUT,
    ROOT,
    check,
    comparable,
    environment,
    run_script,
    run_session,
)

from kalends.demo.facility import Facility

AGENTS = EXAMPLES / "agents"
together = pytest.mark.xdist_group("everyones-facility")
SCRIPTS = ["async_many", "first_booking", "move_and_cancel", "waiting"]


@together
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_script_prints_what_is_stored(name: str, empty_facility: Facility) -> None:
    variables = empty_facility.environment()
    printed = run_script(EXAMPLES / f"{name}.py", variables)
    check(name, comparable(printed, str(empty_facility.directory)))


def test_windows_of_terms_print_what_is_stored() -> None:
    check("windows", run_script(EXAMPLES / "windows.py", {}))


def test_prices_of_two_owners_print_what_is_stored() -> None:
    check("prices", run_script(EXAMPLES / "prices.py", {}))


def test_a_student_pays_and_a_late_cancel_costs_what_is_stored() -> None:
    check("paying", run_script(EXAMPLES / "paying.py", {}))


def test_a_series_prints_what_is_stored() -> None:
    check("series", run_script(EXAMPLES / "series.py", {}))


def test_the_calendar_engine_alone_prints_what_is_stored() -> None:
    check("calendars", run_script(EXAMPLES / "calendars.py", {}))


def test_a_replay_in_python_prints_what_is_stored() -> None:
    check("simulate", run_script(EXAMPLES / "simulate.py", {}))


def test_predicted_starts_print_what_is_stored() -> None:
    check("predictions", run_script(EXAMPLES / "predictions.py", {}))


def test_the_session_of_replays_prints_what_is_stored(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "data", tmp_path / "examples" / "data")
    variables = {"KALENDS_FACILITY": str(tmp_path)}
    check("simulate-session", run_session(EXAMPLES / "simulate-session.sh", variables))


def test_machines_and_mappers_print_what_is_stored() -> None:
    check("machines", run_script(EXAMPLES / "machines.py", {}))


def test_servers_of_ones_own_print_what_is_stored() -> None:
    check("own_servers", run_script(EXAMPLES / "own_servers.py", {}))


def test_a_client_of_two_addresses_prints_what_is_stored() -> None:
    check("several_addresses", run_script(EXAMPLES / "several_addresses.py", {}))


def test_a_receiver_of_notices_prints_what_is_stored() -> None:
    check("notices", run_script(EXAMPLES / "notices.py", {}))


def test_hand_over() -> None:
    check("hand_over", run_script(EXAMPLES / "hand_over.py", {}))


def test_a_reservation_in_a_calendar_prints_what_is_stored() -> None:
    check("calendar_files", run_script(EXAMPLES / "calendar_files.py", {}))


def test_owners_who_approve_and_decline_print_what_is_stored() -> None:
    check("approval", run_script(EXAMPLES / "approval.py", {}))


def test_an_owners_rules_as_code_print_what_is_stored() -> None:
    check("owner_rules", run_script(EXAMPLES / "owner_rules.py", {}))


def test_buffers_between_bookings_print_what_is_stored() -> None:
    check("buffers", run_script(EXAMPLES / "buffers.py", {}))


def test_a_site_made_of_sites_prints_what_is_stored() -> None:
    check("virtual_site", run_script(EXAMPLES / "virtual_site.py", {}))


def test_the_grid_of_clusters_prints_what_is_stored() -> None:
    check("grid", run_script(EXAMPLES / "grid.py", {}))


def test_a_policy_of_ones_own_prints_what_is_stored() -> None:
    check("own_policy", run_script(EXAMPLES / "own_policy.py", {}))


def test_the_terminal_session_prints_what_is_stored(own_facility: Facility) -> None:
    printed = run_session(EXAMPLES / "cli-session.sh", own_facility.environment())
    check("cli-session", comparable(printed, str(own_facility.directory)))


def test_two_users_compete_and_the_one_who_waits_gets_it(own_facility: Facility) -> None:
    printed = run_session(EXAMPLES / "waiting-session.sh", own_facility.environment())
    check("waiting-session", comparable(printed, str(own_facility.directory)))


def test_first_mistakes_are_answered_as_is_stored(own_facility: Facility) -> None:
    printed = run_session(EXAMPLES / "mistakes.sh", own_facility.environment())
    check("mistakes", comparable(printed, str(own_facility.directory)))


def test_the_session_of_an_owner_prints_what_is_stored(own_facility: Facility) -> None:
    printed = run_session(EXAMPLES / "reclaim.sh", own_facility.environment())
    check("reclaim", comparable(printed, str(own_facility.directory)))


@together
def test_an_agent_from_a_string_prints_what_is_stored(empty_facility: Facility) -> None:
    printed = run_script(AGENTS / "prefer_mornings.py", empty_facility.environment())
    check("agents-prefer_mornings", comparable(printed, str(empty_facility.directory)))


def test_the_tour_of_agents_prints_what_is_stored(own_facility: Facility) -> None:
    # The session names scripts as from the directory of kalends, and runs in the facility's.
    shutil.copytree(AGENTS, own_facility.directory / "examples" / "agents")
    printed = run_session(AGENTS / "tour.sh", own_facility.environment())
    check("agents-tour", comparable(printed, str(own_facility.directory)))


def test_a_program_that_changes_its_size_prints_what_is_stored() -> None:
    changes = ("--changes", "2@20,4@40,1@60", "--", "--rows", "128")
    run = subprocess.run(
        [sys.executable, "-m", "kalends_malleable", "examples/malleable_heat.py", *changes],
        cwd=ROOT, env=environment({}), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=True,
    )  # fmt: skip
    # How long a change takes, and with which instructions sums are made, is the host's.
    printed = re.sub(r"[0-9.]+ ms", "N ms", run.stdout)
    check("malleable_heat", re.sub(r"(?<=sha256 )[0-9a-f]{64}", "HASH", printed))


def test_the_day_in_the_machine_room_prints_what_is_stored() -> None:
    # Not in pytest's own folder, which only root could enter.
    with (
        tempfile.TemporaryDirectory(prefix="kalends-day-") as directory,
        machine_room(Path(directory)) as variables,
    ):
        printed = run_session(EXAMPLES / "jobs-session.sh", variables)
    check("jobs-session", without_times(comparable(printed, directory)))


def test_jobs_that_may_run_anywhere_print_what_is_stored() -> None:
    machines = (Machine("small", 2, "easy"), Machine("large", 4, "conservative", memory=128))
    with (
        tempfile.TemporaryDirectory(prefix="kalends-bids-") as directory,
        machine_room(Path(directory), machines) as variables,
    ):
        printed = run_session(EXAMPLES / "bids-session.sh", variables)
    check("bids-session", without_times(comparable(printed, directory)))


def test_jobs_in_step_print_what_is_stored() -> None:
    machines = (Machine("small", 2, "easy"), Machine("large", 4, "conservative"))
    with (
        tempfile.TemporaryDirectory(prefix="kalends-steps-") as directory,
        machine_room(Path(directory), machines) as variables,
    ):
        printed = run_session(EXAMPLES / "steps-session.sh", variables)
    check("steps-session", without_times(comparable(printed, directory)))


def test_functions_as_jobs_print_what_is_stored() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="kalends-functions-") as directory,
        machine_room(Path(directory)) as variables,
    ):
        packages = Path(directory) / "home" / "packages"
        shutil.copytree(Path(cloudpickle.__file__).parent, packages / "cloudpickle")
        printed = run_script(
            EXAMPLES / "functions.py", {**variables, "KALENDS_PACKAGES": str(packages)}
        )
    check("functions", printed)


def test_no_example_is_left_out() -> None:
    elsewhere = {
        "my_backfilling",
        "my_policy",
        "notebook",
    }  # Read by a replay, and run in a kernel.
    present = {path.stem for path in _programs(EXAMPLES)} - elsewhere
    sessions = {
        "bids-session",
        "cli-session",
        "jobs-session",
        "mistakes",
        "reclaim",
        "simulate-session",
        "steps-session",
        "waiting-session",
    }
    alone = {
        "approval",
        "buffers",
        "calendar_files",
        "hand_over",
        "calendars",
        "functions",
        "grid",
        "machines",
        "malleable_heat",
        "notices",
        "own_policy",
        "own_servers",
        "owner_rules",
        "paying",
        "predictions",
        "prices",
        "series",
        "several_addresses",
        "windows",
        "simulate",
        "virtual_site",
    }
    assert present == {*SCRIPTS, *alone, *sessions}
    of_agents = {f"agents-{path.stem}" for path in _programs(AGENTS)}
    assert of_agents == {"agents-prefer_mornings", "agents-tour"}
    assert {path.stem for path in OUTPUT.iterdir()} == present | of_agents


def _programs(directory: Path) -> list[Path]:
    """Those that are run as they are; scripts for agents are not."""
    return [
        path
        for path in directory.iterdir()
        if path.suffix in (".py", ".sh") and not path.name.endswith(".agent.py")
    ]

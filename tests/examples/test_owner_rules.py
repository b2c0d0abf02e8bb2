"""An owner tries a stricter script on what the site has decided before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import kalends
from kalends.testing import LocalFacility

SCRIPT = Path(__file__).parents[2] / "examples" / "agents" / "beginners.agent.py"
NOW, DAY = "2027-03-01T09:00Z", "2027-03-03T09:00Z"


def tried(url: str, script: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable, "-m", "kalends", "admin", "rules", str(script), "--last", "30d", "--broker", url,
        "--user", "operator", "--json",
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_stricter_script_names_the_bookings_that_it_would_have_refused(tmp_path: Path) -> None:
    ruled = {"decide": {"script": str(SCRIPT)}}
    with (
        LocalFacility({"emlab": {"tem": ruled}}, now=NOW) as servers,
        servers.sync_client("ann", groups=["beginners"]) as ann,
        servers.sync_client("bob") as bob,
    ):
        bob.book("emlab/tem", duration="2h", at=DAY)
        with pytest.raises(kalends.NotAllowed):
            ann.book("emlab/tem", duration="2h", at="2027-03-03T16:00Z")
        same = tried(servers.url("emlab"), SCRIPT)
        assert same.returncode == 0, same.stderr
        assert {each["then"] == each["now"] for each in json.loads(same.stdout)["data"]} == {True}

        stricter = tmp_path / "stricter.py"
        stricter.write_text('def decide(request, calendar, usage):\n    return "closed"\n')
        found = json.loads(tried(servers.url("emlab"), stricter).stdout)["data"]
        then = {each["user"]: each["then"] for each in found}
        assert then == {"bob": "yes", "ann": "no: beginners book from 9:00 to 17:00"}
        assert {each["now"] for each in found} == {"no: closed"}

        endless = tmp_path / "endless.py"
        endless.write_text("def decide(request, calendar, usage):\n    while True:\n        pass\n")
        assert tried(servers.url("emlab"), endless).returncode == 1

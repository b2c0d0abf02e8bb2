"""The page about PSI/J misses no setting and no attribute."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Final

from kalends_psij import KalendsExecutorConfig
from kalends_psij.job_requests import KNOWN, PREFIX

PAGE: Final = (Path(__file__).parents[2] / "docs" / "psij.md").read_text()


def test_it_tells_every_setting_and_every_attribute() -> None:
    rows = re.findall(r"(?m)^\| (`.*?) \|", PAGE)
    told = set(re.findall(r"`(\w+)`", " ".join(rows)))
    assert told >= set(inspect.signature(KalendsExecutorConfig).parameters)
    assert set(re.findall(rf"`{re.escape(PREFIX)}(\w+)`", PAGE)) == set(KNOWN)

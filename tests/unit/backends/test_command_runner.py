"""Commands of batch systems end in time, with all that they have started."""

from __future__ import annotations

from pathlib import Path

import pytest

from kalends.backends.adapter import SystemSilent
from kalends.backends.command_runner import CommandRunner, after


async def test_a_command_that_does_not_end_is_killed_with_what_it_has_started() -> None:
    with pytest.raises(SystemSilent, match="has not ended"):
        await CommandRunner(0.2).run("sh", "-c", "sleep 1000 & wait")


async def test_a_command_finds_what_its_settings_have_set(tmp_path: Path) -> None:
    settings = tmp_path / "settings.sh"
    settings.write_text("CELL='the cell'; export CELL\n")
    words = after(str(settings), "sh", "-c", 'echo "$CELL, $0"', "as it is: $CELL")
    assert (await CommandRunner(10).run(*words)).output == "the cell, as it is: $CELL\n"
    assert after("", "echo") == ("echo",)

"""Starting the program loads only what the command at hand needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import web
from client_broker import serving

import kalends

ENTRY = """
import sys
from pathlib import Path
from kalends.cli import main
sys.argv = ["kalends", *sys.argv[1:]]
code = main()
print("LOADED", *sys.modules, file=sys.stderr)
sys.exit(code)
"""

SERVER_PARTS = {
    "kalends.serving", "kalends.resource_servers", "kalends.broker", "kalends.calendars",
    "sqlite3", "sortedcontainers", "jwt", "prometheus_client", "structlog", "dateutil",
}  # fmt: skip


def started(*words: str) -> tuple[subprocess.CompletedProcess[str], set[str]]:
    done = subprocess.run(
        [sys.executable, "-c", ENTRY, *words], capture_output=True, text=True, check=False
    )
    return done, set(done.stderr.rpartition("LOADED")[2].split())


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_and_version_load_neither_the_core_nor_a_network(word: str) -> None:
    done, loaded = started(word)
    assert done.returncode == 0
    heavy = {"msgspec", "aiohttp", "asyncio", "rich", "kalends.core", "kalends.client.client"}
    assert not loaded & (heavy | SERVER_PARTS)


def test_the_version_is_printed() -> None:
    assert started("--version")[0].stdout == f"kalends {kalends.__version__}\n"


def test_a_command_that_calls_a_server_loads_no_part_of_one_and_draws_nothing() -> None:
    done, loaded = started(
        "--broker", "http://127.0.0.1:9", "book", "a/b", "--for", "1h", "--key", "bad"
    )
    assert done.returncode == 2
    assert "kalends.client.sync" in loaded
    assert not loaded & (SERVER_PARTS | {"rich", "kalends.client.transports.session"})


HEAVY_FOR_A_CALL = {
    "aiohttp",
    "rich",
    "kalends.contract.messages",
    "kalends.client.terminals.job_terminal",
}


@pytest.mark.parametrize(
    "words",
    [
        ("submit", "lab/box", "--for", "1h", "--", "true"),
        ("queue", "lab/box"),
        ("job", "lab/box/1"),
        ("kill", "lab/box/1"),
        ("list",),
        ("show", "01a218be-324c-7552-bd48-9101e3a561e2"),
        ("find", "a/b", "--for", "1h"),
        ("book", "a/b", "--for", "1h"),
    ],
)  # fmt: skip
def test_an_everyday_command_makes_its_call_without_what_is_slow_to_load(
    words: tuple[str, ...],
) -> None:
    asked = []

    async def refuse(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=403)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", refuse)
    with serving(app) as url:
        done, loaded = started("--broker", url, *words)
    assert (done.returncode, len(asked)) == (4, 1), done.stderr
    assert not loaded & (SERVER_PARTS | HEAVY_FOR_A_CALL)


@pytest.mark.parametrize(
    "words", [("submit", "lab/box", "--for", "1h", "--", "true"), ("queue", "lab/box")]
)
def test_a_command_about_jobs_does_not_load_the_language_of_requests(
    words: tuple[str, ...],
) -> None:
    done, loaded = started("--broker", "http://127.0.0.1:0", *words)
    assert done.returncode == 2
    assert "kalends.client.sync" in loaded
    assert not {name for name in loaded if name.startswith("kalends.core.language")}


def test_the_program_exits_with_the_code_of_the_error() -> None:
    assert started("nonsense")[0].returncode == 2
    assert started("admin", "nonsense")[0].returncode == 2


def test_booking_with_an_agent_loads_nothing_that_runs_scripts() -> None:
    done, loaded = started(
        "--broker", "http://127.0.0.1:9", "book", "a/b", "--for", "1h", "--key", "bad",
        "--agent", "ready:earliest",
    )  # fmt: skip
    assert done.returncode == 2
    assert "kalends.client.sync" in loaded
    assert not loaded & (SERVER_PARTS | {"kalends.agents", "kalends.client.trials"})


def test_running_scripts_here_loads_no_part_of_a_server(tmp_path: Path) -> None:
    script = tmp_path / "mine.agent.py"
    script.write_text("def choose(view, request):\n    return []\n")
    done, loaded = started("agent", "check", str(script))
    assert done.returncode == 0
    assert "kalends.client.trials" in loaded
    assert not loaded & (SERVER_PARTS | {"aiohttp", "kalends.client.sync"})

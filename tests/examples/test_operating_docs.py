"""docs/operating.md: its commands work in their order, and it knows every metric and alarm there is."""

from __future__ import annotations

import ast
import asyncio
import re
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from tests.processes.servers import until
from tests.support.ports import free_urls
from transcripts import ROOT, environment

from kalends.demo.processes import start, stop
from kalends.serving.configuration import load_configuration

SOURCES = ROOT / "src" / "kalends"
PAGE = (ROOT / "docs" / "operating.md").read_text()
BLOCKS = dict(
    re.findall(
        r"<!-- ([^:\n]+): tests/examples/test_operating_docs\.py -->\n```sh\n(.*?)```\n",
        PAGE,
        re.DOTALL,
    )
)
TOML = re.findall(r"```toml\n(.*?)```\n", PAGE, re.DOTALL)

REPORTERS = frozenset({"report", "reporter", "_reported"})
"""Their first argument says what an alarm is about."""

TELLERS = frozenset({"tell", "alarm", "_alarm", "_alarmed", "alarmed", "complain", "_complain"})
"""Their arguments are the text of an alarm."""

SHELLS = (
    "broker", "resource_servers", "virtual_sites", "serving", "notices", "batch", "stores",
)  # fmt: skip


def literals(node: ast.AST) -> list[str]:
    return [
        each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]


def alarm_kinds(tree: ast.AST) -> Iterator[str]:
    """The words by which an operator knows each alarm: what it is about, or most of its text."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not call.args:
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if name in REPORTERS:
            words = literals(call.args[0]) or [
                each for arg in call.args[1:] for each in literals(arg)
            ]
        elif name in TELLERS:
            words = [each for arg in call.args for each in literals(arg)]
        else:
            continue
        longest = max(words, key=len, default="").strip(" :,;")
        if len(longest) > 4 or (name in REPORTERS and len(longest) > 2):
            yield longest


def test_every_alarm_is_in_the_guide() -> None:
    page = " ".join(PAGE.split())
    kinds = {
        kind
        for shell in SHELLS
        for path in sorted((SOURCES / shell).rglob("*.py"))
        for kind in alarm_kinds(ast.parse(path.read_text()))
    }
    assert len(kinds) > 30
    assert {kind for kind in kinds if not any(each in page for each in parts(kind))} == set()


def parts(kind: str) -> list[str]:
    """A long text is known by any five words of it."""
    words = kind.split()
    return [" ".join(words[at : at + 5]) for at in range(max(1, len(words) - 4))]


def test_every_metric_is_in_the_guide_and_nothing_else() -> None:
    named = {
        name
        for path in SOURCES.rglob("*.py")
        if "malleable" not in path.parts
        for name in re.findall(r'"(kalends_[a-z_]+)"', path.read_text())
    }
    told = set(re.findall(r"`(kalends_[a-z_]+)`", PAGE))
    assert {name.removesuffix("_total") for name in told} == named


def test_every_setting_that_it_shows_is_one() -> None:
    assert TOML
    for text in TOML:
        load_configuration(text, Path())


async def serving(directory: Path, work: Callable[[], Awaitable[None]]) -> None:
    """Do `work` while both serve and have met."""
    broker = await start("npaci", directory / "npaci" / "npaci.toml")
    site = await start("ctc", directory / "ctc" / "ctc.toml")
    try:

        async def have_met() -> bool:
            return "site_connected" in broker.log.read_text()

        await until(have_met, "the site is connected to its broker")
        await work()
    finally:
        await stop((broker, site))


def test_two_organisations_are_set_up_book_and_are_restored_by_its_commands(tmp_path: Path) -> None:
    ports = [url.rpartition(":")[2] for url in free_urls(3)]
    free = dict(zip(("7440", "7441", "7442"), ports, strict=True))
    said: dict[str, str] = {}

    def done_by(name: str) -> subprocess.CompletedProcess[str]:
        block = re.sub(r"744[012]", lambda found: free[found[0]], BLOCKS[name])
        return subprocess.run(
            ["sh", "-e", "-c", block], cwd=tmp_path, env=environment({}), text=True,
            capture_output=True, check=False,
        )  # fmt: skip

    async def first_day() -> None:
        for name in ("book", "operators", "backup", "audit log", "newcomer"):
            await asyncio.to_thread(run, name)
        newcomer = await start("lab", tmp_path / "lab" / "lab.toml")
        try:
            await asyncio.to_thread(run, "join")
        finally:
            await stop((newcomer,))

    async def compared() -> bool:
        return (await asyncio.to_thread(done_by, "operators")).returncode == 0

    async def restored() -> None:
        await until(compared, "what the site has is compared")
        await asyncio.to_thread(run, "operators")

    def run(name: str) -> str:
        done = done_by(name)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
        said[name] = done.stdout
        return done.stdout

    for name in ("broker", "site", "check"):
        assert "PROBLEM" not in run(name)
    asyncio.run(serving(tmp_path, first_day))
    assert "reserved" in said["book"]
    assert said["operators"].count("all invariants hold") == 2
    assert "lab has joined: https://127.0.0.1:" in said["join"]
    booked, refused = said["audit log"].splitlines()
    assert '"user":"ada"' in booked
    assert refused == "0"
    run("restore")
    asyncio.run(serving(tmp_path, restored))
    assert "claims locked: 1" in said["operators"]
    run("people")
    assert said.keys() == BLOCKS.keys()

"""docs/agents.md is right: its scripts run, its shapes are those of a visit, its tables are complete."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from tests.agent_worlds import MONDAY, Taken, calendar, chosen, run, visit

from kalends.agents import ready
from kalends.agents.language.checker import parsed
from kalends.agents.runs import ScriptRun
from kalends.agents.world.offers import Offer
from kalends.agents.world.views import Asker, recall_arguments
from kalends.core.scripts import BLAME, Ask, HeldChoice, RunCode
from kalends.serving.configuration import AgentsConfiguration, NearConfiguration

TEXT = (Path(__file__).parents[3] / "docs" / "agents.md").read_text("utf-8")
HOUR_S = 3_600
SP2, ONYX = "sdsc/sp2", "sdsc/onyx"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


SCRIPTS = {
    script.partition('"""')[2].partition(".")[0] or "recall": script for script in blocks("python")
}


def week() -> Any:
    sp2 = calendar(
        SP2, [Taken(MONDAY, MONDAY + HOUR_S, 28)], capacity=128, zone="America/Los_Angeles",
        attributes={"kind": "sp2", "memory": 64},
    )  # fmt: skip
    onyx = calendar(ONYX, [Taken(MONDAY + 2 * HOUR_S, MONDAY + 5 * HOUR_S, holder="ada")])
    asks = [
        Ask(term=0, resource=SP2, length_s=7_200, units=64),
        Ask(term=1, resource=ONYX, length_s=HOUR_S, offset_s=HOUR_S),
    ]
    return visit([sp2, onyx], asks)


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below `heading`, without its first two lines."""
    section = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def test_there_are_scripts_to_try() -> None:
    assert len(SCRIPTS) == 4


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
async def test_every_script_keeps_the_rules_and_chooses(script: str) -> None:
    assert parsed(script)[1] == ()
    seen = week()
    assert await chosen(script, seen, {"at": "09:30"})


async def test_the_first_script_starts_at_the_time_of_day_that_is_named() -> None:
    sp2 = calendar(SP2, zone="America/Los_Angeles")
    seen = visit([sp2], [Ask(term=0, resource=SP2, length_s=HOUR_S)])
    found = await chosen(blocks("python")[0], seen, {"at": "09:30"})
    assert found[0].start == MONDAY + 17 * HOUR_S + 1_800


async def test_the_script_for_several_terms_holds_whole_common_starts() -> None:
    found: list[Offer] = await chosen(blocks("python")[1], week())
    assert [offer.term for offer in found] == [0, 1] * (len(found) // 2)
    assert all(one.common == two.common for one, two in zip(found[::2], found[1::2], strict=True))


def recalling(script: str, held: int) -> ScriptRun:
    starts = [MONDAY + number * HOUR_S for number in range(held)]
    holds = [
        HeldChoice(number, 0, SP2, start, start + HOUR_S, 1, start)
        for number, start in enumerate(starts, start=1)
    ]
    asker = Asker(MONDAY, MONDAY + HOUR_S, 8)
    return ScriptRun(
        "ada", script, "recall", recall_arguments("sdsc", week().shown, holds, 1, asker, 16, MONDAY)
    )


@pytest.mark.parametrize(("held", "gives"), [(2, True), (1, False)])
async def test_the_script_that_gives_back_does_so_when_it_says(held: int, gives: bool) -> None:
    outcome = await run(recalling(blocks("python")[2], held))
    assert (outcome.code, outcome.answer) == ("ok", gives)


async def test_the_script_that_talks_reads_and_writes_messages() -> None:
    seen = week()
    outcome = await run(seen.job(blocks("python")[3], inbox=({"skip": 3},)))
    assert outcome.answer[0] == 3
    assert outcome.sent == ({"site": "here", "slots": len(seen.offers)},)


def shape(value: Any) -> Any:
    """Keys and kinds of `value`, in order; of a list its first item."""
    if isinstance(value, dict):
        return [(key, shape(item)) for key, item in value.items()]
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    return type(value)


def test_the_shapes_are_those_of_a_visit() -> None:
    sp2 = calendar(
        SP2, [Taken(MONDAY, MONDAY + HOUR_S, 28)], capacity=128, zone="America/Los_Angeles",
        attributes={"kind": "sp2", "memory": 64},
    )  # fmt: skip
    seen = visit([sp2], [Ask(term=0, resource=SP2, length_s=7_200, units=64)])
    shown = [json.loads(block) for block in blocks("json")]
    view, request = seen.job("", {"at": "09:30"}).arguments
    _, asker, _ = recalling("", 1).arguments
    assert [shape(each) for each in shown] == [shape(view), shape(request), shape(asker)]


def test_the_table_of_codes_has_each_code_and_its_blame() -> None:
    table = {code.strip("`"): blame for code, blame, _ in rows("Failed runs")}
    assert table == dict(BLAME)
    assert set(table) == set(get_args(RunCode))


def test_the_table_of_ready_made_agents_has_them_all_and_their_arguments() -> None:
    table = {name.strip("`"): arguments for name, _, arguments in rows("Ready-made agents")}
    assert set(table) == set(ready.names())
    for name, arguments in table.items():
        for argument in re.findall(r"`([a-z]+)", arguments):
            assert f'"{argument}"' in ready.source(name), (name, argument)


def test_the_owners_example_is_what_servers_read() -> None:
    (example,) = blocks("toml")
    site = tomllib.loads(example)["site"]
    assert msgspec.convert(site["agents"], AgentsConfiguration) == AgentsConfiguration()
    assert msgspec.convert(site["near"], list[NearConfiguration])[0].name == "caltech"

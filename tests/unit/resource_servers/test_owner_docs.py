"""The page for owners: its configurations can be served, and its words are those that users are shown."""

from __future__ import annotations

import re
from pathlib import Path

from kalends.core.errors import RefusalCode
from kalends.core.principals import Principal
from kalends.resource_servers.setup.assembly import calendars_of
from kalends.serving.configuration import load_configuration

EXAMPLES = Path(__file__).parents[3] / "examples" / "agents"
PAGE = (Path(__file__).parents[3] / "docs" / "owners.md").read_text()


def test_every_configuration_of_the_page_can_be_served_and_its_rules_read_as_the_page_says() -> (
    None
):
    blocks = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)
    configurations = [text for kind, text in blocks if kind == "toml"]
    assert len(configurations) == 8
    told = []
    for text in configurations:
        site = load_configuration(text, Path()).site
        if site is not None:
            told += [
                f"{name}: {rule}"
                for name, calendar in calendars_of(site).items()
                for rule in calendar.info.rules
            ]
    written = [line for kind, text in blocks if not kind for line in text.splitlines()]
    assert written == told[:7]
    assert told[7:] == ["sdsc/sp2: group:staff waits as if it had asked 10m earlier"]


def test_the_script_of_the_page_is_that_of_the_example() -> None:
    (script,) = re.findall(r"```python\n(MORNING.*?)```", PAGE, re.DOTALL)
    assert (EXAMPLES / "beginners.agent.py").read_text().endswith(script)


def test_each_user_is_shown_the_access_rules_that_the_page_says() -> None:
    configuration, words = re.findall(r"```(?:toml|text)\n(.*?)```", PAGE, re.DOTALL)[:2]
    site = load_configuration(configuration, Path()).site
    assert site is not None
    (calendar,) = calendars_of(site).values()
    eve, sam = Principal("eve", ("staff",)), Principal("sam", ("students",))
    ada, bob = Principal("ada@kit.example"), Principal("bob", ("staff",))
    shown = [rule for each in (eve, sam, ada) for rule in calendar.rules_for(each)]
    assert words.splitlines() == shown
    assert calendar.access.sees(Principal("zoe"))
    assert not calendar.access.sees(bob)


def test_the_codes_of_the_page_are_those_of_refusals() -> None:
    codes = {value for name, value in vars(RefusalCode).items() if name.isupper()}
    told = set(re.findall(r"\| `([a-z-]+)` \|$", PAGE, re.MULTILINE))
    assert told == {"limit", "lead-time", "beyond-horizon", "share", "too-long", "too-short"}
    assert told < codes

"""The page about identity: its configurations can be served, and its fields are those that there are."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from kalends.resource_servers.setup.assembly import calendars_of
from kalends.serving.configuration import ClaimsConfiguration, load_configuration

PAGE = (Path(__file__).parents[3] / "docs" / "identity.md").read_text()


def test_every_configuration_of_the_identity_page_can_be_served() -> None:
    texts = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert len(texts) == 3
    for text in texts:
        site = load_configuration(text, Path()).site
        assert site is not None
        calendars_of(site)


def test_the_page_tells_every_field_of_claims_with_its_default() -> None:
    told = dict(re.findall(r"^\| `(\w+)` \| `?([^|`]+)`? \|", PAGE, re.MULTILINE))
    fields = {each.name: each.default for each in msgspec.structs.fields(ClaimsConfiguration)}
    assert fields.keys() - told.keys() == {"scoped"}, "which is told beside `user`"
    for name in ("user", "groups", "scope"):
        assert told[name] == fields[name]

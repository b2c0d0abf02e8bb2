"""The user's file of profiles: where it is, what may stand in it, and what is said of what may not."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from kalends.cli.logins.login import edited
from kalends.client.logins.destinations import destination
from kalends.client.logins.profiles import (
    UserProfile,
    check_profile_name,
    config_path,
    profile_named,
    read_profiles,
)
from kalends.core.errors import InvalidInput

TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)
NAME = st.from_regex(re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,8}"), fullmatch=True)
PROFILES = st.builds(
    UserProfile,
    broker=TEXT,
    token_file=TEXT | st.just(""),
    zone=TEXT | st.just(""),
    machine=st.just(""),
)


def test_the_file_is_where_the_variable_says_or_where_the_specification_has_it() -> None:
    assert config_path({"KALENDS_CONFIG": "/mine.toml"}) == Path("/mine.toml")
    assert config_path({"XDG_CONFIG_HOME": "/etc/ada"}) == Path("/etc/ada/kalends/config.toml")
    home = Path("~/.config/kalends/config.toml").expanduser()
    assert config_path({"XDG_CONFIG_HOME": "relative"}) == config_path({}) == home


def test_paths_begin_at_the_folder_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        '[profiles.kit]\nbroker = "https://kit.example"\ntoken_file = "kit.token"\nca = "/ca.pem"\n'
    )
    kit = profile_named("kit", tmp_path / "config.toml")
    assert (kit.token_file, kit.ca) == (str(tmp_path / "kit.token"), "/ca.pem")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[profiles.kit]\n", "broker"),
        ('[profiles.kit]\nbroker = "a"\nbrokr = "b"\n', "brokr"),
        ("[profiles.kit]\nbroker = 7\n", "profiles.kit: broker"),
        ('[profile.kit]\nbroker = "a"\n', "profile"),
        ("[profiles.kit\n", "line 1"),
        ("profiles = 3\n", "profiles"),
        ("#" * 300_000, "bytes"),
    ],
)
def test_what_cannot_stand_there_is_named_with_its_place(
    tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput) as caught:
        read_profiles(path)
    assert told in str(caught.value)
    assert str(path) in caught.value.where


def test_a_profile_that_is_named_and_not_there_names_the_others(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    assert read_profiles(path) == {}
    path.write_text('[profiles.kit]\nbroker = "https://kit.example"\n')
    with pytest.raises(InvalidInput) as caught:
        destination({"profile": "kat"}, {"KALENDS_CONFIG": str(path)})
    assert "kit" in caught.value.remedy


@pytest.mark.parametrize("name", ["", "a/b", "../x", ".hidden", "a b", "x" * 65, "é"])
def test_the_name_of_a_profile_is_none_that_leads_to_another_folder(name: str) -> None:
    with pytest.raises(InvalidInput):
        check_profile_name(name)


@given(st.dictionaries(NAME, PROFILES, max_size=4), NAME, PROFILES)
def test_what_is_kept_is_read_again_and_all_else_stays(
    others: dict[str, UserProfile], name: str, profile: UserProfile
) -> None:
    text = "# mine\n"
    for other, kept in others.items():
        text = edited(text, other, asdict(kept))
    found = tomllib.loads(after := edited(text, name, asdict(profile)))["profiles"]
    expected = others | {name: profile}
    fields = UserProfile.__struct_fields__
    assert found == {
        each: {field: value for field in fields if (value := getattr(kept, field))}
        for each, kept in expected.items()
    }
    assert after.startswith("# mine\n")
    assert edited(after, name, asdict(profile)) == after


def test_comments_and_order_stay_where_a_profile_changes() -> None:
    text = (
        '# mine\n[profiles.kit] # at Karlsruhe\nzone = "UTC"   # for the log\nbroker = "a"\n\n'
        '[profiles.other]\nbroker = "b"\n'
    )
    after = edited(text, "kit", {"broker": "c", "zone": "UTC", "ca": ""})
    assert after == text.replace('"a"', '"c"')

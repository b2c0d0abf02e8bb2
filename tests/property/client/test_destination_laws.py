"""An option wins over the environment, and that over a profile, whose token is for its own server only."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kalends.client.logins.destinations import DEFAULT_BROKER, VARIABLES, Destination, destination

FIELDS = ("broker", "token", "token_file", "user", "zone", "ca", "machine")
SERVERS = st.sampled_from(["", "https://a.example", "https://a.example/", "https://b.example"])
WORDS = st.sampled_from(["", "one", "two"])
VALUES = {field: SERVERS if field == "broker" else WORDS for field in FIELDS}
VARIABLES_SET = st.fixed_dictionaries(VALUES)
OPTIONS = st.fixed_dictionaries({}, optional=VALUES)
"""Also an option with nothing says something."""

PROFILE = st.none() | st.fixed_dictionaries({
    "broker": SERVERS.filter(bool), "token_file": st.sampled_from(["", "/kept"]),
    "ca": st.sampled_from(["", "/authority"]), "zone": WORDS, "machine": WORDS,
})  # fmt: skip


def meant(options: dict[str, str], variables: dict[str, str], profile: Any) -> Destination:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.toml"
        if profile is not None:
            fields = "".join(f'{name} = "{value}"\n' for name, value in profile.items())
            config.write_text(f"[profiles.default]\n{fields}")
        environ = {VARIABLES[name]: value for name, value in variables.items()}
        return destination(options, {**environ, "KALENDS_CONFIG": str(config)})


@given(OPTIONS, VARIABLES_SET, PROFILE)
def test_each_value_is_that_of_the_nearest_who_says_one(
    options: dict[str, str], variables: dict[str, str], profile: Any
) -> None:
    found = meant(options, variables, profile)
    kept = profile or {}
    for field in ("user", "zone", "machine"):
        usual = variables[field] or kept.get(field, "")
        assert getattr(found, field) == options.get(field, usual)
    usual = variables["broker"] or kept.get("broker") or DEFAULT_BROKER
    assert found.broker == options.get("broker", usual)
    ca = kept.get("ca", "") if is_own(found, kept) else ""
    assert found.ca == options.get("ca", variables["ca"] or ca)


def is_own(found: Destination, kept: dict[str, str]) -> bool:
    """Whether the server that is called is that of the profile `kept`."""
    return bool(kept) and found.broker.rstrip("/") == kept["broker"].rstrip("/")


@given(OPTIONS, VARIABLES_SET, PROFILE)
def test_one_token_at_most_is_sent_and_that_of_a_profile_to_its_own_server_only(
    options: dict[str, str], variables: dict[str, str], profile: Any
) -> None:
    found = meant(options, variables, profile)
    kept = profile or {}
    own = is_own(found, kept)
    said = {name: value for name, value in variables.items() if value}
    expected = ("", "")
    for layer in (options, said, kept if own else {}):
        if "token" in layer or "token_file" in layer:
            token, file = layer.get("token", ""), layer.get("token_file", "")
            expected = (token, "" if token else file)
            break
    assert (found.token, found.token_file) == expected
    assert own or "/kept" not in (found.token_file, found.token)


@given(OPTIONS, VARIABLES_SET, PROFILE)
def test_whatever_was_said_has_its_source(
    options: dict[str, str], variables: dict[str, str], profile: Any
) -> None:
    found = meant(options, variables, profile)
    for field in FIELDS:
        if getattr(found, field) and (field != "broker" or found.broker != DEFAULT_BROKER):
            source = found.sources[field]
            said = {
                f"--{field.replace('_', '-')}": options.get(field),
                VARIABLES[field]: variables[field],
                "profile default": (profile or {}).get(field, ""),
            }
            assert said[source] == getattr(found, field)

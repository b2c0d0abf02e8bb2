"""login, whoami and logout, before a real broker and a real OpenID provider; a token is never shown."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from device_provider import DeviceProvider, device_provider
from identity_provider import signed
from keyed_broker import keyed_broker, token_of_ada

import kalends
from kalends.cli import cli
from kalends.cli.logins.caller import for_whom
from kalends.contract.calls import CallerView


class User:
    """Ada at her computer: the folder of her configuration, and the commands that she types."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "home" / "config.toml"

    def broker(self, provider: DeviceProvider | None = None) -> AbstractContextManager[str]:
        return keyed_broker(self.folder, provider)

    def token(self, **claims: Any) -> str:
        return token_of_ada(self.folder, **claims)

    def token_file(self, token: str) -> str:
        path = self.folder / "ada.token"
        path.write_text(token)
        path.chmod(0o600)
        return str(path)

    def types(self, *words: str, pasted: str = "", **env: str) -> Result:
        environment = {"KALENDS_CONFIG": str(self.config), "KALENDS_ZONE": "UTC", **env}
        return CliRunner().invoke(cli, words, input=pasted or None, env=environment)

    def profile(self, name: str = "default") -> dict[str, Any]:
        found: dict[str, Any] = tomllib.loads(self.config.read_text())["profiles"][name]
        return found

    def modes(self) -> set[int]:
        return {
            path.stat().st_mode & 0o777 for path in self.config.parent.rglob("*") if path.is_file()
        }


@pytest.fixture
def ada(tmp_path: Path) -> User:
    return User(tmp_path)


@pytest.fixture
def provider() -> Iterator[DeviceProvider]:
    with device_provider() as provider:
        provider.answers[""] = True
        yield provider


def done(result: Result) -> Result:
    assert result.exit_code == 0, result.output
    return result


def test_a_pasted_token_is_kept_for_its_user_only_and_never_shown(ada: User) -> None:
    token = ada.token()
    with ada.broker() as url:
        result = done(ada.types("login", "--broker", url, pasted=f"{token}\n"))
        assert "ada at npaci" in result.stdout
        told = done(ada.types("whoami"))
    assert "groups   staff" in told.stdout
    assert "for      only npaci" in told.stdout
    assert f"{url} (by profile default)" in told.stdout
    assert token not in result.output + told.output + ada.config.read_text()
    assert ada.modes() == {0o600}


def test_who_has_a_token_for_audits_alone_logs_in_and_is_told_so(ada: User) -> None:
    with ada.broker() as url:
        path = ada.token_file(ada.token(scopes=["audit"]))
        done(ada.types("login", "--broker", url, "--token-file", path))
        told = json.loads(done(ada.types("whoami", "--json")).stdout)["data"]["caller"]
    assert (told["user"], told.get("scopes", [])) == ("ada", [])


@pytest.mark.parametrize(
    ("audiences", "told"),
    [
        ((), ""),
        (("npaci",), "only npaci"),
        (("https://npaci.example",), "only https://npaci.example"),
        (("npaci", "sdsc"), "npaci, sdsc: each could use it at the others"),
        (("kalends",), "kalends: each server could use it at all others"),
    ],
)
def test_people_are_told_who_could_use_their_token(audiences: tuple[str, ...], told: str) -> None:
    view = CallerView(
        server="npaci", role="broker", user="ada", key="k", audiences=audiences, now=1
    )
    said = for_whom(view, "https://npaci.example/")
    assert said.startswith(told)
    assert bool(said) == bool(told)


def test_a_token_file_stays_where_it_is_and_is_not_removed_at_the_end(ada: User) -> None:
    path = ada.token_file(ada.token())
    with ada.broker() as url:
        done(ada.types("login", "--broker", url, "--token-file", path, "--profile", "kit"))
        assert ada.profile("kit") == {"broker": url, "token_file": path}
        assert json.loads(done(ada.types("whoami", "--profile", "kit", "--json")).stdout)["data"][
            "sources"
        ]["token_file"] == "profile kit"  # fmt: skip
        result = done(ada.types("logout", "--profile", "kit"))
    assert path in result.stderr
    assert Path(path).exists()
    assert "token_file" not in ada.profile("kit")


def test_nothing_is_written_unless_the_server_knows_the_user(ada: User) -> None:
    with ada.broker() as url:
        result = ada.types("login", "--broker", url, pasted=ada.token(audience=["elsewhere"]))
        assert result.exit_code == 4
        assert ada.types("login", "--broker", url, pasted="no\ttoken").exit_code in (2, 4)
    assert ada.types("login", "--broker", "http://127.0.0.1:9", pasted="a.b.c").exit_code == 75
    assert not ada.config.parent.exists()


@pytest.mark.parametrize(
    ("option", "value", "near"),
    [("--zone", "Los_Angeles", "America/Los_Angeles"), ("--machine", "sp2", "sdsc/sp2")],
)
def test_what_every_later_command_would_stumble_over_is_not_kept(
    ada: User, option: str, value: str, near: str
) -> None:
    with ada.broker() as url:
        result = ada.types("login", "--broker", url, option, value, pasted=ada.token())
    assert result.exit_code == 2
    assert f"kalends: {option}: " in result.stderr
    assert near in result.stderr
    assert not ada.config.parent.exists()


def test_a_zone_that_is_wrong_in_a_profile_is_not_taken_for_an_option(ada: User) -> None:
    ada.config.parent.mkdir(parents=True)
    ada.config.write_text('[profiles.default]\nbroker = "http://127.0.0.1:9"\nzone = "Nowhere"\n')
    result = ada.types("find", "sdsc/sp2", "--for", "1h", KALENDS_ZONE="")
    assert result.exit_code == 2
    assert "kalends: profile default: " in result.stderr
    assert "unknown time zone 'Nowhere'" in result.stderr
    assert "--zone" not in result.stderr


def test_no_token_is_sent_where_others_on_the_way_could_read_it(ada: User) -> None:
    result = ada.types("login", "--broker", "http://broker.example", pasted="a.b.c")
    assert result.exit_code == 2
    assert "https" in result.stderr


def test_where_everybody_is_believed_no_token_is_asked_for(ada: User) -> None:
    with keyed_broker(ada.folder, keys=False) as url:
        done(ada.types("login", "--broker", url, "--user", "ada"))
        assert "ada at npaci" in done(ada.types("whoami", KALENDS_USER="ada")).stdout
    assert ada.profile() == {"broker": url}


def test_other_profiles_and_comments_stay_as_they_are_written(ada: User) -> None:
    ada.config.parent.mkdir()
    before = '# mine\n[profiles.kit]   # at Karlsruhe\nbroker = "https://kit.example"\n'
    ada.config.write_text(before)
    with ada.broker() as url:
        done(ada.types("login", "--broker", url, "--machine", "sdsc/sp2", pasted=ada.token()))
    assert ada.config.read_text().startswith(before)
    assert ada.profile()["machine"] == "sdsc/sp2"


def test_a_profile_of_another_server_keeps_nothing_of_the_first_but_the_zone(ada: User) -> None:
    ada.config.parent.mkdir()
    ada.config.write_text(
        '[profiles.default]\nbroker = "https://kit.example"\nca = "kit.pem"\nzone = "UTC"\n'
        'machine = "kit/sp2"\nissuer = "https://login.kit.example"\nclient = "kit"\n'
    )
    with ada.broker() as url:
        done(ada.types("login", "--broker", url, pasted=ada.token()))
        assert ada.profile() == {
            "broker": url, "token_file": "config.tokens/default.token", "zone": "UTC",
        }  # fmt: skip
        done(ada.types("logout"))
    assert ada.profile() == {"broker": url, "zone": "UTC"}


def test_a_code_logs_in_at_the_provider_that_the_server_believes(
    ada: User, provider: DeviceProvider
) -> None:
    with ada.broker(provider) as url:
        result = done(ada.types("login", "--broker", url, "--issuer", provider.url))
        assert "ada@kit.example at npaci" in result.stdout
        assert "then it is renewed" in result.stdout
        assert f"{provider.url}/enter" in result.stderr
        view = json.loads(done(ada.types("whoami", "--json")).stdout)["data"]
        with kalends.connect_sync(url, token=_kept(ada)) as client:
            assert client.whoami().realm == "kit.example"
    assert (view["caller"]["user"], view["renewed"]) == ("ada@kit.example", True)
    assert ada.profile()["issuer"] == provider.url
    secrets = [_kept(ada), *provider.refresh_tokens]
    assert not any(each in result.output + ada.config.read_text() for each in secrets)
    assert ada.modes() == {0o600}


def test_the_token_is_renewed_quietly_and_the_provider_forgets_it_at_logout(
    ada: User, provider: DeviceProvider
) -> None:
    with ada.broker(provider) as url:
        done(ada.types("login", "--broker", url, "--issuer", provider.url))
        now_s = int(time.time())
        ending = signed({"iss": provider.url, "iat": now_s - 3_600, "exp": now_s + 60})
        (ada.config.parent / ada.profile()["token_file"]).write_text(ending)
        result = done(ada.types("whoami"))
        assert result.stderr == ""
        assert provider.renewals == 1
        done(ada.types("logout"))
        assert not provider.refresh_tokens
        refused = ada.types("whoami")
    assert refused.exit_code == 4
    assert "kalends login" in refused.stderr
    assert [path.name for path in ada.config.parent.rglob("*") if path.is_file()] == ["config.toml"]


def _kept(ada: User) -> str:
    return (ada.config.parent / ada.profile()["token_file"]).read_text()


def test_a_token_that_is_about_to_run_out_says_so_in_one_line(ada: User) -> None:
    with ada.broker() as url:
        done(ada.types("login", "--broker", url, pasted=ada.token(life_s=86_400)))
        assert done(ada.types("list")).stderr == ""
        soon = ada.token_file(ada.token(began_s=86_100))
        result = done(ada.types("list", "--token-file", soon))
    assert result.stderr.count("\n") == 1
    assert "your token expires in" in result.stderr


def test_an_expired_token_of_a_profile_says_which_command_helps(ada: User) -> None:
    with ada.broker() as url:
        done(ada.types("login", "--broker", url, "--profile", "kit", pasted=ada.token()))
        old = ada.token(life_s=60, began_s=3_600)
        (ada.config.parent / ada.profile("kit")["token_file"]).write_text(old)
        result = ada.types("list", "--profile", "kit")
    assert result.exit_code == 4
    assert "it expired" in result.stderr
    assert "kalends login --profile kit" in result.stderr


def test_python_calls_as_the_command_line_does(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KALENDS_CONFIG", str(ada.config))
    with ada.broker() as url:
        done(ada.types("login", "--broker", url, "--profile", "kit", pasted=ada.token()))
        with kalends.connect_sync(profile="kit") as client:
            assert client.whoami().user == "ada"
        monkeypatch.setenv("KALENDS_PROFILE", "kit")
        with kalends.connect_sync() as client:
            assert client.whoami().user == "ada"


def test_logging_in_loads_no_part_of_a_server_and_no_slow_client() -> None:
    code = "import sys, kalends.cli.logins.login; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = (
        "kalends.serving",
        "kalends.broker",
        "aiohttp",
        "jwt",
        "cryptography",
        "authlib",
        "rich",
    )
    assert not [name for name in loaded if name.partition(".")[0] in heavy or name in heavy]

"""`serve --check` names what would let a user's token be used by who was sent it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kalends.serving.configuration import load_configuration
from kalends.serving.configuration.token_risks import token_risks
from kalends.serving.example_configuration import example

SITE = '[site]\nname = "sdsc"\nurl = "https://sdsc.example/"\nstore = "s"\n'
BROKER = '[broker]\nname = "npaci"\nstore = "b"\n'
BROKER_KEY = '[[site.keys]]\nfile = "npaci.pub"\n'
TLS = '[site.tls]\ncertificate = "c"\nkey = "k"\nclients = "a"\n'
PEOPLE = '[[broker.keys]]\nfile = "people.pub"\n'
CTC = '[[broker.sites]]\nname = "ctc"\nurl = "https://ctc.example"\n'


def openid(*audiences: str) -> str:
    return f'[[site.keys]]\nopenid = "https://login.example"\nclaims = {{ audiences = {list(audiences)} }}\n'


@pytest.mark.parametrize(
    ("text", "risks"),
    [
        (SITE + openid("sdsc"), []),
        (SITE + openid("https://sdsc.example"), []),
        (SITE + openid("kalends"), ["for 'kalends' are accepted here: any other server"]),
        (SITE + openid("sdsc", "a", "b"), ["for 'a'", "for 'b'"]),
        (SITE + BROKER_KEY + 'scopes = ["use", "broker"]\n', []),
        (SITE + BROKER_KEY + 'scopes = ["broker"]\n', ["add the scope 'use' to this key"]),
        (SITE + TLS + BROKER_KEY + 'scopes = ["use", "broker"]\nhosts = ["b.example"]\n',
         ["a certificate of the broker"]),
        (BROKER + 'key = "npaci"\n' + PEOPLE + CTC, []),
        (BROKER + PEOPLE + CTC, ["no passes for ctc: it sees their own tokens"]),
        (BROKER + 'key = "npaci"\n' + PEOPLE + CTC + "passes = false\n", ["leave out `passes = false`"]),
        (BROKER + CTC, []),
    ],
)  # fmt: skip
def test_each_risk_is_named_with_what_to_do_and_nothing_else_is(
    text: str, risks: list[str]
) -> None:
    made = load_configuration(text, Path())
    server = made.site or made.broker
    assert server is not None
    found = token_risks(server)
    assert len(found) == len(risks), found
    for told, expected in zip(found, risks, strict=True):
        assert expected in told


def test_the_example_of_a_configuration_has_no_risk() -> None:
    made = load_configuration(example(), Path("/"))
    for server in (made.site, made.broker, made.virtual):
        assert server is not None
        assert token_risks(server) == []

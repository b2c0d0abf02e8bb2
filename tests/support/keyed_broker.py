"""A real broker in this process that asks for tokens: of its own key, and of OpenID providers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from client_broker import serving
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from device_provider import CLIENT, DeviceProvider

from kalends.servers.broker import build_broker
from kalends.serving.auth.keys import load_private_key, write_key_pair
from kalends.serving.auth.tokens import mint
from kalends.serving.configuration import load_configuration

OPENID = """
[[broker.keys]]
openid = "{url}"
realm = "kit.example"
client = "{client}"
[broker.keys.claims]
audiences = ["kalends"]
scopes = {{ use = ["openid"] }}
"""


@contextmanager
def keyed_broker(
    folder: Path, provider: DeviceProvider | None = None, *, keys: bool = True
) -> Iterator[str]:
    """The address of the broker ``npaci``, with its files in `folder`; without `keys` it believes all."""
    text = '[broker]\nname = "npaci"\nstore = "broker.sqlite"\n'
    if keys:
        _key(folder)
        text += '[[broker.keys]]\nfile = "people.pub"\n'
    if provider is not None:
        text += OPENID.format(url=provider.url, client=CLIENT)
    made = load_configuration(text, folder).broker
    assert made is not None
    with serving(build_broker(made, version="1")) as url:
        yield url


def token_of_ada(folder: Path, *, life_s: int = 86_400, began_s: int = 0, **claims: Any) -> str:
    """A token by the key of the broker in `folder`, which `began_s` ago was good for `life_s`."""
    whole = {
        "user": "ada", "groups": ["staff"], "scopes": ["use"], "audience": ["npaci"], **claims,
    }  # fmt: skip
    return mint(
        _key(folder), issuer="people", lifetime_s=life_s, now_s=int(time.time()) - began_s, **whole
    )


def _key(folder: Path) -> Ed25519PrivateKey:
    """The key of the broker in `folder`, made if it is not there yet."""
    if not (folder / "people").exists():
        write_key_pair(folder / "people")
    return load_private_key(folder / "people")

"""The plan of a new server, and its configuration. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from kalends.core.errors import InvalidInput
from kalends.rim.web_addresses import is_loopback
from kalends.serving.auth.callers import split_listen
from kalends.serving.configuration import Configuration, load_configuration

PEOPLE = "people"
"""The key that signs users' tokens, if the operator has none."""


class NamedUrl(msgspec.Struct, frozen=True):
    name: str
    url: str


class WantedResource(msgspec.Struct, frozen=True):
    name: str
    units: int = 1


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """One new server. Names of files are below ``keys``.

    `people_keys` sign users' tokens; without any, a pair is made. `broker_keys` are those of a site's
    brokers, each called ``NAME.pub``. `certificate` and `certificate_key` exist already, or are made here
    if the server is `self_signed`.
    """

    role: Literal["site", "broker"]
    name: str
    directory: Path
    listen: str
    url: str = ""
    zone: str = "UTC"
    resources: tuple[WantedResource, ...] = ()
    sites: tuple[NamedUrl, ...] = ()
    authorities: dict[str, Path] = {}
    people_keys: tuple[Path, ...] = ()
    broker_keys: tuple[Path, ...] = ()
    certificate: Path | None = None
    certificate_key: Path | None = None
    self_signed: bool = False

    @property
    def configuration_file(self) -> Path:
        return self.directory / f"{self.name}.toml"

    @property
    def has_tls(self) -> bool:
        return self.self_signed or self.certificate is not None

    @property
    def address(self) -> str:
        """The address for others: the given one, or that at which it listens."""
        return self.url or f"{'https' if self.has_tls else 'http'}://{self.listen}"

    @property
    def host(self) -> str:
        rest = self.address.partition("://")[2].partition("/")[0]
        return rest.rpartition(":")[0].strip("[]") or rest

    def check(self) -> Configuration:
        """Return the parsed configuration.

        Raises `InvalidInput` if it is invalid, or if no client could use the server.
        """
        split_listen(self.listen)
        if (self.certificate is None) != (self.certificate_key is None):
            raise InvalidInput(
                "a certificate needs its key, and a key its certificate",
                where="--certificate",
                remedy="give --certificate and --certificate-key, or --self-signed",
            )
        if not self.has_tls and not is_loopback(split_listen(self.listen)[0]):
            raise InvalidInput(
                f"other machines can reach {self.listen}, and tokens would be sent unencrypted",
                where="--listen",
                remedy="give --certificate and --certificate-key, or --self-signed",
            )
        for path in self.broker_keys:
            if path.suffix != ".pub":
                raise InvalidInput(
                    f"{path.name} does not end with .pub",
                    where="--broker-key",
                    remedy="name the file after the broker, e.g. npaci.pub",
                )
        return load_configuration(self.toml(), self.directory)

    def toml(self) -> str:
        """Return the text of the configuration."""
        lines = [*self._head(), *self._tls(), *self._keys()]
        lines += self._resources() if self.role == "site" else self._sites()
        return "\n".join(lines) + "\n"

    def _head(self) -> Iterator[str]:
        yield "# `kalends serve --check` checks this file; `kalends admin config` prints all settings."
        yield ""
        yield f"[{self.role}]"
        yield f"name = {_quoted(self.name)}"
        yield f"listen = {_quoted(self.listen)}"
        yield f"url = {_quoted(self.address)}"
        yield f"store = {_quoted(f'{self.name}.sqlite')}"
        if self.role == "broker":
            yield f"key = {_quoted(f'keys/{self.name}')}"
            yield 'pass_life = "1h"  # life of passes, with which users reach sites without their own tokens'

    def _tls(self) -> Iterator[str]:
        if not self.has_tls:
            return
        certificate, key = Path("keys/server.pem"), Path("keys/server.key")
        if self.certificate is not None and self.certificate_key is not None:
            certificate, key = self.certificate.absolute(), self.certificate_key.absolute()
        yield ""
        yield f"[{self.role}.tls]"
        yield f"certificate = {_quoted(str(certificate))}"
        yield f"key = {_quoted(str(key))}"

    def _keys(self) -> Iterator[str]:
        people = [path.name for path in self.people_keys] or [f"{PEOPLE}.pub"]
        for name in people:
            yield from ("", f"[[{self.role}.keys]]", f"file = {_quoted(f'keys/{name}')}")
            yield 'scopes = ["use", "audit", "admin"]'
        for path in self.broker_keys:
            yield from ("", "[[site.keys]]", f"file = {_quoted(f'keys/{path.name}')}")
            yield 'scopes = ["use", "broker"]'
            yield f"brokers = [{_quoted(path.stem)}]"

    def _resources(self) -> Iterator[str]:
        for each in self.resources:
            yield from ("", "[[site.resources]]", f"name = {_quoted(each.name)}")
            yield f"capacity = {each.units}"
            yield f"zone = {_quoted(self.zone)}"

    def _sites(self) -> Iterator[str]:
        for each in self.sites:
            yield from ("", "[[broker.sites]]", f"name = {_quoted(each.name)}")
            yield f"url = {_quoted(each.url)}"
            if each.name in self.authorities:
                yield f"ca = {_quoted(f'keys/{each.name}-ca.pem')}"


def _quoted(text: str) -> str:
    """Return a TOML string; JSON's is one."""
    return json.dumps(text, ensure_ascii=False)

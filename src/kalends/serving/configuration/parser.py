"""The one parser of the file: TOML text to typed values, each checked alone and all of them together."""

from __future__ import annotations

import tomllib
import types
import typing
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from kalends.backends.kinds import kind_named
from kalends.core import limits
from kalends.core.conversion import detail_and_path, remedy_at
from kalends.core.durations import parse_duration
from kalends.core.errors import InvalidInput
from kalends.core.near_names import near
from kalends.serving.configuration.machines import BatchSystemConfiguration
from kalends.serving.configuration.sections import (
    Day,
    DurationOrNoneS,
    DurationS,
    Section,
    StorePlace,
)
from kalends.serving.configuration.servers import (
    BrokerConfiguration,
    SiteConfiguration,
    VirtualConfiguration,
    check_broker,
    check_site,
    check_virtual,
)
from kalends.serving.http.bodies import normalize
from kalends.stores.postgres.driver import SCHEMES

CONFIGURATION_BYTES_MAX: Final = 4 * 1024 * 1024
"""A site with ten thousand resources stays below it."""


OF_ALL_KINDS: Final = {
    each.encode_name for each in msgspec.structs.fields(BatchSystemConfiguration)
} - {"settings"}
"""What may be set for each batch system, of whatever kind."""

T = TypeVar("T")


class LogConfiguration(Section, frozen=True, kw_only=True):
    level: Literal["debug", "info", "warning", "error"] = "info"
    form: Literal["auto", "json", "human"] = "auto"


class Configuration(Section, frozen=True, kw_only=True):
    """A site, a broker and a virtual site: one of them, or several in one process."""

    site: SiteConfiguration | None = None
    broker: BrokerConfiguration | None = None
    virtual: VirtualConfiguration | None = None
    log: LogConfiguration = LogConfiguration()


def load_configuration(text: str, base: Path) -> Configuration:
    """Return the configuration in `text`; relative paths in it are taken from the directory `base`.

    Raises `InvalidInput` with the path of the fault: TOML that is not well-formed, unknown
    fields, wrong types, a name given twice, an unknown time zone, or a server without keys that
    other machines could reach.
    """
    if len(text) > CONFIGURATION_BYTES_MAX:
        raise InvalidInput("the configuration is too large", where="configuration")
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # Numbers of 5,000 digits are a bare ValueError.
        raise InvalidInput(f"not TOML: {error}", where="configuration") from error
    normalize(raw)
    return configuration_of(raw, base)


def configuration_of(raw: dict[str, Any], base: Path) -> Configuration:
    """Return the configuration with the fields `raw`; as `load_configuration`, without the text."""
    raw = _with_settings(raw, base)
    _check_fields(raw, Configuration, "")
    configuration = _convert(raw, Configuration, base)
    if not (configuration.site or configuration.broker or configuration.virtual):
        raise InvalidInput(
            "neither a site nor a broker is configured",
            where="configuration",
            remedy="write a [site] or a [broker] section, or both; or a [virtual] one",
        )
    check_configuration(configuration)
    return configuration


def check_configuration(configuration: Configuration) -> None:
    """Raises `InvalidInput` for values that are valid alone but not together."""
    if configuration.site is not None:
        check_site(configuration.site)
    if configuration.broker is not None:
        check_broker(configuration.broker)
    if configuration.virtual is not None:
        check_virtual(configuration.virtual)


def _with_settings(raw: dict[str, Any], base: Path) -> dict[str, Any]:
    """Return `raw`, where each batch system has the fields that only its kind has as its `settings`."""
    site = raw.get("site")
    systems = site.get("batch_systems") if isinstance(site, dict) else None
    if not isinstance(site, dict) or not isinstance(systems, list):
        return raw
    found = [
        _system(each, base, f"site.batch_systems[{number}]") if isinstance(each, dict) else each
        for number, each in enumerate(systems)
    ]
    return {**raw, "site": {**site, "batch_systems": found}}


def _system(raw: dict[str, Any], base: Path, where: str) -> dict[str, Any]:
    name = raw.get("kind", "slurm")
    if not isinstance(name, str):
        return raw
    settings = kind_named(name, f"{where}.kind").settings
    own = {each.encode_name for each in msgspec.structs.fields(settings)}
    if unknown := [field for field in raw if field not in own | OF_ALL_KINDS]:
        raise InvalidInput(
            f"a batch system of kind {name} has no such setting",
            where=f"{where}.{unknown[0]}",
            remedy=near(unknown[0], own | OF_ALL_KINDS) or "leave it out, or correct the kind",
        )
    said = {field: value for field, value in raw.items() if field in own}
    common = {field: value for field, value in raw.items() if field not in own}
    return {**common, "settings": _convert(said, settings, base, where)}


def _convert(raw: dict[str, Any], kind: type[T], base: Path, within: str = "") -> T:
    """Return `raw` as a `kind`; raises `InvalidInput` with the path, which begins `within` another."""

    def decode(kind: type, value: object) -> object:
        if kind is Day:
            try:
                return Day.fromisoformat(str(value))
            except ValueError as error:
                raise ValueError(f"{value} is not a day (write 2026-03-02)") from error
        if not isinstance(value, str) or not value:
            raise ValueError(f"Expected a text, got `{type(value).__name__}`")
        if kind is DurationOrNoneS and value.strip() == "0s":
            return DurationOrNoneS(0)
        if issubclass(kind, DurationS):
            try:
                return kind(parse_duration(value, longest_s=limits.WINDOW_S_MAX))
            except InvalidInput as error:
                raise ValueError(f"{error.detail} ({error.remedy})") from error
        if kind is StorePlace:
            return StorePlace.named(value, base)
        if value.startswith(SCHEMES):
            raise ValueError("Expected a file, got the URL of a database: only `store` may be one")
        return base / Path(value).expanduser()

    try:
        return msgspec.convert(raw, kind, dec_hook=decode)
    except msgspec.ValidationError as error:
        detail, where = detail_and_path(error)
        remedy = remedy_at(kind, detail, where)
        path = ".".join(filter(None, (within, where))) or "configuration"
        raise InvalidInput(detail, where=path, remedy=remedy) from error


def _check_fields(raw: object, kind: Any, path: str) -> None:
    """Raises `InvalidInput` for the first field of `raw` that `kind` does not have."""
    for inner in _inner_kinds(kind):
        if isinstance(raw, list):
            for index, value in enumerate(raw):
                _check_fields(value, inner, f"{path}[{index}]")
        elif isinstance(raw, dict) and issubclass(inner, Section):
            known = {entry.encode_name: entry for entry in msgspec.structs.fields(inner)}
            for name, value in raw.items():
                where = f"{path}.{name}" if path else name
                if name not in known:
                    raise InvalidInput(
                        "there is no such field",
                        where=where,
                        remedy=near(name, known)
                        or f"the fields here are {', '.join(sorted(known))}",
                    )
                _check_fields(value, known[name].type, where)


def _inner_kinds(kind: Any) -> list[type]:
    """Return the sections that a value of `kind` is, or is a list of, or may be."""
    if isinstance(kind, type) and issubclass(kind, Section):
        return [kind]
    origin = typing.get_origin(kind)
    if origin is Annotated:
        return _inner_kinds(typing.get_args(kind)[0])
    if origin in (tuple, typing.Union, types.UnionType):
        return [found for inner in typing.get_args(kind) for found in _inner_kinds(inner)]
    return []

"""Creation of a new server's folder: all of it, or nothing."""

from __future__ import annotations

import shutil
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from kalends.core.errors import Conflict, InvalidInput
from kalends.rim.private_files import write_new
from kalends.serving.auth.keys import load_private_key, write_key_pair
from kalends.serving.auth.public_keys import KeyTerms, load_trusted_keys
from kalends.serving.auth.tokens import mint
from kalends.serving.configuration import TlsConfiguration
from kalends.serving.http.certificates import ServerCertificate
from kalends.serving.installation.plan import PEOPLE, Installation
from kalends.serving.installation.service_unit import service_unit, service_user, user_entry
from kalends.serving.self_signed import self_signed

OPERATOR_SCOPES: Final = ("use", "audit", "admin")
TOKEN_S: Final = 30 * 86_400

_PRIVATE_FOLDER: Final = 0o700
_PASSABLE_FOLDER: Final = 0o711
"""Mode of a folder with scripts of other Unix users' jobs below it; they cannot list it."""
_READABLE: Final = 0o644


class Written(NamedTuple):
    """The files of a new server; "" and None for files that were not made."""

    configuration: Path
    unit: Path
    users: Path
    certificate: Path | None
    public_key: Path | None
    operator_token: Path | None
    closed: tuple[Path, ...] = ()
    """Folders on the way to the program, or to these files, that the user of the service cannot enter."""


def write_installation(plan: Installation, operator: str, now_s: int) -> Written:
    """Make the folder of `plan`, with a token for `operator` if the key that signs it is made here.

    Raises `Conflict` if the folder exists, and `InvalidInput` for unusable files that the plan names; then
    no part of the folder is left.
    """
    plan.check()
    _check_named_files(plan)
    try:
        plan.directory.mkdir(mode=_PRIVATE_FOLDER, parents=True)
        if plan.role == "site":
            plan.directory.chmod(_PASSABLE_FOLDER)
    except FileExistsError as error:
        raise Conflict(
            "exists already, and is not overwritten",
            where=str(plan.directory),
            remedy="name another --directory, or move this one away",
        ) from error
    except OSError as error:
        raise InvalidInput(
            f"cannot be made: {error.strerror}", where=str(plan.directory)
        ) from error
    try:
        return _write(plan, operator, now_s)
    except BaseException:
        shutil.rmtree(plan.directory, ignore_errors=True)
        raise


def _check_named_files(plan: Installation) -> None:
    for path in (*plan.people_keys, *plan.broker_keys):
        load_trusted_keys(path, KeyTerms())
    if plan.certificate is not None and plan.certificate_key is not None:
        ServerCertificate(TlsConfiguration(certificate=plan.certificate, key=plan.certificate_key))


def _write(plan: Installation, operator: str, now_s: int) -> Written:
    keys = plan.directory / "keys"
    keys.mkdir(_PRIVATE_FOLDER)
    for path in (*plan.people_keys, *plan.broker_keys):
        write_new(keys / path.name, path.read_bytes(), _READABLE)
    for name, authority in plan.authorities.items():
        write_new(keys / f"{name}-ca.pem", authority.read_bytes(), _READABLE)
    public = write_key_pair(keys / plan.name) if plan.role == "broker" else None
    token = None if plan.people_keys else _sign_token(plan, keys, operator, now_s)
    certificate = plan.certificate
    if plan.self_signed:
        made = self_signed([plan.host], now_s)
        certificate = keys / "server.pem"
        write_new(certificate, made.certificate, _READABLE)
        write_new(keys / "server.key", made.key)
    write_new(plan.configuration_file, plan.toml().encode())
    unit, users = _write_service(plan)
    closed = closed_to_others([plan.directory.absolute(), Path(sys.executable), *_program()])
    return Written(plan.configuration_file, unit, users, certificate, public, token, closed)


def _sign_token(plan: Installation, keys: Path, operator: str, now_s: int) -> Path:
    write_key_pair(keys / PEOPLE)
    token = mint(
        load_private_key(keys / PEOPLE), user=operator, groups=(), audience=(plan.name,),
        scopes=OPERATOR_SCOPES, issuer="kalends", lifetime_s=TOKEN_S, now_s=now_s,
    )  # fmt: skip
    (plan.directory / "tokens").mkdir(_PRIVATE_FOLDER)
    path = plan.directory / "tokens" / "operator"
    write_new(path, f"{token}\n".encode())
    return path


def _write_service(plan: Installation) -> tuple[Path, Path]:
    user = service_user(plan.name)
    unit = plan.directory / f"{user}.service"
    text = service_unit(
        plan.role, plan.name, plan.configuration_file.absolute(), Path(sys.executable), _program()
    )
    write_new(unit, text.encode(), _READABLE)
    users = plan.directory / f"{user}.conf"
    write_new(users, user_entry(plan.role, plan.name).encode(), _READABLE)
    return unit, users


def _program() -> list[Path]:
    """Return the paths that the interpreter of this program reads: behind links, libraries, and kalends."""
    return [
        Path(sys.executable).resolve(), Path(sys.prefix), Path(sys.base_prefix),
        Path(__file__).resolve(),
    ]  # fmt: skip


def closed_to_others(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the first folder on the way to each of `paths` that only its owner can enter."""
    closed = []
    for path in paths:
        for folder in reversed(path.parents):
            if folder.is_dir() and not folder.stat().st_mode & stat.S_IXOTH:
                closed.append(folder)
                break
    return tuple(dict.fromkeys(closed))

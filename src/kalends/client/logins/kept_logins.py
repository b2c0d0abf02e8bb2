"""The stored tokens of a login, in separate files that only the user can read."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kalends.client.logins.caller_identity import token_in
from kalends.core.errors import InvalidInput
from kalends.rim import private_files

LOOK_EVERY_S: Final = 0.05


@dataclass(frozen=True)
class KeptLogin:
    """A token at `token_file`, with a refresh token next to it if the provider `issuer` gave one.

    `client` is the client id there; `ca` a file of certificates to trust in addition to the system's.
    """

    token_file: Path
    issuer: str = ""
    client: str = ""
    ca: str = ""

    @property
    def refresh_file(self) -> Path:
        return self.token_file.with_suffix(".refresh")

    def token(self) -> str:
        """Return the token; raises `InvalidInput` if it cannot be read, or other users can read it."""
        return token_in(str(self.token_file), "token_file")

    def refresh_token(self) -> str:
        """Return the refresh token; "" for none. Raises like `token`."""
        return token_in(str(self.refresh_file), "token_file") if self.can_renew() else ""

    def can_renew(self) -> bool:
        return bool(self.issuer) and self.refresh_file.exists()

    def keep(self, token: str, refresh_token: str = "") -> None:
        """Write both tokens, or only the access token, which is then not renewed. Raises `InvalidInput`."""
        _make_private(self.token_file.parent)
        # The refresh token first, because the old one may be used only once; a lost access token is renewed.
        if refresh_token:
            private_files.replace(self.refresh_file, refresh_token.encode())
        else:
            self.refresh_file.unlink(missing_ok=True)
        private_files.replace(self.token_file, token.encode())

    def forget(self) -> None:
        """Remove both files, if they exist."""
        for path in (self.refresh_file, self.token_file):
            path.unlink(missing_ok=True)

    @contextlib.asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Wait until no other process of the user renews a token, and keep others out inside the block.

        Many providers accept a refresh token only once.
        """
        folder = os.open(self.token_file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            while not _is_locked(folder):  # noqa: ASYNC110  no event comes from other processes
                await asyncio.sleep(LOOK_EVERY_S)
            yield
        finally:
            os.close(folder)


def kept_at(config: Path, name: str, issuer: str = "", client: str = "", ca: str = "") -> KeptLogin:
    """Return the login of the profile `name` of the file `config`, with tokens next to that file."""
    return KeptLogin(config.with_suffix(".tokens") / f"{name}.token", issuer, client, ca)


def _is_locked(folder: int) -> bool:
    """Lock an open folder until it is closed; return False if another process has locked it."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"the folder cannot be made: {error.strerror}", where=str(folder)
        ) from error

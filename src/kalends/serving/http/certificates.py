"""The certificate of a server: checked like a secret, renewed while running, with an alarm before its end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from cryptography import x509

from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput
from kalends.serving.configuration import TlsConfiguration
from kalends.serving.http.runner import tls_context

SOON_S: Final = 21 * 86_400
"""Time before the end of a certificate at which the alarm begins."""


class ServerCertificate:
    """The certificate that a server shows to clients; `context` always stays the same object.

    Raises `InvalidInput` for files that cannot be used, do not belong together, or whose key others can read.
    """

    def __init__(self, files: TlsConfiguration) -> None:
        self.context = tls_context(files.certificate, files.key, files.clients)
        self.path = files.certificate
        self.ends_at = _end_of(files.certificate)

    def take(self, newer: ServerCertificate, files: TlsConfiguration) -> None:
        """Show `newer`, which is of `files`, on all new connections."""
        self.context.load_cert_chain(files.certificate, files.key, password="")
        self.path, self.ends_at = newer.path, newer.ends_at

    def problem(self, now_s: float | None = None) -> str:
        """Return a problem if it ends soon, or has ended; else ""."""
        left_s = self.ends_at - int(time.time() if now_s is None else now_s)
        if left_s > SOON_S:
            return ""
        if left_s <= 0:
            return f"the certificate {self.path} has expired: no client can connect; renew it and reload"
        return (
            f"the certificate {self.path} expires in {format_duration(left_s)}: renew it and reload"
        )


def _end_of(path: Path) -> int:
    """Return when the first certificate of a chain ends, in seconds UTC."""
    try:
        first = x509.load_pem_x509_certificates(path.read_bytes())[0]
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{path} holds no certificate: {error}",
            where="tls.certificate",
            remedy="give a certificate in PEM form, followed by those that lead to its authority",
        ) from error
    return int(first.not_valid_after_utc.timestamp())

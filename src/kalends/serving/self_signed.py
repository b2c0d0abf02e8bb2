"""A self-signed certificate, for owners without an authority that would sign one.

Operators and users that trust it get the file, and name it as the authority (`ca`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

LIFETIME_S: Final = 397 * 86_400
"""The maximum lifetime that common clients accept."""

_BACKDATED: Final = timedelta(hours=1)
"""The clocks of clients may be behind."""


class SelfSigned(NamedTuple):
    """Both in PEM form; the key is a secret."""

    certificate: bytes
    key: bytes


def self_signed(hosts: Sequence[str], now_s: int, lifetime_s: int = LIFETIME_S) -> SelfSigned:
    """Return a new certificate for `hosts`, names or addresses, from `now_s` for `lifetime_s`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, hosts[0][:64])])
    begin = datetime.fromtimestamp(now_s, UTC)
    public = key.public_key()
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=False, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - _BACKDATED)
        .not_valid_after(begin + timedelta(seconds=lifetime_s))
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), False)
        # Python 3.13 takes it as its own authority only with these.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
    )
    pem = serialization.Encoding.PEM
    return SelfSigned(
        builder.sign(key, hashes.SHA256()).public_bytes(pem),
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)

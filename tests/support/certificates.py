"""Certificates for loopback: one signed by itself, and an authority that signs those of servers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256

Key = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey


def write_certificate(path: Path) -> Path:
    """Write a certificate for 127.0.0.1, signed by itself, and its key to one file."""
    key = ed25519.Ed25519PrivateKey.generate()
    name = _name("test owner")
    _write(path, _builder(name, name, key, ()).sign(key, None), key)
    return path


class Authority:
    """Signs certificates for 127.0.0.1 and further names; `path` is its own certificate."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self.path = folder / f"{name}.pem"
        builder = _builder(self._name, self._name, self._key, ())
        built = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.path.write_bytes(_pem(built.sign(self._key, SHA256())))

    def write(self, name: str, hosts: Sequence[str] = ()) -> Path:
        """Write a certificate for `hosts`, and its key, to one file."""
        key = ec.generate_private_key(ec.SECP256R1())
        path = self._folder / f"{name}.pem"
        signed = _builder(_name(name), self._name, key, hosts).sign(self._key, SHA256())
        _write(path, signed, key)
        return path


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _builder(
    name: x509.Name, issuer: x509.Name, key: Key, hosts: Sequence[str]
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    names = [x509.IPAddress(ip_address("127.0.0.1")), *map(x509.DNSName, hosts)]
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )


def _pem(signed: x509.Certificate) -> bytes:
    return signed.public_bytes(serialization.Encoding.PEM)


def _write(path: Path, signed: x509.Certificate, key: Key) -> None:
    path.touch(0o600)
    path.write_bytes(
        _pem(signed)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )

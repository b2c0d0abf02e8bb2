"""The authenticator of a server, built from its configuration."""

from __future__ import annotations

from kalends.core.principals import VouchedNames
from kalends.serving.alarms import Report
from kalends.serving.auth.callers import Authenticator, OpenAccess
from kalends.serving.auth.claim_names import ClaimNames
from kalends.serving.auth.claims import Revoked
from kalends.serving.auth.peer_auth import trust_in
from kalends.serving.auth.providers import Provider
from kalends.serving.auth.public_keys import KeyTerms, TrustedKey, load_trusted_keys
from kalends.serving.auth.revocations import Revocations
from kalends.serving.auth.tokens import KeyRing
from kalends.serving.configuration import KeyConfiguration, ListeningConfiguration


def authenticator_of(
    server: ListeningConfiguration, report: Report, revoked: Revoked | None = None
) -> Authenticator:
    """Return the authenticator of `server`: by tokens of its keys, or open access.

    `report` gets problems with the keys of providers, and with the revocation list. `revoked` stands in
    place of that list. Raises `InvalidInput` for files that cannot be used.
    """
    if not server.keys:
        return OpenAccess()
    realms = frozenset(key.realm for key in server.keys if key.realm)
    trusted: list[TrustedKey] = []
    providers = []
    for number, key in enumerate(server.keys):
        terms = terms_of(key, realms)
        if key.file is not None:
            trusted += load_trusted_keys(key.file, terms)
        else:
            providers.append(_provider_of(key, terms, f"keys[{number}]", report))
    listed = revoked or Revocations(server.revoked, lambda text: report("revoked", text))
    return KeyRing(trusted, server.name, providers=providers, revoked=listed)


def asks_for_certificates(server: ListeningConfiguration) -> bool:
    """Return whether other servers must show a certificate to `server`."""
    return server.tls is not None and server.tls.clients is not None


def terms_of(key: KeyConfiguration, realms: frozenset[str]) -> KeyTerms:
    """Return the terms on which a server with keys of `realms` trusts `key`."""
    claims = key.claims
    return KeyTerms(
        issuer=key.issuer or key.openid,
        scopes=frozenset(key.scopes),
        vouching=VouchedNames(key.users, key.groups, key.brokers, key.realm, realms),
        claims=ClaimNames(
            user=claims.user,
            groups=claims.groups,
            scope=claims.scope,
            audiences=claims.audiences,
            scoped=claims.scoped,
            many_groups=key.file is None,
            scopes={str(ours): theirs for ours, theirs in claims.scopes.items()},
        ),
        longest_s=key.longest_s,
        hosts=key.hosts,
    )


def _provider_of(key: KeyConfiguration, terms: KeyTerms, where: str, report: Report) -> Provider:
    return Provider(
        terms.issuer,
        terms,
        jwks=key.jwks,
        client=key.client,
        tls=trust_in(key.ca, f"{where}.ca"),
        trouble=lambda text: report(f"keys of {terms.issuer}", text),
    )

"""Tokens of other issuers: real RSA and EC keys, other claims, realms, and the longest life."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from identity_provider import EC_KEY, ED_KEY, RSA_KEY, jwk, signed

from kalends.core.errors import InvalidInput, NotAuthenticated
from kalends.core.principals import VouchedNames
from kalends.serving.auth.claim_names import ClaimNames
from kalends.serving.auth.public_keys import (
    KeyTerms,
    TrustedKey,
    key_id,
    keys_of_set,
    load_trusted_keys,
)
from kalends.serving.auth.tokens import KeyRing

NOW_S = 1_700_000_000
KEYS = {"RS256": RSA_KEY, "ES256": EC_KEY, "EdDSA": ED_KEY}


def ring(algorithms: Any = KEYS, **terms: Any) -> KeyRing:
    publics = [KEYS[each].public_key() for each in algorithms]
    return KeyRing([TrustedKey(each, key_id(each), KeyTerms(**terms)) for each in publics], "npaci")


def token(claims: dict[str, Any] | None = None, algorithm: str = "RS256", **options: Any) -> str:
    times = {"iat": NOW_S, "exp": NOW_S + 600}
    return signed({**times, "scope": "use", **(claims or {})}, algorithm, **options)


def refusal(text: str, keys: KeyRing, now_s: int = NOW_S) -> str:
    with pytest.raises(NotAuthenticated) as caught:
        keys.verify(text, now_s)
    return caught.value.detail


@pytest.mark.parametrize("kid", ["", "unknown"])
@pytest.mark.parametrize("algorithm", KEYS)
def test_tokens_of_each_kind_of_key_are_believed(algorithm: str, kid: str) -> None:
    caller = ring().verify(token(algorithm=algorithm, kid=kid), NOW_S)
    assert caller.principal.user == "ada"
    assert caller.key == key_id(KEYS[algorithm].public_key())


@pytest.mark.parametrize("said", KEYS)
@pytest.mark.parametrize("listed", KEYS)
def test_a_key_is_for_one_algorithm_whatever_a_token_says(listed: str, said: str) -> None:
    """The header of a token says one algorithm, the key that it names is of another kind."""
    kid = key_id(KEYS[listed].public_key())
    if listed != said:
        text = token(algorithm=said, kid=kid)
        assert f"its algorithm is '{said}', not {listed}" in refusal(text, ring([listed]))


@pytest.mark.parametrize("algorithm", KEYS)
def test_a_public_key_is_no_shared_secret(algorithm: str) -> None:
    """The classic: a token that is signed by HMAC with what everybody knows, the public key."""
    public = KEYS[algorithm].public_key()
    pem = public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    claims = {"sub": "eve", "aud": "npaci", "exp": NOW_S + 9, "scope": "use"}
    for said in ("HS256", algorithm):
        head = {"alg": said, "kid": key_id(public)}
        text = ".".join(
            base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
            for part in (head, claims)
        )
        mac = hmac.digest(pem, text.encode(), hashlib.sha256)
        forged = f"{text}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
        refusal(forged, ring())


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [("RS256", rsa.generate_private_key(65537, 2048)), ("ES256", ec.generate_private_key(ec.SECP256R1()))],
)  # fmt: skip
def test_a_strangers_key_that_takes_a_known_name_is_refused(algorithm: str, key: Any) -> None:
    kid = key_id(KEYS[algorithm].public_key())
    assert "does not list" in refusal(token(algorithm=algorithm, kid=kid, key=key), ring())


@pytest.mark.parametrize("algorithm", KEYS)
def test_a_jwks_made_elsewhere_is_read_to_the_same_keys(algorithm: str) -> None:
    content = json.dumps({"keys": [jwk(algorithm, "k1")]}).encode()
    [(name, key)] = keys_of_set(content, "here")
    assert name == "k1"
    assert key == KEYS[algorithm].public_key()


def test_a_thumbprint_is_that_of_the_standard() -> None:
    # RFC 7638, section 3.1.
    n = (
        "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCi"
        "FV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnY"
        "b9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0"
        "Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"
    )
    content = json.dumps({"keys": [{"kty": "RSA", "n": n, "e": "AQAB"}]}).encode()
    [(_, key)] = keys_of_set(content, "here")
    assert key_id(key) == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"


WEAK = [
    {**jwk("RS256", "small", rsa.generate_private_key(65537, 1024))},
    {**jwk("RS256", "other use"), "use": "enc"},
    {**jwk("RS256", "other algorithm"), "alg": "RS512"},
    {**jwk("RS256", "private"), "d": "AQAB"},
    {**jwk("ES256", "off the curve"), "x": jwk("ES256", "")["y"]},
    {**jwk("ES256", "another curve"), "crv": "P-384"},
    {**jwk("EdDSA", "cut short"), "x": "AQAB"},
    {**jwk("RS256", "a slow exponent"), "e": "____________AQ"},
    {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"},
    {"kty": "RSA"},
]  # fmt: skip


@pytest.mark.parametrize("key", WEAK, ids=lambda key: key.get("kid", "empty"))
def test_keys_that_are_weak_wrong_or_private_are_passed_over(key: dict[str, Any]) -> None:
    good = jwk("ES256", "good")
    found = keys_of_set(json.dumps({"keys": [key, good]}).encode(), "here")
    assert [name for name, _ in found] == ["good"]
    with pytest.raises(InvalidInput, match="no key that can be used"):
        keys_of_set(json.dumps({"keys": [key]}).encode(), "here")


@pytest.mark.parametrize("algorithm", KEYS)
def test_a_public_key_in_pem_is_of_any_kind(algorithm: str, tmp_path: Path) -> None:
    path = tmp_path / "key.pub"
    public = KEYS[algorithm].public_key()
    pem = public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    path.write_bytes(pem)
    keys = KeyRing(load_trusted_keys(path, KeyTerms()), "npaci")
    assert keys.verify(token(algorithm=algorithm), NOW_S).principal.user == "ada"


def test_a_weak_key_in_pem_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "weak.pub"
    public = rsa.generate_private_key(65537, 1024).public_key()
    path.write_bytes(
        public.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    with pytest.raises(InvalidInput, match="2048 to 8192 bits"):
        load_trusted_keys(path, KeyTerms())


KIT = VouchedNames(realm="kit.edu", realms=frozenset({"kit.edu"}))


def test_the_same_name_of_two_issuers_is_two_users() -> None:
    rsa_key, ed_key = RSA_KEY.public_key(), ED_KEY.public_key()
    keys = KeyRing(
        [
            TrustedKey(rsa_key, key_id(rsa_key), KeyTerms("https://kit", vouching=KIT)),
            TrustedKey(
                ed_key,
                key_id(ed_key),
                KeyTerms("ours", vouching=VouchedNames(realms=frozenset({"kit.edu"}))),
            ),
        ],
        "npaci",
    )
    theirs = keys.verify(token({"iss": "https://kit", "groups": ["staff"]}), NOW_S)
    ours = keys.verify(token({"iss": "ours", "groups": ["staff"]}, "EdDSA"), NOW_S)
    assert (theirs.principal.user, theirs.principal.groups) == ("ada@kit.edu", ("staff@kit.edu",))
    assert (ours.principal.user, ours.principal.groups) == ("ada", ("staff",))
    posing = token({"iss": "ours", "sub": "ada@kit.edu"}, "EdDSA")
    assert "may not vouch for the user 'ada@kit.edu'" in refusal(posing, keys)
    # A realm's issuer cannot leave it, whatever it says.
    for name in ("root@npaci", "ada@cern.ch"):
        inside = keys.verify(token({"iss": "https://kit", "sub": name}), NOW_S).principal.user
        assert inside == f"{name}@kit.edu"


def test_a_name_that_is_too_long_with_its_realm_is_refused() -> None:
    keys = ring(["RS256"], vouching=KIT)
    assert keys.verify(token({"sub": "a" * 120}), NOW_S)
    refusal(token({"sub": "a" * 121}), keys)


@pytest.mark.parametrize(
    ("said", "user"),
    [
        ("ada@kit.edu", "ada@kit.edu"), ("ada@KIT.EDU", "ada@kit.edu"), ("ada@cern.ch", None),
        ("ada", None), ("@kit.edu", None), (["ada@kit.edu"], None), (None, None),
    ],
)  # fmt: skip
def test_names_that_bring_their_realm_along_are_held_to_it(said: Any, user: str | None) -> None:
    keys = ring(["RS256"], vouching=KIT, claims=ClaimNames(user="eppn", scoped=True))
    text = token({"eppn": said})
    if user is None:
        refusal(text, keys)
    else:
        assert keys.verify(text, NOW_S).principal.user == user


KEYCLOAK = ClaimNames(
    user="preferred_username",
    groups="realm_access.roles",
    audiences=("kalends-cli", "account"),
    many_groups=True,
    scopes={"use": ("*",), "audit": ("kalends.audit",)},
)


def test_a_keycloak_token_is_understood_by_the_names_of_its_claims() -> None:
    # Shaped as Keycloak's own documentation shows an access token.
    keys = ring(
        ["RS256"],
        issuer="https://login.kit.edu/realms/main",
        scopes=frozenset({"use", "audit"}),
        vouching=VouchedNames(groups=("hpc-*",), realm="kit.edu"),
        claims=KEYCLOAK,
    )
    claims = {
        "iss": "https://login.kit.edu/realms/main", "sub": "f:1c2:7", "aud": "account",
        "typ": "Bearer", "azp": "kalends-cli", "preferred_username": "ada", "scope": "openid profile",
        "realm_access": {"roles": ["hpc-staff", "offline_access", *(f"r{n}" for n in range(200))]},
    }  # fmt: skip
    caller = keys.verify(token(claims), NOW_S)
    assert caller.principal.user == "ada@kit.edu"
    assert caller.principal.groups == ("hpc-staff@kit.edu",)
    assert caller.scopes == {"use"}
    auditor = keys.verify(token({**claims, "scope": "openid kalends.audit"}), NOW_S)
    assert auditor.scopes == {"use", "audit"}
    assert "not for 'kalends-cli' or 'account'" in refusal(token({**claims, "aud": "npaci"}), keys)


SCITOKENS = ClaimNames(
    groups="wlcg.groups",
    audiences=("https://npaci.example",),
    many_groups=True,
    scopes={"use": ("compute.create", "compute.modify")},
)


@pytest.mark.parametrize(
    ("scope", "scopes"),
    [
        ("compute.read", set()), ("compute.create", {"use"}), ("read:/ compute.modify", {"use"}),
        (["compute.create"], {"use"}), ("use", set()), ("admin compute.create", {"use"}),
    ],
)  # fmt: skip
def test_a_scitoken_may_do_what_its_scopes_stand_for(scope: Any, scopes: set[str]) -> None:
    keys = ring(["ES256"], vouching=VouchedNames(realm="cms"), claims=SCITOKENS)
    claims = {
        "ver": "scitoken:2.0", "aud": ["https://npaci.example"], "scope": scope,
        "nbf": NOW_S, "jti": "4c1a", "wlcg.groups": ["/cms", "/cms/prod"],
    }  # fmt: skip
    caller = keys.verify(token(claims, "ES256"), NOW_S)
    assert caller.scopes == scopes
    if scopes:
        assert caller.principal.groups == ("/cms@cms", "/cms/prod@cms")


@pytest.mark.parametrize(
    "claims",
    [
        {"groups": {"a": 1}}, {"groups": [1]}, {"groups": ["g"] * 1_001}, {"scope": 5},
        {"scope": [["use"]]}, {"sub": ["ada"]}, {"sub": {"x": "ada"}},
    ],
)  # fmt: skip
def test_claims_of_another_form_are_refused(claims: dict[str, Any]) -> None:
    refusal(token(claims), ring(claims=ClaimNames(many_groups=True)))


def test_a_token_that_is_good_for_longer_than_the_owner_accepts_is_refused() -> None:
    keys = ring(longest_s=3_600)
    assert keys.verify(token({"exp": NOW_S + 3_600}), NOW_S)
    long = token({"exp": NOW_S + 3_601})
    assert "valid for 1h1s, and this server accepts at most 1h" in refusal(long, keys)
    # Nor does it become acceptable with age, with another word for its beginning, or without one.
    assert "accepts" in refusal(long, keys, NOW_S + 3_000)
    for times in ({"iat": NOW_S + 5_000}, {"iat": 0, "nbf": NOW_S}, {"iat": 0}):
        assert "accepts" in refusal(token({"exp": NOW_S + 4_000, **times}), keys)
    assert "accepts at most 366d" in refusal(token({"exp": 253_402_300_799}), ring())


def test_a_decoded_token_is_never_believed_for_its_form_alone() -> None:
    text = jwt.encode({"sub": "eve"}, None, "none")
    assert "its algorithm is 'none'" in refusal(text, ring())

"""Tokens: what is believed, and the precise reason for everything that is not."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from kalends.core.errors import Conflict, InvalidInput, NotAuthenticated
from kalends.serving.auth import tokens
from kalends.serving.auth.keys import generate_key, load_private_key, write_key_pair
from kalends.serving.auth.public_keys import KeyTerms, TrustedKey, key_id, load_trusted_keys
from kalends.serving.auth.tokens import KeyRing, mint

NOW_S = 1_700_000_000
KEY = generate_key()
ALL = frozenset({"use", "audit", "admin", "broker"})


def trusted(key: Any = KEY, issuer: str = "", scopes: frozenset[str] = ALL) -> TrustedKey:
    public = key.public_key()
    return TrustedKey(public, key_id(public), KeyTerms(issuer, scopes))


def token(**changes: Any) -> str:
    fields: dict[str, Any] = {
        "user": "anna", "groups": ["staff"], "audience": ["sdsc"], "scopes": ["use"],
        "issuer": "login", "lifetime_s": 600, "now_s": NOW_S,
    }  # fmt: skip
    key = changes.pop("key", KEY)
    return mint(key, **{**fields, **changes})


def refusal(text: str, now_s: int = NOW_S, ring: KeyRing | None = None) -> NotAuthenticated:
    with pytest.raises(NotAuthenticated) as caught:
        (ring or KeyRing([trusted()], "sdsc")).verify(text, now_s)
    return caught.value


def test_a_minted_token_is_believed_and_says_who() -> None:
    caller = KeyRing([trusted()], "sdsc").verify(token(), NOW_S)
    assert caller.principal.user == "anna"
    assert caller.principal.groups == ("staff",)
    assert caller.scopes == {"use"}
    assert caller.expires_at == NOW_S + 600
    assert caller.token_id


def test_two_tokens_of_the_same_content_have_different_ids() -> None:
    ring = KeyRing([trusted()], "sdsc")
    assert ring.verify(token(), NOW_S).token_id != ring.verify(token(), NOW_S).token_id


@given(
    asked=st.sets(st.sampled_from(sorted(ALL))),
    allowed=st.sets(st.sampled_from(sorted(ALL))),
)
def test_scopes_are_those_that_both_the_token_and_its_key_allow(
    asked: set[str], allowed: set[str]
) -> None:
    ring = KeyRing([trusted(scopes=frozenset(allowed))], "sdsc")
    assert ring.verify(token(scopes=sorted(asked)), NOW_S).scopes == asked & allowed


def test_an_expired_token_is_refused_with_how_long_ago() -> None:
    assert "expired 3 min ago" in refusal(token(), NOW_S + 600 + 185).detail
    assert "expired 0 s ago" in refusal(token(), NOW_S + 600).detail


def test_a_token_expires_also_when_it_was_believed_before() -> None:
    ring = KeyRing([trusted()], "sdsc")
    text = token()
    ring.verify(text, NOW_S + 599)
    assert "expired 2 h ago" in refusal(text, NOW_S + 600 + 7_250, ring).detail


def test_a_token_for_another_server_is_refused_and_names_it() -> None:
    error = refusal(token(audience=["caltech", "ctc"]))
    assert "it is for 'caltech', 'ctc', not for 'sdsc'" in error.detail
    assert "audience 'sdsc'" in error.remedy


def test_a_token_of_a_key_that_is_not_listed_is_refused() -> None:
    assert "a key that this owner does not list" in refusal(token(key=generate_key())).detail


def test_a_token_that_names_a_listed_key_but_was_signed_by_another_is_refused() -> None:
    header = {"kid": key_id(KEY.public_key())}
    forged = jwt.encode(
        {"sub": "eve", "exp": NOW_S + 9, "aud": "sdsc"}, generate_key(), "EdDSA", header
    )
    assert "does not list" in refusal(forged).detail


def test_a_token_is_not_valid_before_its_time_but_skewed_clocks_are_forgiven() -> None:
    ring = KeyRing([trusted()], "sdsc")
    assert "not valid yet, but in 2 min" in refusal(token(now_s=NOW_S + 121), ring=ring).detail
    assert ring.verify(token(now_s=NOW_S + 60), NOW_S).principal.user == "anna"


def test_a_token_of_another_issuer_than_its_key_is_listed_for_is_refused() -> None:
    ring = KeyRing([trusted(issuer="https://login.example")], "sdsc")
    assert "its issuer is 'login'" in refusal(token(), ring=ring).detail


@pytest.mark.parametrize("algorithm", ["none", "HS256", "RS256"])
def test_no_other_algorithm_is_believed(algorithm: str) -> None:
    key: Any = {
        "none": None,
        "HS256": KEY.public_key().public_bytes_raw() + b"-",
        "RS256": rsa.generate_private_key(65537, 2048),
    }[algorithm]
    forged = jwt.encode({"sub": "eve", "exp": NOW_S + 9, "aud": "sdsc"}, key, algorithm)
    assert f"its algorithm is '{algorithm}', not EdDSA" in refusal(forged).detail


def segment(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "a.b.c", "e30.e30.", "\udcff\udcff", "é.é.é", "x" * 9_000, "e" * 100,
     segment([]) + ".e30.e30", segment({"alg": "EdDSA", "crit": ["x"]}) + ".e30.e30",
     segment({"alg": "EdDSA", "kid": 5}) + ".e30.e30", segment({"alg": ["EdDSA"]}) + ".e30.e30",
     segment({"alg": "EdDSA", "b64": False}) + "..e30"],
)  # fmt: skip
def test_what_is_not_a_token_is_refused_as_such(text: str) -> None:
    error = refusal(text)
    assert "the token was refused" in error.detail
    assert error.remedy


@given(st.text(max_size=200))
def test_no_text_is_ever_believed_nor_breaks_the_verifier(text: str) -> None:
    refusal(text)


@given(st.integers(0, 10_000), st.integers(0, 127))
def test_a_changed_character_is_never_believed(position: int, code: int) -> None:
    text = token()
    position %= len(text)
    changed = text[:position] + chr(code) + text[position + 1 :]
    ring = KeyRing([trusted()], "sdsc")
    if changed != text:
        assert changed.strip("=") not in refusal(changed, ring=ring).detail


@pytest.mark.parametrize(
    "claims",
    [
        {},
        {"sub": "anna", "aud": "sdsc"},
        {"sub": 5, "aud": "sdsc", "exp": NOW_S + 9},
        {"sub": "anna", "aud": 5, "exp": NOW_S + 9},
        {"sub": "anna", "aud": "sdsc", "exp": "soon"},
        {"sub": "", "aud": "sdsc", "exp": NOW_S + 9},
        {"sub": "an\nna", "aud": "sdsc", "exp": NOW_S + 9},
        {"sub": "a" * 129, "aud": "sdsc", "exp": NOW_S + 9},
        {"sub": "anna", "aud": "sdsc", "exp": NOW_S + 9, "groups": ["g"] * 65},
        {"sub": "anna", "aud": [], "exp": NOW_S + 9},
    ],
)
def test_claims_that_are_missing_or_wrong_are_refused(claims: dict[str, Any]) -> None:
    refusal(jwt.encode(claims, KEY, "EdDSA"))


def test_refusals_never_contain_the_token() -> None:
    for text, now_s in ((token(), NOW_S + 9_999), (token(audience=["x"]), NOW_S)):
        error = refusal(text, now_s)
        parts = text.split(".")
        assert not any(part in f"{error} {error.to_problem()}" for part in parts)


def test_verified_tokens_are_remembered_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "VERIFIED_MAX", 2)
    checked: list[str] = []
    real = KeyRing._check_signature

    def counted(ring: KeyRing, text: str) -> Any:
        checked.append(text)
        return real(ring, text)

    monkeypatch.setattr(KeyRing, "_check_signature", counted)
    ring = KeyRing([trusted()], "sdsc")
    first, second, third = token(), token(), token()
    for text in (first, second, first, third, first, second):
        ring.verify(text, NOW_S)
    assert checked == [first, second, third, second], "the least recently used one is forgotten"


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"audience": []}, "audience"),
        ({"audience": [""]}, "audience"),
        ({"scopes": ["everything"]}, "scopes"),
        ({"lifetime_s": 0}, "lifetime"),
        ({"lifetime_s": 400 * 86_400}, "lifetime"),
        ({"user": ""}, "user"),
        ({"groups": ["\0"]}, "user"),
        ({"groups": ["g" * 128] * 64}, "groups"),
    ],
)
def test_a_token_that_no_server_would_take_is_not_minted(
    changes: dict[str, Any], where: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        token(**changes)
    assert caught.value.where == where


def test_a_key_pair_round_trips_through_its_files(tmp_path: Path) -> None:
    public = write_key_pair(tmp_path / "people")
    assert public == tmp_path / "people.pub"
    assert stat.S_IMODE((tmp_path / "people").stat().st_mode) == 0o600
    ring = KeyRing(load_trusted_keys(public, KeyTerms()), "sdsc")
    text = token(key=load_private_key(tmp_path / "people"))
    assert ring.verify(text, NOW_S).principal.user == "anna"


@pytest.mark.parametrize("existing", ["people", "people.pub"])
def test_a_key_is_never_overwritten_and_nothing_is_left_behind(
    tmp_path: Path, existing: str
) -> None:
    (tmp_path / existing).write_text("precious")
    with pytest.raises(Conflict):
        write_key_pair(tmp_path / "people")
    assert [file.name for file in tmp_path.iterdir()] == [existing]
    assert (tmp_path / existing).read_text() == "precious"


def test_a_key_pair_in_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot create"):
        write_key_pair(tmp_path / "no" / "people")


def test_a_private_key_open_to_everybody_is_not_used(tmp_path: Path) -> None:
    write_key_pair(tmp_path / "people")
    (tmp_path / "people").chmod(0o644)
    with pytest.raises(InvalidInput, match="every user of this machine"):
        load_private_key(tmp_path / "people")


def test_a_private_key_is_never_listed_as_trusted(tmp_path: Path) -> None:
    write_key_pair(tmp_path / "people")
    with pytest.raises(InvalidInput, match="private key"):
        load_trusted_keys(tmp_path / "people", KeyTerms())


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"-----BEGIN PUBLIC KEY-----\nxx\n-----END PUBLIC KEY-----\n", b"{}", b"[1]",
     b'{"keys": []}', b'{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "!!"}]}', b"\xff\xfe"],
)  # fmt: skip
def test_what_is_no_key_file_is_an_error_that_names_the_file(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(InvalidInput) as caught:
        load_trusted_keys(path, KeyTerms())
    assert caught.value.where.startswith(str(path))
    with pytest.raises(InvalidInput):
        load_private_key(path)


def test_a_missing_key_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot read"):
        load_trusted_keys(tmp_path / "none", KeyTerms())


def test_a_server_signs_with_ed25519_only(tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    (tmp_path / "key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(InvalidInput, match="not an Ed25519"):
        load_private_key(tmp_path / "key")


def test_a_jwks_is_read_and_its_other_keys_are_passed_over(tmp_path: Path) -> None:
    x = base64.urlsafe_b64encode(KEY.public_key().public_bytes_raw()).rstrip(b"=").decode()
    keys = [
        {"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "r"},
        {"kty": "OKP", "crv": "Ed25519", "x": x, "kid": "mine", "use": "sig", "alg": "EdDSA"},
    ]
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": keys}))
    listed = load_trusted_keys(tmp_path / "jwks.json", KeyTerms("idp"))
    assert [(key.key_id, key.terms.issuer) for key in listed] == [("mine", "idp")]
    foreign = jwt.encode(
        {"sub": "anna", "iss": "idp", "aud": "sdsc", "exp": NOW_S + 9, "scope": "use profile"},
        KEY,
        "EdDSA",
        {"kid": "mine"},
    )
    assert KeyRing(listed, "sdsc").verify(foreign, NOW_S).scopes == {"use"}


def test_a_key_id_is_the_thumbprint_of_the_standard() -> None:
    # RFC 8037, appendix A.3.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    raw = base64.urlsafe_b64decode("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo=")
    expected = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
    assert key_id(Ed25519PublicKey.from_public_bytes(raw)) == expected


def test_a_ring_without_keys_is_refused() -> None:
    with pytest.raises(InvalidInput):
        KeyRing([], "sdsc")


@pytest.mark.parametrize(
    ("header", "reason"),
    [(None, "no token was sent"), ("Basic YTpi", "no bearer token"), ("Bearer", "no bearer token")],
)
def test_a_header_without_a_token_is_refused(header: str | None, reason: str) -> None:
    headers = {} if header is None else {"Authorization": header}
    with pytest.raises(NotAuthenticated, match=reason):
        KeyRing([trusted()], "sdsc").authenticate(headers, NOW_S)
    caller = KeyRing([trusted()], "sdsc").authenticate(
        {"Authorization": f"bearer {token()}"}, NOW_S
    )
    assert caller.principal.user == "anna"

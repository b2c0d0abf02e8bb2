"""Revocation: what the file says ends at once, and stays revoked whatever becomes of the file."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st
from serving_support import ManualClock, call, frame, replies, serving

from kalends.batch import terminal_sessions
from kalends.batch.terminal_sessions import Seat, TerminalSessions
from kalends.contract import codec
from kalends.contract.terminal_frames import TERMINALS_PATH, AttachTerminal
from kalends.core.errors import InvalidInput, NotAuthenticated
from kalends.serving.auth.keys import generate_key
from kalends.serving.auth.public_keys import KeyTerms, TrustedKey, key_id
from kalends.serving.auth.revocations import Revocation, Revocations, revocations_in, revoke
from kalends.serving.auth.session_proof import Belief
from kalends.serving.auth.tokens import KeyRing, id_of, mint
from kalends.serving.http.rate_limits import ServingLimits

NOW_S = 1_700_000_000
KEY = generate_key()
KEY_ID = key_id(KEY.public_key())


def token(key: Any = KEY, scopes: tuple[str, ...] = ("use",)) -> str:
    return mint(key, user="ada", groups=(), audience=("npaci",), scopes=scopes, issuer="i",
                lifetime_s=600, now_s=NOW_S)  # fmt: skip


def ring(path: Path, troubles: list[str] | None = None) -> KeyRing:
    said = troubles if troubles is not None else []
    terms = KeyTerms(scopes=frozenset({"use", "broker"}))
    return KeyRing(
        [TrustedKey(KEY.public_key(), KEY_ID, terms)],
        "npaci",
        revoked=Revocations(path, said.append),
    )


def refused(keys: KeyRing, text: str) -> bool:
    try:
        keys.verify(text, NOW_S)
    except NotAuthenticated as error:
        return "revoked" in error.detail
    return False


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "revoked.txt").touch()
    return tmp_path / "revoked.txt"


@pytest.mark.parametrize("known", [False, True], ids=["new", "believed before"])
@pytest.mark.parametrize("kind", ["token", "key"])
def test_what_is_revoked_is_refused_at_once(kind: Any, known: bool, path: Path) -> None:
    keys, text, other = ring(path), token(), token()
    if known:
        assert not refused(keys, text)
    revoke(path, [Revocation(kind, id_of(text) if kind == "token" else KEY_ID)], "laptop lost")
    assert refused(keys, text)
    assert refused(keys, other) == (kind == "key")
    assert refused(ring(path), text), "another server, or this one after a restart"


def signed(key: Any, algorithm: str, **claims: object) -> str:
    return jwt.encode({"sub": "ada", "aud": "npaci", "exp": NOW_S + 9} | claims, key, algorithm)


def ring_of(algorithm: str, path: Path) -> KeyRing:
    terms = KeyTerms(scopes=frozenset({"use"}))
    key = TrustedKey(KEYS[algorithm].public_key(), "k", terms)
    return KeyRing([key], "npaci", revoked=Revocations(path))


def texts_of(token: str, key: Any) -> list[str]:
    """Return texts that differ from `token`, and are as valid."""
    said, _, signature = token.rpartition(".")
    found = [token + "=", token + "==", token + "====", token + "!", f"{said}.!{signature}"]
    if isinstance(key, ec.EllipticCurvePrivateKey):
        raw = base64.urlsafe_b64decode(signature + "==")
        r, s = raw[:32], int.from_bytes(raw[32:], "big")
        other = base64.urlsafe_b64encode(r + (P256_ORDER - s).to_bytes(32, "big")).decode()
        found += [f"{said}.{other}", f"{said}.{other.rstrip('=')}"]
    else:
        # The last characters carry bits that stand for nothing.
        found += [token[:-1] + each for each in ALPHABET if each != token[-1]]
    return found


KEYS = {
    "EdDSA": generate_key(),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "RS256": rsa.generate_private_key(65_537, 2_048),
}
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


@pytest.mark.parametrize("by", ["id", "the id of another text", "an earlier version"])
@pytest.mark.parametrize("jti", [None, "", "two words", "n" * 600, "№5"])
@pytest.mark.parametrize("algorithm", KEYS)
def test_no_text_of_a_revoked_token_counts(
    algorithm: str, jti: str | None, by: str, path: Path
) -> None:
    key = KEYS[algorithm]
    text = signed(key, algorithm, **({} if jti is None else {"jti": jti}))
    keys = ring_of(algorithm, path)
    texts = [text]
    for each in texts_of(text, key):
        with suppress(NotAuthenticated):
            keys.verify(each, NOW_S)
            texts.append(each)
    assert len(texts) == (4 if algorithm == "ES256" else 2), "its signature can be written so"
    assert len({keys.verify(each, NOW_S).token_id for each in texts}) == 1
    session = keys.verify(texts[-1], NOW_S)
    id = id_of(text) if by == "id" else id_of(texts[-1])
    if by == "an earlier version":
        id = jti if jti == "№5" else hashlib.sha256(text.encode()).hexdigest()
    revoke(path, [Revocation("token", id)])
    assert all(refused(keys, each) for each in texts), "remembered from before"
    assert all(refused(ring_of(algorithm, path), each) for each in texts)
    assert session.is_revoked()


def test_another_token_of_the_same_claims_stays(path: Path) -> None:
    text, other = (signed(KEYS["EdDSA"], "EdDSA", iat=NOW_S - each) for each in (0, 1))
    keys = ring_of("EdDSA", path)
    revoke(path, [Revocation("token", id_of(text))])
    assert refused(keys, text)
    assert not refused(keys, other)


def test_an_audit_log_has_the_id_that_revokes(path: Path) -> None:
    for jti in ("n" * 100, "4c#1a", "tab\there", ""):
        text = signed(KEYS["EdDSA"], "EdDSA", jti=jti)
        keys = ring_of("EdDSA", path)
        revoke(path, [Revocation("token", keys.verify(text, NOW_S).token_id)])
        assert refused(keys, text), jti


@pytest.mark.parametrize("text", ["", ".", "..", "a.b", "x" * 9_000, "é.é.é", "a.b.c", "a.b.A"])
def test_what_is_no_token_is_refused(text: str, path: Path) -> None:
    with pytest.raises(NotAuthenticated, match=r"malformed|longer"):
        ring(path).verify(text, NOW_S)
    with pytest.raises(NotAuthenticated, match=r"malformed|longer"):
        id_of(text)


def test_a_session_ends_its_calls_when_its_token_is_revoked(path: Path) -> None:
    caller = ring(path).verify(token(scopes=("use", "broker")), NOW_S)
    belief = Belief(caller, 0)
    belief.check(0)
    caller.require("use", NOW_S)
    revoke(path, [Revocation("token", caller.token_id)])
    with pytest.raises(NotAuthenticated, match="revoked"):
        caller.require("use", NOW_S)
    with pytest.raises(NotAuthenticated, match="revoked"):
        belief.check(0)


async def test_a_served_session_hears_that_its_token_is_revoked(path: Path) -> None:
    text = token()
    headers = {"Authorization": f"Bearer {text}"}
    async with (
        serving(authenticator=ring(path), clock=ManualClock()) as server,
        server.session(headers=headers) as session,
    ):
        for number in (1, 2):
            await session.send_bytes(frame(call(number, "list")))
            [reply] = await replies(session, 1)
            assert ("problem" in reply and reply["problem"] is not None) == (number == 2)
            revoke(path, [Revocation("token", id_of(text))])
        assert reply["problem"]["code"] == "not-authenticated"
        assert (await server.call("GET", "/v1/requests/x", headers=headers))[0] == 401


def test_what_was_revoked_stays_so_when_the_file_is_lost_or_spoilt(path: Path) -> None:
    troubles: list[str] = []
    first, second = token(), token()
    revoke(path, [Revocation("token", id_of(first))])
    keys = ring(path, troubles)
    assert refused(keys, first)
    path.unlink()
    assert refused(keys, first)
    assert "revoked" in troubles[-1]
    path.write_text(f"tokn {id_of(first)}\ntoken {id_of(second)}\n")
    assert refused(keys, first), "the spoilt line takes nothing back"
    assert refused(keys, second), "and the others count"
    assert "revoked.txt:1" in troubles[-1]
    path.write_text(f"token {id_of(second)}\n")
    assert not refused(keys, first), "the owner has taken it back"
    assert troubles[-1] == ""


@pytest.mark.parametrize(
    "content", ["tokens abc", "token", "key a b", "revoke everything", "token " + "x" * 513]
)
def test_a_file_that_cannot_be_read_stops_a_server_from_starting(content: str, path: Path) -> None:
    path.write_text(f"# all well here\n{content}\n")
    with pytest.raises(InvalidInput) as caught:
        Revocations(path)
    assert caught.value.where == f"{path}:2"
    with pytest.raises(InvalidInput):
        revoke(path, [Revocation("token", "fine")])
    assert content in path.read_text(), "nothing was changed"


def test_a_missing_file_stops_a_server_from_starting(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot read the revocation list"):
        Revocations(tmp_path / "none")


def test_without_a_file_nothing_is_revoked() -> None:
    assert not Revocations(None)("any", "key")


IDS = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=20
)


@given(
    st.lists(st.builds(Revocation, st.sampled_from(["token", "key"]), IDS), max_size=5), st.text()
)
def test_what_is_added_is_read_back_or_refused_whole(
    tmp_path_factory: pytest.TempPathFactory, revoked: list[Any], note: str
) -> None:
    path = tmp_path_factory.mktemp("revoked") / "list"
    path.write_text("token first")
    try:
        revoke(path, revoked, note)
    except InvalidInput:
        assert path.read_text() == "token first"
        assert any("#" in each.id or each.id.split() != [each.id] for each in revoked)
    else:
        assert revocations_in(path.read_bytes(), "x") == [Revocation("token", "first"), *revoked]
    os.unlink(path)


class SilentPlace:
    """A place at a terminal where nothing happens."""

    def look_on(self) -> None:
        """There is nothing to see."""

    async def next(self) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        """There is nothing to give up."""


async def silent_seat(caller: Any, wish: Any) -> Seat:
    place: Any = SilentPlace()
    return Seat(1, place)


async def test_a_terminal_ends_when_its_token_is_revoked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal_sessions, "LOOK_EVERY_S", 0.01)
    text, clock = token(), ManualClock()
    terminals = TerminalSessions(silent_seat, ServingLimits(), clock.wall_s)
    route = web.get(TERMINALS_PATH, terminals.respond, allow_head=False)
    async with serving(authenticator=ring(path), clock=clock, routes=[route]) as server:
        headers = {"Authorization": f"Bearer {text}"}
        async with server.client.ws_connect(server.url + TERMINALS_PATH, headers=headers) as socket:
            wish = AttachTerminal(machine="alpha/press", job=1, keys=False)
            await socket.send_bytes(codec.encode_msgpack(wish))
            revoke(path, [Revocation("token", id_of(text))])
            closing = await socket.receive()
            assert closing.data == 1008
            assert "the token has expired" in str(closing.extra)

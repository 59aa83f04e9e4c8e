"""Signed tokens: taken from the right issuer for us, refused otherwise, in every way that is known to be tried."""

import hashlib
import hmac
import json
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from service.api.access.tokens import Tokens
from service.api.errors import Unauthenticated

KEY = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())
PUBLIC = KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
ISSUER, AUDIENCE = "https://id.example.com", "tonnage"


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    path = tmp_path / "public.pem"
    path.write_bytes(PUBLIC)
    return Tokens(path, issuer=ISSUER, audience=AUDIENCE)


def claims(**changes: Any) -> dict[str, Any]:
    all_claims = {"sub": "buyer", "iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 60, "scope": "read tonnage:plan other"}
    return {name: value for name, value in (all_claims | changes).items() if value is not None}


def test_a_good_token_says_who_it_is_and_what_it_may(tokens: Tokens) -> None:
    caller = tokens.caller(jwt.encode(claims(), KEY, "ES256"))
    assert "token:buyer" == caller.name
    assert frozenset({"read", "plan"}) == caller.scopes
    assert frozenset({"admin"}) == tokens.caller(jwt.encode(claims(scope=None, scp=["admin"]), KEY, "ES256")).scopes
    assert frozenset() == tokens.caller(jwt.encode(claims(scope={"read": 1}), KEY, "ES256")).scopes


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": -60},
        {"exp": None},
        {"nbf": 600},
        {"iss": "https://id.example.org"},
        {"aud": "another"},
        {"aud": None},
        {"sub": None},
    ],
    ids=str,
)
def test_claims_that_are_refused(tokens: Tokens, changes: dict[str, Any]) -> None:
    """Times are in seconds from now."""
    changed = {name: value + time.time() if isinstance(value, int) else value for name, value in changes.items()}
    with pytest.raises(Unauthenticated, match="the token is refused"):
        tokens.caller(jwt.encode(claims(**changed), KEY, "ES256"))


def test_signatures_that_are_refused(tokens: Tokens) -> None:
    good = jwt.encode(claims(), KEY, "ES256")
    head, body, _ = good.split(".")

    def part(value: Any) -> str:
        return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    confused = f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{body}"
    signature = urlsafe_b64encode(hmac.digest(PUBLIC, confused.encode(), hashlib.sha256)).rstrip(b"=").decode()
    for token in (
        jwt.encode(claims(), OTHER, "ES256"),
        f"{part({'alg': 'none'})}.{body}.",
        f"{confused}.{signature}",  # the public key as a shared secret
        f"{head}.{part(claims(sub='admin'))}.{good.split('.')[2]}",
        "a.b.c",
        "..",
        "x" * 9000,
    ):
        with pytest.raises(Unauthenticated):
            tokens.caller(token)


def test_a_remembered_token_expires_all_the_same(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    token = jwt.encode(claims(), KEY, "ES256")
    assert tokens.caller(token) is tokens.caller(token)
    later = time.time() + 120

    def asked_again(_: str) -> dict[str, Any]:
        raise Unauthenticated("looked at anew")

    monkeypatch.setattr(Tokens, "_claims", lambda _, token: asked_again(token))
    assert "token:buyer" == tokens.caller(token).name
    monkeypatch.setattr(time, "time", lambda: later)
    with pytest.raises(Unauthenticated, match="looked at anew"):
        tokens.caller(token)


def test_a_set_of_keys_is_chosen_from_by_id(tmp_path: Path) -> None:
    rsa_key = rsa.generate_private_key(65537, 2048)
    keys = [
        json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key.public_key())) | {"kid": "r", "alg": "RS256"},
        json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key())) | {"kid": "e", "alg": "ES256"},
    ]
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": keys}))
    tokens = Tokens(path, issuer=ISSUER, audience=AUDIENCE)
    for key, algorithm, name in ((rsa_key, "RS256", "r"), (KEY, "ES256", "e"), (KEY, "ES256", "unknown")):
        assert "token:buyer" == tokens.caller(jwt.encode(claims(), key, algorithm, {"kid": name})).name
    with pytest.raises(Unauthenticated):
        tokens.caller(jwt.encode(claims(), OTHER, "ES256", {"kid": "e"}))


def test_files_that_are_no_public_keys(tmp_path: Path) -> None:
    private = KEY.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    for text, reason in (
        (private, "this is a private key"),
        ("nothing", "neither the PEM of a public key nor a JSON Web Key Set"),
        ('{"keys": []}', "no JSON Web Key Set"),
        ('{"keys": [{"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}]}', "holds no public key"),
    ):
        path = tmp_path / "keys"
        path.write_text(text)
        with pytest.raises(ValueError, match=reason):
            Tokens(path, issuer=ISSUER, audience=AUDIENCE)

"""Signed tokens (JWT) of an identity provider, checked against its public keys in a file.

The keys come from a file and never from an address in a token, so nobody can make the service fetch anything. Only
signatures by a private key are taken: with a shared secret, whoever can check a token could also make one.
"""

import json
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any, Final

from service.api.access.callers import SCOPES, Caller, Scope
from service.api.access.files import WatchedFile
from service.api.access.keys import hash_of
from service.api.errors import Unauthenticated, shortened

_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
#: Clocks of two machines differ a little.
_LEEWAY_SECONDS: Final = 10
_MAX_TOKEN_CHARACTERS: Final = 8192
#: Tokens whose signature need not be checked again; each holds a hash and a caller.
_MAX_REMEMBERED: Final = 4096


class Tokens:
    """Checks tokens.

    Args:
        path: PEM of a public key, or a JSON Web Key Set.
        issuer: what ``iss`` must be.
        audience: what ``aud`` must be or hold.

    Raises:
        ValueError: the file holds no public key, or the extra [auth] is not installed.
        OSError: the file cannot be read.
    """

    def __init__(self, path: Path, *, issuer: str, audience: str) -> None:
        try:
            import jwt
        except ImportError:
            raise ValueError("signed tokens need the extra [auth]: pip install 'tonnage-service[auth]'") from None
        self._jwt = jwt
        self._issuer, self._audience = issuer, audience
        self._file = WatchedFile(path)
        self._keys = self._read()
        self._remembered: OrderedDict[str, tuple[float, Caller]] = OrderedDict()

    def caller(self, token: str) -> Caller:
        """Whose token this is. Unauthenticated where it is none, has expired, or is meant for somebody else."""
        if len(token) > _MAX_TOKEN_CHARACTERS:
            raise Unauthenticated(f"a token has at most {_MAX_TOKEN_CHARACTERS} characters")
        if self._file.has_changed():
            self._renew()
        digest = hash_of(token)
        known = self._remembered.get(digest)
        if known is not None and time.time() < known[0]:
            return known[1]
        claims = self._claims(token)
        caller = Caller(f"token:{shortened(str(claims['sub']), 64)}", _scopes(claims))
        self._remembered[digest] = (float(claims["exp"]) + _LEEWAY_SECONDS, caller)
        if len(self._remembered) > _MAX_REMEMBERED:
            self._remembered.popitem(last=False)
        return caller

    def _claims(self, token: str) -> dict[str, Any]:
        try:
            key_id = self._jwt.get_unverified_header(token).get("kid")
            keys = [key for name, key in self._keys if name == key_id] or [key for _, key in self._keys]
            return self._decoded(token, keys)
        except self._jwt.InvalidTokenError as error:
            raise Unauthenticated(f"the token is refused: {shortened(str(error))}") from None

    def _decoded(self, token: str, keys: list[Any]) -> dict[str, Any]:
        failure: Exception = self._jwt.InvalidTokenError("no key to check it with")
        for key in keys:
            try:
                claims: dict[str, Any] = self._jwt.decode(
                    token,
                    key,
                    algorithms=list(_ALGORITHMS),
                    issuer=self._issuer,
                    audience=self._audience,
                    leeway=_LEEWAY_SECONDS,
                    options={"require": ["exp", "sub", "iss", "aud"]},
                )
                return claims
            except (self._jwt.InvalidSignatureError, self._jwt.InvalidKeyError, TypeError) as error:
                failure = error
        raise self._jwt.InvalidTokenError(str(failure))

    def _renew(self) -> None:
        try:
            self._keys = self._read()
        except (OSError, ValueError):
            return  # half a file while it is written: the keys stay as they were
        self._remembered.clear()

    def _read(self) -> list[tuple[str | None, Any]]:
        text = self._file.read()
        if "PRIVATE KEY" in text:
            raise ValueError(f"{self._file.path}: this is a private key; the public one is enough, and safer")
        if text.lstrip().startswith("{"):
            return self._key_set(text)
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        try:
            return [(None, load_pem_public_key(text.encode()))]
        except ValueError:
            raise ValueError(f"{self._file.path}: neither the PEM of a public key nor a JSON Web Key Set") from None

    def _key_set(self, text: str) -> list[tuple[str | None, Any]]:
        try:
            keys = self._jwt.PyJWKSet.from_dict(json.loads(text)).keys
        except (ValueError, KeyError, self._jwt.PyJWTError) as error:
            raise ValueError(f"{self._file.path}: no JSON Web Key Set: {error}") from None
        usable = [(each.key_id, each.key) for each in keys if each.algorithm_name in _ALGORITHMS]
        if not usable:
            raise ValueError(f"{self._file.path}: holds no public key for {', '.join(_ALGORITHMS)}")
        return usable


def _scopes(claims: dict[str, Any]) -> frozenset[Scope]:
    """Out of ``scope`` (words) or ``scp`` (a list or words), each as it is or after ``tonnage:``."""
    given = claims.get("scope", claims.get("scp", ()))
    words = given.split() if isinstance(given, str) else given if isinstance(given, list) else ()
    named = {str(word).removeprefix("tonnage:") for word in words}
    return frozenset(scope for scope in SCOPES if scope in named)

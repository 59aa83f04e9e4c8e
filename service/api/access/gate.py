"""The gate that both doors pass before anything is parsed: who is it, may it ask this, is it too much."""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from service.api.access.callers import Caller, Scope
from service.api.access.keys import KeyFile
from service.api.access.limits import Limits
from service.api.access.tokens import Tokens
from service.api.errors import CallerLimited, PermissionDenied, Unauthenticated
from service.cache.policy import COST_CLASSES, CostClass

_HOW: Final = "send an API key as 'authorization: Bearer …' or 'x-api-key: …'"
_ANONYMOUS_SCOPES: Final[frozenset[Scope]] = frozenset({"read", "plan", "admin"})


class Turn(Struct, frozen=True):
    """A request that was let in; ``leave`` when it is answered."""

    caller: Caller
    _limits: Limits

    def leave(self) -> None:
        """Counts the request out."""
        self._limits.leave(self.caller)


class Gate:
    """Lets requests in.

    Args:
        limits: how much each caller may ask.
        keys: API keys; None where there are none.
        tokens: signed tokens; None where none are taken.
        refused: counts refusals, by reason.
    """

    def __init__(self, limits: Limits, keys: KeyFile | None, tokens: Tokens | None, refused: Callable[[str], None]) -> None:
        self._limits, self._keys, self._tokens, self._refused = limits, keys, tokens, refused
        self._is_open = keys is None and tokens is None

    def enter(self, credentials: str, peer: str, scope: Scope) -> Turn:
        """Lets a request in that wants this scope.

        Args:
            credentials: what ``credentials_of`` found; empty for none.
            peer: the address that it comes from, which is who it is where nobody needs a key.
            scope: what it takes to ask this.

        Raises:
            Unauthenticated: no credentials, or unknown ones.
            PermissionDenied: the caller lacks the scope.
            CallerLimited: it asks too much.
        """
        try:
            caller = Caller(peer, _ANONYMOUS_SCOPES) if self._is_open else self._caller(credentials)
            if scope not in caller.scopes:
                raise PermissionDenied(caller.name, scope, caller.scopes)
            self._limits.enter(caller)
        except Unauthenticated:
            self._refused("unauthenticated")
            raise
        except PermissionDenied:
            self._refused("permission_denied")
            raise
        except CallerLimited:
            self._refused("limited")
            raise
        return Turn(caller, self._limits)

    def _caller(self, credentials: str) -> Caller:
        if not credentials:
            raise Unauthenticated(f"no credentials; {_HOW}")
        if self._keys is not None and (caller := self._keys.caller(credentials)) is not None:
            return caller
        if self._tokens is not None and credentials.count(".") == 2:
            return self._tokens.caller(credentials)
        raise Unauthenticated(f"unknown credentials; {_HOW}")


def credentials_of(headers: Mapping[str, str]) -> str:
    """The key or token in a request's headers (names in lower case); empty where there is none.

    >>> credentials_of({"authorization": "Bearer abc"}), credentials_of({"x-api-key": "abc"}), credentials_of({})
    ('abc', 'abc', '')
    """
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and token.strip():
        return token.strip()
    return headers.get("x-api-key", "").strip()


def scope_of_rpc(name: str) -> Scope:
    """What it takes to ask an RPC: ``plan`` for what is computed long, ``read`` for the rest.

    >>> scope_of_rpc("PlanFleet"), scope_of_rpc("EstimateDecode"), scope_of_rpc("RunSweep")
    ('plan', 'read', 'plan')
    """
    return "read" if COST_CLASSES.get(name) is CostClass.POINT else "plan"

"""Callers as the gate knows them."""

from typing import Final, Literal, get_args

from msgspec import Struct

#: ``read``: the catalogue and questions about one point. ``plan``: searches, plans, sweeps. ``admin``: /metrics.
Scope = Literal["read", "plan", "admin"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)


class Caller(Struct, frozen=True):
    """Somebody who may ask; ``name`` goes into logs, so it is never the secret.

    Limits that are None are the operator's for every caller.
    """

    name: str
    scopes: frozenset[Scope]
    requests_per_second: float | None = None
    max_concurrent_requests: int | None = None

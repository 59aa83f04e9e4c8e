"""Cache keys: all that an answer depends on is in its key, so a stale answer is never even looked at."""

import hashlib

from msgspec import Struct

#: Raised whenever what is stored under a key changes its meaning.
SCHEMA_VERSION = 1

_REQUEST_DIGEST_BYTES = 32
_LOCAL_TAG_BYTES = 16


class KeySpace(Struct, frozen=True, kw_only=True):
    """The keys of one build of the planner over one catalogue.

    Two processes share answers exactly when all three fields agree. During a rolling update the old and the new build
    therefore live side by side in one Redis, each blind to the other.

    Args:
        catalogue_revision: hash over the catalogue's files.
        code_version: anything that changes whenever the figures could: a release, or a commit.
        prefix: how every Redis key begins; sets this installation apart from others in the same Redis.

    Raises:
        ValueError: an empty field, whitespace, or a ``:`` where it would make two keys alike.
    """

    catalogue_revision: str
    code_version: str
    prefix: str = "tonnage:"

    def __post_init__(self) -> None:
        for field in (self.catalogue_revision, self.code_version):
            if not field or ":" in field or not field.isprintable() or " " in field:
                raise ValueError(f"catalogue revision and code version must be words without ':', not {field!r}")
        if not self.prefix or not self.prefix.isprintable() or " " in self.prefix:
            raise ValueError(f"the key prefix must be a word, not {self.prefix!r}")

    def redis_key(self, rpc: str, request: bytes) -> bytes:
        """The key in Redis for an RPC's request, given as its deterministic serialization.

        >>> KeySpace(catalogue_revision="c0ffee", code_version="1.2.0").redis_key("FitNode", b"")[:45]
        b'tonnage:1:c0ffee:1.2.0:FitNode:0e5751c026e543'
        """
        digest = hashlib.blake2b(request, digest_size=_REQUEST_DIGEST_BYTES).hexdigest()
        return f"{self.prefix}{SCHEMA_VERSION}:{self.catalogue_revision}:{self.code_version}:{rpc}:{digest}".encode()

    def local_tag(self, rpc: str, flavour: str) -> bytes:
        """What stands before the raw request in a key of the in-process tier.

        It stands for everything but the request, in a fixed number of bytes: fixed, so that no request can be written
        to look like another tag's; few, because every look-up copies and hashes them. Callers keep it and append the
        request, which is the cheapest key that there is.

        Args:
            rpc: RPC name.
            flavour: which rendering is kept: the doors store protobuf and JSON bytes under different flavours.
        """
        parts = (rpc, flavour, str(SCHEMA_VERSION), self.catalogue_revision, self.code_version)
        return hashlib.blake2b("\0".join(parts).encode(), digest_size=_LOCAL_TAG_BYTES).digest()

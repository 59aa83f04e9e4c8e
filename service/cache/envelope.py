"""The value in Redis: a small header that proves which key the message was stored under, and the message.

Layout, big-endian: magic ``TNGC`` · format version (1 byte) · flags (1 byte; bit 0: keyed) · message length (4 bytes)
· digest (16 bytes) · message.

The digest is BLAKE2b over header, key and message. The key is part of it, so a value moved to another key does not
open; the length in the header keeps the end of the key from passing for the start of the message. With a secret the
digest is BLAKE2b's keyed mode, a message authentication code: then whoever can write to Redis but lacks the secret
cannot forge an answer. Without one it is a checksum against accidents only.
"""

import hashlib
import hmac
import struct

_MAGIC = b"TNGC"
_FORMAT_VERSION = 1
_KEYED = 0b1
_PREFIX = struct.Struct(">4sBBI")
_DIGEST_BYTES = 16

#: Bytes that the header adds to a message.
HEADER_BYTES = _PREFIX.size + _DIGEST_BYTES


class Envelope:
    """Seals messages and opens what was sealed with the same secret.

    Args:
        secret: shared by all processes that share the Redis; None or empty for a checksum only.
    """

    __slots__ = ("_flags", "_secret")

    def __init__(self, secret: bytes | None = None) -> None:
        # BLAKE2b takes keys up to 64 bytes; hashing first lets a secret have any length.
        self._secret = hashlib.blake2b(secret, digest_size=32, person=b"tonnage-cache").digest() if secret else b""
        self._flags = _KEYED if secret else 0

    def seal(self, key: bytes, message: bytes) -> bytes:
        """The value to store under the key.

        Raises:
            ValueError: the message is 4 GiB or longer.
        """
        if len(message) >= 1 << 32:
            raise ValueError("a message of 4 GiB or more cannot be sealed")
        prefix = _PREFIX.pack(_MAGIC, _FORMAT_VERSION, self._flags, len(message))
        return b"".join((prefix, self._digest(prefix, key, message), message))

    def open(self, key: bytes, value: bytes) -> bytes | None:
        """The message stored under the key, or None for anything that was not sealed for this key and secret."""
        message = value[HEADER_BYTES:]
        prefix = _PREFIX.pack(_MAGIC, _FORMAT_VERSION, self._flags, len(message))
        if value[: _PREFIX.size] != prefix:
            return None
        digest = value[_PREFIX.size : HEADER_BYTES]
        return message if hmac.compare_digest(digest, self._digest(prefix, key, message)) else None

    def _digest(self, prefix: bytes, key: bytes, message: bytes) -> bytes:
        digest = hashlib.blake2b(prefix, digest_size=_DIGEST_BYTES, key=self._secret)
        digest.update(key)
        digest.update(message)
        return digest.digest()

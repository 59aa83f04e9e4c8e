"""How a client reaches the service: load balancing, retries and health checks, by gRPC's service config."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tonnage import methods

DEFAULT_TARGET = "127.0.0.1:50051"
DEFAULT_TIMEOUT_SECONDS = 10.0

Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]
"""Pairs sent with every call, such as ``("authorization", "Bearer …")``. Keys in lower case."""


@dataclass(frozen=True, slots=True)
class CallOptions:
    """What goes with a call besides its request."""

    timeout: float | None = DEFAULT_TIMEOUT_SECONDS
    metadata: Metadata = ()

    def changed(self, timeout: float | None, metadata: Metadata | None) -> "CallOptions":
        """These options with those replaced that are given."""
        return CallOptions(self.timeout if timeout is None else timeout, self.metadata if metadata is None else tuple(metadata))


def service_config() -> str:
    """The service config as JSON.

    It holds no timeout: gRPC takes the smaller of this and the call's own, so that no caller could ask for more.
    Deadlines are set per call. Every call only reads, so each may be tried again; five attempts are the most that the
    library makes.
    """
    calls = [value for value in vars(methods).values() if isinstance(value, methods.Method)]
    services = sorted({call.path.split("/")[1] for call in calls})
    config = {
        "loadBalancingConfig": [{"round_robin": {}}],
        "healthCheckConfig": {"serviceName": ""},
        "methodConfig": [
            {
                "name": [{"service": service} for service in services],
                "retryPolicy": {
                    "maxAttempts": 5,
                    "initialBackoff": "0.1s",
                    "maxBackoff": "1s",
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            }
        ],
    }
    return json.dumps(config)


def channel_options() -> list[tuple[str, Any]]:
    """The channel's arguments."""
    return [
        ("grpc.service_config", service_config()),
        # The library waits 1 s after a refused connection, during which most of our retries would fail unsent.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        # An explained answer or a long list may pass the library's 4 MiB, and an error with many violations its 8 KiB.
        ("grpc.max_receive_message_length", 64 * 1024 * 1024),
        ("grpc.max_metadata_size", 64 * 1024),
        ("grpc.absolute_max_metadata_size", 128 * 1024),
    ]

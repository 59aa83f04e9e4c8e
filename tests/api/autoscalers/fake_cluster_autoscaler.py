"""A Cluster Autoscaler as far as its expander sees it: one connection, five seconds, and what becomes of an answer."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc

from tests.api.autoscalers import wire_format as wire
from tests.api.autoscalers.expander_questions import Options

METHOD = "/grpcplugin.Expander/BestOptions"
SECONDS = 5.0


@dataclass
class FakeClusterAutoscaler:
    """Keeps what went wrong: an error passes all options on."""

    channel: grpc.Channel
    generation: str = "new"
    errors: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0  # the last answer took

    def best_options(self, options: Options) -> list[str]:
        """The node groups that the Cluster Autoscaler would go on with."""
        return self.decided(wire.request(options, self.generation), options)

    def decided(self, request: bytes, options: Mapping[str, object], timeout: float = SECONDS) -> list[str]:
        """The same for a request as it is."""
        begun = time.monotonic()
        try:
            answered = self.channel.unary_unary(METHOD, None, None)(request, timeout=timeout)
        except grpc.RpcError as error:
            self.errors.append((error.code().name, error.details() or ""))
            return list(options)
        finally:
            self.seconds = time.monotonic() - begun
        kept = [each for each in wire.chosen_ids(answered) if each in options]
        assert kept, "from 1.32 on an empty answer scales nothing"
        return kept


@contextmanager
def connected(address: str, issuer: bytes, generation: str = "new") -> Iterator[FakeClusterAutoscaler]:
    """One that trusts the issuer of the expander's certificate, and shows none itself."""
    options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.secure_channel(address, grpc.ssl_channel_credentials(issuer), options) as channel:
        yield FakeClusterAutoscaler(channel, generation)

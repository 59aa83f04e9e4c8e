"""The blocking client."""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Concatenate, Generic, Self

import grpc

from tonnage import methods
from tonnage.channel import DEFAULT_TARGET, DEFAULT_TIMEOUT_SECONDS, CallOptions, Metadata, channel_options
from tonnage.errors import from_rpc_error
from tonnage.methods import EntryT, Listing, Method, P, PageRequestT, PageT, RequestT, ResponseT, Streaming, presented
from tonnage.sweeps import Sweep
from tonnage.v1.sweep_service_pb2 import RunSweepRequest, RunSweepResponse


class Pager(Generic[PageRequestT, PageT, EntryT]):
    """All entries of a list, fetched page by page while one iterates. ``pages`` yields the responses instead."""

    def __init__(self, client: "Client", listing: Listing[..., PageRequestT, PageT, EntryT], request: PageRequestT) -> None:
        self._client = client
        self._listing = listing
        self._request = request

    @property
    def request(self) -> PageRequestT:
        """What is asked for."""
        return self._request

    @property
    def pages(self) -> Iterator[PageT]:
        """The response messages, one a page."""
        request: PageRequestT | None = self._request
        while request is not None:
            page = self._client._answer(self._listing, request)
            yield page
            request = self._listing.following(request, page)

    def __iter__(self) -> Iterator[EntryT]:
        for page in self.pages:
            yield from self._listing.entries(page)


def _call(method: Method[P, RequestT, ResponseT]) -> Callable[Concatenate["Client", P], ResponseT]:
    def call(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> ResponseT:
        return self._answer(method, method.build(*args, **kwargs))

    return presented(call, method.build, method.response)


def _list(
    listing: Listing[P, PageRequestT, PageT, EntryT],
) -> Callable[Concatenate["Client", P], Pager[PageRequestT, PageT, EntryT]]:
    def call(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Pager[PageRequestT, PageT, EntryT]:
        return Pager(self, listing, listing.build(*args, **kwargs))

    return presented(call, listing.build, Pager)


def _sweep(method: Streaming[P, RunSweepRequest, RunSweepResponse]) -> Callable[Concatenate["Client", P], Sweep]:
    def call(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Sweep:
        send: grpc.UnaryStreamMultiCallable[RunSweepRequest, RunSweepResponse] = self._channel.unary_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        request = method.build(*args, **kwargs)
        return Sweep(send(request, timeout=self._options.timeout, metadata=tuple(self._options.metadata)))

    return presented(call, method.build, Sweep)


class Client:
    """Asks a Tonnage service; every call blocks until it is answered or its time is up. Safe to share between threads.

    Calls that find no service are tried again for about a second and a half. A failed call raises a ``TonnageError``.

    >>> with Client("localhost:50051") as client:  # doctest: +SKIP
    ...     answer = client.estimate_decode(
    ...         model="llama-3.1-70b", accelerator="h100-sxm", tensor=8, batch_size=64, context_tokens=4096
    ...     )
    ...     answer.bound.tokens_per_second_per_user
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        credentials: grpc.ChannelCredentials | None = None,
        metadata: Metadata = (),
    ) -> None:
        """Opens a channel; connects at the first call.

        Args:
            target: "host:port", or any gRPC name ("dns:///tonnage.capacity:50051" balances over all its addresses).
            timeout: Seconds that a call may take, retries included.
            credentials: TLS, as made by ``grpc.ssl_channel_credentials()``. Default: no encryption.
            metadata: Sent with every call.
        """
        self._channel = (
            grpc.secure_channel(target, credentials, options=channel_options())
            if credentials
            else grpc.insecure_channel(target, options=channel_options())
        )
        self._options = CallOptions(timeout, tuple(metadata))

    def with_options(self, *, timeout: float | None = None, metadata: Metadata | None = None) -> Self:
        """This client with another timeout (seconds) or metadata, over the same channel; closing either closes both."""
        view = object.__new__(type(self))
        view._channel = self._channel
        view._options = self._options.changed(timeout, metadata)
        return view

    def close(self) -> None:
        """Closes the channel. Calls under way are cancelled."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def _answer(self, method: Method[..., RequestT, ResponseT], request: RequestT) -> ResponseT:
        send: grpc.UnaryUnaryMultiCallable[RequestT, ResponseT] = self._channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        try:
            return send(request, timeout=self._options.timeout, metadata=tuple(self._options.metadata))
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error

    estimate_decode = _call(methods.ESTIMATE_DECODE)
    estimate_kv_memory = _call(methods.ESTIMATE_KV_MEMORY)
    fit_node = _call(methods.FIT_NODE)
    estimate_serving = _call(methods.ESTIMATE_SERVING)
    plan_fleet = _call(methods.PLAN_FLEET)
    compare_accelerators = _call(methods.COMPARE_ACCELERATORS)
    compute_utilization = _call(methods.COMPUTE_UTILIZATION)
    list_accelerators = _list(methods.LIST_ACCELERATORS)
    get_accelerator = _call(methods.GET_ACCELERATOR)
    list_node_types = _list(methods.LIST_NODE_TYPES)
    get_node_type = _call(methods.GET_NODE_TYPE)
    list_models = _list(methods.LIST_MODELS)
    get_model = _call(methods.GET_MODEL)
    list_prices = _list(methods.LIST_PRICES)
    compute_occupancy = _call(methods.COMPUTE_OCCUPANCY)
    analyze_memory_access = _call(methods.ANALYZE_MEMORY_ACCESS)
    analyze_fusion = _call(methods.ANALYZE_FUSION)
    draw_roofline = _call(methods.DRAW_ROOFLINE)
    audit_claim = _call(methods.AUDIT_CLAIM)
    audit_quote = _call(methods.AUDIT_QUOTE)
    simulate_placement = _call(methods.SIMULATE_PLACEMENT)
    fit_cluster = _call(methods.FIT_CLUSTER)
    run_sweep = _sweep(methods.RUN_SWEEP)

"""The asyncio client: the same calls as the blocking one, from the same table, awaited."""

from collections.abc import AsyncIterator, Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, Generic, Self

import grpc

from tonnage import methods
from tonnage.channel import DEFAULT_TARGET, DEFAULT_TIMEOUT_SECONDS, CallOptions, Metadata, channel_options
from tonnage.errors import from_rpc_error
from tonnage.methods import EntryT, Listing, Method, P, PageRequestT, PageT, RequestT, ResponseT, Streaming, presented
from tonnage.sweeps import AsyncSweep
from tonnage.v1.sweep_service_pb2 import RunSweepRequest, RunSweepResponse


class AsyncPager(Generic[PageRequestT, PageT, EntryT]):
    """All entries of a list, fetched page by page while one iterates. ``pages`` yields the responses instead."""

    def __init__(
        self, client: "AsyncClient", listing: Listing[..., PageRequestT, PageT, EntryT], request: PageRequestT
    ) -> None:
        self._client = client
        self._listing = listing
        self._request = request

    @property
    async def pages(self) -> AsyncIterator[PageT]:
        """The response messages, one a page."""
        request: PageRequestT | None = self._request
        while request is not None:
            page = await self._client._answer(self._listing, request)
            yield page
            request = self._listing.following(request, page)

    async def __aiter__(self) -> AsyncIterator[EntryT]:
        async for page in self.pages:
            for entry in self._listing.entries(page):
                yield entry


def _call(
    method: Method[P, RequestT, ResponseT],
) -> Callable[Concatenate["AsyncClient", P], Coroutine[Any, Any, ResponseT]]:
    async def call(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> ResponseT:
        return await self._answer(method, method.build(*args, **kwargs))

    return presented(call, method.build, method.response)


def _list(
    listing: Listing[P, PageRequestT, PageT, EntryT],
) -> Callable[Concatenate["AsyncClient", P], AsyncPager[PageRequestT, PageT, EntryT]]:
    def call(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> AsyncPager[PageRequestT, PageT, EntryT]:
        return AsyncPager(self, listing, listing.build(*args, **kwargs))

    return presented(call, listing.build, AsyncPager)


def _sweep(
    method: Streaming[P, RunSweepRequest, RunSweepResponse],
) -> Callable[Concatenate["AsyncClient", P], AsyncSweep]:
    def call(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> AsyncSweep:
        send: grpc.aio.UnaryStreamMultiCallable[RunSweepRequest, RunSweepResponse] = self._connection.channel.unary_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        request = method.build(*args, **kwargs)
        return AsyncSweep(send(request, timeout=self._options.timeout, metadata=tuple(self._options.metadata)))

    return presented(call, method.build, AsyncSweep)


class _Connection:
    """A channel opened at the first call: asyncio channels belong to the loop that runs when they are made."""

    def __init__(self, target: str, credentials: grpc.ChannelCredentials | None) -> None:
        self._target = target
        self._credentials = credentials
        self._channel: grpc.aio.Channel | None = None

    @property
    def channel(self) -> grpc.aio.Channel:
        if self._channel is None:
            self._channel = (
                grpc.aio.secure_channel(self._target, self._credentials, options=channel_options())
                if self._credentials
                else grpc.aio.insecure_channel(self._target, options=channel_options())
            )
        return self._channel

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close(None)


class AsyncClient:
    """Asks a Tonnage service from asyncio. Belongs to the event loop in which it is first used.

    Calls that find no service are tried again for about a second and a half. A failed call raises a ``TonnageError``.

    >>> async with AsyncClient("localhost:50051") as client:  # doctest: +SKIP
    ...     answer = await client.fit_node(model="llama-3.1-70b", node="dgx-h100", context_tokens=4096)
    ...     names = [accelerator.name async for accelerator in client.list_accelerators()]
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        credentials: grpc.ChannelCredentials | None = None,
        metadata: Metadata = (),
    ) -> None:
        """Takes what ``Client`` takes; opens its channel at the first call."""
        self._connection = _Connection(target, credentials)
        self._options = CallOptions(timeout, tuple(metadata))

    def with_options(self, *, timeout: float | None = None, metadata: Metadata | None = None) -> Self:
        """This client with another timeout (seconds) or metadata, over the same channel; closing either closes both."""
        view = object.__new__(type(self))
        view._connection = self._connection
        view._options = self._options.changed(timeout, metadata)
        return view

    async def close(self) -> None:
        """Closes the channel. Calls under way are cancelled."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _answer(self, method: Method[..., RequestT, ResponseT], request: RequestT) -> ResponseT:
        send: grpc.aio.UnaryUnaryMultiCallable[RequestT, ResponseT] = self._connection.channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        try:
            return await send(request, timeout=self._options.timeout, metadata=tuple(self._options.metadata))
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

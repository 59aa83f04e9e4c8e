"""What is fuzzed: the readers of configs, the decoders of other people's contracts, every RPC by its bytes.

Each target takes bytes and raises only for a bug.
"""

import asyncio
import contextlib
import itertools
import json
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from google.protobuf.json_format import ParseDict

from service.api.autoscalers.expander import answer
from service.api.autoscalers.keda import KedaScaler
from service.api.autoscalers.readings import Readings
from service.api.errors import TABLE
from service.api.examples import REQUESTS
from service.api.json_decoding import loads
from service.api.prometheus import PrometheusReader
from service.api.schema import RPCS
from service.api.servicers import Servicer, servicers
from service.architectures.reading import read
from service.architectures.refusal import UnreadableConfig
from service.cache.cache import Cache
from service.cache.keys import KeySpace
from service.cache.local import LocalTier
from service.catalogue.loader import load
from service.planning.node_groups.choose import NodeGroupChooser, always_in_time
from service.planning.planner import Planner
from service.planning.replicas import ReplicaPlanner
from service.planning.resolve import Resolver
from service.planning.sweep.grid import SweepLimits
from service.settings import specs_dir
from service.telemetry import RpcName, Telemetry
from tests.api.autoscalers import wire_format
from tests.api.autoscalers.expander_questions import GENERATIONS, L4, MODEL_70B, machine, plain, started
from tests.api.autoscalers.keda_calls import FIXED, metrics_request

Target = Callable[[bytes], None]
#: What a caller is told; whatever else is raised is a bug.
EXPECTED: Final = tuple(row.kind for row in TABLE)
_MOST_PARTS: Final = 3


def configs() -> Target:
    """The readers of config.json: JSON into an architecture, or a refusal that says why."""

    def target(data: bytes) -> None:
        with contextlib.suppress(UnreadableConfig, *EXPECTED):
            config = loads(data)
            if isinstance(config, Mapping):
                read(config)

    return target


def compat() -> Target:
    """The expander and the external scaler, by the bytes of their requests; the first byte chooses."""
    planner = Planner(load(specs_dir()))
    chooser = NodeGroupChooser(planner.catalogue, Resolver(planner.catalogue))
    loop = asyncio.new_event_loop()
    scaler = KedaScaler(Readings(ReplicaPlanner(planner.serving), PrometheusReader(())))
    calls = (scaler.get_metrics, scaler.is_active, scaler.get_metric_spec)

    def target(data: bytes) -> None:
        chosen, request = data[:1], data[1:]
        with contextlib.suppress(*EXPECTED):
            if chosen < b"\x80":
                found, _ = answer(chooser, request, always_in_time)
                assert found, "an empty list means: scale nothing"
            else:
                loop.run_until_complete(calls[chosen[0] % len(calls)](request, None))  # type: ignore[arg-type]

    weakref.finalize(target, loop.close)
    return target


def requests() -> Target:
    """Every RPC by the bytes of its request; the first byte chooses it."""
    planner = Planner(load(specs_dir()), SweepLimits(1000, 100))
    telemetry = Telemetry([RpcName(rpc.service, rpc.name) for rpc in RPCS], version="fuzz")
    cache = Cache(
        keys=KeySpace(catalogue_revision="1", code_version="1", prefix="fuzz:"),
        local=LocalTier(max_bytes=0, max_entries=1),
        redis=None,
        observer=telemetry.cache,
        redis_for_every_rpc=False,
    )
    served = servicers(planner, cache, telemetry, ThreadPoolExecutor(1), redis_for_every_rpc=False)

    def target(data: bytes) -> None:
        if not data:
            return
        servicer = served[data[0] % len(served)]
        with contextlib.suppress(*EXPECTED):
            _answered(servicer, data[1:])

    return target


def _answered(servicer: Servicer, request: bytes) -> None:
    """The answer in both forms: what cannot be encoded (a number that is none) is a bug as well."""
    question = servicer.question(servicer.parse(request))
    if servicer.is_live(question):
        return
    answered = servicer.plan(question)
    parts = itertools.islice(answered, _MOST_PARTS) if servicer.rpc.is_streaming else [answered]
    for part in parts:
        servicer.codec.write(part)
        servicer.codec.write_json(part)


TARGETS: Final[Mapping[str, Callable[[], Target]]] = {"configs": configs, "compat": compat, "requests": requests}


def seeds(target: str) -> Iterator[bytes]:
    """Inputs to begin with: what is usual is further from what breaks than nothing at all."""
    if target == "configs":
        for model in load(specs_dir()).models.values():
            yield json.dumps(_plain(model.hf_config)).encode()
    elif target == "requests":
        for number, rpc in enumerate(RPCS):
            yield bytes([number]) + _message(rpc.request, REQUESTS.get(rpc.name, {})).SerializeToString()
    else:
        yield from _compat_seeds()


def _compat_seeds() -> Iterator[bytes]:
    options = {
        "a": (machine(), 1, [plain("one", 8), started("vllm/vllm-openai", "serve", MODEL_70B)]),
        "b": (machine(L4, 1), 2, []),
    }
    for generation in GENERATIONS:
        yield b"\x00" + wire_format.request(options, generation)
    yield b"\x81" + metrics_request(FIXED)


def _message(kind: Any, fields: Mapping[str, Any]) -> Any:
    return ParseDict(dict(fields), kind())


def _plain(value: Any) -> Any:
    if hasattr(value, "items"):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value

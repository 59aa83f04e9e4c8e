"""How long the Cluster Autoscaler waits for its expander: 300 node groups × 5,000 pods, in the shapes that requests can have.

``python -m tests.benchmarks.expander`` prints a row for each. The Cluster Autoscaler gives up after five seconds.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

import grpc

from service.api.autoscalers.expander import answer
from service.assembly import serving
from service.catalogue.loader import load
from service.planning.node_groups.choose import NodeGroupChooser, always_in_time
from service.planning.resolve import Resolver
from service.settings import Settings, specs_dir
from tests.api.autoscalers import wire_format as wire

GROUPS, PODS = 300, 5000
LIMIT_BYTES = 64 * 2**20
INSTANCE_TYPES = ("p5.48xlarge", "g6.48xlarge", "g6e.12xlarge", "p4d.24xlarge", "g5.48xlarge", "p4de.24xlarge")
PRODUCTS = (
    "NVIDIA-H100-80GB-HBM3",
    "NVIDIA-L4",
    "NVIDIA-L40S",
    "NVIDIA-A100-SXM4-40GB",
    "NVIDIA-A10G",
    "NVIDIA-A100-SXM4-80GB",
)


@dataclass(frozen=True)
class Shape:
    """A request: how many pods each option repeats, how large a pod is, and in how many specs they come."""

    title: str
    pods_per_option: int
    padding_bytes: int
    num_specs: int


SHAPES = (
    Shape("every option repeats all 5,000 pods, bare ones (over 64 MiB: not sent)", PODS, 0, 4),
    Shape("the same, every pod with a spec of its own", PODS, 0, PODS),
    Shape("100 of 5,000 pods of 2 KB an option, of 4 specs (just under 64 MiB)", 100, 1500, 4),
    Shape("the same, every pod with a spec of its own", 100, 1500, PODS),
)


def templates() -> list[bytes]:
    """A template node for each group: six kinds of machine, in zones and with taints of their own."""
    made = []
    for number in range(GROUPS):
        kind = number % len(PRODUCTS)
        labels = {
            "nvidia.com/gpu.product": PRODUCTS[kind],
            "node.kubernetes.io/instance-type": INSTANCE_TYPES[kind],
            "topology.kubernetes.io/zone": f"zone-{number % 50}",
            "kubernetes.io/hostname": f"template-{number}",
            "pool": f"pool-{number}",
        }
        allocatable = {"cpu": "95", "memory": "700Gi", "nvidia.com/gpu": 4 if kind == 2 else 8, "pods": 110}
        made.append(wire.node(f"template-{number}", labels, allocatable, [("nvidia.com/gpu", "", "NoSchedule")]))
    return made


def pods(shape: Shape) -> list[bytes]:
    """Pods that serve models over one to eight devices; in gangs of eight."""
    made = []
    models = ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct")
    toleration = wire.data(22, wire.data(1, "nvidia.com/gpu") + wire.data(2, "Exists"))
    for number in range(PODS):
        spec = number % shape.num_specs
        devices = 2 ** (spec % 4)
        args = ["--model", models[devices > 2], "--tensor-parallel-size", str(devices), "--max-model-len=8192"]
        env = {"REPLICA": str(spec), **({"PADDING": "x" * shape.padding_bytes} if shape.padding_bytes else {})}
        container = wire.container(limits={"nvidia.com/gpu": devices}, image="vllm/vllm-openai:v0.10.1", args=args, env=env)
        labels = {"scheduling.x-k8s.io/pod-group": f"gang-{number // 8}"}
        made.append(wire.pod(f"pod-{number}", container, labels=labels, spec=toleration))
    return made


def request(shape: Shape) -> bytes:
    """The request of a shape."""
    listed, nodes = pods(shape), templates()

    def of(number: int) -> Iterator[bytes]:
        for place in range(shape.pods_per_option):
            yield listed[(number * 16 + place) % PODS]

    return wire.request({f"group-{number}": (nodes[number], PODS, of(number)) for number in range(GROUPS)})


async def over_grpc(question: bytes) -> float:
    """Seconds from question to answer over a real port."""
    settings = Settings(http_port=0, grpc_port=0, expander_port=0, drain_seconds=0.1)
    async with serving(settings) as addresses:
        unlimited = [("grpc.max_send_message_length", -1)]
        async with grpc.aio.insecure_channel(addresses.others["expander"], options=unlimited) as channel:
            call = channel.unary_unary("/grpcplugin.Expander/BestOptions", None, None)
            await call(question, timeout=60)
            begun = time.perf_counter()
            await call(question, timeout=60)
            return time.perf_counter() - begun


def main() -> None:
    """Prints the table."""
    catalogue = load(specs_dir())
    chooser = NodeGroupChooser(catalogue, Resolver(catalogue))
    for shape in SHAPES:
        question = request(shape)
        begun = time.process_time(), time.perf_counter()
        answered, choice = answer(chooser, question, always_in_time)
        core, wall = time.process_time() - begun[0], time.perf_counter() - begun[1]
        sent = f", over gRPC {asyncio.run(over_grpc(question)):.2f} s" if len(question) <= LIMIT_BYTES else ""
        print(f"{shape.title}: {len(question) / 2**20:.1f} MiB, {core:.2f} s of a core, {wall:.2f} s{sent}")
        print(
            f"    {len(choice.best)} of {GROUPS} tie: {choice.best[0].group.id}, {choice.best[0].reason}; {len(answered)} bytes"
        )


if __name__ == "__main__":
    main()

"""Questions of a Cluster Autoscaler, by field numbers, and what is chosen."""

from collections.abc import Iterable, Mapping

from service.api.autoscalers.expander import answer
from service.planning.node_groups.choose import NodeGroupChooser, always_in_time
from tests.api.autoscalers import wire_format as wire

GENERATIONS = ("old", "both", "new")
GPU = "nvidia.com/gpu"
H100 = "NVIDIA-H100-80GB-HBM3"
A100_40 = "NVIDIA-A100-SXM4-40GB"
L4 = "NVIDIA-L4"
T4 = "Tesla-T4"
MODEL_8B = "meta-llama/Llama-3.1-8B-Instruct"
MODEL_70B = "meta-llama/Llama-3.1-70B-Instruct"
SHORT = "--max-model-len=8192"

#: Of an option: its template node, by how many nodes it grows, its pods.
Options = Mapping[str, tuple[bytes, int, Iterable[bytes]]]


def machine(product: str = H100, devices: int = 8, **labels: str) -> bytes:
    """A template node with so many devices; ``LABELS`` says which labels can be given."""
    named = {LABELS[key]: value for key, value in labels.items()}
    allocatable: dict[str, str | int] = {"cpu": "96", "memory": "900Gi", "pods": 110, GPU: devices}
    return wire.node("template", {"nvidia.com/gpu.product": product} | named, allocatable)


LABELS = {
    "instance_type": "node.kubernetes.io/instance-type",
    "region": "topology.kubernetes.io/region",
    "capacity_type": "karpenter.sh/capacity-type",
    "memory_mib": "nvidia.com/gpu.memory",
    "pool": "pool",
}


def plain(name: str, devices: int = 1, *, gang: str = "", spec: bytes = b"") -> bytes:
    """A pod that asks for devices and says nothing else; in a gang where one is named."""
    labels = {"scheduling.x-k8s.io/pod-group": gang} if gang else {}
    return wire.pod(name, wire.container(limits={GPU: devices}), labels=labels, spec=spec)


def plain_pods(number: int, devices: int = 1, *, gang: str = "", begin: str = "pod") -> list[bytes]:
    """Several of them."""
    return [plain(f"{begin}-{place}", devices, gang=gang) for place in range(number)]


def started(image: str, *words: str, devices: int = 1, env: Mapping[str, str] | None = None) -> bytes:
    """A pod whose container is started with these arguments."""
    return wire.pod("server-0", wire.container(limits={GPU: devices}, image=image, args=words, env=env))


def annotated(devices: int = 1, **annotations: str) -> bytes:
    """A pod that says by annotations what it serves: ``model="…"``, ``context_tokens="8192"``."""
    named = {f"tonnage.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return wire.pod("annotated-0", wire.container(limits={GPU: devices}), annotations=named)


def chosen(chooser: NodeGroupChooser, options: Options, generation: str = "new") -> list[str]:
    """The ids that are answered."""
    return wire.chosen_ids(answer(chooser, wire.request(options, generation), always_in_time)[0])

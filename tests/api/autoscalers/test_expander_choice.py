"""Which node group is chosen, by hand: messages as the Cluster Autoscaler sends them, the real catalogue's devices and prices.

Of the devices, T4 has 15 GiB, L4 22.5, A100 40 and H100 80. Weights of Llama 3.1 8B take 15.0 GiB and of 70B 131.4 GiB in bf16,
a token of their caches 128 and 320 KiB. vLLM takes at most 0.92 of the memory, and one sequence must fit beside the weights.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.planning.errors import Undecided
from service.planning.node_groups.choose import NodeGroupChooser
from service.planning.node_groups.options import Weights
from service.planning.planner import Planner
from tests.api.autoscalers import wire_format as wire
from tests.api.autoscalers.expander_questions import (
    A100_40,
    GPU,
    H100,
    L4,
    MODEL_8B,
    MODEL_70B,
    SHORT,
    T4,
    Options,
    annotated,
    chosen,
    machine,
    plain,
    plain_pods,
    started,
)

VLLM, SGLANG, TRTLLM = "vllm/vllm-openai:v0.10.1", "lmsysorg/sglang:v0.5", "nvcr.io/nvidia/tensorrt-llm/release:1.0"
ALL = ["a100", "h100", "l4", "t4"]
LAUNCH = ("python3", "-m", "sglang.launch_server", "--model-path")


def one_of_each(pod: bytes) -> Options:
    """Node groups that differ in their devices alone."""
    return {name: (machine(product), 1, [pod]) for name, product in zip(ALL, (A100_40, H100, L4, T4), strict=True)}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(started(VLLM, "--model", MODEL_8B, SHORT), ["a100", "h100", "l4"], id="vllm"),
        pytest.param(started(VLLM, "--model", MODEL_8B), ["a100", "h100"], id="vllm-full-length"),
        pytest.param(started(VLLM, "--model", MODEL_8B, "--max-model-len", "auto"), ["a100", "h100", "l4"], id="vllm-auto"),
        pytest.param(
            started(VLLM, f"--model={MODEL_8B}", SHORT, "--gpu_memory_utilization=0.5"), ["a100", "h100"], id="vllm-half"
        ),
        pytest.param(started(VLLM, "--model", MODEL_70B, SHORT, "-tp", "2", devices=2), ["h100"], id="vllm-70b-2"),
        pytest.param(started(VLLM, "--model", MODEL_70B, SHORT, devices=4), ["a100", "h100"], id="vllm-70b-4"),
        pytest.param(
            started(VLLM, "--model", MODEL_70B, SHORT, "--quantization=fp8", devices=2), ["a100", "h100"], id="vllm-70b-fp8"
        ),
        pytest.param(started(VLLM, "--model", MODEL_70B, SHORT, "-tp=2", "-pp", "2", devices=4), ["a100", "h100"], id="stages"),
        pytest.param(started("server", "vllm", "serve", MODEL_70B, SHORT, devices=2), ["h100"], id="vllm-serve"),
        pytest.param(started("server", "sh", "-c", f"exec vllm serve {MODEL_70B} {SHORT}", devices=2), ["h100"], id="script"),
        pytest.param(
            started(VLLM, "--model", "$(MODEL)", SHORT, devices=2, env={"MODEL": MODEL_70B}), ["h100"], id="variable-in-flag"
        ),
        pytest.param(started(VLLM, SHORT, devices=2, env={"MODEL_ID": MODEL_70B}), ["h100"], id="variable-alone"),
        pytest.param(started(SGLANG, *LAUNCH, MODEL_8B), ALL, id="sglang"),  # it shortens what it takes, so weights alone count
        pytest.param(started(SGLANG, *LAUNCH, MODEL_70B, "--tp", "2", devices=2), ["h100"], id="sglang-70b-2"),
        pytest.param(started(SGLANG, *LAUNCH, MODEL_70B, "--tp-size=4", devices=4), ["a100", "h100"], id="sglang-70b-4"),
        pytest.param(started(TRTLLM, "trtllm-serve", MODEL_70B, "--tp_size", "2", devices=2), ["h100"], id="trtllm"),
        pytest.param(started(TRTLLM, "trtllm-serve", "serve", MODEL_70B, "--tp_size=4", devices=4), ALL[:2], id="trt-4"),
        pytest.param(annotated(model="llama-3.1-70b", devices=2), ["h100"], id="annotation"),
        pytest.param(annotated(model=MODEL_70B, weights_precision="fp8", devices=2), ["a100", "h100"], id="annotation-fp8"),
        pytest.param(annotated(model=MODEL_70B, tensor_parallel="4", devices=2), ["a100", "h100"], id="annotation-nodes"),
        pytest.param(annotated(model=MODEL_8B, context_tokens="131072"), ["a100", "h100"], id="annotation-context"),
        pytest.param(annotated(model=MODEL_8B, memory_utilization_ratio="0.5"), ["a100", "h100"], id="annotation-ratio"),
        pytest.param(plain("says-nothing"), ALL, id="says-nothing"),
        pytest.param(started(VLLM, "--model", "/mnt/ours", devices=2), ALL, id="unknown-model"),
        pytest.param(started(VLLM, "--model", MODEL_70B, "--cpu-offload-gb=99"), ALL, id="offloaded"),
        pytest.param(annotated(model=MODEL_70B, tensor_parallel="two"), ALL, id="annotation-unreadable"),
    ],
)  # fmt: skip
def test_what_the_pod_serves_must_fit_the_devices(chooser: NodeGroupChooser, pod: bytes, expected: list[str]) -> None:
    assert expected == chosen(chooser, one_of_each(pod))


def test_an_annotation_comes_before_arguments(chooser: NodeGroupChooser) -> None:
    container = wire.container({GPU: 2}, image=VLLM, args=["--model", MODEL_8B, SHORT])
    pod = wire.pod("p", container, annotations={"tonnage.dev/model": MODEL_70B})
    assert ["h100"] == chosen(chooser, one_of_each(pod))


def test_a_device_nobody_knows_is_judged_by_the_memory_that_its_label_says(chooser: NodeGroupChooser) -> None:
    pod = started(VLLM, "--model", MODEL_8B, SHORT)
    sizes = {"less": "16000", "more": "24576", "nonsense": "plenty"}
    options = {name: (machine("NVIDIA-Future-9", memory_mib=mib), 1, [pod]) for name, mib in sizes.items()}
    assert ["more", "nonsense"] == chosen(chooser, options)  # what cannot be judged is not refused


def test_a_slice_is_judged_by_its_own_memory_and_a_shared_device_not_at_all(chooser: NodeGroupChooser) -> None:
    pod = started(VLLM, "--model", MODEL_8B, SHORT)
    options = {
        "shared": (machine("NVIDIA-L4-SHARED", memory_mib="8000"), 1, [pod]),
        "slice": (machine("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", memory_mib="4864"), 1, [pod]),
    }
    assert ["shared"] == chosen(chooser, options)


def test_names_like_an_unknown_one_are_not_looked_for(chooser: NodeGroupChooser, monkeypatch: pytest.MonkeyPatch) -> None:
    """That takes milliseconds a name, and nobody sees them: hundreds of node groups would use the time up."""

    def looked_for(*_: object) -> tuple[str, ...]:
        raise AssertionError("nearest names")

    monkeypatch.setattr("service.catalogue.lookup.nearest_names", looked_for)
    pod = started(VLLM, "--model", "org/unknown-to-anybody")
    group = machine("NVIDIA-Never-Seen", memory_mib="81920", instance_type="m.never-seen", region="mars-7")
    known = machine(H100, instance_type="p5.48xlarge", region="mars-7")
    assert ["group", "known"] == chosen(chooser, {"group": (group, 1, [pod]), "known": (known, 1, [pod])})


def test_labels_and_taints_keep_pods_away(chooser: NodeGroupChooser) -> None:
    selects = plain("p", spec=wire.mapping(7, {"nvidia.com/gpu.product": H100}))
    assert ["h100"] == chosen(chooser, one_of_each(selects))
    expression = wire.data(1, "nvidia.com/gpu.product") + wire.data(2, "In") + wire.data(3, L4) + wire.data(3, T4)
    requires = wire.data(18, wire.data(1, wire.data(1, wire.data(1, wire.data(1, expression)))))
    assert ["l4", "t4"] == chosen(chooser, one_of_each(plain("p", spec=requires)))
    allocatable: dict[str, str | int] = {"cpu": 8, "memory": "64Gi", "pods": 10, GPU: 8}
    tainted = wire.node("n", {}, allocatable, [(GPU, "present", "NoSchedule")])
    groups = {"free": wire.node("n", {}, allocatable), "tainted": tainted}
    tolerates = wire.data(22, wire.data(1, GPU) + wire.data(2, "Exists"))
    assert ["free"] == chosen(chooser, {name: (node, 1, [plain("p")]) for name, node in groups.items()})
    assert ["free", "tainted"] == chosen(
        chooser, {name: (node, 1, [plain("p", spec=tolerates)]) for name, node in groups.items()}
    )


# --------------------------------------------------------------------------------------------------------- the order


def test_first_comes_what_fits(chooser: NodeGroupChooser) -> None:
    pods = plain_pods(3)
    cheap, dear = machine(A100_40, instance_type="p4d.24xlarge"), machine(H100, instance_type="p5.48xlarge")
    assert ["more"] == chosen(chooser, {"fewer": (cheap, 1, pods[:2]), "more": (dear, 1, pods)})
    large = started(VLLM, "--model", MODEL_70B, SHORT, devices=2)  # the A100s are offered for it too, and cannot hold it
    assert ["dear"] == chosen(chooser, {"cheap": (cheap, 1, [*pods, large]), "dear": (dear, 1, [*pods, large])})


def test_whole_gangs_come_before_parts(chooser: NodeGroupChooser) -> None:
    gang, alone = plain_pods(4, 8, gang="g", begin="g"), plain_pods(4, 8, begin="alone")
    whole_or_part = {"part": (machine(), 3, gang[:3]), "whole": (machine(), 4, gang)}
    assert ["whole"] == chosen(chooser, whole_or_part)
    # Three of four that wait for the fourth do not run: one pod alone does more.
    assert ["alone"] == chosen(
        chooser, {"alone": (machine(), 1, alone[:1]), "part": (machine(), 3, gang[:3]), "none": (machine(devices=4), 4, gang)}
    )
    # As many run here as there; what comes beside them is a part, which would stand idle.
    assert ["alone"] == chosen(
        chooser,
        {"alone": (machine(), 4, alone), "both": (machine(), 6, [*alone, *gang[:2]]), "g": (machine(devices=4), 4, gang)},
    )


def test_a_gang_that_says_its_size_is_whole_with_what_waits(chooser: NodeGroupChooser) -> None:
    def member(number: int) -> bytes:
        container = wire.container({GPU: 8})
        labels, annotations = {"kueue.x-k8s.io/pod-group-name": "g"}, {"kueue.x-k8s.io/pod-group-total-count": "4"}
        return wire.pod(f"g-{number}", container, labels=labels, annotations=annotations)

    pods = [member(number) for number in range(4)]
    assert ["four"] == chosen(chooser, {"four": (machine(), 4, pods), "three": (machine(), 3, pods[:3])})
    # Where three wait, the fourth runs already.
    assert ["three"] == chosen(chooser, {"three": (machine(), 3, pods[:3]), "two": (machine(), 2, pods[:2])})


@pytest.mark.parametrize(
    "spell",
    [
        lambda n: {"labels": {"scheduling.x-k8s.io/pod-group": "g"}},
        lambda n: {"annotations": {"scheduling.k8s.io/group-name": "g"}},
        lambda n: {"labels": {"kueue.x-k8s.io/pod-group-name": "g"}},
        lambda n: {"labels": {"leaderworkerset.sigs.k8s.io/name": "g", "leaderworkerset.sigs.k8s.io/group-index": "0"}},
        lambda n: {"spec": wire.data(43, wire.data(1, "g"))},
        lambda n: {"spec": wire.data(42, wire.data(1, "workload") + wire.data(2, "g"))},
    ],
    ids=["scheduler-plugins", "volcano", "kueue", "leader-worker-set", "scheduling-group", "workload-ref"],
)  # fmt: skip
def test_every_spelling_of_a_gang_is_read(chooser: NodeGroupChooser, spell) -> None:  # type: ignore[no-untyped-def]
    pods = [wire.pod(f"p-{number}", wire.container({GPU: 8}), **spell(number)) for number in range(3)]
    options = {
        "alone": (machine(), 1, [plain("alone", 8)]),
        "part": (machine(), 2, pods[:2]),
        "none": (machine(devices=4), 3, pods),
    }
    assert ["alone"] == chosen(chooser, options)


def test_then_comes_the_least_waste(chooser: NodeGroupChooser) -> None:
    pods = plain_pods(4)
    cheap_and_half_idle = machine(A100_40, 8, instance_type="p4d.24xlarge")
    assert ["full"] == chosen(chooser, {"full": (machine(H100, 4), 1, pods), "half": (cheap_and_half_idle, 1, pods)})
    assert ["fewer"] == chosen(chooser, {"fewer": (machine(), 1, pods), "many": (machine(), 2, pods)})


def test_then_comes_the_price_of_a_pod(chooser: NodeGroupChooser) -> None:
    pods = plain_pods(8)
    dear = machine(H100, instance_type="p5.48xlarge", region="us-east-1")  # 55.04 $/h
    cheap = machine(A100_40, instance_type="p4d.24xlarge", region="us-east-1")  # 21.96 $/h
    own = machine(A100_40, instance_type="rack-7")
    assert ["cheap"] == chosen(chooser, {"cheap": (cheap, 1, pods), "dear": (dear, 1, pods)})
    assert ["cheap", "own"] == chosen(chooser, {"cheap": (cheap, 1, pods), "dear": (dear, 1, pods), "own": (own, 1, pods)})


def test_what_ties_is_answered_together(chooser: NodeGroupChooser) -> None:
    pods = plain_pods(8)
    assert ["a", "b", "c"] == chosen(chooser, {name: (machine(), 1, pods) for name in "cab"})


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (Weights(fit=1), ["most"]),
        (Weights(gangs=1), ["gang"]),
        (Weights(waste=1), ["full"]),
        (Weights(cost=1), ["cheap"]),
        (Weights(fit=1, cost=0.5), ["most"]),  # 1 + ½ × 2.7447/4.586 beside ⅝ + ½
        (Weights(fit=1, cost=10), ["cheap"]),
        (Weights(fit=0, gangs=0, waste=0, cost=0), ["most"]),
        (Weights(), ["most"]),
    ],
    ids=str,
)
def test_each_weight_decides(scaled_planner: Planner, weights: Weights, expected: list[str]) -> None:
    """By hand, of 16, 8, 4 and 10 pods that run:

    - most: 16 of 24 devices in use, half a gang beside, 3 × 55.04 / 16 = 10.32 $/h a pod;
    - gang: 8 of 16 in use, all in gangs, 2 × 55.04 / 8 = 13.76;
    - full: 8 of 8 in use by 4 pods, half a gang beside, 55.04 / 4 = 13.76;
    - cheap: 10 of 16 in use, half a gang beside, 2 × 21.957642 / 10 = 4.39.
    """
    weighing = NodeGroupChooser(scaled_planner.catalogue, scaled_planner.resolver, weights)
    dear, cheap = machine(H100, instance_type="p5.48xlarge"), machine(A100_40, instance_type="p4d.24xlarge")
    halves, whole = plain_pods(2, gang="half", begin="half"), plain_pods(8, gang="whole", begin="whole")
    singles, pairs = plain_pods(16), plain_pods(4, 2, begin="pair")
    options = {
        "most": (dear, 3, [*singles, halves[0]]),
        "gang": (dear, 2, whole),
        "full": (dear, 1, [*pairs, halves[0]]),
        "cheap": (cheap, 2, [*singles[:10], halves[1]]),
    }
    assert expected == chosen(weighing, options)


# --------------------------------------------------------------------------------------------------------- properties

_PODS = [
    *plain_pods(4),
    *plain_pods(4, 4, gang="g", begin="g"),
    *plain_pods(2, 8, gang="h", begin="h"),
    started(VLLM, "--model", MODEL_8B, SHORT),
    started(SGLANG, *LAUNCH, MODEL_70B, devices=2),
]
_NODES = [
    machine(product, devices, **labels)
    for product, devices, labels in [
        (T4, 4, {"instance_type": "g4dn.12xlarge"}),
        (L4, 8, {"instance_type": "g6.48xlarge"}),
        (A100_40, 8, {"instance_type": "p4d.24xlarge"}),
        (H100, 8, {"instance_type": "p5.48xlarge"}),
        (H100, 4, {}),
        ("NVIDIA-Future-9", 2, {}),
    ]
]
_pods = st.lists(st.sampled_from(_PODS), unique=True, max_size=len(_PODS))
_options = st.dictionaries(
    st.text("abc-/é", min_size=1, max_size=4),
    st.tuples(st.sampled_from(_NODES), st.integers(1, 3), _pods),
    min_size=1,
    max_size=6,
)
_weights = st.builds(Weights, *[st.none() | st.sampled_from([0.0, 0.5, 1.0, 1e6])] * 4)


@settings(max_examples=150)
@given(_options, _weights, st.randoms(use_true_random=False))
def test_any_order_gives_the_same_choice_of_what_was_asked(  # type: ignore[no-untyped-def]
    scaled_planner: Planner, options, weights: Weights, shuffled
) -> None:
    weighing = NodeGroupChooser(scaled_planner.catalogue, scaled_planner.resolver, weights)
    items = [(name, (node, count, shuffled.sample(pods, len(pods)))) for name, (node, count, pods) in options.items()]
    shuffled.shuffle(items)
    try:
        found = chosen(weighing, options)
    except Undecided:
        with pytest.raises(Undecided):
            chosen(weighing, dict(items))
        return
    assert found
    assert set(found) <= options.keys()
    assert found == chosen(weighing, dict(items), shuffled.choice(("old", "both", "new")))

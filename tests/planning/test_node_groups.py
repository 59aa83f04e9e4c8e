"""The choice of a node group in parts: command lines, what is served, devices and prices, standings, weights."""

import itertools
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from service.catalogue.entries import Catalogue
from service.placement.cluster import Gang, GangSpelling, Node, Pod
from service.planning.errors import OutOfTime, Undecided
from service.planning.node_groups.choose import NodeGroupChooser
from service.planning.node_groups.command_lines import CommandLine
from service.planning.node_groups.devices import Cost, Device, NodeDevices, num_devices
from service.planning.node_groups.memory import ModelMemory
from service.planning.node_groups.options import NO_GANG, NodeGroup, PodKind, Standing, WaitingPods, Weights
from service.planning.node_groups.ranking import best_of
from service.planning.node_groups.served import Served, served_by
from service.planning.planner import Planner

GPU = "nvidia.com/gpu"

# ------------------------------------------------------------------------------------------------------- command lines


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--a=1", "--b", "2", "-c", "3"], {"a": "1", "b": "2", "c": "3"}),
        (["--tp_size=4", "--x-y_z", "5"], {"tp-size": "4", "x-y-z": "5"}),
        (["--on", "--off"], {"on": "", "off": ""}),
        (["--n", "-1", "--m=-2"], {"n": "-1", "m": "-2"}),
        (["--n", "1", "--n=2"], {"n": "2"}),
        (["--last"], {"last": ""}),
        (["-", "--", "---", "word"], {}),
        (["sh", "-c", "run --a=1 '--b' \"two words\""], {"c": "run", "a": "1", "b": "two words"}),
        (["bash", "-lc", "run --a='not closed"], {"lc": "run", "a": "'not"}),
    ],
)
def test_flags(words: list[str], expected: dict[str, str]) -> None:
    assert expected == CommandLine(words=words).flags


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("$(M)", "m"),
        ("${M}", "m"),
        ("$M", "m"),
        ("a/$M-b", "a/m-b"),
        ("${N:-d}", "d"),
        ("${N-d}", "d"),
        ("${M:-d}", "m"),
        ("$(N)", "$(N)"),
        ("${N}", "${N}"),
        ("$", "$"),
        ("$$", "$$"),
    ],
)
def test_variables(word: str, expected: str) -> None:
    assert (expected,) == CommandLine(words=[word], environment={"M": "m"}).filled


def test_values_of_variables_are_not_filled_in_again() -> None:
    assert ("$(B)",) == CommandLine(words=["$(A)"], environment={"A": "$(B)", "B": "$(A)"}).filled


def test_long_scripts_and_many_words_are_left() -> None:
    assert len(CommandLine(words=["sh", "-c", "x " * 20_000]).filled) == 3
    assert len(CommandLine(words=["x"] * 10**6).filled) == 2000


# ------------------------------------------------------------------------------------------------------ what is served


def served(*words: str, image: str = "", env: Mapping[str, str] | None = None, **annotations: str) -> Served | None:
    named = {f"tonnage.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return served_by(named, [CommandLine(image, words, env or {})])


def found(*words: str, **annotations: str) -> Served:
    what = served(*words, image="", env=None, **annotations)
    assert what is not None
    return what


def test_every_setting_of_vllm_is_read() -> None:
    words = "serve org/m -tp 4 -pp=2 --data-parallel-size 3 --enable-expert-parallel --max-model-len 32k --dtype half"
    more = "--gpu-memory-utilization .85 --kv-cache-dtype fp8_e5m2 --quantization awq"
    assert found("vllm", *words.split(), *more.split()) == Served(
        model="org/m",
        engine="vllm",
        tensor=4,
        pipeline=2,
        data=3,
        shares_experts=True,
        context_tokens=32_000,
        memory_utilization_ratio=0.85,
        dtype="fp16",
        is_quantized_checkpoint=True,
        kv_cache="fp8",
    )


def test_every_setting_of_sglang_is_read() -> None:
    words = "-m sglang.launch_server --model-path org/m --tp 8 --dp 4 --enable-dp-attention --ep 8 --mem-fraction-static 0.9"
    what = found("python3", *words.split(), "--context-length", "1M", "--quantization=fp8")
    assert what.engine == "sglang"
    assert (what.tensor, what.data, what.splits_attention, what.shares_experts) == (8, 4, True, True)
    assert (what.memory_utilization_ratio, what.context_tokens, what.weights) == (0.9, 2**20, "fp8")


def test_every_setting_of_tensorrt_llm_is_read() -> None:
    what = found("trtllm-serve", "org/m", "--tp_size", "4", "--pp_size=2", "--ep_size=4", "--max_seq_len", "4096")
    assert what.engine == "tensorrt-llm"
    assert (what.model, what.tensor, what.pipeline, what.shares_experts, what.context_tokens) == ("org/m", 4, 2, True, 4096)


@pytest.mark.parametrize(
    ("words", "image"),
    [(["--listen", ":80"], "nginx"), ([], "vllm/vllm-openai"), (["--model"], "vllm/vllm-openai"), ([], ""), (["a"] * 3, "x")],
)
def test_what_names_no_model_serves_none(words: list[str], image: str) -> None:
    assert served(*words, image=image) is None


def test_variables_of_other_programs_name_no_model() -> None:
    assert served("train.py", image="pytorch", env={"MODEL_NAME": "resnet"}) is None


@pytest.mark.parametrize(
    "flag",
    [
        *("--tp=0", "--tp=two", "--tp=-3", "--tp=99999999999", "--max-model-len=many", "--gpu-memory-utilization=1.5"),
        *("--gpu-memory-utilization=nan", "--dtype=int3", "--kv-cache-dtype=odd", "--cpu-offload-gb=4", "--config=x.yaml"),
    ],
)
def test_what_is_not_understood_is_doubted(flag: str) -> None:
    assert found("vllm", "serve", "org/m", flag).doubt


def test_several_models_in_one_pod_are_doubted() -> None:
    both = served_by({}, [CommandLine("vllm", ["--model", name]) for name in ("org/a", "org/b")])
    assert both is not None
    assert both.doubt == "several models in one pod"
    same = served_by({}, [CommandLine("vllm", ["--model", "org/a"])] * 2)
    assert same is not None
    assert not same.doubt


def test_annotations_come_before_arguments_one_by_one() -> None:
    what = found("vllm", "serve", "org/m", "-tp=4", "--max-model-len=1000", model="other", context_tokens="2000")
    assert (what.model, what.tensor, what.context_tokens, what.engine) == ("other", 4, 2000, "vllm")
    assert found("vllm", "serve", "org/m", tensor_parallel=" 2 ").tensor == 2
    assert found("vllm", "serve", "org/m", weights_precision="int3").doubt


# ------------------------------------------------------------------------------------------------- devices and prices


def node(labels: Mapping[str, str] | None = None, **amounts: int) -> Node:
    return Node(name="n", labels=labels or {}, allocatable={GPU: amounts.get("devices", 8), "pods": 110, "cpu": 96_000})


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, Device("h100-sxm")),
        ({"nvidia.com/gpu.product": "nvidia-l4"}, Device("l4")),
        ({"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}, Device("h100-sxm")),
        ({"karpenter.k8s.aws/instance-gpu-name": "l40s"}, Device("l40s")),
        ({"node.kubernetes.io/instance-type": "p5.48xlarge"}, Device("h100-sxm")),
        ({"beta.kubernetes.io/instance-type": "Standard_ND96isr_H100_v5"}, Device("h100-sxm")),
        ({"nvidia.com/gpu.product": "NVIDIA-New", "node.kubernetes.io/instance-type": "p5.48xlarge"}, Device("h100-sxm")),
        ({"nvidia.com/gpu.product": "NVIDIA-New", "nvidia.com/gpu.memory": "1024"}, Device("", "NVIDIA-New", 2.0**30)),
        ({"nvidia.com/gpu.memory": "1024"}, Device("", "GPU", 2.0**30)),
        ({"nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.replicas": "4"}, None),
        ({"nvidia.com/gpu.product": "NVIDIA-L4-SHARED"}, None),
        ({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}, None),
        ({"nvidia.com/gpu.memory": "0"}, None),
        ({"nvidia.com/gpu.memory": "-5"}, None),
        ({"nvidia.com/gpu.memory": "9" * 400}, None),
        ({}, None),
    ],
)
def test_devices_by_label(catalogue: Catalogue, labels: dict[str, str], expected: Device | None) -> None:
    assert expected == NodeDevices(catalogue).device(node(labels))


def test_a_slice_has_its_own_memory(catalogue: Catalogue) -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "nvidia.com/gpu.memory": "4864"}
    device = NodeDevices(catalogue).device(node(labels))
    assert device is not None
    assert device.usable_memory_bytes == 4864 * 2**20
    small, large = Served("llama-3.2-1b", context_tokens=1), Served("llama-3.1-8b", context_tokens=1)
    memory = ModelMemory(Planner(catalogue).resolver)
    assert memory.verdict(small, device, 1).fits
    assert memory.verdict(large, device, 1).fits is False


def test_prices(catalogue: Catalogue) -> None:
    devices = NodeDevices(catalogue)
    kind, region = "node.kubernetes.io/instance-type", "topology.kubernetes.io/region"
    assert Cost(55.04, "USD") == devices.cost(node({kind: "p5.48xlarge", region: "us-east-1"}))
    assert Cost(55.04, "USD") == devices.cost(
        node({kind: "p5.48xlarge", region: "mars-1"})
    )  # of any region, where not of its own
    assert devices.cost(node({kind: "rack-7"})) is None
    assert devices.cost(node()) is None
    assert devices.cost(node({kind: "p5e.48xlarge"})) is None  # known, and without a price
    spot = devices.cost(node({kind: "p5.48xlarge", "karpenter.sh/capacity-type": "spot"}))
    assert spot is None or spot.amount_per_hour < 55.04


def test_slices_count_as_devices() -> None:
    assert num_devices({GPU: 2, "nvidia.com/mig-1g.5gb": 3, "amd.com/gpu": 1, "cpu": 9, "nvidia.com/other": 4}) == 6


def test_what_cannot_be_judged_says_what_is_missing(planner: Planner) -> None:
    memory = ModelMemory(planner.resolver)
    l4 = Device("l4")
    assert memory.verdict(Served("org/nobody"), l4, 1).unknown == "model"
    assert memory.verdict(Served("llama-3.1-8b", doubt="x"), l4, 1).unknown == "pod"
    assert memory.verdict(Served("llama-3.1-8b", tensor=7), l4, 7).unknown == "shape"
    assert memory.verdict(Served("llama-3.1-8b", is_quantized_checkpoint=True), l4, 1).unknown == "model"
    verdict = memory.verdict(Served("llama-3.1-70b", context_tokens=1), l4, 1)
    assert verdict.fits is False
    assert "llama-3.1-70b needs 131.4 GiB on each of 1 devices" in verdict.reason


# ------------------------------------------------------------------------------------------------------------- ranking


def standing(name: str, running: int, ratio: float, idle: int, cost: float | None, **more: object) -> Standing:
    """Of 8 devices. As many pods fit as run where nothing else is said."""
    made = Standing(
        group=NodeGroup(name, node(), 1, np.arange(0)),
        num_pods=20,
        num_fitting=running,
        num_running=running,
        num_gangs=2,
        num_whole_gangs=1,
        gang_ratio=ratio,
        num_devices=8,
        num_idle_devices=idle,
        cost_per_pod=cost,
        currency="USD" if cost is not None else "",
        obstacle="",
    )
    return structs.replace(made, **more)


def names(found: tuple[Standing, ...]) -> str:
    return "".join(each.group.id for each in found)


FIT, GANGS, WASTE, COST = (
    standing("F", 10, 0.5, 6, 10.0),
    standing("G", 4, 1.0, 6, 10.0),
    standing("W", 5, 0.5, 0, 10.0),
    standing("C", 5, 0.5, 6, 1.0),
)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (Weights(), "F"),
        (Weights(0, 0, 0, 0), "F"),
        (Weights(fit=1), "F"),
        (Weights(gangs=1), "G"),
        (Weights(waste=1), "W"),
        (Weights(cost=1), "C"),
        (Weights(fit=1, cost=1), "C"),  # F 1 + 0.1, C 0.5 + 1
        (Weights(fit=3, cost=1), "F"),  # F 3 + 0.1, C 1.5 + 1
        (Weights(fit=2, waste=1), "F"),  # F 2 + 0.25, W 1 + 1
        (Weights(fit=1, waste=1), "W"),  # F 1 + 0.25, W 0.5 + 1
        (Weights(1e6, 0, 1e6, 0), "W"),
        (Weights(gangs=1e-9), "G"),
    ],
)
def test_weights_by_hand(weights: Weights, expected: str) -> None:
    for order in itertools.permutations((FIT, GANGS, WASTE, COST)):
        assert expected == names(best_of(order, weights))


def test_a_price_that_is_unknown_or_in_another_currency_weighs_nothing() -> None:
    unknown = standing("U", 5, 0.5, 6, None)
    assert "F" == names(best_of([FIT, COST, unknown], Weights(cost=1)))  # all equal, so the order decides
    euros = structs.replace(FIT, currency="EUR")
    assert "F" == names(best_of([euros, COST], Weights(cost=1)))
    one = structs.replace(COST, currency="EUR", cost_per_pod=9.0, group=FIT.group)
    assert "CF" == names(best_of([one, COST], Weights()))


def test_nothing_is_lost_by_rounding() -> None:
    third, same = standing("A", 3, 1 / 3, 1, 0.1 + 0.2), standing("B", 3, 1 - 2 / 3, 1, 0.3)
    assert "AB" == names(best_of([same, third], Weights()))
    assert "AB" == names(best_of([same, third], Weights(1, 1, 1, 1)))


def _numbered(made: list[Standing]) -> list[Standing]:
    groups = (NodeGroup(str(place), node(), 1, np.arange(0)) for place in itertools.count())
    return [structs.replace(each, group=group) for each, group in zip(made, groups, strict=False)]


_ratios, _costs = st.sampled_from([0.0, 0.5, 1.0]), st.none() | st.sampled_from([1.0, 2.0, 4.0])
_standing = st.builds(standing, st.just("x"), st.integers(0, 3), _ratios, st.integers(0, 3), _costs)
_standings = st.lists(_standing, min_size=1, max_size=6).map(_numbered)


@given(_standings)
def test_the_order_is_that_of_the_criteria(made: list[Standing]) -> None:
    def key(each: Standing) -> tuple[int, float, int, Fraction]:
        return each.num_running, each.gang_ratio, each.num_fitting, -Fraction(each.num_idle_devices, each.num_devices)

    most = max(map(key, made))
    equal = [each for each in made if key(each) == most]
    prices = [each.cost_per_pod for each in equal if each.cost_per_pod is not None]
    expected = [each.group.id for each in equal if each.cost_per_pod is None or each.cost_per_pod == min(prices)]
    assert sorted(expected) == [each.group.id for each in best_of(made, Weights())]


# ----------------------------------------------------------------------------------------------------------- standings


def waiting(devices: list[int], gangs: list[int], sizes: list[int | None]) -> WaitingPods:
    """A pod for each number of devices, in the gang of that place."""
    kinds = tuple(PodKind(Pod("", "", requests={GPU: count})) for count in devices)
    named = tuple(Gang(f"g{place}", size, size, GangSpelling.KUEUE) for place, size in enumerate(sizes))
    return WaitingPods(kinds, named, np.arange(len(devices)), np.array(gangs, np.intp))


_pod_sets = st.lists(st.tuples(st.sampled_from([1, 2, 8, 16]), st.integers(NO_GANG, 1)), min_size=1, max_size=7)


@settings(max_examples=200)
@given(_pod_sets, st.tuples(*[st.none() | st.integers(1, 4)] * 2), st.integers(1, 3), st.data())
def test_a_standing_is_what_counting_gives(
    planner: Planner, pods: list[tuple[int, int]], sizes: tuple[int | None, ...], num_nodes: int, data: st.DataObject
) -> None:
    there = data.draw(st.lists(st.integers(0, len(pods) - 1), unique=True, min_size=1))
    group = NodeGroup("a", node(), num_nodes, np.array(there, np.intp))
    chooser = NodeGroupChooser(planner.catalogue, planner.resolver)
    fitting = [place for place in there if pods[place][0] <= 8]
    asked = [group], waiting([each[0] for each in pods], [each[1] for each in pods], list(sizes))
    if not fitting:
        with pytest.raises(Undecided):
            chooser.choose(*asked)
        return
    running = []
    for place in fitting:
        gang = pods[place][1]
        wait = sum(each[1] == gang for each in pods)
        size = sizes[gang] if gang != NO_GANG else 1
        if gang == NO_GANG or sum(pods[each][1] == gang for each in fitting) >= min(size or wait, wait):
            running.append(place)
    (best,) = chooser.choose(*asked).best
    assert best.num_fitting == len(fitting)
    assert best.num_running == len(running)
    assert best.num_devices == 8 * num_nodes
    assert best.num_idle_devices == max(8 * num_nodes - sum(pods[place][0] for place in running or fitting), 0)


def test_what_is_not_judged_is_counted(planner: Planner) -> None:
    kinds = tuple(
        PodKind(Pod("", "", requests={GPU: 1}), Served(model)) for model in ("org/nobody", "org/nobody-else", "llama-3.1-8b")
    )
    pods = WaitingPods(kinds, (), np.arange(3), np.full(3, NO_GANG))
    known = NodeGroup("known", node({"nvidia.com/gpu.product": "NVIDIA-L4"}), 1, np.arange(3))
    unknown = NodeGroup("unknown", node(), 1, np.arange(3))
    choice = NodeGroupChooser(planner.catalogue, planner.resolver).choose([known, unknown], pods)
    assert {"model": 2, "device": 1} == dict(choice.unknown)


def test_a_pod_without_devices_is_not_judged(planner: Planner) -> None:
    """A router names the model too."""
    router = PodKind(Pod("", "", requests={"cpu": 1000}), Served("llama-3.1-405b"))
    pods = WaitingPods((router,), (), np.arange(1), np.full(1, NO_GANG))
    group = NodeGroup("a", node({"nvidia.com/gpu.product": "NVIDIA-L4"}), 1, np.arange(1))
    (best,) = NodeGroupChooser(planner.catalogue, planner.resolver).choose([group], pods).best
    assert best.num_running == 1


def test_time_is_looked_at(planner: Planner) -> None:
    def late() -> None:
        raise OutOfTime("late")

    group = NodeGroup("a", node(), 1, np.arange(1))
    with pytest.raises(OutOfTime):
        NodeGroupChooser(planner.catalogue, planner.resolver).choose([group], waiting([1], [NO_GANG], []), late)

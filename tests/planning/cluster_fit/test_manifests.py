"""Manifests: what they hold, read back by our own readers; and whatever stands in a name, one object and no more."""

from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from service.placement.cluster import GangSpelling
from service.placement.gangs import gang_of, group_counts
from service.planning.cluster_fit.manifests.objects import KINDS
from service.planning.cluster_fit.names import is_label, object_name
from service.planning.cluster_fit.requests import FitClusterRequest, ManifestOptions, ManifestScaling
from service.planning.errors import InvalidRequest, NotFound
from service.planning.node_groups.command_lines import CommandLine
from service.planning.node_groups.served import Served, served_by
from service.planning.placement.requests import NodeGroup, PodToleration
from service.planning.planner import Planner
from service.planning.requests import AcceleratorSpec, DenseModel, EngineSpec, ModelSpec, Parallelism, Precision
from tests.planning.cluster_fit.questions import LLAMA_70B, LLAMA_405B, h100, on, tray

Object = dict[str, Any]
SCALING = ManifestScaling(input_tokens=2000, output_tokens=500, tpot_seconds=0.05, requests_per_second=4)
NODES = [h100(name) for name in "abcd"]
TRAYS = [tray(1, number) for number in range(1, 9)]


def objects(planner: Planner, question: FitClusterRequest) -> dict[str, Object]:
    """The rendered objects by kind, as they are read back from their texts."""
    answer = planner.fit_cluster(question)
    found = {}
    for each in answer.manifests:
        documents = list(yaml.safe_load_all(each.yaml))
        assert 1 == len(documents)
        assert (each.kind, each.api_version, each.name) == (
            documents[0]["kind"],
            documents[0]["apiVersion"],
            documents[0]["metadata"]["name"],
        )
        found[each.kind] = documents[0]
    return found


def container(template: Object) -> Object:
    (found,) = template["spec"]["containers"]
    return dict(found)


def serves(template: Object) -> Served | None:
    """What the expander's reader makes of the pod."""
    holds = container(template)
    environment = {"LWS_GROUP_SIZE": "2", "LWS_WORKER_INDEX": "1", "LWS_LEADER_ADDRESS": "leader"}
    return served_by({}, [CommandLine(holds["image"], (*holds["command"], *holds["args"]), environment)])


def test_a_replica_on_one_node_is_a_pod_of_a_deployment(planner: Planner) -> None:
    tolerations = (PodToleration("team", value="serving", effect="NoSchedule"),)
    options = ManifestOptions(namespace="serving", name="chat", image="registry.example/vllm:1")
    found = objects(planner, on(*NODES, concurrency=16, tolerations=tolerations, manifests=options))
    assert ["Deployment", "PodTemplate", "ProvisioningRequest", "CapacityBuffer"] == list(found)
    spec = found["Deployment"]["spec"]
    assert ({"app.kubernetes.io/name": "chat"}, 8) == (spec["selector"]["matchLabels"], spec["replicas"])
    pod, holds = spec["template"]["spec"], container(spec["template"])
    assert {"cpu": "40", "memory": "400Gi", "nvidia.com/gpu": "4"} == holds["resources"]["requests"]
    assert {"nvidia.com/gpu": "4"} == holds["resources"]["limits"]
    assert {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"} == pod["nodeSelector"]
    assert [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "team", "operator": "Equal", "value": "serving", "effect": "NoSchedule"},
    ] == pod["tolerations"]
    assert "schedulerName" not in pod
    assert "registry.example/vllm:1" == holds["image"]
    served = serves(spec["template"])
    assert served is not None
    assert ("meta-llama/Llama-3.1-70B", "vllm", 4, 8192, 0.9) == (
        served.model,
        served.engine,
        served.tensor,
        served.context_tokens,
        served.memory_utilization_ratio,
    )


def test_what_does_not_fit_yet_is_rendered_and_said(planner: Planner) -> None:
    question = on(*NODES, parallelism=Parallelism(8), node_selector={"zone": "a"}, manifests=ManifestOptions())
    spec = objects(planner, question)["Deployment"]["spec"]
    assert 1 == spec["replicas"]
    assert {"zone": "a", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"} == spec["template"]["spec"]["nodeSelector"]
    assert "the manifests ask for 1 replica, of which 0 fit now" in planner.fit_cluster(question).notes


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        (
            EngineSpec("vllm", gpu_memory_utilization=0.85, max_num_seqs=64, enable_prefix_caching=False),
            ["--max-num-seqs", "64"],
        ),
        (EngineSpec("sglang", mem_fraction_static=0.8), ["--mem-fraction-static", "0.8"]),
        (EngineSpec("tensorrt-llm", free_gpu_memory_fraction=0.8), ["--kv_cache_free_gpu_memory_fraction", "0.8"]),
    ],
)
def test_each_engine_is_started_by_flags_of_its_own(planner: Planner, engine: EngineSpec, words: list[str]) -> None:
    found = objects(planner, on(*NODES, engine=engine, parallelism=Parallelism(4), manifests=ManifestOptions()))
    template = found["Deployment"]["spec"]["template"]
    served = serves(template)
    assert served is not None
    assert ("meta-llama/Llama-3.1-70B", engine.name, 4, "") == (served.model, served.engine, served.tensor, served.doubt)
    text = " ".join(container(template)["args"])
    assert " ".join(words) in text
    version = planner.catalogue.engines[engine.name].newest_version
    assert version in container(template)["image"]


def test_formats_that_an_engine_can_make_and_one_that_it_cannot(planner: Planner) -> None:
    precise = on(*NODES, precision=Precision("fp8", "fp8"), manifests=ManifestOptions())
    served = serves(objects(planner, precise)["Deployment"]["spec"]["template"])
    assert served is not None
    assert ("fp8", "fp8") == (served.weights, served.kv_cache)
    answer = planner.fit_cluster(on(*NODES, precision=Precision("nvfp4", compute="bf16"), manifests=ManifestOptions()))
    assert any("as it is stored; for weights in nvfp4" in note for note in answer.notes)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("scheduler", ["scheduler-plugins", "volcano"])
def test_a_replica_over_nodes_is_a_group_of_a_leader_worker_set(planner: Planner, engine: str, scheduler: str) -> None:
    options = ManifestOptions(gang_scheduler=scheduler)
    question = on(*NODES, model=LLAMA_405B, parallelism=Parallelism(8, 2), engine=EngineSpec(engine), manifests=options)
    found = objects(planner, question)
    spec = found["LeaderWorkerSet"]["spec"]
    assert ("leaderworkerset.x-k8s.io/v1", 2, 2) == (
        found["LeaderWorkerSet"]["apiVersion"],
        spec["replicas"],
        spec["leaderWorkerTemplate"]["size"],
    )
    templates = [spec["leaderWorkerTemplate"][which] for which in ("leaderTemplate", "workerTemplate")]
    for template in templates:
        served = serves(template)
        assert served is not None
        assert (8, 2, engine) == (served.tensor, served.pipeline, served.engine)
        words = container(template)["args"]
        assert ("$(LWS_GROUP_SIZE)", "$(LWS_WORKER_INDEX)") == (
            words[words.index("--nnodes") + 1],
            words[words.index("--node-rank") + 1],
        )
    is_worker = ["--headless" in container(each)["args"] for each in templates]
    assert [False, engine == "vllm"] == is_worker
    assert ["readinessProbe" in container(each) for each in templates] == [True, False]
    # All pods belong to the PodGroup, and our reader of snapshots sees it so.
    counts = dict(group_counts(found["PodGroup"]))
    spelling = GangSpelling.VOLCANO if scheduler == "volcano" else GangSpelling.SCHEDULER_PLUGINS
    for template in templates:
        metadata = template["metadata"]
        gang = gang_of("default", metadata.get("labels", {}), metadata.get("annotations", {}), groups=counts)
        assert gang is not None
        assert (spelling, 4) == (gang.spelling, gang.min_count)
        assert {"volcano": "volcano"}.get(scheduler, "scheduler-plugins-scheduler") == template["spec"]["schedulerName"]
    assert 2 * 1 == found["ProvisioningRequest"]["spec"]["podSets"][0]["count"]


def test_a_group_in_one_nvlink_domain_is_kept_there(planner: Planner) -> None:
    question = on(*TRAYS, model=LLAMA_405B, parallelism=Parallelism(8, 2), manifests=ManifestOptions())
    found = objects(planner, question)
    for which in ("leaderTemplate", "workerTemplate"):
        affinity = found["LeaderWorkerSet"]["spec"]["leaderWorkerTemplate"][which]["spec"]["affinity"]["podAffinity"]
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
        assert ("nvidia.com/gpu.clique", ["leaderworkerset.sigs.k8s.io/group-key"]) == (
            term["topologyKey"],
            term["matchLabelKeys"],
        )
    # Whoever makes room for pods knows no groups: what it sees asks for no neighbours.
    assert "affinity" not in found["PodTemplate"]["template"]["spec"]


def test_data_parallel_ranks_of_vllm_over_nodes(planner: Planner) -> None:
    asked = on(*NODES, model=ModelSpec(name="deepseek-v3"), parallelism=Parallelism(1, 1, 16, 16), manifests=ManifestOptions())
    template = objects(planner, asked)["LeaderWorkerSet"]["spec"]["leaderWorkerTemplate"]
    leader, worker = (container(template[which]) for which in ("leaderTemplate", "workerTemplate"))
    assert ["vllm", "serve", "deepseek-ai/DeepSeek-V3"] == leader["command"]
    assert " ".join(leader["args"]).endswith(
        "--data-parallel-size-local 8 --data-parallel-address $(LWS_LEADER_ADDRESS) --data-parallel-rpc-port 13345"
    )
    assert ["/bin/sh", "-c"] == worker["command"][:2]
    # $$ is the kubelet's way to write one $, which the shell then reads.
    assert 'exec "$0" "$@" --data-parallel-start-rank "$$((LWS_WORKER_INDEX * 8))"' == worker["command"][2]
    assert worker["args"] == [*leader["command"], *leader["args"], "--headless"]
    assert "--enable-expert-parallel" in leader["args"]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"engine": EngineSpec("tensorrt-llm"), "parallelism": Parallelism(8, 2), "model": LLAMA_405B}, "by MPI"),
        ({"engine": EngineSpec("vllm", num_speculative_tokens=2), "parallelism": Parallelism(8)}, "drafter"),
        ({"parallelism": Parallelism(4, 1, 2, 1), "model": ModelSpec(name="qwen3-30b-a3b")}, "over all 4 ranks or over none"),
        ({"model": LLAMA_405B, "parallelism": Parallelism(16)}, "no shape of the model will do"),
    ],
)
def test_what_no_manifest_can_start_is_said(planner: Planner, fields: dict[str, Any], told: str) -> None:
    answer = planner.fit_cluster(on(*NODES, manifests=ManifestOptions(), **fields))
    assert () == answer.manifests
    assert any(note.startswith("no manifests: ") and told in note for note in answer.notes)


def test_other_vendors_need_an_image(planner: Planner) -> None:
    counted = (NodeGroup(1, node_type="azure-standard_nd96isr_mi300x_v5"),)
    without = planner.fit_cluster(on(counted=counted, manifests=ManifestOptions()))
    assert ((), True) == (without.manifests, any("give image" in note for note in without.notes))
    found = objects(planner, on(counted=counted, manifests=ManifestOptions(image="vllm/vllm-openai-rocm:v0.19.1")))
    assert "amd.com/gpu" in container(found["Deployment"]["spec"]["template"])["resources"]["limits"]


def test_the_kinds_that_are_asked_for(planner: Planner) -> None:
    for kind in KINDS:
        asked = ManifestOptions(kinds=(kind,), scaling=SCALING)
        found = list(objects(planner, on(*NODES, manifests=asked)))
        template = ["PodTemplate"] if kind in ("ProvisioningRequest", "CapacityBuffer") else []
        expected = "Deployment" if kind == "LeaderWorkerSet" else kind
        assert [*template, expected] == found
    whole = objects(planner, on(*NODES, manifests=ManifestOptions(kinds=("Deployment", "PodGroup"))))
    assert whole["PodGroup"]["spec"]["minMember"] == whole["Deployment"]["spec"]["replicas"]


def test_what_is_missing_is_asked_of_the_autoscaler(planner: Planner) -> None:
    options = ManifestOptions(provisioning_class="check-capacity.autoscaling.x-k8s.io", num_buffer_replicas=3)
    found = objects(planner, on(*NODES, parallelism=Parallelism(8), num_replicas=6, manifests=options))
    request, buffer = found["ProvisioningRequest"], found["CapacityBuffer"]
    assert ("autoscaling.x-k8s.io/v1", "autoscaling.x-k8s.io/v1beta1") == (request["apiVersion"], buffer["apiVersion"])
    assert {
        "provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
        "podSets": [{"podTemplateRef": {"name": "llama-3-1-70b-template"}, "count": 6 - 4}],
    } == request["spec"]
    assert ({"name": "llama-3-1-70b-template"}, 3) == (buffer["spec"]["podTemplateRef"], buffer["spec"]["replicas"])
    assert "llama-3-1-70b-template" == found["PodTemplate"]["metadata"]["name"]
    assert 6 == found["Deployment"]["spec"]["replicas"]


def test_nodes_of_several_labels_are_chosen_by_affinity(planner: Planner) -> None:
    pool = "cloud.google.com/gke-nodepool"
    bare = [{"nvidia.com/gpu.product": ""} | {pool: name, "node.kubernetes.io/instance-type": "a3-highgpu-8g"} for name in "xy"]
    nodes = [h100(f"n{number}", labels) for number, labels in enumerate(bare)]
    other = h100("other", {"nvidia.com/gpu.product": "NVIDIA-L4", pool: "z"})
    asked = on(*nodes, other, parallelism=Parallelism(8), manifests=ManifestOptions(kinds=("Deployment",)))
    types = objects(planner, asked)["Deployment"]["spec"]["template"]["spec"]
    assert {"node.kubernetes.io/instance-type": "a3-highgpu-8g"} == types["nodeSelector"]
    for node in nodes:
        node["metadata"]["labels"]["node.kubernetes.io/instance-type"] += node["metadata"]["name"]
    asked = replace(on(*nodes, other, parallelism=Parallelism(8)), accelerator=AcceleratorSpec(name="h100-sxm"))
    asked = replace(asked, manifests=ManifestOptions(kinds=("Deployment",)))
    pod = objects(planner, asked)["Deployment"]["spec"]["template"]["spec"]
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert 2 == len(term["matchExpressions"][0]["values"])


# ------------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"kinds": ("Pod",)}, r"manifests.kinds\[0\]"),
        ({"name": "Chat"}, "manifests.name"),
        ({"name": "a" * 41}, "manifests.name"),
        ({"name": "1chat"}, "manifests.name"),
        ({"namespace": "my_ns"}, "manifests.namespace"),
        ({"namespace": "a\nb"}, "manifests.namespace"),
        ({"image": "vllm: evil"}, "manifests.image"),
        ({"image": "a\n- b"}, "manifests.image"),
        ({"gang_scheduler": "slurm"}, "manifests.gang_scheduler"),
        ({"provisioning_class": "Not A Class"}, "manifests.provisioning_class"),
        ({"model_path": "--trust-remote-code"}, "manifests.model_path"),
        ({"model_path": "a\nb"}, "manifests.model_path"),
        ({"kinds": ("ScaledObject",)}, "manifests.scaling"),
        ({"scaling": ManifestScaling(1000, 100, requests_per_second=1)}, "manifests.scaling"),
        ({"scaling": replace(SCALING, requests_per_second=None)}, "manifests.scaling"),
        ({"scaling": replace(SCALING, query="up", prometheus_server="http://p")}, "manifests.scaling"),
        ({"scaling": replace(SCALING, requests_per_second=None, query="up")}, "manifests.scaling.prometheus_server"),
        ({"scaling": replace(SCALING, min_replicas=3, max_replicas=2)}, "manifests.scaling.min_replicas"),
        ({"scaling": replace(SCALING, scaler_address="a\nb")}, "manifests.scaling.scaler_address"),
    ],
)
def test_what_cannot_stand_in_a_manifest_is_refused(planner: Planner, fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest, match=field):
        planner.fit_cluster(on(*NODES, manifests=ManifestOptions(**fields)))


def test_a_model_without_a_name_needs_a_path(planner: Planner) -> None:
    dense = ModelSpec(dense=DenseModel(7e9, 32, 32, 8, 128))
    with pytest.raises(InvalidRequest, match=r"manifests\.model_path"):
        planner.fit_cluster(on(*NODES, model=dense, manifests=ManifestOptions()))
    found = objects(planner, on(*NODES, model=dense, manifests=ManifestOptions(model_path="/models/mine")))
    assert ("model", "/models/mine") == (
        found["Deployment"]["metadata"]["name"],
        container(found["Deployment"]["spec"]["template"])["command"][-1],
    )
    with pytest.raises(NotFound, match="vllmm"):
        planner.fit_cluster(on(*NODES, engine=EngineSpec("vllmm"), manifests=ManifestOptions()))


@given(st.text(max_size=80))
def test_every_name_of_a_model_makes_a_name_of_an_object(name: str) -> None:
    assert is_label(object_name(ModelSpec(name=name)))


HOSTILE = [
    "a: b",
    "- x",
    "{{ x }}",
    "#",
    "$(SECRET)",
    "a $(B) $$(C)",
    "'\"",
    "!!python/object:x",
    "*id001",
    "yes",
    "0x10",
    "…",
    "日本語",
]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(path=st.one_of(st.sampled_from(HOSTILE), st.text(min_size=1, max_size=60)))
def test_whatever_is_to_be_loaded_is_one_word_and_no_variable(planner: Planner, path: str) -> None:
    question = on(*NODES[:1], manifests=ManifestOptions(kinds=("Deployment",), model_path=path))
    try:
        found = objects(planner, question)
    except InvalidRequest:
        assert path != path.strip() or path.startswith("-") or not path.isprintable()
        return
    command = container(found["Deployment"]["spec"]["template"])["command"]
    assert ["vllm", "serve", path.replace("$", "$$")] == command


def test_the_trigger_says_what_the_answer_rests_on(planner: Planner) -> None:
    scaling = replace(SCALING, query='sum(rate(x{a="b"}[2m]))', prometheus_server="http://p:9090", requests_per_second=None)
    question = on(*NODES, engine=EngineSpec("vllm"), parallelism=Parallelism(4), manifests=ManifestOptions(scaling=scaling))
    spec = objects(planner, question)["ScaledObject"]["spec"]
    (trigger,) = spec["triggers"]
    assert ({"name": "llama-3-1-70b"}, 1, 8) == (spec["scaleTargetRef"], spec["minReplicaCount"], spec["maxReplicaCount"])
    metadata = trigger["metadata"]
    assert all(isinstance(value, str) for value in metadata.values())
    assert ("meta-llama/Llama-3.1-70B", "h100-sxm", "vllm", "4", "0.05", "2000", "500", scaling.query) == tuple(
        metadata[key]
        for key in ("model", "accelerator", "engine", "tensor", "tpotSeconds", "inputTokens", "outputTokens", "query")
    )
    group = objects(planner, on(*NODES, model=LLAMA_405B, manifests=ManifestOptions(scaling=SCALING)))
    target = group["ScaledObject"]["spec"]["scaleTargetRef"]
    assert {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "llama-3-1-405b"} == target


def test_without_names_the_scaler_cannot_be_asked(planner: Planner) -> None:
    dense = ModelSpec(dense=DenseModel(7e9, 32, 32, 8, 128))
    options = ManifestOptions(model_path="/m", scaling=SCALING)
    answer = planner.fit_cluster(on(*NODES, model=dense, manifests=options))
    assert "ScaledObject" not in {each.kind for each in answer.manifests}
    assert any(note.startswith("no ScaledObject: ") for note in answer.notes)
    silent = planner.fit_cluster(on(*NODES, model=LLAMA_70B, manifests=ManifestOptions()))
    assert "no ScaledObject: give scaling, which says what to scale by" in silent.notes

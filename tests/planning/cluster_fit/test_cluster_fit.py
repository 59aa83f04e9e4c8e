"""Where replicas fit, by hand: shapes, counts, link domains, what is in the way and what would help."""

from typing import Any

import pytest

from service.planning.cluster_fit.results import ClusterRemedyKind
from service.planning.errors import InvalidRequest, NotFound, OutOfTime, Unanswerable
from service.planning.placement.requests import NodeGroup, NodeTaint, PodToleration
from service.planning.planner import Planner
from service.planning.requests import AcceleratorSpec, EngineSpec, InlineAccelerator, ModelSpec, Parallelism
from service.planning.streams import Stop
from tests.placement.clusters import node_object, pod_object
from tests.planning.cluster_fit.questions import LLAMA_405B, h100, on, shown, tray


def test_the_smallest_shape_that_fits_as_often_as_there_is_room(planner: Planner) -> None:
    # 70.55e9 parameters of 2 bytes are 141.1 GB: over two H100 70.55 GB each, of 0.9 × 81,559 MiB = 76.97 GB. A sequence of
    # 8,192 tokens takes 327,680 × 8,192 = 2.68 GB, half of it on each: 6.4 / 1.34 is 4 sequences. So two devices a replica.
    answer = planner.fit_cluster(on(h100("a"), h100("b")))
    (option,) = answer.options
    assert Parallelism(tensor=2) == option.parallelism
    assert (8, True, 4.0, 2, 1) == (
        option.num_replicas_now,
        option.fits,
        option.max_sequences // 1,
        option.num_devices_per_pod,
        option.num_pods_per_replica,
    )
    assert [{"a": 2}] * 4 + [{"b": 2}] * 4 == shown(option)
    # 16 sequences take 21.5 GB on each of two: too much. Over four: 35.3 + 16 × 0.67 = 46 GB.
    (option,) = planner.fit_cluster(on(h100("a"), h100("b"), concurrency=16)).options
    assert (Parallelism(tensor=4), 4) == (option.parallelism, option.num_replicas_now)


def test_what_runs_already_and_what_waits_come_first(planner: Planner) -> None:
    nodes = [h100("a"), h100("b")]
    held = [pod_object("train", 6, "a"), pod_object("notebook", 1, "b"), pod_object("waits", 5)]
    (option,) = planner.fit_cluster(on(*nodes, *held, parallelism=Parallelism(tensor=2))).options
    # Free: 2 on a, 7 on b; what waits takes 5 of b: 2 and 2, one replica each.
    assert (4, 2, [{"a": 2}, {"b": 2}]) == (option.num_devices_free, option.num_replicas_now, shown(option))
    question = on(*nodes, *held, parallelism=Parallelism(tensor=2))
    without = type(question.cluster)(question.cluster.nodes, question.cluster.snapshot, True)
    (option,) = planner.fit_cluster(type(question)(without, question.model, 8192, parallelism=Parallelism(tensor=2))).options
    assert (9, 1 + 3) == (option.num_devices_free, option.num_replicas_now)


def test_each_accelerator_has_an_answer_of_its_own_and_the_best_comes_first(planner: Planner) -> None:
    counted = (NodeGroup(1, node_type="aws-p4d.24xlarge"), NodeGroup(2, node_type="dgx-h100"))
    answer = planner.fit_cluster(on(counted=counted, concurrency=16))
    found = {each.accelerator: (each.parallelism, each.num_replicas_now) for each in answer.options}
    # Four devices of 40 GB do not hold 35.3 + 16 × 0.67 GB each. Five do, as a pipeline; but three would be left
    # over, and all eight serve better.
    assert {"h100-sxm": (Parallelism(tensor=4), 4), "a100-sxm-40": (Parallelism(tensor=8), 1)} == found
    assert "h100-sxm" == answer.options[0].accelerator
    assert answer.summary.startswith("4 replicas fit now: tensor 4 on h100-sxm")
    # Where three of the eight are taken, five are what there is.
    held = [node_object("p4d", 8, {"node.kubernetes.io/instance-type": "p4d.24xlarge"}), pod_object("x", 3, "p4d")]
    (option,) = planner.fit_cluster(on(*held, concurrency=16)).options
    assert (Parallelism(pipeline=5), 1) == (option.parallelism, option.num_replicas_now)


def test_a_shape_over_nodes_becomes_a_group_of_pods(planner: Planner) -> None:
    # 405.9e9 × 2 bytes over 16 devices: 50.7 GB each; over 8: 101 GB. So two nodes, as a pipeline: 126 layers over 2 stages.
    nodes = [h100(name) for name in "abcde"]
    (option,) = planner.fit_cluster(on(*nodes, model=LLAMA_405B, num_replicas=3)).options
    assert (Parallelism(tensor=8, pipeline=2), 2, 8) == (
        option.parallelism,
        option.num_pods_per_replica,
        option.num_devices_per_pod,
    )
    assert (2, False, False) == (option.num_replicas_now, option.fits, option.needs_one_link_domain)
    assert [{"a": 8, "b": 8}, {"c": 8, "d": 8}] == shown(option)
    assert "replica" == option.obstacles[0].limit
    assert "there is room for 1 of them" in option.obstacles[0].reason
    (added,) = option.remedies
    assert (ClusterRemedyKind.ADD_NODES, 1, 3) == (added.kind, added.num_nodes, added.num_replicas)


def test_tensor_parallelism_over_nodes_needs_an_nvlink_domain(planner: Planner) -> None:
    asked: dict[str, Any] = {"model": LLAMA_405B, "parallelism": Parallelism(tensor=16)}
    (option,) = planner.fit_cluster(on(h100("a"), h100("b"), **asked)).options
    assert (0, None) == (option.num_replicas_now, option.parallelism)
    assert "which no NVLink domain joins: use tensor 8 × pipeline 2" in option.reason
    # Two racks of five trays of four: a replica of 16 takes four trays of one rack; the fifth trays are left over.
    trays = [tray(rack, number) for rack in (1, 2) for number in range(1, 6)]
    (option,) = planner.fit_cluster(on(*trays, **asked)).options
    assert (2, True, 4) == (option.num_replicas_now, option.needs_one_link_domain, option.num_pods_per_replica)
    assert [{f"r{rack}-{number}": 4 for number in range(1, 5)} for rack in (1, 2)] == shown(option)
    assert ["rack-1.0", "rack-2.0"] == [each.link_domain for each in option.replicas]
    assert "link domain" == option.obstacles[0].limit
    (larger,) = planner.fit_cluster(on(*trays, model=LLAMA_405B, parallelism=Parallelism(tensor=32))).options
    assert "larger than the largest NVLink domain, which has 20" in larger.reason


def test_experts_that_every_rank_cuts_do_not_reach_over_nodes_either(planner: Planner) -> None:
    nodes = [h100("a"), h100("b")]
    asked: dict[str, Any] = {"model": ModelSpec(name="deepseek-v3")}
    (cut,) = planner.fit_cluster(on(*nodes, **asked, parallelism=Parallelism(8, 1, 1, 2))).options
    assert "tensor parallelism over 16 devices reaches over 2 nodes" in cut.reason
    spread = planner.fit_cluster(on(*nodes, **asked, parallelism=Parallelism(8, 1, 16, 2)))
    assert 1 == spread.options[0].num_replicas_now
    assert any("exchange goes over the network" in note for note in spread.notes)


def test_what_is_in_the_way_is_told_by_group_with_what_to_do(planner: Planner) -> None:
    pool = "cloud.google.com/gke-nodepool"
    items = [
        h100("cordoned", {pool: "one"}, unschedulable=True),
        h100("tainted", {pool: "two"}, taints=[{"key": "team", "value": "x", "effect": "NoSchedule"}]),
        h100("usual", {pool: "two"}, taints=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]),
        h100("full", {pool: "three"}),
        pod_object("train", 7, "full"),
    ]
    (option,) = planner.fit_cluster(on(*items, parallelism=Parallelism(tensor=8))).options
    assert [{"usual": 8}] == shown(option)
    told = {(each.node_group, each.limit): each for each in option.obstacles}
    assert "uncordon" in told["one", "unschedulable"].remedy
    assert "taint team=x:NoSchedule is not tolerated" == told["two", "taint"].reason
    assert "8 nvidia.com/gpu asked for, at most 1 nvidia.com/gpu free" == told["three", "nvidia.com/gpu"].reason
    assert all(each.remedy for each in option.obstacles)
    tolerant = on(*items, parallelism=Parallelism(tensor=8), tolerations=(PodToleration("team", value="x"),))
    assert 2 == planner.fit_cluster(tolerant).options[0].num_replicas_now
    picky = on(*items, parallelism=Parallelism(tensor=8), node_selector={pool: "three"})
    assert 0 == planner.fit_cluster(picky).options[0].num_replicas_now


def test_pods_to_move_are_named_with_where_they_go(planner: Planner) -> None:
    items = [h100("a"), h100("b"), pod_object("x", 2, "a"), pod_object("y", 3, "b")]
    (option,) = planner.fit_cluster(on(*items, parallelism=Parallelism(tensor=8))).options
    # Neither node is free. x holds fewer devices than y, and fits beside it: 3 + 2 of 8.
    move, add = option.remedies
    assert (ClusterRemedyKind.MOVE_PODS, "drain a: move ml/x from a to b", 1) == (
        move.kind,
        move.description,
        move.num_replicas,
    )
    assert ("ml/x", "a", "b", 2) == (
        move.moves[0].pod,
        move.moves[0].from_node,
        move.moves[0].to_node,
        move.moves[0].num_devices,
    )
    assert ("a",) == move.emptied_nodes
    assert move.replica is not None
    assert ["a"] == [each.node for each in move.replica.placements]
    assert (ClusterRemedyKind.ADD_NODES, 1, 1) == (add.kind, add.num_nodes, add.num_replicas)


def test_pods_ask_for_what_the_smallest_node_can_give(planner: Planner) -> None:
    # 48 CPUs and 192 GiB for 4 devices: five sixths of 12 CPUs are 10, of 48 GiB 40.
    small = NodeGroup(1, devices=4, cpus=48, memory_bytes=192 * 2**30)
    asked = on(counted=(small,), model=ModelSpec(name="llama-3.1-8b"), accelerator=AcceleratorSpec(name="l4"))
    answer = planner.fit_cluster(asked)
    assert 4 // answer.options[0].num_devices_per_replica == answer.options[0].num_replicas_now
    assert "pods on l4 ask for 10 CPUs and 40 GiB of memory a device (default)" in answer.assumptions
    greedy = on(
        counted=(small,), model=ModelSpec(name="llama-3.1-8b"), accelerator=AcceleratorSpec(name="l4"), cpus_per_device=49
    )
    (option,) = planner.fit_cluster(greedy).options
    assert (0, "cpu") == (option.num_replicas_now, option.obstacles[0].limit)
    assert "cpus_per_device" in option.obstacles[0].remedy


def test_the_engines_word_on_memory_goes(planner: Planner) -> None:
    plain = planner.fit_cluster(on(h100("a"))).options[0]
    engine = planner.fit_cluster(on(h100("a"), engine=EngineSpec("vllm"))).options[0]
    assert plain.parallelism is not None
    assert engine.parallelism is not None
    assert engine.parallelism.tensor >= plain.parallelism.tensor
    assert engine.max_sequences >= 1


def test_no_shape_is_an_answer_with_a_reason(planner: Planner) -> None:
    answer = planner.fit_cluster(on(counted=(NodeGroup(1, node_type="aws-g4dn.xlarge"),), model=LLAMA_405B, max_num_nodes=1))
    (option,) = answer.options
    assert (0, False, None, ()) == (option.num_replicas_now, option.fits, option.parallelism, option.remedies)
    assert "GiB short" in option.reason
    assert answer.summary.startswith("no replica fits")


def test_nodes_that_do_not_say_what_they_are(planner: Planner) -> None:
    counted = (NodeGroup(2, devices=8),)
    with pytest.raises(InvalidRequest, match="nothing says what the devices of 2 nodes are"):
        planner.fit_cluster(on(counted=counted))
    told = planner.fit_cluster(on(counted=counted, accelerator=AcceleratorSpec(name="h100-sxm")))
    assert 8 == told.options[0].num_replicas_now
    mixed = planner.fit_cluster(on(h100("a"), counted=counted))
    assert ["h100-sxm"] == [each.accelerator for each in mixed.options]
    assert any("2 nodes are left out" in note for note in mixed.notes)
    none = planner.fit_cluster(on(counted=(NodeGroup(2, devices=0),)))
    assert ((), "the cluster has no whole devices") == (none.options, none.summary)


def test_slices_and_partitions_are_no_devices(planner: Planner) -> None:
    sliced = h100("sliced", {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED", "nvidia.com/gpu.replicas": "4"})
    answer = planner.fit_cluster(on(sliced, h100("whole")))
    assert {"whole"} == {node for one in shown(answer.options[0]) for node in one}
    assert any("time slices or MIG" in note for note in answer.notes)


def test_other_sizes_of_node_may_serve_better(planner: Planner) -> None:
    # One node of 8 and three of 4: a replica of four devices fits five times.
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    small = NodeGroup(3, devices=4, name="small", labels=labels)
    (option,) = planner.fit_cluster(on(h100("large"), counted=(small,), concurrency=16)).options
    assert (Parallelism(tensor=4), 5) == (option.parallelism, option.num_replicas_now)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"parallelism": Parallelism(tensor=3)}, "parallelism.tensor"),
        ({"model": ModelSpec()}, "model"),
        ({"tolerations": (PodToleration(),)}, r"tolerations\[0\].key"),
        ({"engine": EngineSpec("vllm"), "memory_utilization_ratio": 0.5}, "memory_utilization_ratio"),
    ],
)
def test_what_contradicts_itself_is_refused(planner: Planner, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        planner.fit_cluster(on(h100("a"), **fields))


def test_unknown_names_and_figures(planner: Planner) -> None:
    with pytest.raises(NotFound, match="llama-9"):
        planner.fit_cluster(on(h100("a"), model=ModelSpec(name="llama-9")))
    with pytest.raises(NotFound, match="h10000"):
        planner.fit_cluster(on(h100("a"), accelerator=AcceleratorSpec(name="h10000")))
    with pytest.raises(NotFound, match="dgx-h1"):
        planner.fit_cluster(on(counted=(NodeGroup(1, node_type="dgx-h1"),)))
    bare = AcceleratorSpec(inline=InlineAccelerator(title="X"))
    with pytest.raises(Unanswerable, match="memory of X"):
        planner.fit_cluster(on(counted=(NodeGroup(1, devices=8),), accelerator=bare))


def test_whoever_waits_no_longer_gets_no_answer(planner: Planner) -> None:
    stop = Stop()
    stop.ask()
    with pytest.raises(OutOfTime):
        planner.fit_cluster(on(h100("a")), stop)


def test_a_cluster_of_kinds_without_end_is_bounded(planner: Planner) -> None:
    # Every node another group, another taint, another size: obstacles and groups of remedies stay few.
    items = [
        h100(
            f"n{number}",
            {"cloud.google.com/gke-nodepool": f"p{number}"},
            taints=[{"key": f"k{number}", "effect": "NoSchedule"}],
        )
        for number in range(60)
    ]
    (option,) = planner.fit_cluster(on(*items)).options
    assert (20, 0) == (len(option.obstacles), option.num_replicas_now)
    assert 60 == sum(each.num_nodes for each in option.obstacles)
    counted = tuple(
        NodeGroup(1, node_type=name, name=f"g{n}") for n, name in enumerate(sorted(planner.catalogue.node_types)[:40])
    )
    answer = planner.fit_cluster(on(counted=(*counted, NodeGroup(1, devices=1, name="t", taints=(NodeTaint("a"),)))))
    assert len(answer.options) <= 12

"""An engine in a question: by name, by message and by its own flags, and its word on memory as it is shown."""

import re

import pytest
from google.protobuf import json_format

from tests.client.conftest import Run, ScriptedServer
from tests.service_process import RunningService
from tonnage import AsyncClient, Client, EngineSpec, InvalidRequest, requests
from tonnage.cli.engine_options import EngineOptions
from tonnage.cli.exits import Exit
from tonnage.cli.fields import option_of
from tonnage.cli.kv import kv
from tonnage.v1.engine_pb2 import EngineMemory


def test_an_engine_by_name_by_release_or_with_its_flags() -> None:
    spec = EngineSpec(name="vllm", version="0.19", max_num_seqs=256)

    assert EngineSpec(name="vllm") == requests.estimate_kv_memory(engine="vllm").engine
    assert EngineSpec(name="vllm", version="0.19") == requests.estimate_kv_memory(engine="vllm==0.19").engine
    assert EngineSpec(name="sglang", version="0.5.3") == requests.fit_node(engine="sglang == 0.5.3").engine
    assert spec == requests.estimate_kv_memory(engine=spec).engine == requests.fit_node(engine=spec).engine
    with pytest.raises(InvalidRequest, match="engine"):
        requests.fit_node(engine=19)  # type: ignore[arg-type]


def test_every_field_of_an_engine_has_its_option() -> None:
    fields = set(EngineSpec.DESCRIPTOR.fields_by_name)
    own = {"name": "engine", "version": "engine_version"}
    options = {option for parameter in kv.params for option in parameter.opts}

    assert {own.get(name, name) for name in fields} == set(EngineOptions.__dataclass_fields__)
    assert {option_of(f"engine.{name}") for name in fields} <= options


@pytest.mark.parametrize("question", [("kv", "m", "a"), ("fit", "m", "n")])
def test_the_engines_own_flags(run: Run, scripted: ScriptedServer, question: tuple[str, ...]) -> None:
    code, _, _ = run(
        *(*question, "--context-tokens", "4096", "--engine", "vllm", "--engine-version", "0.19"),
        *("--gpu-memory-utilization", "0.95", "--max-model-len", "8192", "--max-num-seqs", "256"),
        *("--max-num-batched-tokens", "2048", "--kv-cache-dtype", "fp8", "--block-size", "32", "--enforce-eager"),
        "--no-enable-prefix-caching",
    )

    assert Exit.ANSWERED == code
    expected = {
        "name": "vllm",
        "version": "0.19",
        "gpu_memory_utilization": 0.95,
        "max_model_len": 8192,
        "max_num_seqs": 256,
        "max_num_batched_tokens": 2048,
        "kv_cache_dtype": "fp8",
        "block_size": 32,
        "enforce_eager": True,
        "enable_prefix_caching": False,
    }
    asked = json_format.MessageToDict(scripted.requests[-1], preserving_proto_field_name=True)
    assert expected == asked["engine"]


def test_without_an_engine_none_is_sent(run: Run, scripted: ScriptedServer) -> None:
    run("kv", "m", "a", "--context-tokens", "1")

    assert "engine" not in json_format.MessageToDict(scripted.requests[-1])


@pytest.mark.parametrize("stray", [("--max-num-seqs", "4"), ("--engine-version", "1"), ("--enforce-eager",)])
def test_flags_need_their_engine(run: Run, scripted: ScriptedServer, stray: tuple[str, ...]) -> None:
    code, _, said = run("kv", "m", "a", "--context-tokens", "1", *stray)

    assert Exit.BAD_REQUEST == code
    assert f"{stray[0]} goes with --engine" in said
    assert [] == scripted.requests


def test_what_no_field_of_the_engine_holds_is_refused(run: Run, scripted: ScriptedServer) -> None:
    code, _, said = run("kv", "m", "a", "--context-tokens", "1", "--engine", "vllm", "--max-num-seqs", str(2**40))

    assert Exit.BAD_REQUEST == code
    assert "--max-num-seqs" in said
    assert [] == scripted.requests


async def test_both_clients_get_the_engines_word(service: RunningService) -> None:
    spec = EngineSpec(name="vllm", version="0.19", gpu_memory_utilization=0.95, max_num_seqs=1024)
    with Client(service.grpc) as client:
        answer = client.estimate_kv_memory(model="llama-3.1-8b", accelerator="h100-sxm", context_tokens=8192, engine=spec)
        fit = client.fit_node(model="llama-3.1-8b", node="dgx-h100", context_tokens=8192, engine="vllm==0.19")
    async with AsyncClient(service.grpc) as asynchronous:
        again = await asynchronous.fit_node(model="llama-3.1-8b", node="dgx-h100", context_tokens=8192, engine="vllm==0.19")

    assert EngineMemory.STARTS == answer.engine_memory.outcome
    assert 58.11 == pytest.approx(answer.engine_memory.kv_pool_bytes_per_device / 2**30, rel=0.02)
    assert fit == again
    assert fit.smallest.engine_memory.budget


def test_a_refusal_is_shown_line_by_line_with_its_remedies(run_for_real: Run) -> None:
    question = ("kv", "qwen3-32b", "h100-sxm", "--context-tokens", "40000", "--engine", "vllm", "--engine-version", "0.19")

    code, shown, _ = run_for_real(*question)

    assert Exit.ANSWERED == code
    assert "Budget of vllm 0.19, on the device that decides" in shown
    assert re.search(r"weights +61\.0 GiB +exact", shown)
    assert re.search(r"activation peak +[\d.]+ GiB +[\d.]+ GiB – [\d.]+ GiB +estimated", shown)
    assert re.search(r"CUDA graphs \(out of the reserve\)", shown)
    assert re.search(r"sequences of 40,000 tokens at once +0\.\d+", shown)
    assert 1 == shown.count("vLLM 0.19 does not start")
    assert re.search(r"→ --context-tokens \d+ ", shown)
    assert "→ --kv-cache-dtype fp8" in shown
    assert Exit.DOES_NOT_FIT == run_for_real(*question, "--check")[0]


@pytest.mark.parametrize("engine", [(), ("--engine", "vllm==0.19")])
def test_the_shapes_of_a_large_model_stay_within_120_columns(run_for_real: Run, engine: tuple[str, ...]) -> None:
    _, shown, _ = run_for_real("fit", "deepseek-v3", "dgx-h200", "--context-tokens", "32000", "--all", *engine)

    assert max(len(line) for line in shown.splitlines()) <= 120
    assert re.search(r"TP 2 · EP 8 · DP 4 +8 +1 +yes +\d+ +163,840 ", shown)
    assert re.search(r"one device +1 +1 +no +0 +0 .*weights bind", shown)
    assert bool(engine) == ("Budget of vllm 0.19" in shown)
